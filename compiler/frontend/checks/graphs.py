"""The walk over graphs and functions that asks the rules about each node."""

from collections.abc import Sequence

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.attributes import check_attributes
from onnxc.compiler.frontend.checks.context import Context
from onnxc.compiler.frontend.checks.devices import check_node_devices, check_stage_order
from onnxc.compiler.frontend.checks.findings import Site
from onnxc.compiler.frontend.checks.functions import check_call
from onnxc.compiler.frontend.checks.known_types import KnownTypes
from onnxc.compiler.frontend.checks.operators import check_operator
from onnxc.compiler.frontend.checks.quantization_annotations import check_quantization
from onnxc.compiler.frontend.checks.subgraphs import check_subgraph_arity
from onnxc.compiler.frontend.checks.types import check_interface
from onnxc.compiler.frontend.functions import subgraphs
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, NodeProto


def check_graph(
    graph: GraphProto, path: str, context: Context, outer: KnownTypes | None = None, depth: int = 1
) -> None:
    """Checks a graph and the graphs in it, all but names."""
    limit = context.limits.nesting_depth
    if depth > limit:
        message = f"graphs are nested more than {limit} deep"
        context.findings.error("nesting-too-deep", message, Location(path), rule="limits, nesting_depth")
        return
    if not graph.name:
        context.findings.error(
            "missing-graph-name",
            "the graph has no name; `onnxc repair` gives it one",
            Location(path),
            rule="ONNX IR, graphs",
        )
    check_interface(graph, path, context)
    check_quantization(graph, path, context, outer)
    check_nodes(graph.node, path, context, KnownTypes.of_graph(graph, outer), depth)


def check_nodes(nodes: Sequence[NodeProto], path: str, context: Context, types: KnownTypes, depth: int = 1) -> None:
    """Checks the nodes of a graph or function."""
    check_stage_order(nodes, path, context)
    for index, node in enumerate(nodes):
        site = Site(path, index, node)
        check_attributes(site, context)
        check_node_devices(site, context, types)
        function = context.called(node)
        if function is not None:
            check_call(site, function, context)
        elif (chosen := check_operator(site, context, types)) is not None:
            check_subgraph_arity(site, chosen, context)
        for label, graph in subgraphs(node):
            check_graph(graph, site.inner_path(label), context, types, depth + 1)
