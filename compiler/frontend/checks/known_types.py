"""The types that declarations tell of the values in scope."""

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import FunctionProto, GraphProto, TypeProto
from onnxc.compiler.frontend.value_types import type_text
from onnxc.runtime.records import record

# None where a size is not a number.
Shape = tuple[int | None, ...]


@record
class KnownTypes:
    """Types by name, within a graph and those around it; a name defined without a type hides an outer one."""

    declared: dict[str, TypeProto | str | None]
    outer: "KnownTypes | None" = None
    stored: Mapping[str, Shape] = field(default_factory=dict)
    _text: dict[str, str | None] = field(default_factory=dict)

    @staticmethod
    def of_graph(graph: GraphProto, outer: "KnownTypes | None") -> "KnownTypes":
        """What `graph` declares, within what is known around it."""
        declared: dict[str, TypeProto | str | None] = {}
        if outer is not None:
            declared = {name: None for node in graph.node for name in node.output}
        for infos in (graph.value_info, graph.input, graph.output):
            declared.update((info.name, info.type) for info in infos)
        for tensor in graph.initializer:
            declared[tensor.name] = _tensor_text(tensor.data_type)
        for sparse in graph.sparse_initializer:
            declared[sparse.values.name] = _tensor_text(sparse.values.data_type)
        stored = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
        return KnownTypes(declared, outer, stored)

    @staticmethod
    def of_function(function: FunctionProto) -> "KnownTypes":
        """What `function` declares of the values in its body."""
        return KnownTypes({info.name: info.type for info in function.value_info})

    def shape(self, name: str) -> Shape | None:
        """The shape of a value, where its declaration tells one."""
        if name not in self.declared:
            return self.outer.shape(name) if self.outer is not None else None
        known = self.declared[name]
        if isinstance(known, TypeProto) and known.tensor_type.HasField("shape"):
            dims = known.tensor_type.shape.dim
            return tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in dims)
        return self.stored.get(name)

    @cached_property
    def size_names(self) -> frozenset[str]:
        """The names of sizes in declarations here and around."""
        outer = self.outer.size_names if self.outer is not None else frozenset()
        types = [known for known in self.declared.values() if isinstance(known, TypeProto)]
        return outer | {dim.dim_param for known in types for dim in known.tensor_type.shape.dim if dim.dim_param}

    def find(self, name: str) -> str | None:
        """The type of a value as schemas write types; None where it is not known."""
        if name not in self.declared:
            return self.outer.find(name) if self.outer is not None else None
        if name not in self._text:
            known = self.declared[name]
            self._text[name] = type_text(known) if isinstance(known, TypeProto) else known
        return self._text[name]


def _tensor_text(code: int) -> str | None:
    element = ELEMENT_TYPES.get(code)
    return f"tensor({element})" if element else None
