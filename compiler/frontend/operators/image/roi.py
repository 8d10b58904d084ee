"""RoiAlign and MaxRoiPool: regions of feature maps at one size."""

from collections.abc import Sequence
from itertools import product

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, read_lengths
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dims import product as count_of
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

CODE = "roi-shape"
COORDINATES = ("half_pixel", "output_half_pixel")


@record
class _Samples:
    """Where the samples of an axis lie: R regions of P bins of G samples.

    `low` and `high`, i64[R, P, G], are the elements beside a sample, `rest` its distance from `low`. A sample that
    `counts` as one but is not `inside` the map is 0. `count`, [R], is how many of the G count.
    """

    low: Value
    high: Value
    rest: Value
    inside: Value
    counts: Value
    count: Value


@operator("RoiAlign", since=(10, 16, 22))
def roi_align(node: Node, ir: Builder) -> Value:
    """X: T1[N, C, H, W], rois: T1[R, 4] = (x1, y1, x2, y2), batch_indices: i64[R]  ->  T1[R, C, P, Q]

    P = output_height, Q = output_width. Of samples that are bilinear interpolations, a bin is the mean, or in mode max
    the greatest weighted element.
    Source: https://onnx.ai/onnx/operators/onnx__RoiAlign.html
    """
    x, rois, batch = node.inputs("X", "rois", "batch_indices")
    _expect_bins(node)
    x, rois = of_shape(x, [None] * 4, "X", node, ir, CODE), of_shape(rois, (None, 4), "rois", node, ir, CODE)
    batch = of_shape(batch, (None,), "batch_indices", node, ir, CODE)
    regions = ir.require_equal(batch.shape[0], rois.shape[0], "axis 0 of batch_indices and rois differs", CODE)
    batch, rois = ir.with_shape(batch, (regions,)), ir.with_shape(rois, (regions, 4))
    expect_in_range(batch, x.shape[0], node, ir)
    wide = widened(rois, ir)
    rows = _samples(wide, 1, x.shape[2], node.int("output_height"), node, ir)
    columns = _samples(wide, 0, x.shape[3], node.int("output_width"), node, ir)
    data = ir.transpose(widened(x, ir), (0, 2, 3, 1))
    pooled = _pool(data, ir.cast(batch, I64), rows, columns, node.choice("mode", ("avg", "max")), ir)
    return ir.cast(ir.transpose(pooled, (0, 3, 1, 2)), x.dtype)


def _expect_bins(node: Node) -> None:
    for name, least in (("output_height", 1), ("output_width", 1), ("sampling_ratio", 0)):
        if node.int(name) < least:
            message = f"{name} is {node.int(name)}, below {least}"
            node.fail("attribute-range", message, rule=f"ONNX RoiAlign, attribute {name}")


def _coordinate(rois: Value, column: int, ir: Builder) -> Value:
    return ir.squeeze(ir.slice_axis(rois, 1, column, 1), (1,))


def _samples(rois: Value, start: int, size: Dim, bins: int, node: Node, ir: Builder) -> _Samples:
    """The samples along the axis whose coordinates are columns `start` and `start + 2` of `rois`."""
    shifted = node.since >= 16 and node.choice("coordinate_transformation_mode", COORDINATES) == "half_pixel"
    scale, shift = node.float("spatial_scale"), 0.5 if shifted else 0.0
    first, last = (ir.sub(ir.mul(_coordinate(rois, column, ir), scale), shift) for column in (start, start + 2))
    extent = ir.sub(last, first)
    extent = extent if shifted else ir.max(extent, 1.0)
    bin_size = ir.div(extent, float(bins))
    count, most = _sample_count(bin_size, node, ir)
    shape = (rois.shape[0], bins, most)
    first, bin_size, spread = (ir.broadcast(value, (0,), shape) for value in (first, bin_size, count))
    bin_index, sample = (ir.iota(shape, axis, rois.dtype) for axis in (1, 2))
    within = ir.div(ir.mul(ir.add(sample, 0.5), bin_size), ir.cast(spread, rois.dtype))
    coordinate = ir.add(ir.add(first, ir.mul(bin_index, bin_size)), within)
    return _neighbours(coordinate, ir.less(ir.iota(shape, 2, I64), spread), count, size, ir)


def _sample_count(bin_size: Value, node: Node, ir: Builder) -> tuple[Value, Dim]:
    """i64[R]: how many samples a bin of each region has, and the most that one has."""
    ratio = node.int("sampling_ratio")
    if ratio > 0:
        return ir.full(bin_size.shape, ratio, I64), ratio
    count = ir.max(ir.cast(ir.ceil(bin_size), I64), 0)
    (most,) = read_lengths(ir.max(ir.reduce(count, "max", (0,)), 0), "number of samples", node, ir)
    return count, most


def _neighbours(coordinate: Value, counts: Value, count: Value, size: Dim, ir: Builder) -> _Samples:
    """The elements on both sides of each sample; past the last element, the last one."""
    length = ir.cast(ir.size(size), coordinate.dtype)
    inside = ir.and_(ir.less_equal(-1.0, coordinate), ir.less_equal(coordinate, length))
    coordinate = ir.min(ir.max(coordinate, 0.0), ir.sub(length, 1.0))
    base = ir.floor(coordinate)
    last = ir.sub(ir.size(size), 1)
    low = ir.clamp(ir.cast(base, I64), 0, last)
    high = ir.min(ir.add(low, 1), last)
    return _Samples(low, high, ir.sub(coordinate, base), inside, counts, count)


def _pool(data: Value, batch: Value, rows: _Samples, columns: _Samples, mode: str, ir: Builder) -> Value:
    """data: T[N, H, W, C]  ->  T[R, P, Q, C], over samples [R, P, G, Q, K]"""
    shape = (*rows.low.shape, *columns.low.shape[1:])
    inside = ir.and_(_row(rows.inside, shape, ir), _column(columns.inside, shape, ir))
    counts = ir.and_(_row(rows.counts, shape, ir), _column(columns.counts, shape, ir))
    corners = []
    for lower, right in product((False, True), (False, True)):
        row, column = rows.high if lower else rows.low, columns.high if right else columns.low
        read = _read(data, batch, row, column, shape, ir)
        weights = _row(_weight(rows, lower, ir), shape, ir), _column(_weight(columns, right, ir), shape, ir)
        weighted = ir.mul(read, ir.unsqueeze(ir.mul(*weights), (5,)))
        corners.append(ir.select(ir.unsqueeze(inside, (5,)), weighted, 0.0))
    count = ir.mul(rows.count, columns.count)
    return _folded(corners, ir.unsqueeze(counts, (5,)), count, mode, ir)


def _read(data: Value, batch: Value, rows: Value, columns: Value, shape: Sequence[Dim], ir: Builder) -> Value:
    """data: T[N, H, W, C], rows: i64[R, P, G], columns: i64[R, Q, K]  ->  T[R, P, G, Q, K, C], by one index for all"""
    pixels = ir.reshape(data, (count_of(data.shape[:3]), data.shape[3]))
    # Picked, not multiplied: so the call refuses a batch index that is out of range.
    images = ir.mul(ir.iota(data.shape[:1], 0, I64), ir.size(data.shape[1]))
    image = ir.unsqueeze(ir.gather(images, batch, 0), (1, 2))
    line = ir.mul(ir.add(image, rows), ir.size(data.shape[2]))
    return ir.gather(pixels, ir.add(_row(line, shape, ir), _column(columns, shape, ir)), 0, are_held=True)


def _row(value: Value, shape: Sequence[Dim], ir: Builder) -> Value:
    return ir.broadcast(value, (0, 1, 2), shape)


def _column(value: Value, shape: Sequence[Dim], ir: Builder) -> Value:
    return ir.broadcast(value, (0, 3, 4), shape)


def _weight(samples: _Samples, high: bool, ir: Builder) -> Value:
    return samples.rest if high else ir.sub(1.0, samples.rest)


def _folded(corners: Sequence[Value], counts: Value, count: Value, mode: str, ir: Builder) -> Value:
    """The samples of each bin as one; those that do not count left out. A bin without samples is 0."""
    combine = ir.add if mode == "avg" else ir.max
    sample = combine(combine(corners[0], corners[1]), combine(corners[2], corners[3]))
    if mode == "avg":
        total = ir.reduce(ir.select(counts, sample, 0.0), "sum", (2, 4))
        return ir.div(total, ir.broadcast(ir.cast(ir.max(count, 1), total.dtype), (0,), total.shape))
    most = ir.reduce(ir.select(counts, sample, float("-inf")), "max", (2, 4))
    return ir.select(ir.broadcast(ir.less(0, count), (0,), most.shape), most, 0.0)


@operator("MaxRoiPool", since=(1, 22))
def max_roi_pool(node: Node, ir: Builder) -> Value:
    """X: T[N, C, H, W], rois: T[R, 5] = (batch, x1, y1, x2, y2)  ->  T[R, C, *pooled_shape]: the maximum of each bin.

    Corners are rounded, both belong to the region; bins overlap where they do not divide it, an empty one is 0.
    Source: https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html, and Girshick, Fast R-CNN, 2015
    """
    x, rois = node.inputs("X", "rois")
    bins, scale = node.ints("pooled_shape"), node.float("spatial_scale")
    if len(bins) != 2 or min(bins) < 1:
        code = "attribute-range" if len(bins) == 2 else "attribute-length"
        message = f"pooled_shape is {list(bins)}, not a height and a width"
        node.fail(code, message, rule="ONNX MaxRoiPool, attribute pooled_shape")
    x, rois = of_shape(x, [None] * 4, "X", node, ir, CODE), of_shape(rois, (None, 5), "rois", node, ir, CODE)
    rois = widened(rois, ir)
    batch = ir.cast(_coordinate(rois, 0, ir), I64)
    rows = _bins(ir.mul(rois, scale), 2, x.shape[2], bins[0], node, ir)
    columns = _bins(ir.mul(rois, scale), 1, x.shape[3], bins[1], node, ir)
    shape = (*rows.elements.shape, *columns.elements.shape[1:])
    read = _read(ir.transpose(x, (0, 2, 3, 1)), batch, rows.elements, columns.elements, shape, ir)
    most = ir.reduce(read, "max", (2, 4))
    some = [
        ir.broadcast(ir.less(0, axis.count), (0, at), most.shape) for at, axis in enumerate((rows, columns), start=1)
    ]
    return ir.transpose(ir.select(ir.and_(*some), most, 0.0), (0, 3, 1, 2))


@record
class _Bins:
    """The elements of an axis in each bin of each region, i64[R, P, G], the last of a bin again, and [R, P] how many.

    Of a bin without elements they are any.
    """

    elements: Value
    count: Value


def _bins(rois: Value, start: int, size: Dim, bins: int, node: Node, ir: Builder) -> _Bins:
    """The bins along the axis whose corners are columns `start` and `start + 2` of `rois`."""
    first, last = (_round(_coordinate(rois, column, ir), ir) for column in (start, start + 2))
    bin_size = ir.div(ir.max(ir.add(ir.sub(last, first), 1.0), 1.0), float(bins))
    shape = (rois.shape[0], bins)
    first, bin_size = (ir.broadcast(value, (0,), shape) for value in (first, bin_size))
    ordinal = ir.iota(shape, 1, first.dtype)
    length = ir.cast(ir.size(size), first.dtype)
    begin = ir.add(ir.floor(ir.mul(bin_size, ordinal)), first)
    end = ir.add(ir.ceil(ir.mul(bin_size, ir.add(ordinal, 1.0))), first)
    # A bin of what is no number has no element.
    begin = ir.select(ir.is_nan(begin), length, begin)
    begin, end = (ir.cast(ir.clamp(edge, 0.0, length), I64) for edge in (begin, end))
    count = ir.max(ir.sub(end, begin), 0)
    (most,) = read_lengths(ir.max(ir.reduce(count, "max", (0, 1)), 0), "number of elements", node, ir)
    begin, end = (ir.broadcast(edge, (0, 1), (*shape, most)) for edge in (begin, end))
    element = ir.min(ir.add(begin, ir.iota((*shape, most), 2, I64)), ir.sub(end, 1))
    return _Bins(ir.clamp(element, 0, ir.sub(ir.size(size), 1)), count)


def _round(x: Value, ir: Builder) -> Value:
    """The nearest whole number, halves away from zero."""
    return ir.mul(ir.sign(x), ir.floor(ir.add(ir.abs(x), 0.5)))
