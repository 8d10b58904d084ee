"""Depthwise convolution: each filter reads one channel; lanes are neighbouring channels, which lie side by side.

So are those of groups with as few channels as filters: of each channel of a group all lanes of it take the element.

A unit of work is a part of a few lines of the result, of so many channels that what its windows read stays in the
first-level cache from line to line. Neighbouring columns of a line are summed at once: what their windows share of a
line of the image is loaded once, where the window is not too wide for that. Of lines of known length each tile whose
windows leave the image has code of its own, without what they would read there. Where zeros stand between the elements
of the image, tiles have columns of each phase, and each column the taps that meet elements.

Where the pixels under windows share sets of the cache, as those of 512 channels or a multiple do, what a unit reads
is copied first, so that they lie side by side. Of lines whose length is known only at the call, and of windows so wide
that a loop runs over their taps, what a unit at either end reads is copied with zeros beside the image, so that no
window leaves it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import product as pairs

from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_cpu.convolutions.window_copies import Image, WindowCopies, window_end, window_start
from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.schedules.depthwise import WIDEST_UNROLLED, edge_tiles
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import FALSE, TRUE, Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import F32, I32, DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.layouts import Permuted, known_sizes
from onnxc.compiler.planning.loops.views import View, operand_views
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.runtime.records import record


def emit_depthwise(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution with a filter for each channel, channels innermost."""
    x, w = operand_views(op)
    base = frame.inputs[frame.kernel.block.parameters.index(x.base)]
    image = Image(base, frame.size(x.offset), tuple(frame.size(stride) for stride in x.strides))
    memory = memory_type(x.base.dtype)
    zeros = frame.f.alloca(memory, frame.lanes)
    frame.f.store(frame.f.constant(vector_type(memory, frame.lanes), 0), zeros, align=64)
    return _Depthwise(frame, op, x, w, image, zeros).emit(name)


@record
class _Tile:
    """Neighbouring columns of the result: where their first tap reads, and how many of them exist.

    inside: for each column of the image that their windows meet whether it exists, by its offset from the first; empty
    where all do.
    """

    first: Int
    column: Int
    left: Int
    inside: Mapping[int, Reg]


@record
class _Depthwise:
    frame: KernelFrame
    op: Op
    x: View
    w: View
    image: Image
    """What is read: the image, or what a unit copies of it."""

    zeros: Reg
    """A vector of them in memory, which is read where a column is not inside.

    So that no address lies far from the image: a masked load of no lane faults nowhere, but where memory is not mapped,
    as before and behind an arena, the processor takes microcode for it.
    """

    @cached_property
    def sums(self) -> DType:
        """What is summed in: products of bytes in f32, which holds the few of a window exactly."""
        return F32 if self.op.dtype() == I32 else self.op.dtype()

    @cached_property
    def element(self) -> str:
        return memory_type(self.sums)

    @cached_property
    def schedule(self) -> ConvolutionSchedule:
        return self.frame.kernel.scheduled(ConvolutionSchedule)

    @cached_property
    def columns(self) -> int:
        """Columns that are summed at once."""
        return self.schedule.tile.rows

    @cached_property
    def channels(self) -> int:
        """Those of the result."""
        return known_sizes(self.op.result.shape[-1:])[0]

    @cached_property
    def taps(self) -> tuple[int, ...]:
        """Those along each spatial axis."""
        return known_sizes(self.op.operands[1].shape[2:])

    @cached_property
    def group(self) -> int:
        """The channels that each filter reads; if several, there are as many filters in a group."""
        return known_sizes(self.op.operands[1].shape[1:2])[0]

    @cached_property
    def _strides(self) -> tuple[Int, ...]:
        """Those of the filters [o, i, *taps], in elements."""
        packing = self.schedule.packing
        if packing is None:
            return tuple(self.frame.size(stride) for stride in self.w.strides)
        assert isinstance(packing.layout, Permuted), packing
        return packing.layout.strides

    @cached_property
    def filter_strides(self) -> tuple[Int, ...]:
        """The strides of filters, and of taps along each axis."""
        return (self._strides[0], *self._strides[2:])

    def emit(self, name: str) -> KernelCode:
        """The loop over units, channels running fastest, then columns."""
        frame, f, shape = self.frame, self.frame.f, self.op.result.shape
        box, block = self.schedule.unit, self.schedule.tile.columns
        assert box is not None, self.schedule
        bands, parts = (floordiv(shape[axis] + size - 1, size) for axis, size in ((-3, box.rows), (-2, box.columns)))
        units = (*shape[:-3], bands, parts, -(-self.channels // block))
        copies = WindowCopies(frame, self.op, self.x, self.schedule)

        def part(ordinal: Int, size: int, end: Int) -> tuple[Int, Int]:
            first = f.mul(ordinal, size)
            return first, f.smin(f.add(first, size), end)

        def unit(ordinal: Reg) -> None:
            *outer, band, columns, channels = frame.split(ordinal, units)
            across = part(columns, box.columns, frame.size(shape[-2])), part(channels, block, self.channels)
            lines = part(band, box.rows, frame.size(shape[-3]))

            def each_line(reader: _Depthwise) -> None:
                f.loop(*lines, 1, lambda row: reader._line((*outer, row), *across))

            def inner_lines() -> None:
                f.loop(*lines, 1, lambda row: self._inner_line((*outer, row), *across))

            def copied_lines() -> None:
                each_line(replace(self, image=copies.copy(self.image, outer[0], lines, *across)))

            if self.schedule.packs_rows:
                copied_lines()
            elif self.schedule.surrounds:
                f.if_(self._is_inner(across[0]), inner_lines, copied_lines)
            else:
                each_line(self)

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        work = minimum(shape[-2], box.columns) * (block * self.group * box.rows)
        return KernelCode(name, (f,), product(units), frame.grain(work))

    # Tiles

    @cached_property
    def _offsets(self) -> dict[int, list[tuple[int, int]]]:
        """The (column, tap) pairs that read each column of the image, by its offset from the first one."""
        step, dilation, spread = self.op.ints("strides")[-1], self.op.ints("dilations")[-1], self.spread[-1]
        low = 0 if spread == 1 else known_sizes(self.op.dims("low")[-1:])[0]
        offsets: dict[int, list[tuple[int, int]]] = {}
        for column, tap in pairs(range(self.columns), range(self.unrolled)):
            offset, beside = divmod(column * step + tap * dilation - low, spread)
            if beside == 0:
                offsets.setdefault(offset, []).append((column, tap))
        return dict(sorted(offsets.items()))

    @cached_property
    def spread(self) -> tuple[int, ...]:
        """How far apart the elements of the image stand along each spatial axis, with zeros between them."""
        return self.op.ints("input_dilations")

    @cached_property
    def unrolled(self) -> int:
        """The taps along a line that are written one by one: all, or one of a loop."""
        return self.taps[-1] if self.taps[-1] <= WIDEST_UNROLLED else 1

    def _line(self, line: Sequence[Int], columns: tuple[Int, Int], channels: tuple[Int, Int]) -> None:
        """A part of a line of the result: the tiles from the first of `columns` to before the second."""
        f, (start, stop) = self.frame.f, columns
        if self.image.is_surrounded:
            f.loop(start, stop, self.columns, lambda column: self._tile(line, self._existing(column), channels))
            return
        ends = edge_tiles(self.op, self.columns)
        if ends is None:
            f.loop(start, stop, self.columns, lambda column: self._columns(line, column, channels))
            return
        left, right = ends

        def edges(tiles: range) -> None:
            for column in tiles:
                is_here = f.conjunction((f.icmp("sle", start, column), f.icmp("slt", column, stop)))
                f.if_(is_here, partial(self._columns, line, column, channels))

        edges(left)
        inner = f.smax(start, left.stop), f.smin(stop, right.start)
        f.loop(*inner, self.columns, lambda column: self._tile(line, self._inner(column), channels))
        edges(right)

    def _inner_line(self, line: Sequence[Int], columns: tuple[Int, Int], channels: tuple[Int, Int]) -> None:
        """A part of a line of whole tiles, none of whose windows leaves the image."""
        f = self.frame.f
        f.loop(*columns, self.columns, lambda column: self._tile(line, self._inner(column), channels))

    def _inner(self, column: Int) -> _Tile:
        """A whole tile, none of whose windows leaves the image."""
        return _Tile(self._first(column), column, self.columns, {})

    def _existing(self, column: Int) -> _Tile:
        """A tile of which not all columns may exist, none of whose windows leaves the image."""
        return replace(self._inner(column), left=self.frame.f.sub(self.frame.size(self.op.result.shape[-2]), column))

    def _is_inner(self, columns: tuple[Int, Int]) -> Reg:
        """Whether these are whole tiles, none of whose windows leaves the image."""
        f, (start, stop) = self.frame.f, columns
        first = self._first(start)
        tiles = f.mul(f.udiv(f.sub(stop, start), self.columns), self.columns)
        behind = window_end(self.frame, self.op, self.columns, columns)
        inside = f.icmp("sle", behind, self.frame.size(self.x.shape[-2]))
        return f.conjunction((f.icmp("sge", first, 0), inside, f.icmp("eq", f.add(start, tiles), stop)))

    def _first(self, column: Int) -> Int:
        """Where the windows of a tile begin in the image."""
        if self.spread[-1] > 1:
            return self.frame.f.udiv(column, self.spread[-1])
        return window_start(self.frame, self.op, len(self.taps) - 1, column)

    def _is_within(self, column: Int) -> Reg:
        """Whether a tile is whole and no window of it leaves the image; a literal where sizes are known."""
        f, first = self.frame.f, self._first(column)
        left, width = f.sub(self.frame.size(self.op.result.shape[-2]), column), self.frame.size(self.x.shape[-2])
        reach = max(self._offsets) + (self.taps[-1] - self.unrolled) * self.op.ints("dilations")[-1]
        reads_inside = (
            f.icmp("sge", f.add(first, min(self._offsets)), 0),
            f.icmp("slt", f.add(first, reach), width),
        )
        return f.conjunction((*reads_inside, f.icmp("sge", left, self.columns)))

    def _columns(self, line: Sequence[Int], column: Int, channels: tuple[Int, Int]) -> None:
        """One tile: neighbouring columns, without tests where no window leaves the image."""
        f, width = self.frame.f, self.frame.size(self.x.shape[-2])

        def across() -> None:
            first, left = self._first(column), f.sub(self.frame.size(self.op.result.shape[-2]), column)
            inside = {offset: f.icmp("ult", f.add(first, offset), width) for offset in self._offsets}
            self._tile(line, _Tile(first, column, left, inside), channels)

        f.if_(self._is_within(column), lambda: self._tile(line, self._inner(column), channels), across)

    def _tile(self, line: Sequence[Int], tile: _Tile, channels: tuple[Int, Int]) -> None:
        """The channels of a tile from the first of `channels` to before the second."""
        f, lanes = self.frame.f, self.frame.lanes
        whole, (first, behind) = self.channels // lanes * lanes, channels
        stop = behind if whole == self.channels else f.smin(behind, whole)
        f.loop(first, stop, lanes, lambda channel: self._sum(line, tile, channel, None))
        if whole < self.channels:
            mask = f.tail_mask(lanes, self.channels - whole)
            f.if_(f.icmp("sgt", behind, whole), lambda: self._sum(line, tile, whole, mask))

    def _sum(self, line: Sequence[Int], tile: _Tile, channel: Int, mask: Reg | None) -> None:
        """The sums of one vector of channels, and their way to the result."""
        frame, f = self.frame, self.frame.f
        image, *rows = line
        starts = [window_start(frame, self.op, axis, row) for axis, row in enumerate(rows)]
        offset = f.add(self.image.offset, f.mul(image, self.image.strides[0]))
        begins = [start if spread == 1 else 0 for start, spread in zip(starts, self.spread[:-1], strict=True)]
        for start, stride in zip((*begins, tile.first), self.image.strides[1:-1], strict=True):
            offset = f.add(offset, f.mul(start, stride))
        zeros = [f.constant(vector_type(self.element, frame.lanes), 0.0)] * self.columns
        weights = f.add(frame.size(self.w.offset), f.mul(channel, self.filter_strides[0]))
        totals = self._lines(tile, (channel, mask), starts, (offset, weights), zeros)
        if self.schedule.finishes_in_turn:
            self._finish_in_turn(line, tile, channel, totals, mask)
            return
        for column, total in enumerate(totals):
            exists = f.icmp("slt", column, tile.left)
            f.if_(exists, partial(self._write, line, f.add(tile.column, column), channel, total, mask))

    @cached_property
    def _waiting(self) -> Reg:
        """The sums of a tile, a vector of each column."""
        return self.frame.f.alloca(self.element, self.columns * self.frame.lanes)

    def _finish_in_turn(
        self, line: Sequence[Int], tile: _Tile, channel: Int, totals: Sequence[Reg], mask: Reg | None
    ) -> None:
        """What follows the sums, written once for all columns."""
        f, vector = self.frame.f, vector_type(self.element, self.frame.lanes)
        for column, total in enumerate(totals):
            f.store(total, f.gep(self._waiting, column, vector), align=64)

        def finish(column: Int) -> None:
            total = f.load(vector, f.gep(self._waiting, column, vector), align=64)
            self._write(line, f.add(tile.column, column), channel, total, mask)

        f.loop(0, f.smin(tile.left, self.columns), 1, finish)

    def _write(self, line: Sequence[Int], column: Int, channel: Int, total: Reg, mask: Reg | None) -> None:
        index = [*map(Index, line), Index(column), Index(channel, 1)]
        total = emit_cast(total, self.sums, self.op.dtype(), self.frame.f)
        write_result(self.frame.evaluator(self.frame.lanes, mask), self.frame, self.op, total, index)

    # Taps

    def _lines(
        self,
        tile: _Tile,
        lanes: tuple[Int, Reg | None],
        starts: Sequence[Int],
        offsets: tuple[Int, Int],
        totals: Sequence[Reg],
    ) -> Sequence[Reg]:
        """`totals` with the products of all lines that windows meet; offsets are those of image and filters.

        starts: where windows begin along the axes that are left before the last.
        """
        f, axis = self.frame.f, len(self.taps) - 1 - len(starts)
        if not starts:
            return self._taps(tile, lanes, offsets, totals)
        stride = f.mul(self.image.strides[1 + axis], self.op.ints("dilations")[axis])

        def tap(ordinal: Int, *inner: Reg) -> Sequence[Reg]:
            ahead = f.add(offsets[0], f.mul(ordinal, stride)), f.add(offsets[1], f.mul(ordinal, self._tap_stride(axis)))
            return self._lines(tile, lanes, starts[1:], ahead, inner)

        def meeting(ordinal: Int, *inner: Reg) -> Sequence[Reg]:
            position = f.add(starts[0], f.mul(ordinal, self.op.ints("dilations")[axis]))
            element = f.sdiv(position, self.spread[axis])
            meets = f.icmp("eq", f.mul(element, self.spread[axis]), position)
            meets = f.and_(meets, f.icmp("ult", element, self.frame.size(self.x.shape[1 + axis])))
            line = f.mul(element, self.image.strides[1 + axis])
            ahead = f.add(offsets[0], line), f.add(offsets[1], f.mul(ordinal, self._tap_stride(axis)))
            return f.if_(meets, lambda: self._lines(tile, lanes, starts[1:], ahead, inner), lambda: inner)

        if self.spread[axis] > 1:
            return f.loop(0, self.taps[axis], 1, meeting, totals)
        return f.loop(*self._taps_inside(axis, starts[0]), 1, tap, totals)

    def _tap_stride(self, axis: int) -> Int:
        return self.filter_strides[1 + axis]

    def _taps_inside(self, axis: int, start: Int) -> tuple[Int, Int]:
        """The first tap that is not before the image, and the first that is behind it."""
        f, dilation, size = self.frame.f, self.op.ints("dilations")[axis], self.frame.size(self.x.shape[1 + axis])
        low, high = (
            f.smin(f.udiv(f.add(f.smax(count, 0), dilation - 1), dilation), self.taps[axis])
            for count in (f.neg(start), f.sub(size, start))
        )
        return low, high

    def _taps(
        self, tile: _Tile, lanes: tuple[Int, Reg | None], offsets: tuple[Int, Int], totals: Sequence[Reg]
    ) -> Sequence[Reg]:
        """`totals` with the products along one line."""
        f, dilation = self.frame.f, self.op.ints("dilations")[-1]
        if self.unrolled == self.taps[-1]:
            return self._products(tile.inside, lanes, offsets, totals)
        stride, width = self.image.strides[-2], self.frame.size(self.x.shape[-2])

        def tap(ordinal: Int, *inner: Reg) -> Sequence[Reg]:
            ahead = f.mul(ordinal, dilation)
            first = f.add(tile.first, ahead)
            inside = {offset: f.icmp("ult", f.add(first, offset), width) for offset in tile.inside}
            here = (
                f.add(offsets[0], f.mul(ahead, stride)),
                f.add(offsets[1], f.mul(ordinal, self._tap_stride(len(self.taps) - 1))),
            )
            return self._products(inside, lanes, here, inner)

        return f.loop(0, self.taps[-1], 1, tap, totals)

    def _products(
        self,
        inside: Mapping[int, Reg],
        lanes: tuple[Int, Reg | None],
        offsets: tuple[Int, Int],
        totals: Sequence[Reg],
    ) -> Sequence[Reg]:
        """`totals` with the products of the taps that are written one by one: each column of the image read once."""
        sums = list(totals)
        for ordinal in range(self.group):
            weights = self.frame.f.add(offsets[1], self.frame.f.mul(self._strides[1], ordinal))
            sums = self._products_of(ordinal, inside, lanes, (offsets[0], weights), sums)
        return sums

    def _products_of(
        self,
        ordinal: int,
        inside: Mapping[int, Reg],
        lanes: tuple[Int, Reg | None],
        offsets: tuple[Int, Int],
        totals: Sequence[Reg],
    ) -> list[Reg]:
        """`totals` with the products of one channel of each group."""
        f, frame, (channel, mask) = self.frame.f, self.frame, lanes
        e, step = frame.evaluator(frame.lanes, mask), self.filter_strides[0]
        last = self.filter_strides[-1]
        pointer, (x, w) = self._base(self.w), self.op.operands
        factors = [
            e.spread(self._widened(e.load(w, pointer, Index(f.add(offsets[1], f.mul(last, tap)), step)), w))
            for tap in range(self.unrolled)
        ]
        line = f.gep(self.image.base, offsets[0], memory_type(x.dtype))
        taken = [lane // self.group * self.group + ordinal for lane in range(frame.lanes)]
        sums = list(totals)
        for offset, meeting in self._offsets.items():
            is_inside = inside.get(offset, TRUE)
            if is_inside == FALSE:
                continue
            column = f.mul(self.image.strides[-2], offset)
            at = self._column(x, line, self._channels(e, column, channel), is_inside)
            read = e.spread(self._widened(e.load(x, *at), x))
            read = read if self.group == 1 else f.shuffle(read, None, taken)
            for result, tap in meeting:
                sums[result] = f.multiply_add(read, factors[tap], sums[result])
        return sums

    def _column(self, x: Value, line: Reg, at: Index, is_inside: Reg) -> tuple[Reg, Index]:
        """Where a column is read: at an index of its line, or zeros beside it."""
        f = self.frame.f
        if is_inside == TRUE:
            return line, at
        here = f.select(is_inside, f.gep(line, at.base, memory_type(x.dtype)), self.zeros)
        if at.vector is None:
            return here, Index(0, at.step)
        return here, Index(0, at.step, f.select(is_inside, at.vector, f.constant(at.vector.type, 0)))

    def _widened(self, x: Reg, operand: Value) -> Reg:
        return emit_cast(x, operand.dtype, self.sums, self.frame.f)

    def _channels(self, e: Evaluator, offset: Int, channel: Int) -> Index:
        """Where the channels lie that a vector of filters from `channel` on reads."""
        f, multiplier = self.frame.f, self.channels // self.op.int("groups") // self.group
        if multiplier == 1:
            return Index(f.add(offset, channel), 1)
        if self.group == 1 and multiplier % self.frame.lanes == 0:
            # 128 filters of 4 channels: 51 us where a vector of equal indices was read, 12 so.
            return Index(f.add(offset, f.udiv(channel, multiplier)))
        filters = e.as_values(Index(channel, 1))
        return Index(offset, 0, as_reg(f.udiv(filters, f.splat(as_reg(multiplier), self.frame.lanes))))

    def _base(self, view: View) -> Reg:
        return self.frame.inputs[self.frame.kernel.block.parameters.index(view.base)]
