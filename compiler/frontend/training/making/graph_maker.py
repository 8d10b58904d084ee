"""A graph in the making: nodes one after the other, each under names that nothing else has."""

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, GraphProto, TensorProto, TypeProto, ValueInfoProto
from onnxc.compiler.ir.dtypes import dtype_of
from onnxc.runtime.records import record

__all__ = ["AttributeValue", "GraphMaker"]

AttributeValue = int | float | str | Sequence[str] | Sequence[int] | np.ndarray


@record
class GraphMaker:
    """Adds to `graph`; `fresh` hands out names."""

    fresh: FreshNames
    graph: GraphProto = field(default_factory=GraphProto)

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None = None,
        domain: str = "",
    ) -> tuple[str, ...]:
        """The names of what a new node gives, like those in `outputs`."""
        names = tuple(map(self.fresh, outputs))
        node = self.graph.node.add(op_type=operator, domain=domain, input=inputs, output=names)
        node.attribute.extend(_attribute(name, value) for name, value in (attributes or {}).items())
        return names

    def one(
        self, operator: str, inputs: Sequence[str], output: str, attributes: Mapping[str, AttributeValue] | None = None
    ) -> str:
        """The name of the one thing that a new node gives."""
        return self.node(operator, inputs, (output,), attributes)[0]

    def input(self, name: str, type: TypeProto) -> str:
        """The name of a new input."""
        name = self.fresh(name)
        self.graph.input.append(ValueInfoProto(name=name, type=type))
        return name

    def initializer(self, name: str, value: np.ndarray) -> str:
        """The name of a new initializer."""
        name = self.fresh(name)
        self.graph.initializer.append(_tensor(name, value))
        return name

    def declare(self, name: str, element_type: int, shape: Sequence[int]) -> None:
        """Makes an initializer an input with a default."""
        self.graph.input.append(ValueInfoProto(name=name, type=_tensor_type(element_type, shape)))

    def output(self, name: str, element_type: int, shape: Sequence[int]) -> None:
        """Makes a value an output."""
        self.graph.output.append(ValueInfoProto(name=name, type=_tensor_type(element_type, shape)))


def _tensor_type(element_type: int, shape: Sequence[int]) -> TypeProto:
    """The type of a dense tensor."""
    made = TypeProto()
    made.tensor_type.elem_type = element_type
    made.tensor_type.shape.SetInParent()
    for size in shape:
        made.tensor_type.shape.dim.add(dim_value=size)
    return made


def _tensor(name: str, value: np.ndarray) -> TensorProto:
    element_type = code_of(dtype_of(value.dtype))
    return TensorProto(name=name, dims=value.shape, data_type=element_type, raw_data=value.tobytes())


def _attribute(name: str, value: AttributeValue) -> AttributeProto:
    match value:
        case int():
            return AttributeProto(name=name, type=AttributeProto.INT, i=value)
        case float():
            return AttributeProto(name=name, type=AttributeProto.FLOAT, f=value)
        case str():
            return AttributeProto(name=name, type=AttributeProto.STRING, s=value.encode())
        case np.ndarray():
            return AttributeProto(name=name, type=AttributeProto.TENSOR, t=_tensor("", value))
    texts = [item.encode() for item in value if isinstance(item, str)]
    if len(texts) == len(value) and texts:
        return AttributeProto(name=name, type=AttributeProto.STRINGS, strings=texts)
    return AttributeProto(name=name, type=AttributeProto.INTS, ints=[item for item in value if isinstance(item, int)])
