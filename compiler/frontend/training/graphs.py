"""The graphs of training information, resolved: what an initialization computes, and each algorithm behind the model.

An algorithm is run as the continuation of the main graph, whose names it sees; an initialization sees nothing.
"""

from collections.abc import Iterable

from onnxc.compiler.diagnostics import error, model_error
from onnxc.compiler.frontend.custom.functions import with_functions
from onnxc.compiler.frontend.custom.operators import NO_OPERATORS, CustomOperators
from onnxc.compiler.frontend.external.data_files import ExternalFiles
from onnxc.compiler.frontend.functions import Scope, imported_opsets, own_names
from onnxc.compiler.frontend.graph import Graph
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, StringStringEntryProto
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.frontend.resolve import Resolver
from onnxc.compiler.frontend.tensors import TensorStore
from onnxc.compiler.frontend.value_types import TypeReader
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits, raising
from onnxc.runtime.records import record

__all__ = ["Binding", "TrainingGraphs", "resolve_training"]


@record
class Binding:
    """The initializer that gets a new value, and the output that it is; names of the resolved graphs."""

    initializer: str
    output: str


@record
class TrainingGraphs:
    """One TrainingInfoProto of a checked model; a graph that it leaves out is empty.

    main: the main graph, named for this algorithm, whose nodes come before those of `algorithm`.
    """

    initialization: Graph
    main: Graph
    algorithm: Graph
    starts: tuple[Binding, ...]
    updates: tuple[Binding, ...]


def resolve_training(
    loaded: LoadedModel, limits: Limits = DEFAULT_LIMITS, operators: CustomOperators = NO_OPERATORS
) -> tuple[TrainingGraphs, ...]:
    """The graphs of each training information of a model in which the checker has found no error.

    Raises ModelError for what only shows when functions are expanded, and where there are too many nodes.
    """
    store = TensorStore(ExternalFiles(loaded.folder, allow_links=loaded.allow_links), loaded.lifted, limits)
    model = with_functions(loaded.outline, operators)
    _expect_few_nodes(model, limits)
    return tuple(_resolved(model, ordinal, store, operators) for ordinal in range(len(model.training_info)))


def _expect_few_nodes(model: ModelProto, limits: Limits) -> None:
    """ModelError where many algorithms continue a long main graph, each of which is compiled with it."""
    algorithms, most = len(model.training_info), limits.expanded_nodes
    if (algorithms - 1) * len(model.graph.node) > most:
        message = f"{algorithms} algorithms continue the main graph, too many nodes; {raising('expanded_nodes', most)}"
        raise model_error([error("expansion-too-large", message, rule="limits, expanded_nodes")])


def _resolved(model: ModelProto, ordinal: int, store: TensorStore, operators: CustomOperators) -> TrainingGraphs:
    info, path = model.training_info[ordinal], f"training_info[{ordinal}]"
    resolver = Resolver(model, store, operators, (info.initialization, info.algorithm))
    alone, joined = _scope(model, (info.initialization,)), _scope(model, (model.graph, info.algorithm))
    initialization = resolver.graph(info.initialization, alone, f"{path}.initialization")
    main = resolver.graph(model.graph, joined, "main")
    algorithm = resolver.graph(info.algorithm, joined, f"{path}.algorithm")
    if resolver.errors:
        raise model_error(resolver.errors)
    starts = _bindings(info.initialization_binding, joined, alone)
    return TrainingGraphs(initialization, main, algorithm, starts, _bindings(info.update_binding, joined, joined))


def _scope(model: ModelProto, graphs: Iterable[GraphProto]) -> Scope:
    """The scope of graphs one behind the other."""
    graphs = tuple(graphs)
    inputs = TypeReader.of_inputs([info for graph in graphs for info in graph.input])
    own = frozenset(name for graph in graphs for name in own_names(graph))
    return Scope(imported_opsets(model.opset_import) or {"": 1}, inputs, own)


def _bindings(pairs: Iterable[StringStringEntryProto], keys: Scope, values: Scope) -> tuple[Binding, ...]:
    return tuple(Binding(keys.find(pair.key), values.find(pair.value)) for pair in pairs)
