"""DeformConv: convolution whose taps are moved by data, and interpolated between elements."""

from collections.abc import Sequence
from itertools import product as combinations

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operator_helpers.sliding_window import sliding_window
from onnxc.compiler.frontend.operators.nn.conv import groups_of, per_channel, with_kernel_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

RULE = "ONNX DeformConv"


@operator("DeformConv", since=(19, 22))
def deform_conv(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S], W: T[M, C/group, *K], offset: T[N, g*|K|*n, *O], B: T[M], mask: T[N, g*|K|, *O]  ->  T[N, M, *O]

    Each of the g = `offset_group` groups of channels has its own offsets; beyond the input are zeros. 16-bit floats are
    computed in f32.
    Source: https://onnx.ai/onnx/operators/onnx__DeformConv.html
    """
    x, w, offset = node.inputs("X", "W", "offset")
    if x.rank < 3 or {x.rank, w.rank, offset.rank} != {x.rank}:
        node.fail("convolution-rank", f"X, W and offset have {x.rank}, {w.rank} and {offset.rank} axes", rule=RULE)
    mask, bias = node.optional("mask"), node.optional("B")
    dtype, groups = wide_type(x.dtype), groups_of(node, ir, w.shape[0])
    w = ir.cast(with_kernel_shape(w, node, ir), dtype)
    channels = ir.require_equal(
        x.shape[1], w.shape[1] * groups, "the channels of X and W differ", "convolution-channels"
    )
    layout = _layout(x, w, channels, node, ir)
    rows = layout.offset_groups * layout.taps
    axes = rows * len(layout.kernel)
    offset = of_shape(offset, (layout.batch, axes, *layout.output), "offset", node, ir, "deform-offset")
    sampled = _sampled(ir.cast(x, dtype), _coordinates(ir.cast(offset, dtype), layout, ir), layout, ir)
    if mask is not None:
        mask = of_shape(mask, (layout.batch, rows, *layout.output), "mask", node, ir, "deform-mask")
        shape = (layout.batch, layout.offset_groups, 1, layout.taps, layout.positions)
        sampled = ir.mul(sampled, ir.reshape(ir.cast(mask, dtype), shape))
    per_group = floordiv(channels, groups)
    columns = ir.reshape(sampled, (layout.batch, groups, per_group, layout.taps, layout.positions))
    filters = ir.reshape(w, (groups, floordiv(w.shape[0], groups), per_group, layout.taps))
    result = ir.reshape(ir.dot(filters, columns, "gmct,ngctp->ngmp"), (layout.batch, w.shape[0], *layout.output))
    if bias is not None:
        result = ir.add(result, per_channel(bias, result, node, ir))
    return ir.cast(result, x.dtype)


@record
class _Layout:
    """The sizes of the operands; `taps` and `positions` are the element counts of `kernel` and `output`."""

    batch: Dim
    channels: Dim
    offset_groups: int
    sizes: tuple[Dim, ...]
    kernel: tuple[Dim, ...]
    output: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]

    @property
    def taps(self) -> Dim:
        return product(self.kernel)

    @property
    def positions(self) -> Dim:
        return product(self.output)


def _layout(x: Value, w: Value, channels: Dim, node: Node, ir: Builder) -> _Layout:
    window = sliding_window(node, ir, x.shape[2:], w.shape[2:])
    offset_groups = node.int("offset_group")
    if offset_groups < 1 or (isinstance(channels, int) and channels % offset_groups):
        message = f"{channels} channels cannot be split into {offset_groups} groups"
        node.fail("deform-offset-groups", message, rule=f"{RULE}, attribute offset_group")
    return _Layout(
        x.shape[0],
        channels,
        offset_groups,
        x.shape[2:],
        window.kernel,
        window.positions,
        window.strides,
        window.dilations,
        window.low,
    )


def _coordinates(offset: Value, layout: _Layout, ir: Builder) -> list[Value]:
    """For each spatial axis T[N, og, *K, *O]: where each tap of each position samples X."""
    count = len(layout.kernel)
    whole = (layout.batch, layout.offset_groups, *layout.kernel, count, *layout.output)
    moved = ir.reshape(offset, whole)
    coordinates = []
    for axis in range(count):
        own = ir.squeeze(ir.slice_axis(moved, 2 + count, axis, 1), [2 + count])
        position = ir.mul(ir.iota(own.shape, 2 + count + axis, own.dtype), layout.strides[axis])
        tap = ir.mul(ir.iota(own.shape, 2 + axis, own.dtype), layout.dilations[axis])
        start = ir.cast(ir.size(-layout.low[axis]), own.dtype)
        coordinates.append(ir.add(ir.add(ir.add(position, tap), start), own))
    return coordinates


def _sampled(x: Value, coordinates: Sequence[Value], layout: _Layout, ir: Builder) -> Value:
    """T[N, og, C/og, |K|, |O|]: X at the coordinates, linear between its elements."""
    groups, taps, positions = layout.offset_groups, layout.taps, layout.positions
    per_group = floordiv(layout.channels, groups)
    flat = ir.reshape(x, (layout.batch, groups, per_group, product(layout.sizes)))
    below = [ir.floor(coordinate) for coordinate in coordinates]
    beyond = [ir.sub(coordinate, floor) for coordinate, floor in zip(coordinates, below, strict=True)]
    total: Value | None = None
    for corner in combinations((0, 1), repeat=len(coordinates)):
        index, weight = _corner(corner, below, beyond, layout, ir)
        index = ir.reshape(index, (layout.batch, groups, 1, taps * positions))
        wide = ir.broadcast_to(index, (layout.batch, groups, per_group, taps * positions))
        part = ir.mul(ir.gather_along(flat, wide, 3), ir.reshape(weight, index.shape))
        total = part if total is None else ir.add(total, part)
    assert total is not None
    return ir.reshape(total, (layout.batch, groups, per_group, taps, positions))


def _corner(
    corner: Sequence[int], below: Sequence[Value], beyond: Sequence[Value], layout: _Layout, ir: Builder
) -> tuple[Value, Value]:
    """The flat index of one neighbour, and its weight, which is 0 outside of X."""
    index, weight = ir.full(below[0].shape, 0, I64), ir.full(below[0].shape, 1, below[0].dtype)
    for axis, upper in enumerate(corner):
        size = layout.sizes[axis]
        position = ir.add(ir.cast(below[axis], I64), upper)
        share = beyond[axis] if upper else ir.sub(1, beyond[axis])
        inside = ir.and_(ir.less_equal(0, position), ir.less(position, ir.size(size)))
        weight = ir.mul(weight, ir.select(inside, share, 0))
        clamped = ir.clamp(position, 0, ir.sub(ir.size(size), 1))
        index = ir.add(ir.mul(index, ir.size(size)), ir.max(clamped, 0))
    return index, weight
