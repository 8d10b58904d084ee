"""Resampling of a tensor along one axis after the other: which elements, with which weights, make each new element.

Coordinates are computed in f64, on vectors that are short beside the tensor; nothing here knows of scales given or
sizes asked for, which is `resize.py`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.shape_inputs import read_lengths, zero
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, F64, I64, DType
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

# The most taps that are added one by one, those of cubic interpolation; more are a reduction.
UNROLLED_TAPS = 4

# Of an axis whose sizes only a call knows: regions of interest are mostly larger than what is made of them.
UNKNOWN_GROWTH = 0.999

Region = tuple[Value, Value]
"""Where a region of interest starts and ends on an axis, f64[] each, in parts of its size."""


@record
class ResizedAxis:
    """An axis of `size` elements that becomes one of `length`.

    `scale` and `width`, f64[], are what was asked for: `width` is size * scale, and not always an integer. `ratio`
    is the scale where it is known.
    """

    axis: int
    size: Dim
    length: Dim
    scale: Value
    width: Value
    ratio: float | None
    region: Region | None


@record
class Sampling:
    """How coordinates become elements; the words are those of the attributes of Resize."""

    mode: str
    transform: str = "asymmetric"
    nearest: str = "simple"
    coefficient: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float | None = None

    @property
    def support(self) -> int:
        """How far the interpolation kernel reaches to each side."""
        return {"linear": 1, "cubic": 2}[self.mode]


# Coordinates: where in the tensor each element of the result lies. i counts the result, f64[length].


def _half_pixel(i: Value, axis: ResizedAxis, ir: Builder) -> Value:
    return ir.sub(ir.div(ir.add(i, 0.5), axis.scale), 0.5)


def _half_pixel_symmetric(i: Value, axis: ResizedAxis, ir: Builder) -> Value:
    adjustment = ir.div(_float(axis.length, ir), axis.width)
    offset = ir.mul(ir.div(_float(axis.size, ir), 2.0), ir.sub(1.0, adjustment))
    return ir.sub(ir.add(offset, ir.div(ir.add(i, 0.5), axis.scale)), 0.5)


def _pytorch_half_pixel(i: Value, axis: ResizedAxis, ir: Builder) -> Value:
    return ir.select(ir.less(1.0, _float(axis.length, ir)), _half_pixel(i, axis, ir), 0.0)


def _align_corners(i: Value, axis: ResizedAxis, ir: Builder) -> Value:
    """With the width that was asked for, as the standard's tests have it, not the integer it becomes."""
    between = ir.sub(axis.width, 1.0)
    coordinate = ir.div(ir.mul(i, _last(axis, ir)), between)
    return ir.select(ir.equal(between, 0.0), 0.0, coordinate)


def _asymmetric(i: Value, axis: ResizedAxis, ir: Builder) -> Value:
    return ir.div(i, axis.scale)


def _tf_half_pixel_for_nn(i: Value, axis: ResizedAxis, ir: Builder) -> Value:
    """An axis that keeps its size is not moved by half an element; so ONNX Runtime."""
    return ir.select(ir.equal(axis.scale, 1.0), i, ir.div(ir.add(i, 0.5), axis.scale))


def _tf_crop_and_resize(i: Value, axis: ResizedAxis, ir: Builder) -> Value:
    assert axis.region is not None, axis
    (start, end), last, length = axis.region, _last(axis, ir), _float(axis.length, ir)
    step = ir.div(ir.mul(ir.sub(end, start), last), ir.sub(length, 1.0))
    coordinates = ir.add(ir.mul(start, last), ir.mul(i, step))
    middle = ir.mul(ir.mul(ir.add(start, end), 0.5), last)
    return ir.select(ir.less(1.0, length), coordinates, middle)


TRANSFORMS: Mapping[str, Callable[[Value, ResizedAxis, Builder], Value]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    "tf_crop_and_resize": _tf_crop_and_resize,
}


def _float(dim: Dim, ir: Builder) -> Value:
    return ir.cast(ir.size(dim), F64)


def _last(axis: ResizedAxis, ir: Builder) -> Value:
    return ir.sub(_float(axis.size, ir), 1.0)


# The element nearest to a coordinate


def _rounded(coordinate: Value, up: Callable[[Value], Value], ir: Builder) -> Value:
    """The floor, or one more where `up` of the fraction holds."""
    floor = ir.floor(coordinate)
    return ir.add(floor, ir.cast(up(ir.sub(coordinate, floor)), F64))


def _simple(coordinate: Value, axis: ResizedAxis, ir: Builder) -> Value:
    """The element before, or the one after where the axis shrinks: what ONNX Runtime does where the text is silent."""
    return ir.select(ir.less(axis.scale, 1.0), ir.ceil(coordinate), ir.floor(coordinate))


NEAREST: Mapping[str, Callable[[Value, ResizedAxis, Builder], Value]] = {
    "round_prefer_floor": lambda coordinate, axis, ir: _rounded(coordinate, lambda rest: ir.less(0.5, rest), ir),
    "round_prefer_ceil": lambda coordinate, axis, ir: _rounded(coordinate, lambda rest: ir.less_equal(0.5, rest), ir),
    "floor": lambda coordinate, axis, ir: ir.floor(coordinate),
    "ceil": lambda coordinate, axis, ir: ir.ceil(coordinate),
    "simple": _simple,
}


# Resampling


def resample(x: Value, axes: Sequence[ResizedAxis], sampling: Sampling, node: Node, ir: Builder) -> Value:
    """`x` with each of `axes` resized."""
    dtype, outside = x.dtype, []
    if dtype.is_string and sampling.mode != "nearest":
        message = f"mode {sampling.mode} asks for what lies between two texts"
        node.fail("interpolated-text", message, rule=f"ONNX {node.operator}, mode")
    result = x if sampling.mode == "nearest" else ir.cast(x, _computed_in(x.dtype))
    repeated = [axis for axis in axes if _repeats(axis, sampling)]
    if repeated:
        result = _repeated(result, repeated, ir)
    for axis in sorted((axis for axis in axes if axis not in repeated), key=_growth):
        coordinates = TRANSFORMS[sampling.transform](ir.iota((axis.length,), 0, F64), axis, ir)
        if sampling.extrapolation is not None:
            outside.append((axis.axis, _is_outside(coordinates, axis, ir)))
        if sampling.mode == "nearest":
            coordinates = ir.cast(NEAREST[sampling.nearest](coordinates, axis, ir), I64)
            result = ir.gather(result, _clamped(coordinates, axis, ir), axis.axis)
        else:
            result = _interpolated(result, coordinates, axis, sampling, node, ir)
    if dtype.is_integer and sampling.mode != "nearest":
        result = ir.round(result)
    result = ir.cast(result, dtype)
    for data_axis, mask in outside:
        fill = zero(dtype, ir) if dtype.is_string else ir.cast(ir.scalar(sampling.extrapolation or 0.0, F32), dtype)
        result = ir.select(ir.broadcast(mask, (data_axis,), result.shape), fill, result)
    return result


def _growth(axis: ResizedAxis) -> float:
    """How many times as long an axis becomes, as far as that is known: what shrinks most goes first.

    Each axis is then read in the fewest elements. One of which nothing is known goes before those that keep their size,
    which are resampled only because a region of interest may move them.
    """
    if axis.length == axis.size:
        return 1.0
    if isinstance(axis.length, int) and isinstance(axis.size, int):
        return axis.length / max(axis.size, 1)
    return UNKNOWN_GROWTH if axis.ratio is None else axis.ratio


def _computed_in(dtype: DType) -> DType:
    if dtype.is_complex:
        return dtype
    return F64 if dtype == F64 or (dtype.is_integer and dtype.bits >= 32) else F32


def _is_outside(coordinates: Value, axis: ResizedAxis, ir: Builder) -> Value:
    return ir.or_(ir.less(coordinates, 0.0), ir.less(_last(axis, ir), coordinates))


def _clamped(coordinates: Value, axis: ResizedAxis, ir: Builder) -> Value:
    return ir.clamp(coordinates, 0, ir.sub(ir.size(axis.size), 1))


def _repeats(axis: ResizedAxis, sampling: Sampling) -> bool:
    """Whether element i of the result is element i // scale, for a whole scale."""
    if sampling.mode != "nearest" or axis.ratio is None or axis.ratio < 1 or not axis.ratio.is_integer():
        return False
    rounding = {"asymmetric": ("floor", "simple"), "half_pixel": ("round_prefer_floor", "round_prefer_ceil")}
    return sampling.nearest in rounding.get(sampling.transform, ())


def _repeated(x: Value, axes: Sequence[ResizedAxis], ir: Builder) -> Value:
    """Each element several times along all axes at once: an index map, where a gather would be data."""
    counts = {axis.axis: axis.ratio for axis in axes}
    lengths = {axis.axis: axis.length for axis in axes}
    spread, kept = list[Dim](), list[int]()
    for axis, size in enumerate(x.shape):
        kept.append(len(spread))
        spread.append(size)
        count = counts.get(axis)
        if count is not None:
            spread.append(int(count))
    shape = [lengths.get(axis, size) for axis, size in enumerate(x.shape)]
    return ir.reshape(ir.broadcast(x, kept, spread), shape)


def _interpolated(
    x: Value, coordinates: Value, axis: ResizedAxis, sampling: Sampling, node: Node, ir: Builder
) -> Value:
    """The weighted sum of the elements near each of `coordinates`."""
    if not sampling.antialias and not sampling.exclude_outside:
        return _sum(_terms(x, coordinates, axis, sampling, ir), ir)
    indices, weights = _taps(coordinates, axis, sampling, node, ir)
    weights = ir.cast(weights, x.dtype)
    count = indices.shape[1]
    if isinstance(count, int) and count <= UNROLLED_TAPS:
        columns = ((_column(indices, tap, ir), _column(weights, tap, ir)) for tap in range(count))
        return _sum([_term(x, *column, axis.axis, ir) for column in columns], ir)
    gathered = ir.gather(x, indices, axis.axis)
    spread = ir.broadcast(weights, (axis.axis, axis.axis + 1), gathered.shape)
    return ir.reduce(ir.mul(gathered, spread), "sum", (axis.axis + 1,))


def _sum(terms: Sequence[Value], ir: Builder) -> Value:
    return reduce(ir.add, terms)


def _column(taps: Value, tap: int, ir: Builder) -> Value:
    return ir.squeeze(ir.slice_axis(taps, 1, tap, 1), (1,))


def _term(x: Value, indices: Value, weights: Value, axis: int, ir: Builder) -> Value:
    gathered = ir.gather(x, indices, axis)
    return ir.mul(gathered, ir.broadcast(weights, (axis,), gathered.shape))


def _terms(x: Value, coordinates: Value, axis: ResizedAxis, sampling: Sampling, ir: Builder) -> list[Value]:
    """The elements near each of `coordinates`, times their weights: indices and weights are vectors for each tap."""
    base = ir.floor(coordinates)
    rest, terms = ir.sub(coordinates, base), []
    for offset in range(1 - sampling.support, 1 + sampling.support):
        distance = ir.abs(ir.sub(float(offset), rest))
        weights = ir.cast(KERNELS[sampling.mode](distance, sampling.coefficient, ir), x.dtype)
        indices = ir.cast(ir.add(base, float(offset)), I64)
        terms.append(_term(x, _clamped(indices, axis, ir), weights, axis.axis, ir))
    return terms


def _taps(coordinates: Value, axis: ResizedAxis, sampling: Sampling, node: Node, ir: Builder) -> tuple[Value, Value]:
    """i64[length, taps], f64[length, taps]: the elements near each of `coordinates`, and their weights.

    With `antialias` the kernel is stretched where the axis shrinks, and reaches as many more elements.
    """
    base = ir.floor(coordinates)
    first, count, stretch = _window(axis, sampling, node, ir)
    offsets = ir.add(ir.iota((axis.length, count), 1, F64), first)
    rest = ir.unsqueeze(ir.sub(coordinates, base), (1,))
    weights = KERNELS[sampling.mode](ir.abs(ir.mul(ir.sub(offsets, rest), stretch)), sampling.coefficient, ir)
    indices = ir.cast(ir.add(ir.unsqueeze(base, (1,)), offsets), I64)
    clamped = _clamped(indices, axis, ir)
    if sampling.exclude_outside:
        weights = ir.select(ir.equal(indices, clamped), weights, 0.0)
    if sampling.exclude_outside or sampling.antialias:
        total = ir.reduce(weights, "sum", (1,), keepdims=True)
        weights = ir.div(weights, ir.select(ir.equal(total, 0.0), 1.0, total))
    return clamped, weights


def _window(axis: ResizedAxis, sampling: Sampling, node: Node, ir: Builder) -> tuple[Value, Dim, Value]:
    """The first offset from the floor of a coordinate, the number of taps, and the stretch of the kernel, f64[]."""
    one = ir.scalar(1.0, F64)
    if not sampling.antialias:
        return ir.scalar(1.0 - sampling.support, F64), 2 * sampling.support, one
    # An axis of size 0 has a scale of 0, and no coordinates.
    stretch = ir.select(ir.equal(axis.scale, 0.0), 1.0, ir.min(axis.scale, 1.0))
    if axis.ratio is not None:
        first = math.floor(-sampling.support / min(axis.ratio or 1.0, 1.0)) + 1
        return ir.scalar(float(first), F64), 2 - 2 * first, stretch
    start = ir.add(ir.floor(ir.div(ir.scalar(-float(sampling.support), F64), stretch)), 1.0)
    taps = ir.cast(ir.sub(2.0, ir.mul(start, 2.0)), I64)
    (count,) = read_lengths(taps, "number of taps", node, ir)
    return start, count, stretch


def _linear_kernel(distance: Value, coefficient: float, ir: Builder) -> Value:
    return ir.max(ir.sub(1.0, distance), 0.0)


def _cubic_kernel(distance: Value, a: float, ir: Builder) -> Value:
    """Equation (4) of Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981."""
    x = distance
    inner = ir.add(ir.mul(ir.mul(ir.sub(ir.mul(x, a + 2), a + 3), x), x), 1.0)
    outer = ir.sub(ir.mul(ir.add(ir.mul(ir.sub(ir.mul(x, a), 5 * a), x), 8 * a), x), 4 * a)
    return ir.select(ir.less_equal(x, 1.0), inner, ir.select(ir.less(x, 2.0), outer, 0.0))


KERNELS: Mapping[str, Callable[[Value, float, Builder], Value]] = {"linear": _linear_kernel, "cubic": _cubic_kernel}
