"""One node that crosses one change of its operator: what an adapter reads of it, and what it may do to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from onnxc.compiler.diagnostics import Location, error, model_error
from onnxc.compiler.frontend.element_types import ELEMENT_TYPES, code_of
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, NodeProto, TensorProto, TypeProto
from onnxc.compiler.frontend.schemas import Default, Schema
from onnxc.compiler.frontend.tensor_error import TensorError
from onnxc.compiler.frontend.tensors import TensorStore, read_tensor
from onnxc.compiler.ir.dtypes import dtype_of

__all__ = ["FLOATS", "Change", "Given", "Values", "set_attribute", "type_of"]

Given = int | float | str | bytes | Sequence[int | float | str]

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)

CONSTANT_OF_ANY = 9
"""The opset from which a Constant may be other than a float."""

_READ = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSOR: "t",
}


@dataclass
class Values:
    """What is known of the values that a graph sees: their types, and the constants among them.

    initializers: those that the graph is to get; None where it can have none.
    """

    types: dict[str, TypeProto]
    constants: dict[str, TensorProto]
    store: TensorStore
    fresh: FreshNames
    initializers: list[TensorProto] | None = None

    def inner(self, initializers: list[TensorProto] | None = None) -> "Values":
        """The same, for a graph within this one."""
        return Values(dict(self.types), dict(self.constants), self.store, self.fresh, initializers)


@dataclass
class Change:
    """A node between two versions of its operator, `before` and `after`; `after` is None where there is none.

    version: the opset in which everything that an adapter makes is written. Nodes of `ahead` come before the node,
    those of `behind` after it. is_gone: the node is none any more.
    """

    node: NodeProto
    before: Schema
    after: Schema | None
    version: int
    values: Values
    location: Location
    ahead: list[NodeProto] = field(default_factory=list)
    behind: list[NodeProto] = field(default_factory=list)
    is_gone: bool = False

    def fail(self, message: str) -> NoReturn:
        """Raises the ModelError that tells why the node cannot be said."""
        text = f"opset {self.version} cannot say this {self.before.name}: {message}"
        raise model_error([error("opset-conversion", text, self.location, rule="ONNX, changes of operators")])

    def parts(self) -> tuple[NodeProto, ...]:
        """All nodes that there are now, in their order."""
        return (*self.ahead, self.node, *self.behind)

    # Attributes

    def find(self, name: str) -> AttributeProto | None:
        return next((attribute for attribute in self.node.attribute if attribute.name == name), None)

    def has(self, name: str) -> bool:
        return self.find(name) is not None

    def given(self, name: str) -> Default | TensorProto | None:
        """The value of an attribute, else its default, else None; it must be no parameter of a function."""
        attribute = self.find(name)
        if attribute is None:
            known = self.before.attributes.get(name)
            return None if known is None else known.default
        if attribute.ref_attr_name:
            self.fail(f"the attribute {name} is a parameter of the function")
        value = getattr(attribute, _READ[attribute.type]) if attribute.type in _READ else None
        return _plain(value)

    def integer(self, name: str, default: int = 0) -> int:
        value = self.given(name)
        return value if isinstance(value, int) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        value = self.given(name)
        return tuple(int(each) for each in value) if isinstance(value, tuple) else None

    def text(self, name: str) -> str:
        value = self.given(name)
        return value if isinstance(value, str) else ""

    def real(self, name: str, default: float) -> float:
        value = self.given(name)
        return value if isinstance(value, int | float) else default

    def drop(self, *names: str) -> None:
        kept = [attribute for attribute in self.node.attribute if attribute.name not in names]
        del self.node.attribute[:]
        self.node.attribute.extend(kept)

    def set(self, name: str, value: Given) -> None:
        self.drop(name)
        set_attribute(self.node, name, value)

    # Operands

    def input(self, position: int) -> str:
        """The name of an input; empty where it is left out."""
        return self.node.input[position] if position < len(self.node.input) else ""

    def set_input(self, position: int, name: str) -> None:
        while len(self.node.input) <= position:
            self.node.input.append("")
        self.node.input[position] = name

    def keep_inputs(self, count: int) -> None:
        del self.node.input[count:]

    def uses_output(self, position: int) -> bool:
        return position < len(self.node.output) and bool(self.node.output[position])

    def element(self, position: int) -> int:
        """The number of the element type of an input; 0 where it is not known."""
        type = self.values.types.get(self.input(position))
        return 0 if type is None else type.tensor_type.elem_type

    def known_element(self, position: int) -> int:
        """The number of the element type of an input, which must be known."""
        element = self.element(position)
        if element not in ELEMENT_TYPES:
            self.fail(f"the type of its input {self.input(position)} is not known")
        return element

    def shape(self, name: str) -> tuple[int | str, ...] | None:
        """The sizes of a value, symbols by name; None where its rank is not known."""
        type = self.values.types.get(name)
        if type is None or not type.tensor_type.HasField("shape"):
            return None
        dims = type.tensor_type.shape.dim
        return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims)

    def rank(self, position: int = 0) -> int:
        """The rank of an input, which must be known."""
        shape = self.shape(self.input(position))
        if shape is None:
            self.fail(f"the rank of its input {self.input(position)} is not known")
        return len(shape)

    def constant(self, position: int) -> np.ndarray | None:
        """The elements of an input, which must be constant; None where it is left out."""
        name = self.input(position)
        if not name:
            return None
        if name not in self.values.constants:
            self.fail(f"its input {name} is not constant")
        try:
            return read_tensor(self.values.constants[name], self.values.store).array()
        except TensorError as problem:
            self.fail(f"its input {name} cannot be read: {problem}")

    def scalar(self, position: int) -> float | None:
        """The number of an input, which must be constant and one element; None where it is left out."""
        elements = self.constant(position)
        if elements is not None and elements.size != 1:
            self.fail(f"its input {self.input(position)} has {elements.size} elements")
        return None if elements is None else float(elements.reshape(())[()])

    def axis(self, axis: int) -> int:
        """An axis of the first input, counted from the first one."""
        rank = self.rank()
        if not -rank <= axis < max(rank, 1):
            self.fail(f"axis {axis} is outside of rank {rank}")
        return axis + rank * (axis < 0)

    # New nodes

    def make(self, operator: str, inputs: Sequence[str], attributes: Mapping[str, Given], hint: str) -> str:
        """The result of a new node before this one."""
        made = NodeProto(op_type=operator, input=inputs, output=[self.values.fresh(hint)])
        for name, value in attributes.items():
            set_attribute(made, name, value)
        self.ahead.append(made)
        return made.output[0]

    def tensor(self, elements: np.ndarray, hint: str) -> str:
        """The name of a new constant."""
        dtype = dtype_of(elements.dtype)
        value = TensorProto(data_type=code_of(dtype), dims=elements.shape, raw_data=elements.tobytes())
        return self.constant_of(value, hint)

    def constant_of(self, value: TensorProto, hint: str) -> str:
        """The name of a new constant that is this tensor."""
        name = self.values.fresh(f"{self.node.output[0]}/{hint}")
        self.values.constants[name], self.values.types[name] = value, type_of(value)
        if self.version < CONSTANT_OF_ANY and value.data_type not in FLOATS:
            self.store(name, value)
        else:
            made = NodeProto(op_type="Constant", output=[name])
            made.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(value)
            self.ahead.append(made)
        return name

    def store(self, name: str, value: TensorProto) -> None:
        """Makes a constant an initializer of the graph."""
        if self.values.initializers is None:
            self.fail("it needs a constant that is no float, which only a graph of IR version 4 or newer can have")
        stored = TensorProto()
        stored.CopyFrom(value)
        stored.name = name
        self.values.initializers.append(stored)

    def typed_scalar(self, value: float, position: int, hint: str) -> str:
        """A new constant of rank 0 of the element type of an input."""
        dtype = ELEMENT_TYPES[self.known_element(position)].dtype
        with np.errstate(over="ignore"):
            return self.tensor(np.array(value).astype(dtype.numpy), hint)

    def follow(self, operator: str, inputs: Sequence[str], attributes: Mapping[str, Given], output: int = 0) -> None:
        """A new node behind this one that makes the output; its first input is what this node now gives."""
        name = self.node.output[output]
        self.node.output[output] = self.values.fresh(f"{name}/{self.before.name}")
        made = NodeProto(op_type=operator, input=[self.node.output[output], *inputs], output=[name])
        for key, value in attributes.items():
            set_attribute(made, key, value)
        self.behind.append(made)


def set_attribute(node: NodeProto, name: str, value: Given) -> None:
    """Adds an attribute of the type that the value tells."""
    attribute = node.attribute.add(name=name)
    if isinstance(value, str | bytes):
        attribute.type, attribute.s = AttributeProto.STRING, value.encode() if isinstance(value, str) else value
    elif isinstance(value, int):
        attribute.type, attribute.i = AttributeProto.INT, value
    elif isinstance(value, float):
        attribute.type, attribute.f = AttributeProto.FLOAT, value
    elif any(isinstance(each, float) for each in value):
        attribute.type = AttributeProto.FLOATS
        attribute.floats.extend(float(each) for each in value)
    else:
        attribute.type = AttributeProto.INTS
        attribute.ints.extend(int(each) for each in value)


def _plain(value: Default | TensorProto | bytes | Iterable[int | float] | None) -> Default | TensorProto | None:
    """A field of an attribute as a value of Python: texts decoded, lists as tuples."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None or isinstance(value, int | float | str | TensorProto):
        return value
    return tuple(value)


def type_of(tensor: TensorProto) -> TypeProto:
    """The type of a constant."""
    type = TypeProto()
    type.tensor_type.elem_type = tensor.data_type
    type.tensor_type.shape.SetInParent()
    for size in tensor.dims:
        type.tensor_type.shape.dim.add(dim_value=size)
    return type
