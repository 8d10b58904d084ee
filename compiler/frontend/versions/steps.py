"""An operator taken apart into older ones: nodes ahead of it, and the last of them, which it becomes."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import NodeProto, TypeProto
from onnxc.compiler.frontend.versions.change import Change, Given, set_attribute
from onnxc.runtime.records import record

__all__ = ["Steps"]

SAME_TYPE = (
    *("Add", "Div", "Elu", "Erf", "Exp", "HardSigmoid", "Mul", "Reciprocal", "Sigmoid", "Softmax", "Softplus"),
    *("Sqrt", "Sub", "Tanh"),
)
"""Operators whose result has the type of their first input, if that is the one with all sizes, as is the rule here."""

AXES_ARE_INPUT = {"ReduceMean": 18, "ReduceMax": 18, "ReduceMin": 18, "ReduceSum": 13, "Squeeze": 13, "Unsqueeze": 13}
"""The opset from which axes are an input."""


MOST_CHOICES = 1 << 24
"""How many elements a constant mask may have: 4,096 queries by as many keys, 16 MiB in the file."""


@record
class Steps:
    """What makes nodes in the opset of a change; types follow where an adapter further down may ask for them."""

    change: Change

    def __call__(self, operator: str, *inputs: str, **attributes: Given) -> str:
        """The result of a new node."""
        made = self.change.make(operator, inputs, attributes, f"{self.change.node.output[0]}/{operator}")
        if operator in SAME_TYPE and (known := self.change.values.types.get(inputs[0])) is not None:
            self.change.values.types[made] = known
        return made

    def become(self, operator: str, *inputs: str, **attributes: Given) -> None:
        """Makes the node itself the last step, with one output."""
        node = self.change.node
        node.op_type = operator
        node.input[:] = inputs
        del node.attribute[:], node.output[1:]
        for name, value in attributes.items():
            set_attribute(node, name, value)

    def give(self, position: int, value: str) -> None:
        """Makes a value the further output at `position`, where that is wanted."""
        if self.change.uses_output(position):
            name = self.change.node.output[position]
            self.change.ahead.append(NodeProto(op_type="Identity", input=[value], output=[name]))

    def scalar(self, value: float, position: int = 0) -> str:
        """A constant of rank 0, of the element type of an input."""
        return self.change.typed_scalar(value, position, "constant")

    def constant(self, value: float, dtype: type[np.generic]) -> str:
        """A constant of rank 0."""
        return self.change.tensor(np.array(value).astype(dtype), "constant")

    def integers(self, *values: int) -> str:
        """A constant list."""
        return self.change.tensor(np.array(values, np.int64), "integers")

    def takes_triangle(self, rows: int | str, columns: int | str) -> bool:
        """Whether a mask of this shape may be a constant: its sizes are known, and it is not too large."""
        return isinstance(rows, int) and isinstance(columns, int) and rows * columns <= MOST_CHOICES

    def triangle(self, rows: int | str, columns: int | str, diagonal: int) -> str:
        """bool[rows, columns]: a constant that holds up to the diagonal, counted from the main one to the right."""
        return self.change.tensor(np.tri(int(rows), int(columns), diagonal, dtype=np.bool_), "triangle")

    def over(self, operator: str, x: str, axes: Sequence[int], **attributes: Given) -> str:
        """A node with axes, which are an attribute or an input."""
        if self.change.version >= AXES_ARE_INPUT[operator]:
            return self(operator, x, self.integers(*axes), **attributes)
        return self(operator, x, axes=axes, **attributes)

    def cast(self, x: str, element: int) -> str:
        """The value in another element type."""
        known = self.change.values.types.get(x)
        if known is not None and known.tensor_type.elem_type == element:
            return x
        made = self("Cast", x, to=element)
        self.declare(made, element, self.change.shape(x))
        return made

    def declare(self, name: str, element: int, shape: Sequence[int | str] | None) -> None:
        """Notes the type of a value that was made."""
        type = TypeProto()
        type.tensor_type.elem_type = element
        if shape is not None:
            type.tensor_type.shape.SetInParent()
        for size in shape or ():
            dim = type.tensor_type.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            elif size:
                dim.dim_param = size
        self.change.values.types[name] = type
