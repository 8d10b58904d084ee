"""Pad: elements added before and after the elements of a tensor, or cut off where the padding is negative."""

from collections.abc import Callable, Mapping, Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import (
    as_scalar,
    as_vector,
    known_integers,
    of_shape,
    read_lengths,
    spread_over_axes,
    vector_input,
    vector_length,
    zero,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Apply, Dim, at_least, floordiv, only_atom, product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.known_elements import partly_known
from onnxc.compiler.ir.module import Value

AXES_SINCE = 18
WRAP_SINCE = 19

SHORT_ROWS = range(2, 16)
"""Rows of so many elements, as of the channels of an image, are not picked one by one, but copied many at once."""


LONGEST_PICKED = 4096
"""Of longer axes what lies between is copied, too: so many positions need not be constants, and are read for each row.

f32[8, N] padded by 200 at either end: of 4,000 elements 2.5 us either way, of 8,000 reflected 18 picked and 3.4 copied,
of 16,000 33 and 7.6, with the edges 16 and 7.3."""


@operator("Pad", since=(1, 2))
def pad_by_attributes(node: Node, ir: Builder) -> Value:
    """data: T[d...]  ->  T[low + d + high ...], with the attributes pads (version 1: paddings), mode and value.

    Source: https://onnx.ai/onnx/operators/onnx__Pad.html
    """
    data = node.input("data")
    pads = node.ints("paddings" if node.since == 1 else "pads")
    if len(pads) != 2 * data.rank:
        node.fail("pads-length", f"pads has {len(pads)} entries for {data.rank} axes", rule="ONNX Pad, attribute pads")
    fill = ir.scalar(node.float("value"), data.dtype)
    return _pad_known(data, range(data.rank), pads, fill, node, ir)


@operator("Pad", since=(11, 13, 18, 19, 21, 23, 24, 25))
def pad_by_inputs(node: Node, ir: Builder) -> Value:
    """data: T[d...], pads: i64[2 * n], constant_value: T?, axes: I[n]?  ->  T[low + d + high ...]

    Source: https://onnx.ai/onnx/operators/onnx__Pad.html
    """
    data, fill = node.input("data"), _fill(node.input("data"), node, ir)
    known_axes, pads = _pads(data.rank, node, ir)
    known = ir.known(pads)
    if known is not None:
        return _pad_known(data, known_axes, known, fill, node, ir)
    lows, highs = _halves(pads, ir)
    # Of the least integer there is no positive one: it stays below 0, and is refused as a length.
    cuts = [ir.neg(ir.min(side, 0)) for side in (lows, highs)]
    parts = [*cuts, ir.max(lows, 0), ir.max(highs, 0)]
    seen = partly_known(pads)
    hints = [None if pad is None else maximum(sign * pad, 0) for sign in (-1, 1) for pad in seen]
    lengths = read_lengths(ir.concatenate(parts, 0), "pads", node, ir, hints=hints)
    return _crop_and_pad(data, node.axes_list(known_axes, data.rank), lengths, fill, node, ir)


def _fill(data: Value, node: Node, ir: Builder) -> Value:
    value = node.optional("constant_value")
    if value is not None:
        return as_scalar(value, "constant_value", node, ir)
    return zero(data.dtype, ir)


def _pads(rank: int, node: Node, ir: Builder) -> tuple[tuple[int, ...], Value]:
    """Axes, and their padding as i64[2 * n]; all of them where only data tells which are padded."""
    axes = node.optional("axes") if node.since >= AXES_SINCE else None
    every = tuple(range(rank))
    if axes is not None and axes.rank == 1 and not isinstance(axes.shape[0], int):
        return every, _pads_of_open_count(rank, axes, node, ir)
    axes = ir.sizes(every) if axes is None else as_vector(axes, "axes", node, ir)
    pads = vector_input("pads", node, ir, 2 * vector_length(axes), "pads-length")
    known = known_integers(axes, ir)
    return (every, _for_all_axes(pads, axes, rank, ir)) if known is None else (known, pads)


def _pads_of_open_count(rank: int, axes: Value, node: Node, ir: Builder) -> Value:
    """Where only data tells how many axes are padded: the padding of every axis, of those that are not named 0."""
    count, pads = axes.shape[0], node.input("pads")
    pads = of_shape(pads, (2 * count,), "pads", node, ir, "pads-length")
    ir.guard(rank, count, "at_least", f"axes of Pad has more entries than data has axes, {rank}")
    return _for_all_axes(ir.cast(pads, I64), ir.cast(axes, I64), rank, ir)


def _halves(pads: Value, ir: Builder) -> tuple[Value, Value]:
    count = floordiv(pads.shape[0], 2)
    return ir.slice(pads, (0,), (count,)), ir.slice(pads, (count,), (count,))


def _for_all_axes(pads: Value, axes: Value, rank: int, ir: Builder) -> Value:
    """The padding of every axis, where only data tells which axes are padded."""
    halves = [spread_over_axes(half, axes, [0] * rank, ir) for half in _halves(pads, ir)]
    return ir.concatenate(halves, 0)


def _pad_known(data: Value, axes: Sequence[int], pads: Sequence[Dim], fill: Value, node: Node, ir: Builder) -> Value:
    axes = node.axes_list(axes, data.rank)
    cuts = [maximum(-pad, 0) for pad in pads]
    # Rows that are cut down to 100 or filled up to it, whichever it is, are 100 in this form.
    sizes = [data.shape[axis] for axis in (*axes, *axes)]
    adds = [size + pad - _left(size, cut) for size, pad, cut in zip(sizes, pads, cuts, strict=True)]
    return _crop_and_pad(data, axes, [*cuts, *adds], fill, node, ir)


def _crop_and_pad(
    data: Value, axes: Sequence[int], lengths: Sequence[Dim], fill: Value, node: Node, ir: Builder
) -> Value:
    """`lengths`: for each axis what is cut off before, cut off after, added before and added after."""
    count = len(axes)
    cut_low, cut_high, low, high = (
        _for_each_axis(lengths[count * part : count * (part + 1)], axes, data.rank) for part in range(4)
    )
    data = _crop(data, cut_low, cut_high, node, ir)
    modes = [mode for mode in ("constant", *_SOURCES) if mode != "wrap" or node.since >= WRAP_SINCE]
    mode = node.choice("mode", modes, elsewhere=("wrap",))
    if mode == "constant":
        return ir.pad(data, low, high, fill)
    padded = [axis for axis in range(data.rank) if (low[axis], high[axis]) != (0, 0)]
    for axis in padded:
        data = _pad_from_itself(data, axis, low[axis], high[axis], mode, node, ir, is_outer=axis != padded[-1])
    return data


def _left(size: Dim, cut: Dim) -> Dim:
    """What is left of a size: n - max(0, x) is min(n, n - x)."""
    most = only_atom(cut)
    if isinstance(most, Apply) and most.function == "max":
        return minimum(*(size - argument for argument in most.arguments))
    return size - cut


def _for_each_axis(values: Sequence[Dim], axes: Sequence[int], rank: int) -> list[Dim]:
    spread: list[Dim] = [0] * rank
    for axis, value in zip(axes, values, strict=True):
        spread[axis] = value
    return spread


def _crop(data: Value, low: Sequence[Dim], high: Sequence[Dim], node: Node, ir: Builder) -> Value:
    shape = [_left(_left(size, before), after) for size, before, after in zip(data.shape, low, high, strict=True)]
    for axis, size in enumerate(shape):
        message = f"the negative padding of axis {axis} cuts off more than its size {data.shape[axis]}"
        if at_least(-1, size):
            node.fail("pads-beyond-size", message, rule="ONNX Pad, pads")
        if not at_least(size, 0):
            ir.guard(size, 0, "at_least", message)
    return ir.slice(data, low, ir.short(shape, "cropped"))


# Padding from the tensor itself: which element stands at a position that may be below 0 or above the last.


def _reflected(position: Value, size: Value, ir: Builder) -> Value:
    """Positions run to and fro between the first and the last element."""
    last = ir.sub(size, 1)
    phase = _modulo(position, ir.mul(last, 2), ir)
    return ir.sub(last, ir.abs(ir.sub(phase, last)))


def _clamped(position: Value, size: Value, ir: Builder) -> Value:
    return ir.clamp(position, 0, ir.sub(size, 1))


def _modulo(position: Value, size: Value, ir: Builder) -> Value:
    """The remainder of the floor division, 0 where `size` is 0."""
    remainder = ir.rem(position, size)
    return ir.select(ir.less(remainder, 0), ir.add(remainder, size), remainder)


_SOURCES: Mapping[str, Callable[[Value, Value, Builder], Value]] = {
    "reflect": _reflected,
    "edge": _clamped,
    "wrap": _modulo,
}


def _pad_from_itself(
    data: Value, axis: int, low: Dim, high: Dim, mode: str, node: Node, ir: Builder, *, is_outer: bool
) -> Value:
    size = data.shape[axis]
    if size == 0:
        message = f"axis {axis} has no element to pad from in mode {mode}"
        node.fail("pads-empty-axis", message, rule="ONNX Pad, attribute mode")

    def sources(first: Dim, count: Dim) -> Value:
        """Which elements stand at `count` positions from one on."""
        position = ir.add(ir.iota((count,), 0, I64), ir.size(first))
        return _SOURCES[mode](position, ir.size(size), ir)

    def part(first: Dim, count: Dim) -> Value:
        return ir.gather(data, sources(first, count), axis)

    is_short = isinstance(size, int) and at_least(LONGEST_PICKED, low + size + high)
    if is_short and product(data.shape[axis + 1 :]) not in SHORT_ROWS:
        # Of these the positions are known, and what they are of.
        return part(-low, low + size + high)
    ends = [(first, count) for first, count in ((-low, low), (size, high))]
    if is_outer:
        # Rows are picked by what copies them along an axis further in.
        picked = [sources(first, count) for first, count in ends if count != 0]
        picked.insert(low != 0, ir.iota((size,), 0, I64))
        return ir.gather(data, ir.concatenate(picked, 0), axis)
    # What lies between is the tensor itself, which is copied and not picked.
    before, after = ([part(first, count)] if count != 0 else [] for first, count in ends)
    return ir.concatenate([*before, data, *after], axis)
