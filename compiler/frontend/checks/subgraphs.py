"""Graphs as attributes: as many inputs and outputs as the operator that runs them gives and takes."""

from collections.abc import Callable, Mapping

from onnxc.compiler.frontend.checks.attributes import attribute_type
from onnxc.compiler.frontend.checks.context import Context
from onnxc.compiler.frontend.checks.findings import Site
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, GraphProto, NodeProto
from onnxc.compiler.frontend.schemas import Schema

# For a node: how many inputs its subgraph has, and how many outputs.
Counts = tuple[int, int]


def _if(node: NodeProto) -> Counts:
    """A branch takes nothing and returns what the node returns."""
    return 0, len(node.output)


def _loop(node: NodeProto) -> Counts:
    """The body takes iteration, condition and carried values, and returns condition, carried values and scans."""
    # Either of the first two inputs may be left out in the middle, and both at the end.
    return max(len(node.input), 2), len(node.output) + 1


def _one_for_one(node: NodeProto) -> Counts:
    """The body takes an element of each input, or a state, and returns as much for each output."""
    return len(node.input), len(node.output)


def _scan_8(node: NodeProto) -> Counts:
    """As later, after the lengths of the sequences."""
    return len(node.input) - 1, len(node.output)


_COUNTS: Mapping[str, Callable[[NodeProto], Counts]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _one_for_one,
    "SequenceMap": _one_for_one,
}


def check_subgraph_arity(site: Site, chosen: Schema, context: Context) -> None:
    """Checks the graphs of a node of ai.onnx that runs them."""
    count = _scan_8 if chosen.identity == "ai.onnx.Scan-8" else _COUNTS.get(chosen.name)
    if count is None or chosen.domain:
        return
    inputs, outputs = count(site.node)
    for attribute in site.node.attribute:
        if attribute_type(attribute) != AttributeProto.GRAPH or not attribute.HasField("g"):
            continue
        for kind, wanted, given in (
            ("input", inputs, _fed_inputs(attribute.g, context)),
            ("output", outputs, len(attribute.g.output)),
        ):
            if wanted != given:
                message = f"the graph {attribute.name} has {given} {kind}s, and the node calls for {wanted}"
                rule = f"ONNX {chosen.name}, attribute {attribute.name}"
                context.findings.error("subgraph-arity", message, site.location(), rule=rule)


def _fed_inputs(graph: GraphProto, context: Context) -> int:
    """The inputs that a node feeds: before IR version 4 initializers are among the inputs, and are not fed."""
    if context.ir_version >= 4:
        return len(graph.input)
    constants = {tensor.name for tensor in graph.initializer}
    return sum(info.name not in constants for info in graph.input)
