"""A walk over the nodes of a model that puts others in their place, with what is known of the values that each sees.

Where what is declared of a value contradicts what is known of it, that is declared instead.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.findings import Site
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.functions import ModelFunction, all_names, imported_opsets, subgraphs
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)
from onnxc.compiler.frontend.schemas import normal_domain
from onnxc.compiler.frontend.tensors import TensorStore
from onnxc.compiler.frontend.versions.change import Values, type_of
from onnxc.compiler.frontend.versions.constants import constant_of

__all__ = ["NodeWalk", "Replace"]

Replace = Callable[[NodeProto, int, Location, Values], Sequence[NodeProto]]
"""The nodes that stand in the place of one, which is of that opset of ai.onnx."""

Holder = GraphProto | FunctionProto

FREE_INITIALIZERS_SINCE = 4
"""The IR version from which an initializer need not be an input."""


class NodeWalk:
    """Replaces nodes in all graphs and functions of a model, which is changed."""

    def __init__(self, model: ModelProto, store: TensorStore, replace: Replace) -> None:
        self.model, self.replace = model, replace
        self.values = Values({}, {}, store, FreshNames(lambda: _all_names(model)))

    def run(self, typed: ModelProto, opset: int, without_import: int) -> None:
        """Goes through the model.

        typed: the same model with the types of its values declared, as far as they are known; opset: that of its
        graphs; without_import: that of a function which says none.
        """
        self._graph(self.model.graph, typed.graph, opset, "main", self.values)
        for index, info in enumerate(self.model.training_info):
            for name in ("initialization", "algorithm"):
                graph = getattr(info, name)
                if info.HasField(name):
                    self._graph(graph, graph, opset, f"training_info[{index}].{name}", self.values)
        for function, known in zip(self.model.functions, typed.functions, strict=True):
            values = self.values.inner()
            values.types.update((info.name, info.type) for info in known.value_info if info.HasField("type"))
            own = imported_opsets(function.opset_import).get("", without_import)
            self._body(function, known, own, ModelFunction(function).path, values)
            _correct(function.value_info, known.value_info)

    def _graph(self, graph: GraphProto, typed: GraphProto, opset: int, path: str, outer: Values) -> None:
        made: list[TensorProto] = []
        values = outer.inner(made if self.model.ir_version >= FREE_INITIALIZERS_SINCE else None)
        inputs = {info.name for info in graph.input}
        for name in all_names(graph):
            values.constants.pop(name, None)
        values.constants.update((each.name, each) for each in graph.initializer if each.name not in inputs)
        values.types.update(
            (info.name, info.type) for info in (*typed.input, *typed.value_info, *typed.output) if info.HasField("type")
        )
        for tensor in graph.initializer:
            _declare(values, tensor.name, tensor)
        self._body(graph, typed, opset, path, values)
        graph.initializer.extend(made)
        _correct(graph.value_info, typed.value_info)

    def _body(self, holder: Holder, typed: Holder, opset: int, path: str, values: Values) -> None:
        """Replaces the nodes of a graph or function in their order; `typed` has the same ones."""
        made: list[NodeProto] = []
        for index, (node, known) in enumerate(zip(holder.node, typed.node, strict=True)):
            site = Site(path, index, node)
            for (label, inner), (_, inner_typed) in zip(subgraphs(node), subgraphs(known), strict=True):
                self._graph(inner, inner_typed, opset, site.inner_path(label), values)
            _learn(values, node)
            made += self.replace(node, opset, site.location(), values)
        del holder.node[:]
        holder.node.extend(made)


def _all_names(model: ModelProto) -> Iterator[str]:
    yield from all_names(model.graph)
    for function in model.functions:
        yield from function.input
        for node in function.node:
            yield from node.output


def _learn(values: Values, node: NodeProto) -> None:
    """Notes the constants that a node makes."""
    if normal_domain(node.domain):
        return
    if node.op_type == "Constant" and (tensor := constant_of(node)) is not None:
        values.constants[node.output[0]] = tensor
        _declare(values, node.output[0], tensor)
    elif node.op_type == "Identity" and node.input and node.input[0] in values.constants:
        values.constants[node.output[0]] = values.constants[node.input[0]]


def _declare(values: Values, name: str, tensor: TensorProto) -> None:
    """Notes the type of a constant, unless it is declared."""
    known = values.types.get(name)
    if known is None or not known.WhichOneof("value"):
        values.types[name] = type_of(tensor)


def _correct(declared: Iterable[ValueInfoProto], known: Iterable[ValueInfoProto]) -> None:
    """Gives values the types that they are known to have where their declared shapes contradict these."""
    types = {info.name: info.type for info in known}
    for info in declared:
        if info.name in types and _contradict(info.type.tensor_type, types[info.name].tensor_type):
            info.type.CopyFrom(types[info.name])


def _contradict(one: TypeProto.Tensor, other: TypeProto.Tensor) -> bool:
    """Whether two types have shapes that differ in rank, or in a size that both know."""
    if not one.HasField("shape") or not other.HasField("shape"):
        return False
    if len(one.shape.dim) != len(other.shape.dim):
        return True
    pairs = zip(one.shape.dim, other.shape.dim, strict=True)
    return any(a.HasField("dim_value") and b.HasField("dim_value") and a.dim_value != b.dim_value for a, b in pairs)
