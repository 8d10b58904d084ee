"""DeformConv: convolution whose taps are moved by data, and interpolated between elements."""

from collections.abc import Callable, Sequence
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

FEW_CHANNELS = 8
"""Up to so many that are sampled together, positions lie side by side: they fill no more than half a vector."""


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
    layout = _layout(x, w, groups, channels, node, ir)
    rows = layout.offset_groups * layout.taps
    axes = rows * len(layout.kernel)
    offset = of_shape(offset, (layout.batch, axes, *layout.output), "offset", node, ir, "deform-offset")
    if mask is not None:
        mask = of_shape(mask, (layout.batch, rows, *layout.output), "mask", node, ir, "deform-mask")
        mask = ir.cast(mask, dtype)
    sampled = _sampled(ir.cast(x, dtype), _coordinates(ir.cast(offset, dtype), layout, ir), mask, layout, ir)
    product_of = _by_position if layout.is_wide else _by_channel
    result = ir.reshape(product_of(sampled, w, layout, ir), (layout.batch, w.shape[0], *layout.output))
    if bias is not None:
        result = ir.add(result, per_channel(bias, result, node, ir))
    return ir.cast(result, x.dtype)


@record
class _Layout:
    """The sizes of the operands; `taps` and `positions` are the element counts of `kernel` and `output`."""

    batch: Dim
    channels: Dim
    groups: Dim
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

    @property
    def sampled_together(self) -> Dim:
        """How many channels are sampled at the same places."""
        return floordiv(self.channels, self.offset_groups)

    @property
    def is_wide(self) -> bool:
        """Whether channels lie side by side where X is sampled, and not positions.

        Indices and weights are then found once for a vector of channels. Of several groups of filters the channels are
        to be in the order in which they are sampled.
        """
        together = self.sampled_together
        is_few = isinstance(together, int) and together <= FEW_CHANNELS
        return not is_few and (self.groups == 1 or self.offset_groups == 1)


def _layout(x: Value, w: Value, groups: Dim, channels: Dim, node: Node, ir: Builder) -> _Layout:
    window = sliding_window(node, ir, x.shape[2:], w.shape[2:])
    offset_groups = node.int("offset_group")
    if offset_groups < 1 or (isinstance(channels, int) and channels % offset_groups):
        message = f"{channels} channels cannot be split into {offset_groups} groups"
        node.fail("deform-offset-groups", message, rule=f"{RULE}, attribute offset_group")
    return _Layout(
        x.shape[0],
        channels,
        groups,
        offset_groups,
        x.shape[2:],
        window.kernel,
        window.positions,
        window.strides,
        window.dilations,
        window.low,
    )


def _coordinates(offset: Value, layout: _Layout, ir: Builder) -> list[Value]:
    """For each spatial axis T[N, *O, og, *K], or T[N, og, *K, *O]: where each tap of each position samples X."""
    count = len(layout.kernel)
    moved = ir.reshape(offset, (layout.batch, layout.offset_groups, *layout.kernel, count, *layout.output))
    taps, positions = range(2, 2 + count), range(2 + count, 2 + 2 * count)
    order = (0, *positions, 1, *taps) if layout.is_wide else (0, 1, *taps, *positions)
    coordinates = []
    for axis in range(count):
        own = ir.transpose(ir.squeeze(ir.slice_axis(moved, 2 + count, axis, 1), [2 + count]), order)
        steps = ir.iota(own.shape, order.index(positions[axis]), own.dtype)
        tap = ir.iota(own.shape, order.index(taps[axis]), own.dtype)
        start = ir.cast(ir.size(-layout.low[axis]), own.dtype)
        position = ir.add(ir.mul(steps, layout.strides[axis]), ir.mul(tap, layout.dilations[axis]))
        coordinates.append(ir.add(ir.add(position, start), own))
    return coordinates


def _sampled(x: Value, coordinates: Sequence[Value], mask: Value | None, layout: _Layout, ir: Builder) -> Value:
    """T[N, |O|, og, |K|, C/og], or T[N, og, C/og, |K| * |O|]: X at the coordinates, linear between its elements."""
    below = [ir.floor(coordinate) for coordinate in coordinates]
    beyond = [ir.sub(coordinate, floor) for coordinate, floor in zip(coordinates, below, strict=True)]
    read = _rows_of_channels(x, layout, ir) if layout.is_wide else _rows_of_positions(x, layout, ir)
    total: Value | None = None
    for corner in combinations((0, 1), repeat=len(coordinates)):
        index, weight = _corner(corner, below, beyond, layout, ir)
        part = ir.mul(read(index), ir.reshape(weight, _sampled_shape(layout)))
        total = part if total is None else ir.add(total, part)
    assert total is not None
    if mask is None:
        return total
    batch, groups = layout.batch, layout.offset_groups
    if not layout.is_wide:
        return ir.mul(total, ir.reshape(mask, _sampled_shape(layout)))
    mask = ir.transpose(ir.reshape(mask, (batch, groups, layout.taps, layout.positions)), (0, 3, 1, 2))
    return ir.mul(total, ir.reshape(mask, _sampled_shape(layout)))


def _sampled_shape(layout: _Layout) -> tuple[Dim, ...]:
    """The shape of what each tap of each position has, whatever the channel."""
    if layout.is_wide:
        return (layout.batch, layout.positions, layout.offset_groups, layout.taps, 1)
    return (layout.batch, layout.offset_groups, 1, layout.taps * layout.positions)


def _rows_of_channels(x: Value, layout: _Layout, ir: Builder) -> Callable[[Value], Value]:
    batch, groups, together = layout.batch, layout.offset_groups, layout.sampled_together
    size = product(layout.sizes)
    lying = ir.transpose(ir.reshape(x, (batch, groups, together, size)), (0, 1, 3, 2))
    image = ir.reshape(lying, (batch, groups * size, together))

    def read(index: Value) -> Value:
        index = ir.reshape(index, _sampled_shape(layout))
        first = ir.mul(ir.iota(index.shape, 2, I64), ir.size(size))
        return ir.gather_nd(image, ir.add(index, first), 1)

    return read


def _rows_of_positions(x: Value, layout: _Layout, ir: Builder) -> Callable[[Value], Value]:
    batch, groups, together = layout.batch, layout.offset_groups, layout.sampled_together
    image = ir.reshape(x, (batch, groups, together, product(layout.sizes)))

    def read(index: Value) -> Value:
        index = ir.reshape(index, _sampled_shape(layout))
        return ir.gather_along(image, ir.broadcast_to(index, (batch, groups, together, index.shape[3])), 3)

    return read


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


def _by_position(sampled: Value, w: Value, layout: _Layout, ir: Builder) -> Value:
    """sampled: T[N, |O|, og, |K|, C/og]  ->  T[N, M, |O|]"""
    batch, positions, taps, groups = layout.batch, layout.positions, layout.taps, layout.groups
    filters, channels = w.shape[0], layout.channels
    if groups == 1:
        together = layout.sampled_together
        lying = ir.transpose(ir.reshape(w, (filters, layout.offset_groups, together, taps)), (0, 1, 3, 2))
        columns = ir.reshape(sampled, (batch, positions, taps * channels))
        result = ir.dot(columns, ir.reshape(lying, (filters, taps * channels)), "npk,mk->npm")
    else:
        per_group = floordiv(channels, groups)
        grouped = ir.reshape(w, (groups, floordiv(filters, groups), per_group, taps))
        columns = ir.reshape(sampled, (batch, positions, taps, groups, per_group))
        result = ir.reshape(ir.dot(columns, grouped, "nptgc,gmct->npgm"), (batch, positions, filters))
    return ir.transpose(result, (0, 2, 1))


def _by_channel(sampled: Value, w: Value, layout: _Layout, ir: Builder) -> Value:
    """sampled: T[N, og, C/og, |K| * |O|]  ->  T[N, g, M/g, |O|]"""
    groups, taps = layout.groups, layout.taps
    per_group = floordiv(layout.channels, groups)
    columns = ir.reshape(sampled, (layout.batch, groups, per_group, taps, layout.positions))
    filters = ir.reshape(w, (groups, floordiv(w.shape[0], groups), per_group, taps))
    return ir.dot(filters, columns, "gmct,ngctp->ngmp")
