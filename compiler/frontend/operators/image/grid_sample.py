"""GridSample: a tensor read at positions that a grid gives."""

from collections.abc import Sequence
from itertools import product

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.resampling import KERNELS
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, zero
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import C128, F32, F64, I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

# version 16: the names of a plane
PLANE_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
MODES = {"linear": "linear", "nearest": "nearest", "cubic": "cubic"}
# mode: the offsets of the elements it reads from the floor of a coordinate
OFFSETS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
CUBIC_COEFFICIENT = -0.75

FARTHEST = 2.0**100
"""Beyond every tensor, whatever its sizes: times any of them it is finite in f32."""


@record
class _Tap:
    """One element that is read along an axis: its index, its weight, and whether it lies within, each [N, *O]."""

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
    taps = [_taps(_coordinate(grid, rank - 1 - axis, ir), x.shape[2 + axis], mode, node, ir) for axis in range(rank)]
    data = ir.transpose(x, (0, *range(2, x.rank), 1))
    data = data if mode == "nearest" or x.dtype.is_complex else ir.cast(data, dtype)
    sampled = ir.cast(_weighted_sum(data, taps, ir), x.dtype)
    return ir.transpose(sampled, (0, x.rank - 1, *range(1, x.rank - 1)))


def _coordinate(grid: Value, ordinal: int, ir: Builder) -> Value:
    return ir.squeeze(ir.slice_axis(grid, grid.rank - 1, ordinal, 1), (grid.rank - 1,))


def _weighted_sum(data: Value, taps: Sequence[Sequence[_Tap]], ir: Builder) -> Value:
    """The sum over the corners: what `data` [N, *S, C] holds there, times the product of the weights, [N, *O, C]."""
    total: Value | None = None
    for corner in product(*taps):
        last = corner[0].index.rank
        read = ir.gather_nd(data, ir.concatenate([ir.unsqueeze(tap.index, (last,)) for tap in corner], last), 1)
        for tap in corner:
            if tap.inside is not None:
                read = ir.select(ir.unsqueeze(tap.inside, (last,)), read, zero(read.dtype, ir))
        for tap in corner:
            if tap.weight is not None:
                read = ir.mul(read, ir.cast(ir.unsqueeze(tap.weight, (last,)), read.dtype))
        total = read if total is None else ir.add(total, read)
    assert total is not None
    return total


def _taps(position: Value, size: Dim, mode: str, node: Node, ir: Builder) -> list[_Tap]:
    """What is read along an axis of `size` for normalised positions."""
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
    for offset in OFFSETS[mode]:
        element = ir.add(base, float(offset))
        element = _reflected(element, low, high, ir) if padding == "reflection" else element
        weight = None
        if mode != "nearest":
            weight = KERNELS[mode](ir.abs(ir.sub(rest, float(offset))), CUBIC_COEFFICIENT, ir)
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
