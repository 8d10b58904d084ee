"""CropAndResize of com.microsoft: regions of images, interpolated at one size."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, read_lengths
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

CODE = "roi-shape"
TOP, LEFT, BOTTOM, RIGHT = range(4)


@operator("CropAndResize", since=(1,), domain=MICROSOFT)
def crop_and_resize(node: Node, ir: Builder) -> Value:
    """X: T[N, C, H, W], rois: T[R, 4] = (y1, x1, y2, x2) as parts of H - 1 and W - 1, batch_indices: i32[R]

    ->  T[R, C, P, Q], (P, Q) = crop_size. What lies outside of an image is extrapolation_value.
    """
    x = of_shape(node.input("X"), [None] * 4, "X", node, ir, CODE)
    rois = widened(of_shape(node.input("rois"), (None, 4), "rois", node, ir, CODE), ir)
    batch = of_shape(node.input("batch_indices"), rois.shape[:1], "batch_indices", node, ir, CODE)
    expect_in_range(batch, x.shape[0], node, ir)
    height, width = read_lengths(node.input("crop_size"), "crop_size", node, ir, 2)
    rows, rows_inside = _coordinates(rois, TOP, BOTTOM, x.shape[2], height, ir)
    columns, columns_inside = _coordinates(rois, LEFT, RIGHT, x.shape[3], width, ir)
    images = ir.gather(widened(x, ir), ir.cast(batch, I64), 0)
    nearest = node.choice("mode", ("bilinear", "nearest")) == "nearest"
    resized = _along(_along(images, rows, 2, ir, nearest=nearest), columns, 3, ir, nearest=nearest)
    inside = ir.and_(*ir.broadcast_together(ir.unsqueeze(rows_inside, (1, 3)), ir.unsqueeze(columns_inside, (1, 2))))
    inside, resized = ir.broadcast_together(inside, resized)
    return ir.cast(ir.select(inside, resized, node.float("extrapolation_value")), x.dtype)


def _coordinates(rois: Value, start: int, end: int, size: Dim, count: Dim, ir: Builder) -> tuple[Value, Value]:
    """T[R, count], in elements of an axis of `size`, and whether each is within it; one alone is in the middle"""
    first, last = (ir.slice_axis(rois, 1, column, 1) for column in (start, end))
    reach = ir.cast(ir.size(size - 1), rois.dtype)
    steps = ir.cast(ir.iota((1, count), 1, I64), rois.dtype)
    spaced = ir.div(ir.mul(ir.sub(last, first), reach), ir.cast(ir.max(ir.size(count - 1), 1), rois.dtype))
    begin = ir.select(
        ir.equal(ir.size(count), 1), ir.mul(ir.mul(ir.add(first, last), 0.5), reach), ir.mul(first, reach)
    )
    position = ir.add(begin, ir.mul(spaced, steps))
    return position, ir.and_(ir.less_equal(0, position), ir.less_equal(position, reach))


def _along(x: Value, position: Value, axis: int, ir: Builder, *, nearest: bool) -> Value:
    """x: T[R, C, H, W] at the positions T[R, count] along an axis"""
    shape = (*x.shape[:axis], position.shape[1], *x.shape[axis + 1 :])
    last = ir.size(x.shape[axis] - 1)

    def picked(coordinate: Value) -> Value:
        index = ir.max(ir.min(ir.cast(coordinate, I64), last), 0)
        return ir.gather_along(x, ir.broadcast(index, (0, axis), shape), axis)

    if nearest:
        return picked(ir.floor(ir.add(position, 0.5)))
    low = ir.floor(position)
    rest = ir.broadcast(ir.sub(position, low), (0, axis), shape)
    before, after = picked(low), picked(ir.ceil(position))
    return ir.add(before, ir.mul(ir.sub(after, before), rest))
