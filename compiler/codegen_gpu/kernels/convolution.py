"""Convolutions: products of tiles on tensor cores where there are channels to sum, else each lane sums its own window.

`products`: rows are the pixels of the result, columns its channels, k goes over the taps of the window and, for each,
over channels; elements of the input are gathered where they lie, with the channels first or last. `direct`: few
channels in each of many groups, and types that tensor cores do not multiply.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.kernels.contraction import (
    emit_total,
    halves,
    precision_option,
    tile_coordinates,
    write_part,
    write_result,
)
from onnxc.compiler.codegen_gpu.kernels.direct_convolution import emit_direct, weight_strides
from onnxc.compiler.codegen_gpu.source.element_types import register_type
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.sliding_windows import (
    WindowAxis,
    convolution_axes,
    padded_axes,
    padding_of,
)
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, dims_of, unravel
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import BOOL, F32
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitives.contractions import (
    ConvolutionDimensions,
    channels_first,
    channels_innermost,
    parse_dimensions,
)
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import View, known_view, row_major
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

COPIED_BYTES = 4
"""The fewest bytes that are copied to shared memory while tensor cores multiply."""

M, N = 0, 1
"""The dimensions of a tile."""

MOST_SUMS = 64
"""Sums of a thread that are written in two halves: registers suffice for two programs of 128 x 128 at once then."""

PARTS, GROUPS = 1, 2
"""The axes of the grid behind that of the tiles."""


def is_native(op: Op) -> bool:
    """Whether a convolution has a kernel: sums of booleans have none, nor has any other order of axes."""
    spatial_rank = op.result.rank - 2
    if op.text("dimensions") not in (channels_first(spatial_rank), channels_innermost(spatial_rank)):
        return False
    return BOOL not in (op.operands[0].dtype, op.operands[1].dtype, op.dtype())


def reads_padding(anchor: Op, ordinal: int) -> bool:
    """Whether an operand is an image padded with a number, which products take where a window has no element."""
    return anchor.name == "convolution" and ordinal == 0 and padding_of(anchor) is not None


def reads_image(anchor: Op, view: View) -> bool:
    """Whether products read an image as it lies: channels that lie side by side, or are wide enough to be copied alone.

    Narrower ones that lie apart are loaded one by one in the loop that multiplies, and not copied while it does. So are
    those of which some, side by side, are no such copy, as one channel or three of 16 bits.
    """
    channels, itemsize = anchor.operands[1].shape[1], view.base.dtype.itemsize
    is_odd = isinstance(channels, int) and channels * itemsize % COPIED_BYTES != 0
    return (
        is_odd or itemsize >= COPIED_BYTES or view.strides[parse_dimensions(anchor.text("dimensions")).x.channel] == 1
    )


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a convolution by the algorithm that its schedule names."""
    op, schedule = find_convolution(kernel.block), kernel.scheduled(ConvolutionSchedule)
    if schedule.algorithm == "direct":
        return emit_direct(open_kernel(kernel, target, rank=1 if schedule.tile.rows == 1 else 2), op)
    tiles = _Tiles(open_kernel(kernel, target, rank=2), _problem(kernel), schedule).emit()
    if schedule.split == 1:
        return KernelCode((tiles,), element_counts(kernel))
    total = emit_total(open_kernel(kernel, target), op, schedule.split)
    return KernelCode((tiles, total), element_counts(kernel))


def find_convolution(block: Block) -> Op:
    """The convolution of a kernel block."""
    return next(op for op in block.ops if op.name == "convolution")


@record
class _Problem:
    """A convolution as strided loops: sizes are those of one group. fill: what is beside the image, None for 0."""

    op: Op
    labels: ConvolutionDimensions
    x: View
    w: View
    w_strides: tuple[Dim, ...]
    axes: tuple[WindowAxis, ...]
    groups: int
    rows: Dim
    columns: Dim
    channels: Dim
    fill: Value | None

    @property
    def pixels(self) -> tuple[Dim, ...]:
        """The sizes that rows are counted in: the batch, then the spatial axes of the result."""
        shape, axes = self.op.results[0].shape, self.labels.result
        return (shape[axes.batch], *(shape[axis] for axis in axes.spatial))

    @property
    def taps(self) -> tuple[Dim, ...]:
        """The sizes of a window."""
        return tuple(axis.taps for axis in self.axes)

    @property
    def channel_stride(self) -> Dim:
        """The stride of channels in the input."""
        return self.x.strides[self.labels.x.channel]

    @property
    def position_strides(self) -> tuple[Dim, ...]:
        """The strides of the spatial axes in the input."""
        return tuple(self.x.strides[axis] for axis in self.labels.x.spatial)


def _problem(kernel: Kernel) -> _Problem:
    op = find_convolution(kernel.block)
    pad = padding_of(op)
    image, fill = (op.operands[0], None) if pad is None else pad.operands
    x, w = known_view(image), known_view(op.operands[1])
    axes = convolution_axes(op) if pad is None else padded_axes(op, pad)
    labels, shape, groups = parse_dimensions(op.text("dimensions")), op.results[0].shape, op.int("groups")
    rows = product((shape[labels.result.batch], *(shape[axis] for axis in labels.result.spatial)))
    columns = floordiv(w.shape[0], groups)
    strides = weight_strides(kernel, w)
    return _Problem(op, labels, x, w, strides, axes, groups, rows, columns, w.shape[1], fill)


@dataclass
class _Tiles:
    """One launch of tiles."""

    frame: KernelFrame
    problem: _Problem
    schedule: ConvolutionSchedule

    def __post_init__(self) -> None:
        self.tile, self.parts, self.is_flat = self.schedule.tile, self.schedule.split, self.schedule.flat

    def emit(self) -> DeviceStep:
        """The whole kernel."""
        frame, b, problem, tile = self.frame, self.frame.b, self.problem, self.tile
        row_tiles = floordiv(problem.rows + tile.rows - 1, tile.rows)
        column_tiles = floordiv(problem.columns + tile.columns - 1, tile.columns)
        group: Int = b.program(GROUPS) if problem.groups > 1 else 0
        part: Int = b.program(PARTS) if self.parts > 1 else 0
        row_tile, column_tile = tile_coordinates(b, b.program(), frame.size(row_tiles), frame.size(column_tiles))
        row = b.add(b.mul(row_tile, tile.rows), b.lanes(M, tile.rows))
        first = b.mul(column_tile, tile.columns)
        column = b.add(first, b.lanes(N, tile.columns))
        masks = {M: self._mask(row, problem.rows, tile.rows), N: self._mask(column, problem.columns, tile.columns)}
        self.masks = {dim: mask for dim, mask in masks.items() if mask is not None}
        batch, *pixel = unravel(b, row, [frame.size(size) for size in problem.pixels])
        column = b.add(b.mul(group, frame.size(problem.columns)), column)
        self.firsts = [axis.first(b, position) for axis, position in zip(problem.axes, pixel, strict=True)]
        self.lanes = {M: b.lanes(M, tile.rows), N: b.lanes(N, tile.columns)}
        total = self._multiply(group, batch, column, part)
        self._write(total, batch, pixel, group, first, part)
        return frame.step((row_tiles * column_tiles, self.parts, problem.groups))

    def _mask(self, position: Int, size: Dim, tile: int) -> Expr | None:
        if isinstance(size, int) and size % tile == 0:
            return None
        return self.frame.b.compare(position, "<", self.frame.size(size))

    def _write(self, total: Expr, batch: Int, pixel: Sequence[Int], group: Int, first: Int, part: Int) -> None:
        """The sums of a tile, or of a part of it, whose columns begin at `first` of a group."""
        frame, b, problem, tile = self.frame, self.frame.b, self.problem, self.tile
        for start, width, sums in halves(frame, tile, first, total, MOST_SUMS):
            lanes = {M: self.lanes[M], N: b.lanes(N, width)}
            own = b.add(start, lanes[N])
            masks = {M: self.masks.get(M), N: self._mask(own, problem.columns, tile.columns)}
            e = frame.evaluator(lanes, {dim: mask for dim, mask in masks.items() if mask is not None})
            column = b.add(b.mul(group, frame.size(problem.columns)), own)
            index = problem.labels.result.arranged(batch, column, pixel)
            if self.parts > 1:
                write_part(frame, e, problem.op, sums, index, part)
            else:
                write_result(frame, e, problem.op, sums, index)

    def _multiply(self, group: Int, batch: Int, column: Int, part: Int) -> Expr:
        """The sum of products along k, as f32 or i32."""
        frame, b, problem, tile = self.frame, self.frame.b, self.problem, self.tile
        taps = product(problem.taps)
        if self.is_flat:
            blocks: Dim = 1
            iterations = floordiv(taps * problem.channels + tile.depth - 1, tile.depth)
        else:
            blocks = floordiv(problem.channels + tile.depth - 1, tile.depth)
            iterations = taps * blocks
        start, stop = self._iterations(iterations, part)
        x_base, w_base = self._bases(group, batch, column)
        dtype = problem.op.operands[0].dtype
        type = register_type(F32 if dtype.is_float else problem.op.dtype())
        total = b.variable(f"tl.zeros([{tile.rows}, {tile.columns}], {type})", frozenset((M, N)))
        option = precision_option(self.schedule.arithmetic, dtype)
        self.fill = 0 if problem.fill is None else frame.evaluator().value(problem.fill, ())
        with b.loop(start, stop, prefix="k") as k:
            if self.is_flat:
                x, w = self._flat_operands(k, x_base, w_base)
            else:
                x, w = self._operands(k, frame.size(blocks), x_base, w_base)
            b.assign(total, f"tl.dot({x}, {w}, {total}{option}, out_dtype={type})")
        return total

    def _iterations(self, count: Dim, part: Int) -> tuple[Int, Int]:
        """The first of the iterations of a part, and the first behind them."""
        frame, b, parts = self.frame, self.frame.b, self.parts
        if parts == 1:
            return 0, frame.size(count)
        own = frame.size(floordiv(count + parts - 1, parts))
        start = b.mul(part, own)
        return start, b.minimum(b.add(start, own), frame.size(count))

    def _bases(self, group: Int, batch: Int, column: Int) -> tuple[Int, Int]:
        """Where rows begin in the input, and columns in the weights, before any tap and channel."""
        frame, b, problem = self.frame, self.frame.b, self.problem
        e = frame.evaluator()
        steps = zip(problem.axes, self.firsts, problem.position_strides, strict=True)
        begins = [b.mul(first, frame.size(stride)) for axis, first, stride in steps if axis.spread == 1]
        own = b.mul(group, frame.size(problem.channels * problem.channel_stride))
        x = e.linear([batch, *begins], [frame.size(problem.x.strides[problem.labels.x.batch])] + [1] * len(begins), own)
        w = b.mul(column, frame.size(problem.w_strides[0]))
        return b.add(frame.size(problem.x.offset), x), b.add(frame.size(problem.w.offset), w)

    def _positions(self, taps: Sequence[Int]) -> tuple[list[Int], Expr | None]:
        """What taps add to the place in the input, and whether there is an element."""
        frame, b, problem = self.frame, self.frame.b, self.problem
        added: list[Int] = []
        inside: Expr | None = self.masks.get(M)
        rows = zip(problem.axes, self.firsts, taps, problem.position_strides, strict=True)
        for axis, first, tap, stride in rows:
            ahead = axis.ahead(b, tap)
            element, exists = axis.element(b, b.add(first, ahead))
            added.append(b.mul(ahead if axis.spread == 1 else element, frame.size(stride)))
            inside = b.both(inside, exists)
        return added, inside

    def _operands(self, k: Int, blocks: Int, x_base: Int, w_base: Int) -> tuple[Expr, Expr]:
        """The tiles of one tap and a few channels."""
        frame, b, problem, tile = self.frame, self.frame.b, self.problem, self.tile
        taps = unravel(b, b.div(k, blocks), [frame.size(size) for size in problem.taps])
        channel = b.mul(b.mod(k, blocks), tile.depth)
        x_lanes, w_lanes = b.lanes(N, tile.depth), b.lanes(M, tile.depth)
        is_whole = isinstance(problem.channels, int) and problem.channels % tile.depth == 0
        x_mask, w_mask = (
            None if is_whole else b.compare(b.add(channel, lanes), "<", frame.size(problem.channels))
            for lanes in (x_lanes, w_lanes)
        )
        positions, inside = self._positions(taps)
        x_stride, w_stride = frame.size(problem.channel_stride), frame.size(problem.w_strides[1])
        x_added = b.add(b.mul(channel, x_stride), *positions)
        steps = [b.mul(tap, frame.size(stride)) for tap, stride in zip(taps, problem.w_strides[2:], strict=True)]
        w_added = b.add(b.mul(channel, w_stride), *steps)
        x_terms, w_terms = [x_added, x_base, b.mul(x_lanes, x_stride)], [w_added, w_base, b.mul(w_lanes, w_stride)]
        x = self._load(problem.x, x_terms, b.both(inside, x_mask), (self.lanes[M], x_lanes), self.fill)
        w = self._load(problem.w, w_terms, b.both(self.masks.get(N), w_mask), (w_lanes, self.lanes[N]))
        return x, w

    def _flat_operands(self, k: Int, x_base: Int, w_base: Int) -> tuple[Expr, Expr]:
        """The tiles of a few taps and channels, which are one axis with the channels last."""
        frame, b, problem, tile = self.frame, self.frame.b, self.problem, self.tile
        sizes = (*problem.taps, problem.channels)
        strides = (*problem.w_strides[2:], problem.w_strides[1])
        count = frame.size(product(sizes))
        first = b.mul(k, tile.depth)
        x_lanes, w_lanes = b.lanes(N, tile.depth), b.lanes(M, tile.depth)
        x_position, w_position = b.add(first, x_lanes), b.add(first, w_lanes)
        x_mask, w_mask = (b.compare(position, "<", count) for position in (x_position, w_position))
        *taps, channel = unravel(b, x_position, [frame.size(size) for size in sizes])
        positions, inside = self._positions(taps)
        own: Int = w_position
        if strides != row_major(sizes):
            coordinates = unravel(b, w_position, [frame.size(size) for size in sizes])
            own = frame.evaluator().strided(coordinates, strides)
        moved = [b.mul(channel, frame.size(problem.channel_stride)), *positions]
        x_terms = [x_base, b.add(*moved)]
        x = self._load(problem.x, x_terms, b.both(inside, x_mask), (self.lanes[M], x_lanes), self.fill)
        w = self._load(problem.w, [w_base, own], b.both(self.masks.get(N), w_mask), (w_lanes, self.lanes[N]))
        return x, w

    def _load(
        self, view: View, terms: Sequence[Int], mask: Expr | None, lanes: tuple[Expr, Expr], fill: Int = 0
    ) -> Expr:
        """A tile of elements behind the start of a buffer; what all lanes share is added to the address first."""
        b = self.frame.b
        uniform = [term for term in terms if not dims_of(term)]
        varying = [term for term in terms if dims_of(term)]
        # A tile has both dimensions, even where an operand is the same along one of them.
        varying += [b.let(f"0 * {x}", x.dims) for x in lanes if x.dims - dims_of(*varying)]
        pointer = self.frame.input(view.base).text
        for added in (b.add(*uniform) if uniform else 0, b.add(*varying)):
            if added != 0:
                pointer = b.let(f"{pointer} + {added}", dims_of(added)).text
        guard = "" if mask is None else f", mask={mask}, other={fill}"
        return b.let(f"tl.load({pointer}{guard})", frozenset((M, N)))
