"""Convolution whose results are planes: lanes are neighbouring pixels, which lie side by side in the result.

A unit of work is some lines of the planes of a group, of one image. What their windows read is copied once, padding
included, so that a product reads vectors wherever its tap is; lines behind each other are one row of pixels, the last
few of each line left out. A few filters at a time are summed in registers, for all that they read.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, reduce
from math import prod

from onnxc.compiler.codegen_cpu.convolutions.float_convolution import FloatConvolution
from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.packing import read_strided, steps_of
from onnxc.compiler.codegen_cpu.inner_loops.plane_kernels import PlaneKernel
from onnxc.compiler.codegen_cpu.inner_loops.turned_squares import turn_square
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.schedules.open_planes import channel_room, window_at_call
from onnxc.compiler.codegen_cpu.schedules.planes import MOST_SUMS, PlaneAxis, PlaneWindow, is_flat, plane_window
from onnxc.compiler.codegen_cpu.shuffles import pick_lanes
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.domain import epilogue_leaves
from onnxc.compiler.planning.loops.views import View, operand_views, row_major
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.runtime.records import record

PAIR = 2
"""Elements so many apart are taken from two vectors."""

Span = tuple[Int, Int]
"""The first column, and the one behind the last."""


def emit_planes(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution whose result has its channels before its pixels."""
    x, w = operand_views(op)
    tile = frame.kernel.scheduled(ConvolutionSchedule).tile
    counts = tile.depth, tile.rows, tile.columns
    taps_apart = frame.kernel.scheduled(ConvolutionSchedule).taps_apart
    most = plane_window(op, frame.kernel.block, x, frame.lanes, counts, taps_apart=taps_apart)
    return _Planes(frame, op, x, w, most).emit(name)


@record
class _Unit:
    """Its image and group, and the first result along each spatial axis; how many planes, lines and columns it has."""

    image: Int
    group: Int
    first: tuple[Int, ...]
    planes: Int
    lines: Int
    columns: Int


@record
class _Turned:
    """Where channels of a line are written one by one: at an address, so far apart, `width` pixels that are `step`
    apart in the line."""

    address: Reg
    channel_step: Int
    width: Int
    step: int


@record
class _Planes(FloatConvolution):
    """most: the window of a unit with the most planes, lines and columns, for which there is room."""

    most: PlaneWindow

    @cached_property
    def window(self) -> PlaneWindow:
        """What a unit reads."""
        return window_at_call(self.most)

    @cached_property
    def filters(self) -> int:
        """Those of a group."""
        return known_sizes(self.op.operands[1].shape[:1])[0] // self.op.int("groups")

    @cached_property
    def depth(self) -> int:
        """How much is summed."""
        return self.window.channels * prod(self.window.taps)

    @cached_property
    def room(self) -> Reg:
        """What of the image a unit reads, with as much behind it as is read at once."""
        return self.frame.f.alloca(
            self.element, self.window.copied_channels * channel_room(self.most) + self.registers[1]
        )

    @cached_property
    def line_room(self) -> Reg:
        """[channel][pixel] of a line, as many channels as lanes."""
        width, *_ = known_sizes((self.most.line_width,))
        return self.frame.f.alloca(self.element, self.window.turned_channels * width)

    @property
    def pitch(self) -> Int:
        """How far apart lines are in what was copied."""
        return self.frame.size(self.window.pitch)

    @property
    def channel_step(self) -> Int:
        """How far apart channels are in it."""
        return self.frame.size(self.window.channel_step)

    @cached_property
    def finishes_blocks(self) -> bool:
        """Whether sums go to the result as soon as registers have them; else when the unit has all of a few filters."""
        return self.window.finishes_blocks(self.registers[1])

    @property
    def phase_step(self) -> Int:
        """How far apart the phases of the last axis are in it."""
        return self.frame.size(self.window.phase_step)

    @property
    def tile_step(self) -> Int:
        """How far the sums of a filter are from those of the next."""
        pixels = self.registers[1]
        return pixels if self.finishes_blocks else self.frame.size(self.window.sums(pixels))

    @cached_property
    def tile(self) -> Reg:
        """[filter][plane][line][column], or [filter][pixel] of what is finished at once."""
        pixels = self.registers[1]
        sums = pixels if self.finishes_blocks else self.window.sums(pixels)
        return self.frame.f.alloca(self.element, self.registers[0] * (sums if isinstance(sums, int) else MOST_SUMS))

    @cached_property
    def offsets(self) -> Reg:
        """How far behind the place of a pixel what it reads lies, for each number of a filter."""
        return self.frame.f.alloca("i64", self.depth)

    @cached_property
    def packs(self) -> bool:
        """Whether filters are packed on the way: those of a group when its first unit needs them."""
        return self.frame.kernel.schedule.packing is None

    @cached_property
    def panels(self) -> int:
        """How many times as many filters as are summed at once a group has."""
        return -(-self.filters // self.registers[0])

    @cached_property
    def packed(self) -> Reg:
        """[panel][k][filter] of a group."""
        return self.frame.f.alloca(self.element, self.panels * self.depth * self.registers[0])

    @cached_property
    def packed_group(self) -> Reg:
        """The group whose filters are packed; -1 where none are."""
        return self.frame.f.alloca("i64")

    # Units

    def emit(self, name: str) -> KernelCode:
        """The loop over units."""
        frame, f, axes = self.frame, self.frame.f, self.window.axes
        parts = [floordiv(axis.size + axis.count - 1, axis.count) for axis in axes]
        shape = (self.op.result.shape[0], self.op.int("groups"), *parts)
        self._find_offsets()
        self._clear_ends()
        if self.packs:
            f.store(as_reg(-1), self.packed_group, align=8)

        def unit(ordinal: Reg) -> None:
            image, group, *blocks = frame.split(ordinal, shape)
            first = tuple(f.mul(block, frame.size(axis.count)) for block, axis in zip(blocks, axes, strict=True))
            left = [f.sub(frame.size(axis.size), start) for axis, start in zip(axes, first, strict=True)]
            counts = map(f.smin, [1, 1, *left][-3:], map(frame.size, self.window.counts))
            self._unit(_Unit(image, group, first, *counts))

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        grain = frame.grain(self.window.sums(self.registers[1]) * self.filters * self.depth)
        library = PlaneKernel(self.element, self.registers[0], self.registers[1] // frame.lanes)
        return KernelCode(name, (f,), product(shape), grain, (library,))

    def _unit(self, unit: _Unit) -> None:
        self._copy(unit)
        f, window, (filters, pixels) = self.frame.f, self.window, self.registers
        panels, finishes_blocks = self.panels, self.finishes_blocks
        base = self.packed if self.packs else self._base(self.w)
        if self.packs:
            is_packed = f.icmp("eq", f.load("i64", self.packed_group, align=8), unit.group)
            f.if_(is_packed, lambda: None, partial(self._pack, unit.group))
        # Lines one by one, or all as one.
        lines, columns = unit.lines, unit.columns
        if window.sums_pitch(pixels) == window.pitch:
            lines, columns = 1, f.add(f.mul(f.sub(lines, 1), self.pitch), columns)
        kernel = PlaneKernel(self.element, filters, pixels // self.frame.lanes).name

        def panel(ordinal: Int) -> None:
            before = 0 if self.packs else f.mul(unit.group, panels)
            offset = f.mul(f.add(before, ordinal), self.depth * filters)
            panel_filters = f.gep(base, offset, self.element)

            def block(plane: Int, line: Int, column: Int) -> None:
                plane_step = self.frame.size(window.plane_step)
                read = f.add(f.mul(plane, plane_step), f.add(f.mul(line, self.pitch), column))
                image = f.gep(self.room, read, self.element)
                sums = 0 if finishes_blocks else f.add(self._sums_of(plane, line), column)
                tile = f.gep(self.tile, sums, self.element)
                f.call(kernel, "void", image, self.offsets, self.depth, panel_filters, tile, self.tile_step)
                if finishes_blocks:
                    span = column, f.smin(f.add(column, pixels), columns)
                    self._finish(unit, f.mul(ordinal, filters), partial(self._write_block, unit, (plane, line), span))

            def line(plane: Int, ordinal: Int) -> None:
                f.loop(0, columns, pixels, partial(block, plane, ordinal), at_least_once=True)

            def plane(ordinal: Int) -> None:
                f.loop(0, lines, 1, partial(line, ordinal), at_least_once=True)

            f.loop(0, unit.planes, 1, plane, at_least_once=True)
            if not finishes_blocks:
                self._finish(unit, f.mul(ordinal, filters), partial(self._write_lines, unit))

        f.loop(0, panels, 1, panel)

    def _base(self, view: View) -> Reg:
        return self.frame.inputs[self.frame.kernel.block.parameters.index(view.base)]

    def _pack(self, group: Int) -> None:
        """The filters of a group as products read them; those that fill up the last panel are copies of its first."""
        f, rows, base = self.frame.f, self.registers[0], self._base(self.w)
        output, *steps = (self.frame.size(stride) for stride in self.w.strides)
        is_run = self.w.strides[1:] == row_major(self.w.shape)[1:]
        start = f.add(self.frame.size(self.w.offset), f.mul(f.mul(group, self.filters), output))

        def filter(ordinal: Int) -> None:
            panel = f.udiv(ordinal, rows)
            lane = f.sub(ordinal, f.mul(panel, rows))
            target = f.add(f.mul(panel, self.depth * rows), lane)
            read = f.select(f.icmp("ult", ordinal, self.filters), as_reg(ordinal), as_reg(f.mul(panel, rows)))
            first = f.add(start, f.mul(read, output))

            def product(k: Int) -> None:
                positions = (k,) if is_run else self.frame.split(k, (self.window.channels, *self.window.taps))
                offset = first
                for position, step in zip(positions, steps[-len(positions) :], strict=True):
                    offset = f.add(offset, f.mul(position, step))
                element = f.load(self.element, f.gep(base, offset, self.element))
                f.store(element, f.gep(self.packed, f.add(target, f.mul(k, rows)), self.element))

            f.loop(0, self.depth, 1, product, at_least_once=True)

        f.loop(0, self.panels * rows, 1, filter, at_least_once=True)
        f.store(group, self.packed_group, align=8)

    # Where products read

    def _find_offsets(self) -> None:
        """The offsets of the taps of the first channel, and those of the others, a channel further each."""
        f, taps, window = self.frame.f, prod(self.window.taps), self.window

        def tap(ordinal: Int) -> None:
            rows: list[Int] = []
            *positions, last = self.frame.split(ordinal, window.taps)
            for axis, position in zip(window.axes[:-1], positions, strict=True):
                rows += self._phase_and_shift(axis, position)
            phase, behind = (last, 0) if window.lines_are_one else self._phase_and_shift(window.axes[-1], last)
            row = f.add(f.mul(phase, self.phase_step), f.mul(self._row(rows), self.pitch))
            offset = f.add(row, behind)
            f.store(offset, f.gep(self.offsets, ordinal, "i64"), align=8)

        def next_channel(k: Int) -> None:
            before = f.load("i64", f.gep(self.offsets, f.sub(k, taps), "i64"), align=8)
            f.store(f.add(before, self.channel_step), f.gep(self.offsets, k, "i64"), align=8)

        f.loop(0, taps, 1, tap)
        f.loop(taps, self.depth, 1, next_channel)

    def _phase_and_shift(self, axis: PlaneAxis, tap: Int) -> tuple[Int, Int]:
        """The phase that a tap reads, and how many of its elements further."""
        f = self.frame.f
        element_offset = f.mul(tap, axis.dilation)
        shift = f.udiv(element_offset, axis.step)
        return f.sub(element_offset, f.mul(shift, axis.step)) if axis.phases > 1 else 0, shift

    def _row(self, coordinates: Sequence[Int]) -> Int:
        """The ordinal of a row of a phase of the last axis."""
        f, ordinal = self.frame.f, as_reg(0)
        for coordinate, size in zip(coordinates, self.window.rows[1:], strict=True):
            ordinal = as_reg(f.add(f.mul(ordinal, self.frame.size(size)), coordinate))
        return ordinal

    # Copies

    def _clear_ends(self) -> None:
        """Zeros behind each phase, and behind the last: what only sums that nobody wants read may take long."""
        f, lanes, step = self.frame.f, self.frame.lanes, self.phase_step
        stop, zero = f.mul(self.window.copied_channels, self.channel_step), self.frame.f.constant(self.vector, 0.0)

        def clear(offset: Int) -> None:
            f.store(zero, f.gep(self.room, offset, self.element))

        f.loop(f.sub(step, lanes), stop, step, clear)
        f.loop(stop, f.add(stop, self.registers[1]), lanes, clear)

    def _copy(self, unit: _Unit) -> None:
        """room[channel][row][column] = what the windows of a unit read, zeros outside of the image."""
        frame, f, window = self.frame, self.frame.f, self.window
        axes = parse_dimensions(self.op.text("dimensions")).x
        step = frame.size(self.x.strides[axes.channel])
        start = f.add(frame.size(self.x.offset), f.mul(unit.image, frame.size(self.x.strides[axes.batch])))
        start = f.add(start, f.mul(f.mul(unit.group, window.channels), step))
        base = self._base(self.x)
        begins = [
            f.sub(f.mul(first, axis.step), frame.size(axis.low))
            for first, axis in zip(unit.first, window.axes, strict=True)
        ]

        def row(ordinal: Int) -> None:
            others = frame.split(ordinal, window.rows[1:])
            offset, inside = start, list[Reg]()
            outer = zip(window.axes[:-1], begins[:-1], others[::2], others[1::2], strict=True)
            for axis, begin, phase, index in outer:
                position = f.add(begin, f.add(f.mul(index, axis.step), phase))
                inside.append(f.icmp("ult", position, frame.size(axis.image)))
                offset = f.add(offset, f.mul(position, frame.size(axis.stride)))
            line, target = f.gep(base, offset, self.element), f.mul(ordinal, self.pitch)
            copy = partial(self._turn_line if window.turns_lines else self._copy_line, step)
            is_inside = reduce(f.and_, inside, f.constant("i1", 1))
            f.if_(is_inside, partial(copy, line, begins[-1], target), partial(self._clear_line, target))

        f.loop(0, frame.size(product(window.rows[1:])), 1, row, at_least_once=True)

    def _fill_line(self, channels: Int, target: Int, read: Callable[[Int, Int, Int], Reg]) -> None:
        """A row of each phase of channels, in whole vectors: read(channel, phase, column).

        What is behind its end is written later.
        """
        f, window = self.frame.f, self.window

        def phase(channel: Int, ordinal: Int) -> None:
            offset = f.add(f.mul(channel, self.channel_step), f.mul(ordinal, self.phase_step))
            row = f.gep(self.room, f.add(offset, target), self.element)

            def vector(column: Int) -> None:
                f.store(read(channel, ordinal, column), f.gep(row, column, self.element))

            f.loop(0, self.pitch, self.frame.lanes, vector, at_least_once=True)

        def channel(ordinal: Int) -> None:
            f.loop(0, window.axes[-1].phases, 1, partial(phase, ordinal), at_least_once=True)

        f.loop(0, channels, 1, channel, at_least_once=True)

    def _clear_line(self, target: Int) -> None:
        zero = self.frame.f.constant(self.vector, 0.0)
        self._fill_line(self.window.channels, target, lambda channel, phase, column: zero)

    def _copy_line(self, step: Int, line: Reg, first: Int, target: Int) -> None:
        """Channels `step` apart, from a position on."""
        f, axis = self.frame.f, self.window.axes[-1]

        def read(channel: Int, phase: Int, column: Int) -> Reg:
            source = f.gep(line, f.mul(channel, step), self.element)
            ahead = f.add(f.mul(phase, axis.phase_offset), f.mul(column, axis.step))
            return self._read(source, f.add(first, ahead))

        self._fill_line(self.window.channels, target, read)

    def _read(self, line: Reg, position: Int) -> Reg:
        """Elements of a line from a position on, a step of windows apart; zeros outside of it."""
        f, lanes, axis = self.frame.f, self.frame.lanes, self.window.axes[-1]
        size, stride = self.frame.size(axis.image), self.frame.size(axis.stride)
        address = f.gep(line, f.mul(position, stride), self.element)
        # Of every second element two dense vectors are read, and so one behind the last.
        reach = lanes * axis.step - 1 if stride == 1 and axis.step == PAIR else (lanes - 1) * axis.step
        is_within = f.and_(f.icmp("sge", position, 0), f.icmp("slt", f.add(position, reach), size))

        def across() -> Sequence[Reg]:
            vector = vector_type("i64", lanes)
            positions = f.mul(f.lane_ids(vector), f.splat(as_reg(axis.step), lanes))
            positions = f.add(positions, f.splat(as_reg(position), lanes))
            mask = f.icmp("ult", positions, f.splat(as_reg(size), lanes))
            return [read_strided(f, self.vector, address, steps_of(f, f.mul(stride, axis.step), lanes), mask)]

        return f.if_(is_within, lambda: [self._read_inside(address, stride)], across)[0]

    def _read_inside(self, address: Reg, stride: Int) -> Reg:
        """Elements from an address on, a step of windows apart, of a line whose elements are `stride` apart."""
        f, lanes, step = self.frame.f, self.frame.lanes, self.window.axes[-1].step
        if stride != 1 or step != PAIR:
            return read_strided(f, self.vector, address, steps_of(f, f.mul(stride, step), lanes), None)
        low, high = (f.load(self.vector, f.gep(address, start, self.element)) for start in (0, lanes))
        return f.shuffle(low, high, range(0, 2 * lanes, 2))

    def _turn_line(self, step: Int, line: Reg, first: Int, target: Int) -> None:
        """Channels `step` apart, from a position on, some at a time: as a line that each phase copies, or in place."""
        f, window, axis, count = self.frame.f, self.window, self.window.axes[-1], self.window.turned_channels

        def channels(begin: Int) -> None:
            row, source = f.add(f.mul(begin, self.channel_step), target), f.gep(line, f.mul(begin, step), self.element)
            if window.copies_lines:
                width = self.frame.size(window.line_width)
                self._turn(source, first, begin, _Turned(self.line_room, width, width, 1))
                self._fill_line(f.smin(f.sub(window.channels, begin), count), row, self._take_phase)
                return

            def phase(ordinal: Int) -> None:
                room = f.gep(self.room, f.add(row, f.mul(ordinal, self.phase_step)), self.element)
                turned = _Turned(room, self.channel_step, self.pitch, axis.step)
                self._turn(source, f.add(first, f.mul(ordinal, axis.phase_offset)), begin, turned)

            f.loop(0, axis.phases, 1, phase, at_least_once=True)

        f.loop(0, window.channels, count, channels, at_least_once=True)

    def _take_phase(self, channel: Int, phase: Int, column: Int) -> Reg:
        """What a phase has, from a column on, of a line that lies in the order of pixels."""
        f, axis = self.frame.f, self.window.axes[-1]
        ahead = f.add(f.mul(phase, axis.phase_offset), f.mul(column, axis.step))
        offset = f.add(f.mul(channel, self.frame.size(self.window.line_width)), ahead)
        return self._read_inside(f.gep(self.line_room, offset, self.element), 1)

    def _turn(self, line: Reg, first: Int, channel: Int, turned: _Turned) -> None:
        """Writes the pixels of a line from a position on, a vector of channels from one on; zeros outside of it."""
        f, lanes, axis = self.frame.f, self.frame.lanes, self.window.axes[-1]
        size = self.frame.size(axis.image)

        def pixels(read: Callable[[Reg, Int], Sequence[Reg]], column: Int) -> None:
            position = f.add(first, f.mul(column, turned.step))
            address = f.gep(line, f.mul(position, self.frame.size(axis.stride)), self.element)
            for ordinal, vector in enumerate(read(address, position)):
                offset = f.add(f.mul(turned.channel_step, ordinal), column)
                f.store(vector, f.gep(turned.address, offset, self.element))

        if not self.window.takes_apart:
            f.loop(0, turned.width, lanes, partial(pixels, partial(self._turn_square, turned.step, channel)))
            return
        # Most of a line is inside of the image.
        before, inside = f.smax(f.neg(first), 0), f.smax(f.sub(size, first), 0)
        begin = f.smin(f.mul(f.udiv(f.add(before, lanes - 1), lanes), lanes), turned.width)
        stop = f.smax(f.smin(f.mul(f.udiv(inside, lanes), lanes), turned.width), begin)
        at_an_end = partial(pixels, self._take_apart_at_an_end)
        f.loop(0, begin, lanes, at_an_end)
        f.loop(
            begin,
            stop,
            lanes,
            partial(pixels, lambda address, position: self._take_apart(address, [None] * self.window.turned_channels)),
        )
        f.loop(stop, turned.width, lanes, at_an_end)

    def _take_apart(self, address: Reg, masks: Sequence[Reg | None]) -> Sequence[Reg]:
        """Vectors of the few channels of pixels that lie one behind the other, which are loaded whole."""
        f, lanes, channels = self.frame.f, self.frame.lanes, self.window.turned_channels
        parts = [f.gep(address, ordinal * lanes, self.element) for ordinal in range(channels)]
        read = [read_strided(f, self.vector, part, None, mask) for part, mask in zip(parts, masks, strict=True)]
        return [pick_lanes(f, read, range(each, channels * lanes, channels)) for each in range(channels)]

    def _take_apart_at_an_end(self, address: Reg, position: Int) -> Sequence[Reg]:
        """The same of pixels from a position on, of which some are outside of the line."""
        f, lanes, channels = self.frame.f, self.frame.lanes, self.window.turned_channels
        size = self.frame.size(self.window.axes[-1].image)
        before, left = f.mul(f.neg(position), channels), f.mul(f.sub(size, position), channels)
        masks = []
        for ordinal in range(channels):
            outside, until = (f.tail_mask(lanes, f.sub(count, ordinal * lanes)) for count in (before, left))
            masks.append(f.and_(until, f.xor(outside, f.constant(outside.type, 1))))
        return self._take_apart(address, masks)

    def _turn_square(self, step: int, channel: Int, address: Reg, position: Int) -> Sequence[Reg]:
        """Vectors of channels from one on, of as many pixels, so many steps apart."""
        f, lanes, window = self.frame.f, self.frame.lanes, self.window
        stride, size = self.frame.size(window.axes[-1].stride), self.frame.size(window.axes[-1].image)
        mask, zeros, rows = (
            f.tail_mask(lanes, f.sub(window.channels, channel)),
            f.constant(self.vector, 0.0),
            list[Reg](),
        )
        for lane in range(lanes):
            exists = f.splat(f.icmp("ult", f.add(position, lane * step), size), lanes)
            pixel = f.gep(address, f.mul(stride, lane * step), self.element)
            rows.append(masked_load(f, self.vector, pixel, f.and_(mask, exists), passthru=zeros))
        return turn_square(f, rows)

    # The way to the result

    def _finish(self, unit: _Unit, filter: Int, write: Callable[[Int, Int], None]) -> None:
        """`write(ordinal, channel)` for each of the filters from one on whose sums there are."""
        f = self.frame.f
        rows = f.smin(f.sub(self.filters, filter), self.registers[0])

        def row(ordinal: Int) -> None:
            write(ordinal, f.add(f.mul(unit.group, self.filters), f.add(filter, ordinal)))

        f.loop(0, rows, 1, row, at_least_once=True)

    def _write_lines(self, unit: _Unit, ordinal: Int, channel: Int) -> None:
        """All sums of a filter of a unit."""
        f = self.frame.f

        def line(plane: Int, position: Int) -> None:
            sums = f.add(f.mul(ordinal, self.tile_step), self._sums_of(plane, position))
            self._write_line(unit, (plane, position), (0, unit.columns), sums, channel)

        def plane(position: Int) -> None:
            f.loop(0, unit.lines, 1, partial(line, position), at_least_once=True)

        f.loop(0, unit.planes, 1, plane, at_least_once=True)

    def _write_block(self, unit: _Unit, line: tuple[Int, Int], columns: Span, ordinal: Int, channel: Int) -> None:
        """The sums of a filter that registers had."""
        f, lanes, pixels, (first, behind) = self.frame.f, self.frame.lanes, self.registers[1], columns
        sums = f.mul(ordinal, self.tile_step)

        def whole() -> None:
            for start in range(0, pixels, lanes):
                self._write(f.add(sums, start), self._index(unit, channel, (*line, f.add(first, start))), None)

        is_whole = f.icmp("sge", f.sub(behind, first), pixels)
        f.if_(is_whole, whole, lambda: self._write_line(unit, line, columns, sums, channel))

    def _write_line(self, unit: _Unit, line: tuple[Int, Int], columns: Span, sums: Int, channel: Int) -> None:
        """The pointwise ops on sums of a line, which begin at an offset in the tile, and their way to the result."""
        f, lanes, (first, behind) = self.frame.f, self.frame.lanes, columns

        def vector(column: Int) -> None:
            write = partial(self._write, f.add(sums, f.sub(column, first)), self._index(unit, channel, (*line, column)))
            self.frame.lanes_left(lanes, f.sub(behind, column), write)

        f.loop(first, behind, lanes, vector, at_least_once=True)

    def _sums_of(self, plane: Int, line: Int) -> Int:
        """Where the sums of a line begin, of a filter."""
        f, pixels = self.frame.f, self.registers[1]
        step, pitch = (self.frame.size(each(pixels)) for each in (self.window.sums_step, self.window.sums_pitch))
        return f.add(f.mul(plane, step), f.mul(line, pitch))

    def _index(self, unit: _Unit, channel: Int, within: tuple[Int, Int, Int]) -> tuple[Index, ...]:
        """Where a result is, which is so many planes, lines and columns behind the first of a unit."""
        f, positions = self.frame.f, list(unit.first)
        for ordinal, ahead in zip(range(-len(positions), 0)[-3:], within[-len(positions) :], strict=True):
            positions[ordinal] = f.add(positions[ordinal], ahead)
        if self.window.lines_are_one:
            flat: Int = 0
            for position, axis in zip(positions, self.window.axes, strict=True):
                flat = f.add(f.mul(flat, self.frame.size(axis.size)), position)
            positions = [flat]
        return (*map(Index, (unit.image, channel, *positions[:-1])), Index(positions[-1], 1))

    @cached_property
    def leaves(self) -> Mapping[Value, View] | None:
        """What the epilogue reads where all pixels are one axis."""
        block, rank = self.frame.kernel.block, self.op.result.rank
        are_one = self.window.lines_are_one or is_flat(self.op, block, self.x)
        return epilogue_leaves(block, self.op, 2, rank) if are_one else None

    def _write(self, sums: Int, index: tuple[Index, ...], mask: Reg | None) -> None:
        frame, f, root = self.frame, self.frame.f, self.frame.root
        e = frame.evaluator(frame.lanes, mask)
        e.bound[self.op.result] = f.load(self.vector, f.gep(self.tile, sums, self.element))
        if self.leaves is not None:
            e.bind_views(self.leaves, index)
        strides = row_major(root.shape)
        offset = e.strided(index, strides if self.leaves is None else (*strides[:2], 1))
        e.store(to_memory(e.value(root, index), root.dtype, f), frame.output, memory_type(root.dtype), offset)
