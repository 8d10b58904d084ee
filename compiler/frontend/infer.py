"""Type and shape inference: the types that lowering finds, and a model that declares them.

Lowering types every value as it builds it, so there is nothing to infer here: what was found in several cases, or at
several calls of a function, becomes one type for each value, and its sizes get names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnxc.compiler.diagnostics import Diagnostic
from onnxc.compiler.frontend.declare_types import complete_type
from onnxc.compiler.frontend.functions import FunctionKey, ModelFunction, node_key, subgraphs
from onnxc.compiler.frontend.graph import CheckedModel, Graph, GraphNode
from onnxc.compiler.frontend.input_options import InputOptions
from onnxc.compiler.frontend.joining.joined_types import is_rankless, joined_element
from onnxc.compiler.frontend.lower import lower_typed
from onnxc.compiler.frontend.lower.attempt import CastValue, LoweredType, RenewedSizes
from onnxc.compiler.frontend.lower.written_casts import write_casts
from onnxc.compiler.frontend.lower.written_sizes import write_sizes
from onnxc.compiler.frontend.proto.onnxc_pb2 import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.frontend.size_names import ValueKey, name_sizes
from onnxc.compiler.ir.types import Type, type_symbols
from onnxc.runtime.records import record

__all__ = ["InferredTypes", "TypedValue", "annotate_model", "infer_types"]

FUNCTION_VALUE_INFO = 10
"""The IR version from which functions declare types of their values."""


@record
class TypedValue:
    """A value of the graph at `path`, and its type; `reason` tells why the rank is not known, where it is not."""

    path: str
    name: str
    type: Type
    reason: str = ""

    def __str__(self) -> str:
        prefix = "" if self.path == "main" else f"{self.path}: "
        return f"{prefix}{self.name}: {self.type}"


@record
class InferredTypes:
    """The types of all values, functions inlined, in the order of the graphs; `bound` are the symbols of the inputs.

    warnings: types that are declared otherwise. unknown: one finding of the nodes of operators of others.
    is_overridden: whether declared types have given way to options. renewed: constants that have. casts: where nodes
    read or give other element types for them.
    """

    values: tuple[TypedValue, ...]
    bound: frozenset[str]
    warnings: tuple[Diagnostic, ...] = ()
    unknown: tuple[Diagnostic, ...] = ()
    is_overridden: bool = False
    renewed: tuple[RenewedSizes, ...] = ()
    casts: tuple[CastValue, ...] = ()

    def find(self, name: str, path: str = "main") -> Type:
        """The type of the value `name` of the graph at `path`."""
        return next(value.type for value in self.values if (value.path, value.name) == (path, name))


def infer_types(model: CheckedModel, options: InputOptions | None = None) -> InferredTypes:
    """The type of every value of the model and of the graphs in it.

    Raises ModelError where types contradict each other, UnsupportedError where a node cannot be lowered yet.
    """
    lowered = lower_typed(model, options)
    bound = frozenset().union(*(type_symbols(value.type) for value in lowered.module.main.body.parameters))
    declared = dict(_declared_types(lowered.graph))
    types = name_sizes(_one_type_each(lowered.types, declared), declared, bound, _all_symbols(declared.values()))
    reasons = _rank_reasons(model.graph, types)
    values = tuple(TypedValue(*key, type, reasons.get(key, "")) for key, type in types.items())
    is_overridden = lowered.graph is not model.graph
    noted = tuple(lowered.warnings), tuple(lowered.unknown)
    return InferredTypes(values, bound, *noted, is_overridden, tuple(lowered.renewed), tuple(lowered.casts))


def _one_type_each(inferred: Iterable[LoweredType], declared: Mapping[ValueKey, Type]) -> dict[ValueKey, Type]:
    """A type for each value that holds in all cases that were told apart; the declared one where that has a rank."""
    joined: dict[ValueKey, Type | None] = {}
    for case in inferred:
        key = case.path, case.name
        before = joined.get(key, case.type)
        joined[key] = None if before is None else joined_element(before, case.type)
    types = {key: type for key, type in joined.items() if type is not None}
    return {key: declared.get(key, type) if is_rankless(type) else type for key, type in types.items()}


def _declared_types(graph: Graph) -> Iterator[tuple[ValueKey, Type]]:
    """What the model declares of its values, those of the graphs in it included."""
    for info in (*graph.inputs, *graph.value_infos.values(), *graph.outputs):
        if info.type is not None:
            yield (graph.path, info.name), info.type
    for node in graph.nodes:
        for inner in node.subgraphs():
            yield from _declared_types(inner)


def _all_symbols(types: Iterable[Type]) -> frozenset[str]:
    return frozenset().union(*map(type_symbols, types))


# Ranks that only data decides


def _rank_reasons(
    graph: Graph, types: Mapping[ValueKey, Type], enclosing: Mapping[str, str] | None = None
) -> dict[ValueKey, str]:
    """Why values have no rank: the first node or input on the way to them that decides it by data."""
    reasons: dict[ValueKey, str] = {}
    known = dict(enclosing or {})
    for info in graph.inputs:
        if _has_no_rank(graph, info.name, types):
            known[info.name] = f"{info.name} is an input without a shape"
            reasons[graph.path, info.name] = known[info.name]
    for node in graph.nodes:
        for inner in node.subgraphs():
            reasons |= _rank_reasons(inner, types, known)
        inherited = next((known[name] for name in node.inputs if name in known), _own_reason(node))
        for name in node.outputs:
            if _has_no_rank(graph, name, types):
                reasons[graph.path, name] = known[name] = inherited
    return reasons


def _has_no_rank(graph: Graph, name: str, types: Mapping[ValueKey, Type]) -> bool:
    type = types.get((graph.path, name))
    return type is not None and is_rankless(type)


def _own_reason(node: GraphNode) -> str:
    return f"{node.schema.identity} gives it a rank that data decides, at {node.location}"


# Writing


def annotate_model(
    model: LoadedModel, checked: CheckedModel, types: InferredTypes, *, whole_functions: bool = False
) -> ModelProto:
    """A copy of the model that declares these types for its values, those of its functions included.

    What is declared of inputs and outputs stays, unless options override it, and is completed; everything else in the
    model stays as it is. whole_functions: declare what functions are given too, in models of any IR version; such a
    copy is for ourselves.
    """
    annotated = ModelProto()
    annotated.CopyFrom(model.proto)
    inferred = {(value.path, value.name): value.type for value in types.values}
    holders = dict(_holders(annotated))
    for path, holder in holders.items():
        if isinstance(holder.container, GraphProto) and not holder.is_expanded:
            own = {name: type for (where, name), type in inferred.items() if where == path}
            _annotate_graph(holder.container, own, types.bound, keeps=not types.is_overridden)
    if whole_functions or annotated.ir_version >= FUNCTION_VALUE_INFO:
        for container, own in _expanded_types(checked.graph, holders, inferred).values():
            given = container.input if whole_functions and isinstance(container, FunctionProto) else ()
            _annotate_values(container, own, types.bound, given)
    graphs = {path: holder.container for path, holder in holders.items() if not holder.is_expanded}
    write_sizes(annotated, graphs, types.renewed)
    whole = {path: graph for path, graph in graphs.items() if isinstance(graph, GraphProto)}
    write_casts(annotated, whole, types.casts, checked.graph)
    return annotated


@record
class _Holder:
    """The graph or function at a path; `is_expanded` within the expansion of a function."""

    container: GraphProto | FunctionProto
    is_expanded: bool


def _holders(model: ModelProto) -> Iterator[tuple[str, _Holder]]:
    functions = {function.key: function for function in map(ModelFunction, model.functions)}
    yield from _holders_within(model.graph, "main", functions, is_expanded=False)


def _holders_within(
    container: GraphProto | FunctionProto,
    path: str,
    functions: Mapping[FunctionKey, ModelFunction],
    *,
    is_expanded: bool,
) -> Iterator[tuple[str, _Holder]]:
    yield path, _Holder(container, is_expanded)
    for index, node in enumerate(container.node):
        called, inside = functions.get(node_key(node)), f"{path}/{node.op_type}_{index}"
        if called is not None:
            yield from _holders_within(called.proto, inside, functions, is_expanded=True)
        for label, graph in subgraphs(node):
            yield from _holders_within(graph, f"{inside}.{label}", functions, is_expanded=is_expanded)


def _expanded_types(
    graph: Graph, holders: Mapping[str, _Holder], inferred: Mapping[ValueKey, Type]
) -> Mapping[int, tuple[GraphProto | FunctionProto, dict[str, Type]]]:
    """For each container within functions, the types that its values have at all calls."""
    joined: dict[int, tuple[GraphProto | FunctionProto, dict[str, Type | None]]] = {}
    for inner in _all_graphs(graph):
        for node in inner.nodes:
            holder = holders.get(node.location.graph)
            if holder is None or not holder.is_expanded:
                continue
            proto = _proto_of(node, holder.container)
            if proto is None:
                continue
            function = _enclosing_function(node.location.graph, holders)
            pairs = (*zip(proto.output, node.outputs, strict=False), *zip(proto.input, node.inputs, strict=False))
            for name, final in pairs:
                # What graphs within a function alone read of its inputs is told of the function.
                container = function if name in function.input else holder.container
                _, own = joined.setdefault(id(container), (container, {}))
                type = _type_at(inner.path, final, inferred)
                if type is not None:
                    before = own.get(name, type)
                    own[name] = None if before is None else joined_element(before, type)
    return {
        key: (container, {name: type for name, type in own.items() if name and type is not None})
        for key, (container, own) in joined.items()
    }


def _enclosing_function(path: str, holders: Mapping[str, _Holder]) -> FunctionProto:
    """The function in which the graph at `path` is."""
    container = holders[path].container
    return container if isinstance(container, FunctionProto) else _enclosing_function(path.rpartition("/")[0], holders)


def _type_at(path: str, name: str, inferred: Mapping[ValueKey, Type]) -> Type | None:
    """The type of what a name means in the graph at `path`: a value of it, or of a graph around it."""
    if (path, name) in inferred or "/" not in path:
        return inferred.get((path, name))
    return _type_at(path.rpartition("/")[0], name, inferred)


def _all_graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        for inner in node.subgraphs():
            yield from _all_graphs(inner)


def _proto_of(node: GraphNode, container: GraphProto | FunctionProto) -> NodeProto | None:
    """The node in the model that a checked node is; None for copies that expansion made."""
    index = node.location.index
    if index is None or index >= len(container.node) or container.node[index].op_type != node.operator:
        return None
    return container.node[index]


def _annotate_graph(graph: GraphProto, types: Mapping[str, Type], bound: frozenset[str], *, keeps: bool) -> None:
    for info in (*graph.input, *graph.output):
        if info.name in types:
            complete_type(types[info.name], info.type, bound, keeps=keeps)
    _annotate_values(graph, types, bound)


def _annotate_values(
    container: GraphProto | FunctionProto, types: Mapping[str, Type], bound: frozenset[str], given: Sequence[str] = ()
) -> None:
    """Declares what is given, and what nodes define but for the outputs of a graph, which are declared as such."""
    outputs = {info.name for info in container.output} if isinstance(container, GraphProto) else set()
    declared: dict[str, ValueInfoProto] = {info.name: info for info in container.value_info}
    for name in (*given, *_defined(container.node)):
        if name in types and name not in outputs:
            info = declared.get(name) or container.value_info.add(name=name)
            complete_type(types[name], info.type, bound, keeps=False)


def _defined(nodes: Sequence[NodeProto]) -> Iterator[str]:
    return (name for node in nodes for name in node.output if name)
