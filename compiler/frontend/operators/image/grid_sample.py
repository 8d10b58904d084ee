"""GridSample: a tensor read at positions that a grid gives."""

from collections.abc import Callable, Sequence

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.resampling import KERNELS
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, zero
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import C128, F32, F64, I64, DType
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

# version 16: the names of a plane
PLANE_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
MODES = {"linear": "linear", "nearest": "nearest", "cubic": "cubic"}
# mode: the offsets of the elements it reads from the floor of a coordinate
OFFSETS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
CUBIC_COEFFICIENT = -0.75

MOST_CORNERS = 16
"""How many are read by ops of their own: the two cubics of a plane, the lines along four axes."""

FARTHEST = 2.0**100
"""Beyond every tensor, whatever its sizes: times any of them it is finite in f32."""


FEW_CHANNELS = 8
"""Up to so many, positions lie side by side and not channels: so many elements fill no more than half a vector."""

Read = Callable[[Value], Value]
"""The elements at positions among all of an image."""


@record
class _Tap:
    """What is read along an axis: indices, and of all channels the weights and whether they lie within."""

    index: Value
    weight: Value | None
    inside: Value | None


@operator("GridSample", since=(16, 20, 22))
def grid_sample(node: Node, ir: Builder) -> Value:
    """X: T1[N, C, *S], grid: T2[N, *O, r], r = the number of S  ->  T1[N, C, *O]; the last axis counts x, y, ...

    A coordinate that is NaN is -1, as PyTorch documents its grid_sample and as ONNX Runtime computes. An infinite one
    is far outside, where the padding mode says what there is; ONNX Runtime takes it for -1.
    Source: https://onnx.ai/onnx/operators/onnx__GridSample.html
    """
    x, grid = node.inputs("X", "grid")
    rank = x.rank - 2
    if rank < 1 or (node.since == 16 and rank != 2):
        node.fail(
            "grid-sample-rank",
            f"X has rank {x.rank}, {'4' if node.since == 16 else 'at least 3'} is expected",
            rule="ONNX GridSample, X",
        )
    grid = of_shape(grid, (x.shape[0], *[None] * rank, rank), "grid", node, ir, "grid-shape")
    names = PLANE_MODES if node.since == 16 else MODES
    mode = names[node.choice("mode", tuple(names))]
    if x.dtype.is_string and mode != "nearest":
        message = f"mode {mode} asks for what lies between two texts"
        node.fail("interpolated-text", message, rule="ONNX GridSample, mode")
    dtype = F64 if {F64, C128} & {x.dtype, grid.dtype} else F32
    grid = ir.cast(grid, dtype)
    grid = ir.clamp(ir.select(ir.is_nan(grid), -1.0, grid), -FARTHEST, FARTHEST)
    data = x if mode == "nearest" or x.dtype.is_complex else ir.cast(x, dtype)
    channels = x.shape[1]
    is_narrow = isinstance(channels, int) and channels <= FEW_CHANNELS and not _stacked_axes(mode, rank)
    return ir.cast((_sampled_by_channel if is_narrow else _sampled)(data, grid, mode, node, ir), x.dtype)


def _sampled_by_channel(data: Value, grid: Value, mode: str, node: Node, ir: Builder) -> Value:
    """data: [N, C, *S], grid: [N, *O, r]  ->  [N, C, *O], positions side by side"""
    (batch, channels, *sizes), positions = data.shape, grid.shape[1:-1]
    image = ir.reshape(data, (batch, channels, product(sizes)))
    count = product(positions)
    grid = ir.reshape(grid, (batch, 1, count, len(sizes)))
    shape, taps = (batch, channels, count), list[list[_Tap]]()
    for axis, size in enumerate(sizes):
        position = ir.squeeze(ir.slice_axis(grid, 3, len(sizes) - 1 - axis, 1), (3,))
        offsets = [ir.scalar(float(offset), grid.dtype) for offset in OFFSETS[mode]]
        read = _taps(position, size, offsets, mode, node, ir)
        taps.append([_spread(tap, shape, data.dtype, ir) for tap in read])

    def at(index: Value) -> Value:
        return ir.gather_along(image, ir.broadcast_to(index, shape), 2)

    return ir.reshape(_summed(at, None, sizes, taps, ir), (batch, channels, *positions))


def _sampled(data: Value, grid: Value, mode: str, node: Node, ir: Builder) -> Value:
    """data: [N, C, *S], grid: [N, *O, r]  ->  [N, C, *O], channels side by side

    Q: for each stacked axis the number of elements that are read along it, or 1; indices are [N, *Q, *O, 1].
    """
    (batch, channels, *sizes), stacked = data.shape, _stacked_axes(mode, data.rank - 2)
    rank = len(sizes)
    image = ir.reshape(ir.transpose(data, (0, *range(2, data.rank), 1)), (batch, product(sizes), channels))
    grid, taps = ir.unsqueeze(grid, range(1, 1 + stacked)), list[list[_Tap]]()
    for axis, size in enumerate(sizes):
        position = ir.slice_axis(grid, grid.rank - 1, rank - 1 - axis, 1)
        offsets = np.array(OFFSETS[mode], grid.dtype.numpy)
        along = [offsets.reshape(-1, *[1] * (grid.rank - 2 - axis))] if axis < stacked else [*offsets]
        read = _taps(position, size, [ir.constant(np.asarray(each)) for each in along], mode, node, ir)
        taps.append([_spread(tap, (*tap.index.shape[:-1], channels), data.dtype, ir) for tap in read])

    summed = _summed(lambda index: ir.gather_nd(image, index, 1), None, sizes, taps, ir)
    return ir.transpose(ir.reduce(summed, "sum", range(1, 1 + stacked)), (0, 1 + rank, *range(1, 1 + rank)))


def _stacked_axes(mode: str, rank: int) -> int:
    """How many of the `rank` axes have what is read along them in an axis of the grid, not in taps of their own."""
    corners = [len(OFFSETS[mode]) ** (rank - stacked) for stacked in range(rank + 1)]
    return next(stacked for stacked, count in enumerate(corners) if count <= MOST_CORNERS)


def _spread(tap: _Tap, shape: Sequence[Dim], dtype: DType, ir: Builder) -> _Tap:
    """The tap with a weight of the type of the image, and whether it lies within, for each channel."""
    inside = None if tap.inside is None else ir.broadcast_to(tap.inside, shape)
    weight = None if tap.weight is None else ir.broadcast_to(ir.cast(tap.weight, dtype), shape)
    return _Tap(tap.index, weight, inside)


def _summed(
    read: Read, index: Value | None, sizes: Sequence[Dim], taps: Sequence[Sequence[_Tap]], ir: Builder
) -> Value:
    """The weighted sum along the axes of `taps`, the last one first, where those before are read at `index`."""
    if not taps:
        assert index is not None
        return read(index)
    total: Value | None = None
    for tap in taps[0]:
        within = tap.index if index is None else ir.add(ir.mul(index, ir.size(sizes[0])), tap.index)
        term = _summed(read, within, sizes[1:], taps[1:], ir)
        if tap.inside is not None:
            term = ir.select(tap.inside, term, zero(term.dtype, ir))
        if tap.weight is not None:
            term = ir.mul(term, tap.weight)
        total = term if total is None else ir.add(total, term)
    assert total is not None
    return total


def _taps(position: Value, size: Dim, offsets: Sequence[Value], mode: str, node: Node, ir: Builder) -> list[_Tap]:
    """What is read along an axis of `size` for normalised positions, at each of the offsets from their floor."""
    padding = node.choice("padding_mode", ("zeros", "border", "reflection"))
    coordinate, low, high = _in_elements(position, size, node.flag("align_corners"), ir)
    coordinate = ir.round(coordinate) if mode == "nearest" else coordinate
    length = ir.cast(ir.size(size), position.dtype)
    # The elements that a cubic reads are clamped one by one instead, as in PyTorch and ONNX Runtime.
    if padding == "border" and mode != "cubic":
        coordinate = ir.clamp(coordinate, 0.0, ir.sub(length, 1.0))
    elif padding == "reflection":
        coordinate = _reflected(coordinate, low, high, ir)
    base, taps = ir.floor(coordinate), []
    rest = ir.sub(coordinate, base)
    for offset in offsets:
        element = ir.add(base, offset)
        element = _reflected(element, low, high, ir) if padding == "reflection" else element
        weight = None
        if mode != "nearest":
            weight = KERNELS[mode](ir.abs(ir.sub(rest, offset)), CUBIC_COEFFICIENT, ir)
        inside = ir.and_(ir.less_equal(0.0, element), ir.less(element, length)) if padding == "zeros" else None
        index = ir.clamp(ir.cast(element, I64), 0, ir.sub(ir.size(size), 1))
        taps.append(_Tap(index, weight, inside))
    return taps


def _in_elements(position: Value, size: Dim, align_corners: bool, ir: Builder) -> tuple[Value, Value, Value]:
    """Positions in elements instead of from -1 to 1, and where the axis begins and ends: at centers, or at edges."""
    length = ir.cast(ir.size(size), position.dtype)
    from_start = ir.add(position, 1.0)
    if align_corners:
        last = ir.sub(length, 1.0)
        return ir.mul(ir.div(from_start, 2.0), last), ir.scalar(0.0, position.dtype), last
    coordinate = ir.div(ir.sub(ir.mul(from_start, length), 1.0), 2.0)
    return coordinate, ir.scalar(-0.5, position.dtype), ir.sub(length, 0.5)


def _reflected(coordinate: Value, low: Value, high: Value, ir: Builder) -> Value:
    """`coordinate` mirrored at the borders until it lies between them."""
    span = ir.sub(high, low)
    below = ir.less(coordinate, low)
    excess = ir.select(below, ir.sub(low, coordinate), ir.sub(coordinate, high))
    turns = ir.floor(ir.div(excess, span))
    rest = ir.sub(excess, ir.mul(turns, span))
    is_even = ir.equal(turns, ir.mul(ir.floor(ir.div(turns, 2.0)), 2.0))
    mirrored = ir.select(ir.equal(is_even, below), ir.add(low, rest), ir.sub(high, rest))
    inside = ir.and_(ir.less_equal(low, coordinate), ir.less_equal(coordinate, high))
    return ir.select(ir.less_equal(span, 0.0), low, ir.select(inside, coordinate, mirrored))
