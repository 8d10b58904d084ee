"""Values and nodes of a model under other names, wherever the model speaks of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableSequence

from onnxc.compiler.frontend.checks.findings import listed
from onnxc.compiler.frontend.functions import ModelFunction, all_names, all_nodes, node_key, subgraphs
from onnxc.compiler.frontend.parts.uses import naming_attributes
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, NodeProto, StringStringEntryProto
from onnxc.runtime.errors import InputError

__all__ = ["expect_values", "rename_graph", "rename_values", "with_node_prefix", "with_prefix"]


def rename_values(model: ModelProto, names: Mapping[str, str], *, may_join: bool = False) -> ModelProto:
    """A copy of the model in which the values of its graph have these other names.

    may_join: several may get one name, which who asks for it makes one value. Raises InputError for a value that there
    is not, or for a name that is taken or empty.
    """
    known = set(all_names(model.graph))
    expect_values(known, names)
    taken = known - names.keys()
    counts = Counter(names.values())
    clashes = [name for name, count in counts.items() if name in taken or not name or (count > 1 and not may_join)]
    if clashes:
        raise InputError(f"names that are empty or taken: {listed(map(repr, clashes))}", code="name-taken")
    renamed = ModelProto()
    renamed.CopyFrom(model)
    rename_graph(renamed.graph, names)
    for info in renamed.training_info:
        # The algorithm continues the main graph; bindings lead from its values to theirs.
        rename_graph(info.algorithm, names)
        for entry in (*info.initialization_binding, *info.update_binding):
            entry.key = names.get(entry.key, entry.key)
        _rename_entries(info.update_binding, names)
    return renamed


def with_prefix(model: ModelProto, prefix: str) -> ModelProto:
    """A copy of the model with a prefix before the names of all values and nodes of its graph, and of those in it.

    Its functions get the prefix too, so that they are none of another model.
    """
    renamed = rename_values(model, {name: prefix + name for name in dict.fromkeys(all_names(model.graph)) if name})
    _prefix_nodes(renamed, prefix)
    functions = {ModelFunction(function).key for function in model.functions}
    graphs = (renamed.graph, *_training_graphs(renamed))
    for nodes in (*(graph.node for graph in graphs), *(function.node for function in renamed.functions)):
        for node in all_nodes(nodes):
            if node_key(node) in functions:
                node.op_type = prefix + node.op_type
    for function in renamed.functions:
        function.name = prefix + function.name
    return renamed


def with_node_prefix(model: ModelProto, prefix: str) -> ModelProto:
    """A copy of the model with a prefix before the names of the nodes of its graph, and of those in it, alone."""
    renamed = ModelProto()
    renamed.CopyFrom(model)
    _prefix_nodes(renamed, prefix)
    return renamed


def _prefix_nodes(model: ModelProto, prefix: str) -> None:
    for node in all_nodes(model.graph.node):
        if node.name:
            node.name = prefix + node.name


def _training_graphs(model: ModelProto) -> Iterator[GraphProto]:
    for info in model.training_info:
        yield from (info.initialization, info.algorithm)


def expect_values(known: Iterable[str], names: Iterable[str]) -> None:
    """Raises InputError where one of the names is none of the values that are known."""
    values = set(known)
    unknown = [name for name in names if name not in values or not name]
    if unknown:
        raise InputError(f"the model has no value {listed(map(repr, unknown))}", code="unknown-value")


def rename_graph(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Gives the values of a graph, and what the graphs in it call so, these other names."""
    if not graph.ByteSize():
        return
    for info in (*graph.input, *graph.output, *graph.value_info):
        info.name = names.get(info.name, info.name)
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        tensor.name = names.get(tensor.name, tensor.name)
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
        _rename_entries(annotation.quant_parameter_tensor_names, names)
    for node in graph.node:
        _rename_node(node, names)


def _rename_entries(entries: Iterable[StringStringEntryProto], names: Mapping[str, str]) -> None:
    for entry in entries:
        entry.value = names.get(entry.value, entry.value)


def _rename_node(node: NodeProto, names: Mapping[str, str]) -> None:
    for side in (node.input, node.output):
        _replace(side, names)
    for attribute in naming_attributes(node):
        if attribute.HasField("s"):
            attribute.s = names.get(attribute.s.decode(), attribute.s.decode()).encode()
        attribute.strings[:] = [names.get(text.decode(), text.decode()).encode() for text in attribute.strings]
    for configuration in node.device_configurations:
        for sharding in configuration.sharding_spec:
            sharding.tensor_name = names.get(sharding.tensor_name, sharding.tensor_name)
    for _, graph in subgraphs(node):
        rename_graph(graph, names)


def _replace(side: MutableSequence[str], names: Mapping[str, str]) -> None:
    side[:] = [names.get(name, name) for name in side]
