"""What breaks a rule of the standard and can mean one thing only, written as the rule wants it."""

from collections.abc import Iterator, MutableSequence

from onnxc.compiler.frontend.checks.types import fits_shape
from onnxc.compiler.frontend.functions import all_nodes, node_key, own_names, subgraphs
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.parts.attribute_types import give_attribute_types
from onnxc.compiler.frontend.parts.distinct_names import give_distinct_names
from onnxc.compiler.frontend.parts.equal_definitions import merge_equal_definitions
from onnxc.compiler.frontend.parts.sort_nodes import sort_nodes
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnxc.compiler.frontend.schemas import newest_opset, normal_domain

__all__ = ["REPAIRED", "repaired"]

REPAIRED = frozenset(
    {
        "attribute-without-type",
        "duplicate-metadata",
        "duplicate-name",
        "initializer-shape",
        "initializer-type",
        "initializer-without-input",
        "missing-graph-name",
        "missing-opset-import",
        "not-topologically-sorted",
        "quantization-tensor",
        "shadowed-name",
        "unexpected-opset-import",
    }
)
"""The codes of errors that may go; other runtimes let such models pass, and some tools write them."""

_FIRST_TYPED_ATTRIBUTES = 2
"""The first IR version in which attributes say their types."""
_FIRST_IMPORTS = 3
"""The first IR version in which models import operator sets."""
_FIRST_FREE_INITIALIZERS = 4
"""The first IR version in which initializers need not be inputs."""
_NAME = "graph"


def repaired(model: ModelProto) -> ModelProto:
    """A copy of the model in which these errors are gone.

    Nodes stand behind those whose values they use. What a nested graph defines under the name of a value around it, and
    does not use before, has a name of its own. Graphs without a name get one. The IR version is at least 3 where
    operator sets are imported, and 4 where initializers are no inputs. The operator set of com.microsoft, of which
    there is one version, is imported where nodes are of it. What is declared of initializers that are no inputs, and is
    not what they are, goes. Attributes say their types. Of constants that give one name to equal tensors the first
    stays, and a Constant beside an input of its name becomes the default of that input. Annotations of tensors that are
    gone go too, and metadata that is there twice alike.
    """
    made = ModelProto()
    made.CopyFrom(model)
    if 1 <= made.ir_version < _FIRST_IMPORTS and made.opset_import:
        made.ir_version = _FIRST_IMPORTS
    if made.ir_version >= _FIRST_TYPED_ATTRIBUTES:
        give_attribute_types(made)
    for graph in _graphs(made):
        merge_equal_definitions(graph, {info.name for info in graph.input} if graph is made.graph else ())
    # Before nodes are sorted: their order tells what a name that is defined twice means.
    give_distinct_names(made)
    for nodes in _bodies(made):
        sort_nodes(nodes)
    graphs = [*_graphs(made)]
    for graph in graphs:
        graph.name = graph.name or _NAME
        _drop_wrong_declarations(graph)
    if made.ir_version == _FIRST_FREE_INITIALIZERS - 1 and any(map(_has_free_initializers, graphs)):
        made.ir_version = _FIRST_FREE_INITIALIZERS
    _import_microsoft(made)
    _drop_dead_annotations(made.graph)
    _drop_repeated_metadata(made)
    return made


def _bodies(model: ModelProto) -> Iterator[MutableSequence[NodeProto]]:
    """The nodes of each graph, those within before those around them, and of each function."""
    training = (graph for info in model.training_info for graph in (info.initialization, info.algorithm))
    graphs = (graph.node for graph in (model.graph, *training))
    for nodes in (*graphs, *(function.node for function in model.functions)):
        for node in all_nodes(nodes):
            yield from (graph.node for _, graph in subgraphs(node))
        yield nodes


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    yield model.graph
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in all_nodes(nodes):
            yield from (graph for _, graph in subgraphs(node))


def _has_free_initializers(graph: GraphProto) -> bool:
    inputs = {info.name for info in graph.input}
    sparse = (tensor.values.name for tensor in graph.sparse_initializer)
    return any(name not in inputs for name in (*(tensor.name for tensor in graph.initializer), *sparse))


def _drop_wrong_declarations(graph: GraphProto) -> None:
    inputs = {info.name for info in graph.input}
    stored = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in inputs}
    kept = [info for info in graph.value_info if info.name not in stored or _is_right(info, stored[info.name])]
    if len(kept) < len(graph.value_info):
        copies = [ValueInfoProto.FromString(info.SerializeToString()) for info in kept]
        del graph.value_info[:]
        graph.value_info.extend(copies)


def _is_right(info: ValueInfoProto, stored: TensorProto) -> bool:
    if info.type.WhichOneof("value") is None:
        return True
    declared = info.type.tensor_type
    is_shaped = not declared.HasField("shape") or fits_shape(stored.dims, declared.shape)
    return declared.elem_type == stored.data_type and is_shaped


def _drop_dead_annotations(graph: GraphProto) -> None:
    values = {*own_names(graph)}
    for index, annotation in reversed([*enumerate(graph.quantization_annotation)]):
        if annotation.tensor_name not in values:
            del graph.quantization_annotation[index]


def _drop_repeated_metadata(model: ModelProto) -> None:
    entries = [(entry.key, entry.value) for entry in model.metadata_props]
    first = {entry: index for index, entry in reversed([*enumerate(entries)])}
    for index, entry in reversed([*enumerate(entries)]):
        if first[entry] != index:
            del model.metadata_props[index]


def _import_microsoft(model: ModelProto) -> None:
    own = {(normal_domain(function.domain), function.name, function.overload) for function in model.functions}
    calls = {node_key(node) for node in all_nodes(model.graph.node)} - own
    is_used = any(domain == MICROSOFT for domain, _, _ in calls)
    if is_used and all(each.domain != MICROSOFT for each in model.opset_import):
        model.opset_import.add(domain=MICROSOFT, version=newest_opset(MICROSOFT) or 1)
