"""Convolution by rows: pixels of the result, whose windows are read in place, times panels of filters.

A unit of work is a chunk of neighbouring pixels, across lines and images, against one panel of the filters of a group.
Where each pixel of the chunk begins to read under each tap is looked up once, as an address: in the padding that of
zeros. Behind these addresses the micro-kernels sum runs of products, over all taps of a block, into a tile of
[pixel][filter]. A group of pixels at a time is multiplied, and with the last block finished.

Where the image is dilated, each phase of the result is a convolution of its own, with the taps that meet its elements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from math import gcd, prod

from onnxc.compiler.codegen_cpu.convolutions.window_addresses import WindowAddresses, even_chunks
from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.packing import Conversion, Copied, pack_panel
from onnxc.compiler.codegen_cpu.inner_loops.pointer_kernels import GatheredProduct, multiply_gathered, pointer_library
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.schedules.convolutions import pointer_rows
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.loops.convolution_sums import Sums, find_sums, is_padded
from onnxc.compiler.planning.loops.domain import epilogue_leaves
from onnxc.compiler.planning.loops.views import View, is_dense, operand_views, row_major
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.records import record


def emit_rows(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution by rows, whose channels are innermost."""
    schedule = frame.kernel.scheduled(ConvolutionSchedule)
    x, w = operand_views(op)
    sums = find_sums(op, x, merges=schedule.packing is not None)
    assert sums is not None, op
    return _Rows(frame, op, schedule, sums, x, w).emit(name)


@record
class _Phase:
    """The results that sum the same taps: from `first` on along each spatial axis, `sizes` along the axes of starts.

    Where no tap meets an element of the image the first of the sizes is 0.

    ahead: how far into the image a step from results to elements leads. remainders: of the positions of results, whose
    steps are as wide as there are phases. taps_before: those of all phases before it.
    """

    first: tuple[Int, ...]
    sizes: tuple[Int, ...]
    ahead: tuple[Int, ...]
    remainders: tuple[Int, ...]
    taps_before: Int


@record
class _Unit:
    """A unit of work: the panel of a group at `corner` against `rows` pixels of a phase from `first` on."""

    phase: _Phase
    corner: tuple[Int, Int]
    first: Int
    rows: Int


@record
class _Block:
    """A block of what is summed: its first tap and the first element of their runs, how many of both, and whether it is
    the last one."""

    starts: tuple[Int, Int]
    counts: tuple[Int, Int]
    is_last: Reg


@dataclass
class _Rows:
    frame: KernelFrame
    op: Op
    schedule: ConvolutionSchedule
    sums: Sums
    x: View
    w: View

    def __post_init__(self) -> None:
        frame, f, schedule = self.frame, self.frame.f, self.schedule
        self.element = memory_type(self.op.dtype())
        self.lanes, self.width = frame.lanes, schedule.tile.columns
        self.conversion = Conversion(self.w.base.dtype, self.op.dtype(), self.lanes)
        self.groups = self.op.int("groups")
        self.filters = floordiv(self.op.result.shape[-1], self.groups)
        self.chunk = schedule.tile.rows
        self.block_run = min(self.sums.run_length, schedule.tile.depth)
        self.block_taps = min(self.sums.start_count, max(schedule.tile.depth // self.sums.run_length, 1))
        self.spread = self.op.ints("input_dilations")
        self.has_phases = max(self.spread) > 1
        spatial = self.op.result.shape[1:-1]
        counts = [floordiv(size + step - 1, step) for size, step in zip(spatial, self.spread, strict=True)]
        self.pixel_shape = (self.op.result.shape[0], *counts)
        self.is_one_block = self.block_taps == self.sums.start_count and self.block_run == self.sums.run_length
        self.tile = f.alloca(self.element, (schedule.group if self.is_one_block else self.chunk) * self.width)
        padded = tuple(axis for axis in self.sums.starts if is_padded(self.op, axis))
        steps, room = self.op.ints("strides"), (self.block_taps, self.chunk, self.block_run)
        self.table = WindowAddresses(frame, self.op, self.sums, padded, self.pixel_shape, steps, room)
        scratch = self.block_taps * self.block_run * self.width
        self.scratch = f.alloca(self.element, scratch) if schedule.packing is None else None
        self.leaves = epilogue_leaves(frame.kernel.block, self.op, 0, self.op.result.rank - 1)

    @cached_property
    def pixels(self) -> Dim:
        """How many there are of a phase of the result, in all images."""
        return product(self.pixel_shape)

    @cached_property
    def _chunks(self) -> tuple[Dim, Dim]:
        """How many chunks of pixels there are, and how many pixels one has."""
        return even_chunks(self.pixels, self.chunk, self._shape[2], self.schedule.chunks)

    # Units

    def emit(self, name: str) -> KernelCode:
        """The loop over units."""
        frame, f = self.frame, self.frame.f
        chunks, rows = self._chunks
        panels = floordiv(self.filters + self.width - 1, self.width)
        self.table.clear_zeros()

        def unit(ordinal: Reg, before: Reg) -> Sequence[Int]:
            *phase, group, within_group = frame.split(ordinal, (*self.spread, self.groups, chunks * panels))
            chunk, panel, goes_on = self._chunk_and_panel(within_group, frame.size(chunks), frame.size(panels))
            before_group = f.sub(ordinal, within_group)
            pixels = f.add(before_group, chunk)
            is_new = f.icmp("ne", pixels, before)
            self._unit(self._phase(phase), (group, panel), f.mul(chunk, frame.size(rows)), is_new, goes_on)
            return (pixels,)

        f.loop(frame.begin, frame.end, 1, unit, (-1,), at_least_once=True)
        f.ret()
        depth = self.sums.start_count * self.sums.run_length
        grain = frame.grain(minimum(self.pixels, self.chunk) * self.width * depth)
        shapes = dict.fromkeys((self._shape, self._last_shape))
        library = tuple(function for shape in shapes for function in pointer_library(self.element, shape))
        return KernelCode(name, (f,), prod(self.spread) * self.groups * chunks * panels, grain, library)

    def _chunk_and_panel(self, ordinal: Int, chunks: Int, panels: Int) -> tuple[Int, Int, Reg]:
        """Panels run fastest; chunks do where images are so small that they stay in the cache, and filters do not.

        Also whether the next unit is the first to read the next chunk.
        """
        f, small = self.frame.f, self.schedule.small_image
        if chunks == 1 or panels == 1:
            at = (0, ordinal) if chunks == 1 else (ordinal, 0)
            return *at, f.icmp("eq", at[1], f.sub(panels, 1))
        image = self.frame.size(product(self.op.operands[0].shape))
        inner = f.select(f.icmp("sle", image, small), as_reg(chunks), as_reg(panels)) if small else as_reg(panels)
        outer = f.udiv(ordinal, inner)
        rest = f.sub(ordinal, f.mul(outer, inner))
        is_last = f.icmp("eq", rest, f.sub(inner, 1))
        if not small:
            return outer, rest, is_last
        is_small = f.icmp("sle", image, small)
        goes_on = f.select(is_small, f.icmp("eq", outer, 0), is_last)
        return f.select(is_small, as_reg(rest), as_reg(outer)), f.select(is_small, as_reg(outer), as_reg(rest)), goes_on

    @property
    def _shape(self) -> tuple[int, int, int]:
        """(vectors, lanes, rows) of the micro-kernels."""
        registers = self.schedule.registers
        assert registers is not None, self.schedule
        return self.width // self.lanes, self.lanes, registers.rows

    @property
    def _last_shape(self) -> tuple[int, int, int]:
        """The same for the last panel of a group, which may have fewer vectors of filters."""
        vectors, lanes, rows = self._shape
        if not isinstance(self.filters, int):
            return vectors, lanes, rows
        last = -(-((self.filters - 1) % self.width + 1) // lanes)
        return last, lanes, pointer_rows(last, self.frame.target) if last < vectors else rows

    def _phase(self, ordinals: Sequence[Int]) -> _Phase:
        """The phase of those ordinals along the spatial axes."""
        f, first, ahead, remainders, meets = self.frame.f, list[Int](), list[Int](), list[Int](), list[Reg]()
        rows = zip(ordinals, self.op.dims("low"), self.spread, self.op.ints("dilations"), strict=True)
        for ordinal, low, spread, dilation in rows:
            # Of as many phases as taps have a common step with elements only one in each of these meets any.
            taps = spread // gcd(spread, dilation)
            beside = f.udiv(ordinal, taps)
            tap = f.sub(ordinal, f.mul(beside, taps))
            before = f.sub(f.sub(self.frame.size(low), f.mul(tap, dilation)), beside)
            remainder = f.srem(f.add(f.srem(before, spread), spread), spread)
            first.append(tap)
            remainders.append(remainder)
            ahead.append(f.sdiv(f.sub(remainder, before), spread))
            if taps < spread:
                meets.append(f.icmp("eq", beside, 0))
        sizes, taps_before = self._taps_of(first)
        if meets:
            is_met = f.convert("zext", reduce(f.and_, meets), "i64")
            sizes = (f.mul(sizes[0], is_met), *sizes[1:])
        return _Phase(tuple(first), sizes, tuple(ahead), tuple(remainders), taps_before)

    def _taps_of(self, firsts: Sequence[Int]) -> tuple[tuple[Int, ...], Int]:
        """How many taps a phase has along the axes of starts, whose first ones are given, and all before it."""
        f, sizes, taps_before = self.frame.f, list[Int](), as_reg(0)
        for axis in self.sums.starts:
            first, (whole, rest) = 0 if axis.spatial is None else firsts[axis.spatial], divmod(axis.size, axis.spread)
            size = f.add(whole, f.convert("zext", f.icmp("slt", first, rest), "i64")) if axis.spread > 1 else axis.size
            own = f.add(f.mul(first, whole), f.smin(first, rest)) if axis.spread > 1 else 0
            behind = prod(other.size for other in self.sums.starts if other.ordinal > axis.ordinal)
            taps_before = as_reg(f.add(taps_before, f.mul(self._product(sizes), f.mul(own, behind))))
            sizes.append(size)
        return tuple(sizes), taps_before

    def _product(self, factors: Sequence[Int]) -> Int:
        result: Int = 1
        for factor in factors:
            result = self.frame.f.mul(result, factor)
        return result

    def _unit(self, phase: _Phase, corner: tuple[Int, Int], first: Int, is_new: Reg, goes_on: Reg) -> None:
        """One unit, the panel of a group at `corner` against the pixels from `first` on.

        is_new: whether these are others than those of the unit before; goes_on: whether the next ones come soon.
        """
        f, (group, _) = self.frame.f, corner
        most = self._chunks[1]
        rows = f.smin(f.sub(self.frame.size(self.pixels), first), self.frame.size(most))
        unit = _Unit(phase, corner, first, rows)
        channels = f.mul(group, self.frame.size(self.op.operands[1].shape[1]))
        f.if_(is_new, lambda: self.table.find_first(phase.ahead, channels, first, rows))
        count = self._product(phase.sizes)
        soon = self._soon(first, rows, goes_on)

        def block(start: Int, k: Int) -> None:
            taps = f.smin(f.sub(count, start), self.block_taps)
            run = f.smin(f.sub(self.sums.run_length, k), self.block_run)
            if self.is_one_block:
                f.if_(is_new, lambda: self.table.find(phase.sizes, (0, 0), taps, rows))
            else:
                self.table.find(phase.sizes, (start, k), taps, rows)
            is_last = f.icmp("eq", f.add(start, taps), count)
            is_last = f.and_(is_last, f.icmp("eq", f.add(k, run), self.sums.run_length))
            self._multiply(unit, _Block((start, k), (taps, run), is_last), soon)

        def blocks_of_run(start: Int) -> None:
            f.loop(0, self.sums.run_length, self.block_run, partial(block, start))

        def blocks() -> None:
            f.loop(0, count, self.block_taps, blocks_of_run)

        if self.has_phases:
            f.if_(f.icmp("eq", count, 0), lambda: self._finish_zeros(unit), blocks)
        else:
            blocks()

    # Products

    def _base(self, view: View) -> Reg:
        return self.frame.inputs[self.frame.kernel.block.parameters.index(view.base)]

    def _panel(self, phase: _Phase, corner: tuple[Int, Int], starts: tuple[Int, Int], counts: tuple[Int, Int]) -> Reg:
        """The filters of a block of a phase, from the panel of a group: among the packed ones, or packed now.

        starts, counts: taps, and elements of runs.
        """
        f, (group, panel), (start, k) = self.frame.f, corner, starts
        if self.scratch is not None:
            self._pack(phase, (group, f.mul(panel, self.width)), starts, counts, self.scratch)
            return self.scratch
        panels = self.frame.size(floordiv(self.filters + self.width - 1, self.width))
        taps_before = f.mul(phase.taps_before, f.mul(panels, self.groups))
        own = f.mul(f.add(f.mul(group, panels), panel), self._product(phase.sizes))
        taps = f.add(f.add(taps_before, own), start)
        rows = f.add(f.mul(taps, self.sums.run_length), k)
        return f.gep(self._base(self.w), f.mul(rows, self.width), self.element)

    def _pack(
        self, phase: _Phase, corner: tuple[Int, Int], starts: tuple[Int, Int], counts: tuple[Int, Int], scratch: Reg
    ) -> None:
        """scratch[tap][k][filter] = the filters of a block; corner: the group, and the first filter of it."""
        f, frame, (group, first), (start, k), (taps, run) = self.frame.f, self.frame, corner, starts, counts
        output, *inner = (frame.size(stride) for stride in self.w.strides)
        step = inner[self.sums.run[0].ordinal] if self.sums.run else 0
        filter = f.add(f.mul(group, frame.size(self.filters)), first)
        left = f.sub(frame.size(self.filters), first)
        origin = f.add(frame.size(self.w.offset), f.add(f.mul(filter, output), f.mul(k, step)))
        for tap_stride, ordinal in zip(inner[1:], phase.first, strict=True):
            origin = f.add(origin, f.mul(ordinal, tap_stride))

        def tap(ordinal: Int) -> None:
            offset = origin
            positions = self.table.positions(phase.sizes, f.add(start, ordinal))
            for axis, position in zip(self.sums.starts, positions, strict=True):
                offset = f.add(offset, f.mul(position, f.mul(inner[axis.ordinal], axis.spread)))
            source = f.gep(self._base(self.w), offset, self.element)
            panel = f.gep(scratch, f.mul(ordinal, self.block_run * self.width), self.element)
            pack_panel(f, Copied(source, panel, (step, output), (run, left)), self._shape[0], self.conversion)

        f.loop(0, taps, 1, tap)

    def _fetch(self, unit: _Unit, first: Int, behind: Int) -> None:
        """Asks for what the epilogue reads and writes of rows of a unit, while they are multiplied."""
        frame, f, leaves, root = self.frame, self.frame.f, self.leaves, self.frame.root
        if leaves is None or self.has_phases:
            return
        written = View(root, (self.pixels, root.shape[-1]), 0, (root.shape[-1], 1))
        read = [(self._base(view), view) for view in leaves.values() if view.strides[0] != 0]

        def fetch(row: Int) -> None:
            pixel = f.add(unit.first, row)
            for base, view in (*read, (frame.output, written)):
                strides, item = [frame.size(stride) for stride in view.strides], view.base.dtype.itemsize
                offset = f.add(f.mul(pixel, strides[0]), f.mul(self._first_filter(unit), strides[1]))
                start = f.gep(base, f.mul(f.add(frame.size(view.offset), offset), item))
                for byte in range(0, self.width * item, CACHE_LINE_BYTES):
                    f.prefetch(f.gep(start, byte))

        f.loop(first, behind, 1, fetch, at_least_once=True)

    def _soon(self, first: Int, rows: Int, goes_on: Reg) -> tuple[Reg, Int]:
        """What the chunk behind `rows` from `first` on reads besides: where it begins, and how many elements.

        Of images whose lines and pixels do not lie side by side nothing.
        """
        frame, f, x, steps = self.frame, self.frame.f, self.x, self.op.ints("strides")
        if not is_dense(x) or self.has_phases:
            return self._base(self.w), 0
        next_first = f.add(first, rows)
        image, *positions = frame.split(next_first, self.pixel_shape)
        offset = f.add(frame.size(x.offset), f.mul(image, frame.size(x.strides[0])))
        for position, step, stride in zip(positions, steps, x.strides[1:-1], strict=True):
            offset = f.add(offset, f.mul(position, f.mul(frame.size(stride), step)))
        pixels = f.smin(f.sub(frame.size(self.pixels), next_first), rows)
        elements = f.mul(f.select(goes_on, as_reg(pixels), 0), f.mul(frame.size(x.strides[-2]), prod(steps)))
        return f.gep(self._base(x), offset, self.element), elements

    def _multiply(self, unit: _Unit, block: _Block, soon: tuple[Reg, Int]) -> None:
        """A block of the sums of a unit, a few rows at a time; with the last block they are finished.

        soon: what other units read next, and how many elements; the first block asks for it.
        """
        f, (taps, run), (next_rows, elements) = self.frame.f, block.counts, soon
        weights = self._panel(unit.phase, unit.corner, block.starts, block.counts)
        step = (self.sums.run_length if self.scratch is None else self.block_run) * self.width
        # Packed panels, and the blocks of each, lie in the order in which they are read.
        ahead = (
            weights if self.scratch is not None else f.gep(weights, f.mul(f.mul(taps, run), self.width), self.element)
        )
        is_first = f.icmp("eq", f.add(*block.starts), 0)
        product = GatheredProduct(
            self.table.addresses,
            self.table.rows,
            taps,
            run,
            weights,
            step,
            self.tile,
            self.table.zeros,
            ahead,
            next_rows,
            f.select(is_first, as_reg(elements), 0),
        )
        accumulate = f.convert("zext", f.xor(is_first, 1), "i64")

        def group(first: Int) -> None:
            stop = f.smin(f.add(first, self.schedule.group), unit.rows)
            tile = self.tile if self.is_one_block else self._line_of_tile(unit, self.tile, first)
            self._multiply_rows(unit, replace(product, tile=tile), (first, stop), accumulate)
            f.if_(block.is_last, lambda: self._finish(unit, first, f.sub(stop, first), tile))

        f.loop(0, unit.rows, self.schedule.group, group, at_least_once=True)

    def _multiply_rows(self, unit: _Unit, product: GatheredProduct, rows: tuple[Int, Int], accumulate: Int) -> None:
        """Some rows against a whole panel, or the last one, which may have fewer vectors."""
        f = self.frame.f

        def multiply(shape: tuple[int, int, int]) -> None:
            fetch, width = partial(self._fetch, unit), self._shape[0]
            multiply_gathered(f, product, rows, accumulate, self.element, shape, fetch, width)

        if self._last_shape == self._shape:
            multiply(self._shape)
        else:
            f.if_(self._is_last(unit), lambda: multiply(self._last_shape), lambda: multiply(self._shape))

    def _is_last(self, unit: _Unit) -> Reg:
        """Whether a panel is the last one of its group."""
        return self.frame.f.icmp("eq", unit.corner[1], self.frame.size(floordiv(self.filters - 1, self.width)))

    def _line_of_tile(self, unit: _Unit, tile: Reg, row: Int) -> Reg:
        """Where the sums of a row are, side by side with those of others."""
        f, length = self.frame.f, as_reg(self.width)
        if self._last_shape != self._shape:
            length = f.select(self._is_last(unit), as_reg(self._last_shape[0] * self.lanes), length)
        return f.gep(tile, f.mul(row, length), self.element)

    # The way to the result

    def _finish_zeros(self, unit: _Unit) -> None:
        """The results that meet no tap."""
        f, zero = self.frame.f, self.frame.f.constant(vector_type(self.element, self.lanes), 0.0)
        for start in range(0, self.width, self.lanes):
            f.store(zero, f.gep(self.tile, start, self.element), align=64)
        f.loop(0, unit.rows, 1, lambda row: self._finish(unit, row, 1, self.tile))

    def _finish(self, unit: _Unit, first: Int, rows: Int, tile: Reg) -> None:
        """The pointwise ops on rows of a unit, whose sums begin at `tile`, and their way to the result."""
        f = self.frame.f
        begin = f.add(unit.first, first)

        def finish(row: Int) -> None:
            self._finish_row(unit, f.add(begin, row), self._line_of_tile(unit, tile, row))

        f.loop(0, rows, 1, finish)

    def _finish_row(self, unit: _Unit, pixel: Int, sums: Reg) -> None:
        """The pointwise ops on the sums of one pixel, and their way to the result, if there is such a pixel."""
        frame, f, shape = self.frame, self.frame.f, self.op.result.shape
        write = partial(self._write_row, unit, sums)
        if self.leaves is not None and not self.has_phases:
            write(self.leaves, (Index(pixel),))
            return
        image, *steps = frame.split(pixel, self.pixel_shape)
        positions = [
            f.add(f.mul(step, spread), remainder)
            for step, spread, remainder in zip(steps, self.spread, unit.phase.remainders, strict=True)
        ]
        tests = [
            f.icmp("slt", position, frame.size(size))
            for position, size, spread in zip(positions, shape[1:-1], self.spread, strict=True)
            if spread > 1
        ]
        index = tuple(map(Index, (image, *positions)))
        f.if_(reduce(f.and_, tests, f.constant("i1", 1)), lambda: write(None, index))

    def _write_row(self, unit: _Unit, sums: Reg, leaves: Mapping[Value, View] | None, pixel: tuple[Index, ...]) -> None:
        """The filters of one pixel, whose position has one index where the epilogue steps through pixels as one."""
        frame, f, first = self.frame, self.frame.f, self.frame.f.mul(unit.corner[1], self.width)
        panel = (self.filters, self.width, f.sub(frame.size(self.filters), first))
        channel = self._first_filter(unit)
        for start in range(0, self.width, self.lanes):
            source = f.gep(sums, start, self.element)
            write = partial(self._write_vector, source, leaves, (*pixel, Index(f.add(channel, start), 1)))
            frame.panel_lanes(self.lanes, panel, start, write)

    def _first_filter(self, unit: _Unit) -> Int:
        """The first filter of a unit, of all groups."""
        f, (group, panel) = self.frame.f, unit.corner
        return f.add(f.mul(group, self.frame.size(self.filters)), f.mul(panel, self.width))

    def _write_vector(
        self, source: Reg, leaves: Mapping[Value, View] | None, index: tuple[Index, ...], mask: Reg | None
    ) -> None:
        frame, f, root = self.frame, self.frame.f, self.frame.root
        e = frame.evaluator(self.lanes, mask)
        e.bound[self.op.result] = f.load(vector_type(self.element, self.lanes), source, align=64)
        if leaves is not None:
            e.bind_views(leaves, index)
        offset = e.strided(index, row_major(root.shape)[-len(index) :])
        e.store(to_memory(e.value(root, index), root.dtype, f), frame.output, memory_type(root.dtype), offset)
