"""What several adapters do: operands that were attributes, and attributes that were operands."""

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto
from onnxc.compiler.frontend.versions.change import Change

__all__ = ["input_to_attribute", "integers_to_input", "scalar_to_input"]

CONSTANT_OF_INTEGERS = 12
"""The opset from which a Constant takes a list of integers, which may then be a parameter of a function."""


def integers_to_input(change: Change, name: str, position: int) -> None:
    """Moves an attribute of integers to an input; nothing where it is absent."""
    attribute = change.find(name)
    if attribute is not None and attribute.ref_attr_name and change.version >= CONSTANT_OF_INTEGERS:
        made = change.make("Constant", [], {}, f"{change.node.output[0]}/{name}")
        reference = change.ahead[-1].attribute.add(name="value_ints", type=AttributeProto.INTS)
        reference.ref_attr_name = attribute.ref_attr_name
        change.set_input(position, made)
    elif (values := change.integers(name)) is not None:
        change.set_input(position, change.tensor(np.array(values, np.int64), name))
    change.drop(name)


def scalar_to_input(change: Change, name: str, position: int, value: float) -> None:
    """Makes a number the input at `position`, of the type of the first input."""
    change.set_input(position, change.typed_scalar(value, 0, name))
    change.drop(name)


def input_to_attribute(change: Change, position: int, name: str) -> None:
    """Moves a constant input of integers to an attribute; nothing where it is left out."""
    values = change.constant(position)
    if values is not None:
        change.set(name, [int(each) for each in values.reshape(-1)])
        change.set_input(position, "")
