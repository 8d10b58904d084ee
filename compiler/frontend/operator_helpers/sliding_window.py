"""Windows over the spatial axes of a tensor: the attributes that convolution and pooling share, read and checked.

Sizes may be symbolic; where a window may not fit, a guard is left.
"""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, at_least, floordiv
from onnxc.runtime.records import record

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@record
class SlidingWindow:
    """One entry per spatial axis. `high` is the padding that the windows meet, `given_high` what the model asks for."""

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    given_high: tuple[Dim, ...]
    positions: tuple[Dim, ...]


def kernel_of(node: Node, rank: int) -> tuple[int, ...]:
    """The attribute `kernel_shape` for an operand of `rank`, all of whose axes but two are spatial."""
    kernel = node.ints("kernel_shape")
    if rank < 3:
        node.fail("pool-rank", f"X has {rank} axes, no spatial ones", rule=f"ONNX {node.operator}")
    if len(kernel) != rank - 2:
        message = f"kernel_shape has {len(kernel)} entries for {rank - 2} spatial axes"
        node.fail("attribute-length", message, rule=f"ONNX {node.operator}, attribute kernel_shape")
    return per_axis(node, "kernel_shape", rank - 2, default=1, least=1)


def sliding_window(node: Node, ir: Builder, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> SlidingWindow:
    """How the window of `kernel` slides over axes of `sizes`, by the attributes of the node."""
    axes = range(len(kernel))
    strides = per_axis(node, "strides", len(kernel), default=1, least=1)
    dilations = per_axis(node, "dilations", len(kernel), default=1, least=1)
    spans = [(kernel[axis] - 1) * dilations[axis] + 1 for axis in axes]
    low, high = padding(node, sizes, spans, strides)
    ceil = node.flag("ceil_mode", False) and auto_pad(node) == "NOTSET"
    positions: list[Dim] = []
    reached = list(high)
    for axis in axes:
        room = sizes[axis] + low[axis] + high[axis] - spans[axis]
        if not at_least(room, -strides[axis]):
            message = f"a window of {spans[axis]} does not fit into axis {axis + 2}"
            _expect_at_least(room, -strides[axis], message, node, ir)
        positions.append(floordiv(room, strides[axis]) + 1)
        if ceil:
            started = floordiv(sizes[axis] + low[axis] - 1, strides[axis]) + 1
            positions[axis] = minimum(floordiv(room + strides[axis] - 1, strides[axis]) + 1, started)
            reached[axis] = maximum(0, (positions[axis] - 1) * strides[axis] + spans[axis] - sizes[axis] - low[axis])
    return SlidingWindow(tuple(kernel), strides, dilations, low, tuple(reached), high, tuple(positions))


def _expect_at_least(left: Dim, right: Dim, message: str, node: Node, ir: Builder) -> None:
    if at_least(right - 1, left):
        node.fail("window-too-large", message, rule=f"ONNX {node.operator}")
    ir.guard(left, right, "at_least", message)


def per_axis(node: Node, name: str, count: int, *, default: int, least: int) -> tuple[int, ...]:
    """The integers of the attribute `name`, one for each spatial axis."""
    values = node.ints(name, (default,) * count)
    rule = f"ONNX {node.operator}, attribute {name}"
    if len(values) != count:
        node.fail("attribute-length", f"{name} has {len(values)} entries for {count} spatial axes", rule=rule)
    if min(values, default=least) < least:
        node.fail("attribute-range", f"{name} is {list(values)}, which has one below {least}", rule=rule)
    return values


def auto_pad(node: Node) -> str:
    """The attribute `auto_pad`."""
    return node.choice("auto_pad", AUTO_PADS, "NOTSET")


def given_padding(node: Node, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The attribute `pads`, before and after each spatial axis."""
    pads = node.ints("pads", (0,) * (2 * count))
    rule = f"ONNX {node.operator}, attribute pads"
    if len(pads) != 2 * count:
        node.fail("attribute-length", f"pads has {len(pads)} entries for {count} spatial axes", rule=rule)
    if min(pads, default=0) < 0:
        node.fail("negative-padding", f"pads is {list(pads)}", rule=rule)
    return pads[:count], pads[count:]


def expect_one_padding(node: Node) -> None:
    """Raises ModelError where both `auto_pad` and `pads` say how much padding there is."""
    mode, pads = auto_pad(node), node.ints("pads", ())
    if mode != "NOTSET" and any(pads):
        message = f"pads is {list(pads)} and auto_pad is {mode}"
        node.fail("pads-and-auto-pad", message, rule=f"ONNX {node.operator}, attribute pads")


def padding(
    node: Node, sizes: Sequence[Dim], spans: Sequence[Dim], strides: Sequence[int]
) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """The padding before and after each axis, as given, or so that the result has ceil(size / stride) elements."""
    mode, given = auto_pad(node), given_padding(node, len(sizes))
    if mode == "NOTSET":
        return given
    expect_one_padding(node)
    if mode == "VALID":
        return (0,) * len(sizes), (0,) * len(sizes)
    totals = [
        maximum(0, floordiv(size + stride - 1, stride) * stride - stride + span - size)
        for size, span, stride in zip(sizes, spans, strides, strict=True)
    ]
    halves = tuple(floordiv(total, 2) for total in totals)
    rests = tuple(total - half for total, half in zip(totals, halves, strict=True))
    return (halves, rests) if mode == "SAME_UPPER" else (rests, halves)
