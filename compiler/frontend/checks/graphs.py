"""The walk over graphs and functions that asks the rules about each node."""

from collections.abc import Sequence

from compiler.diagnostics import Location
from compiler.frontend.checks.attributes import check_attributes
from compiler.frontend.checks.context import Context
from compiler.frontend.checks.findings import Site
from compiler.frontend.checks.functions import check_call
from compiler.frontend.checks.known_types import KnownTypes
from compiler.frontend.checks.operators import check_operator
from compiler.frontend.checks.subgraphs import check_subgraph_arity
from compiler.frontend.checks.types import check_interface
from compiler.frontend.functions import DEPTH_LIMIT, subgraphs
from compiler.frontend.proto.onnxc_pb2 import GraphProto, NodeProto


def check_graph(
    graph: GraphProto, path: str, context: Context, outer: KnownTypes | None = None, depth: int = 1
) -> None:
    """Checks a graph and the graphs in it, all but names."""
    if depth > DEPTH_LIMIT:
        message = f"graphs are nested more than {DEPTH_LIMIT} deep"
        context.findings.error("nesting-too-deep", message, Location(path), rule="ONNX IR, graph attributes")
        return
    check_interface(graph, path, context)
    check_nodes(graph.node, path, context, KnownTypes.of_graph(graph, outer), depth)


def check_nodes(nodes: Sequence[NodeProto], path: str, context: Context, types: KnownTypes, depth: int = 1) -> None:
    """Checks the nodes of a graph or function."""
    for index, node in enumerate(nodes):
        site = Site(path, index, node)
        check_attributes(site, context)
        function = context.called(node)
        if function is not None:
            check_call(site, function, context.findings)
        elif (chosen := check_operator(site, context, types)) is not None:
            check_subgraph_arity(site, chosen, context)
        for label, graph in subgraphs(node):
            check_graph(graph, site.inner_path(label), context, types, depth + 1)
