"""Values of nested graphs that have the name of a value around them, under names of their own."""

from collections.abc import Iterator, MutableSequence

from onnxc.compiler.frontend.functions import all_names, own_names, subgraphs
from onnxc.compiler.frontend.parts.rename import rename_graph
from onnxc.compiler.frontend.parts.uses import used_by_node
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, ModelProto, NodeProto

__all__ = ["give_distinct_names"]


def give_distinct_names(model: ModelProto) -> None:
    """Renames what shadows a value, in the graph that defines it and in those within.

    A graph that uses the name before it defines it keeps it: whether it means the value around it, none can tell.
    """
    taken = set(all_names(model.graph)).union(*(_names_in(function.node) for function in model.functions))
    _visit(model.graph.node, {*own_names(model.graph)}, taken)
    for function in model.functions:
        own = {*function.input, *(name for node in function.node for name in node.output)}
        _visit(function.node, own, taken)


def _names_in(nodes: MutableSequence[NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield from (*node.input, *node.output)
        for _, graph in subgraphs(node):
            yield from all_names(graph)


def _visit(nodes: MutableSequence[NodeProto], outer: set[str], taken: set[str]) -> None:
    for node in nodes:
        for _, graph in subgraphs(node):
            shadowing = [name for name in dict.fromkeys(own_names(graph)) if name and name in outer]
            names = {name: _free(name, taken) for name in shadowing if not _is_used_before(graph, name)}
            if names:
                rename_graph(graph, names)
            _visit(graph.node, outer.union(own_names(graph)), taken)


def _free(name: str, taken: set[str]) -> str:
    """A name like this one that nothing in the model has; from now on it is taken."""
    ordinal = 1
    while f"{name}_{ordinal}" in taken:
        ordinal += 1
    taken.add(f"{name}_{ordinal}")
    return f"{name}_{ordinal}"


def _is_used_before(graph: GraphProto, name: str) -> bool:
    """Whether a node uses the name and none before it, and no input or initializer, defines it."""
    if all(name not in node.output for node in graph.node):
        return False
    for node in graph.node:
        if name in used_by_node(node):
            return True
        if name in node.output:
            return False
    return False
