"""How many channels are in a block of the filters that ONNX Runtime saved for its convolutions on blocked channels.

The processor that saved the model decides, and the model does not say. What the sizes in the model prove counts; where
they fit both, ONNX Runtime's choice for this processor is assumed, with a warning.
"""

from collections.abc import Iterator, Mapping, Sequence

from onnxc.compiler.diagnostics import Diagnostic, warning
from onnxc.compiler.frontend.graph import Graph, GraphNode, all_nodes
from onnxc.compiler.frontend.operator_domains import NCHWC
from onnxc.runtime.cpu import host_architecture, host_features
from onnxc.runtime.records import record

SIZES = (8, 16)
"""ONNX Runtime has blocks of 16 channels for AVX-512 and on arm, and of 8 on other x86-64 processors."""


@record
class ChannelBlocks:
    """The size of the blocks of a model, and the warning where it is assumed."""

    size: int
    warnings: tuple[Diagnostic, ...] = ()


def channel_blocks(graph: Graph) -> ChannelBlocks:
    """Those of a graph and the graphs in it; of a graph without operators on blocked channels, any."""
    blocked = [node for node in all_nodes(graph) if node.domain == NCHWC]
    if not blocked:
        return ChannelBlocks(SIZES[0])
    proven = {fitting[0] for fitting in _fitting_sizes(graph, {}) if len(fitting) == 1}
    if len(proven) == 1:
        return ChannelBlocks(proven.pop())
    size = _size_of_processor()
    message = (
        f"filters are taken to lie in blocks of {size} channels, as ONNX Runtime lays them on this processor; a model "
        "saved on another kind of processor gives wrong results: save it with ORT_ENABLE_EXTENDED there"
    )
    rule = f"ONNX Runtime {NCHWC}: the layout is that of the processor which saved the model"
    return ChannelBlocks(size, (warning("assumed-channel-blocks", message, blocked[0].location, rule=rule),))


def _size_of_processor() -> int:
    return 8 if host_architecture() == "x86_64" and "avx512f" not in host_features() else 16


def _fitting_sizes(graph: Graph, outer: Mapping[str, tuple[int, ...]]) -> Iterator[Sequence[int]]:
    """The sizes that each node on blocked channels may be of."""
    shapes = {**outer, **{name: tensor.shape for name, tensor in graph.initializers.items()}}
    makers = {name: node for node in graph.nodes for name in node.outputs}
    for node in graph.nodes:
        filters = shapes.get(node.inputs[1], ()) if (node.domain, node.operator) == (NCHWC, "Conv") else ()
        if len(filters) > 2:
            yield [size for size in SIZES if _fits_filters(size, filters, node.attributes.get("group"))]
        if (node.domain, node.operator) == (NCHWC, "ReorderOutput"):
            blocked, channels = _channels(node, makers, shapes), node.attributes.get("channels")
            if blocked is not None and isinstance(channels, int):
                yield [size for size in SIZES if blocked == channels + -channels % size]
        for inner in node.subgraphs():
            yield from _fitting_sizes(inner, shapes)


def _fits_filters(size: int, shape: Sequence[int], group: object) -> bool:
    """Whether filters [M, C/group, *K] can be in blocks of this size; those of few channels have them on M alone."""
    filters, channels = shape[:2]
    in_blocks = channels % size == 0 if channels >= size else channels == 1 or group == 1
    return filters % size == 0 and in_blocks


def _channels(node: GraphNode, makers: Mapping[str, GraphNode], shapes: Mapping[str, Sequence[int]]) -> int | None:
    """How many channels, with those that fill a block, reach the first input of a node, if convolutions say so."""
    behind = makers.get(node.inputs[0])
    while behind is not None and behind.operator not in ("Conv", "Concat"):
        behind = makers.get(behind.inputs[0]) if behind.inputs else None
    if behind is None or (behind.domain, behind.operator) != (NCHWC, "Conv"):
        return None
    return next(iter(shapes.get(behind.inputs[1], ())), None)
