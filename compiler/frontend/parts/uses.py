"""Which values nodes and graphs use: their operands, and what the graphs in them take from around."""

from collections.abc import Iterable, Iterator

from onnxc.compiler.frontend.functions import NAMING, own_names, subgraphs
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, GraphProto, NodeProto
from onnxc.compiler.frontend.schemas import normal_domain

__all__ = ["naming_attributes", "used_by_graph", "used_by_node"]


def used_by_node(node: NodeProto) -> Iterator[str]:
    """The names that a node takes from its graph or from around it."""
    yield from (name for name in node.input if name)
    for attribute in naming_attributes(node):
        yield from (text.decode(errors="replace") for text in (attribute.s, *attribute.strings) if text)
    for _, graph in subgraphs(node):
        yield from used_by_graph(graph)


def used_by_graph(graph: GraphProto) -> Iterator[str]:
    """The names that a graph takes from around it."""
    own = set(own_names(graph))
    used = [*(info.name for info in graph.output), *(name for node in graph.node for name in used_by_node(node))]
    return (name for name in used if name not in own)


def naming_attributes(node: NodeProto) -> Iterable[AttributeProto]:
    """The attributes of a node whose texts are names of values."""
    domain = normal_domain(node.domain)
    return (each for each in node.attribute if (domain, node.op_type, each.name) in NAMING)
