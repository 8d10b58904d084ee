"""Convolution whose results are planes: lanes are neighbouring pixels, which lie side by side in the result.

A unit of work is some lines of the planes of a group, of one image. What their windows read is copied once, padding
included, so that a product reads vectors wherever its tap is; lines behind each other are one row of pixels, the last
few of each line left out. A few filters at a time are summed in registers, for all that they read.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, reduce
from math import prod

from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.packing import read_strided, steps_of
from onnxc.compiler.codegen_cpu.inner_loops.plane_kernels import PlaneKernel
from onnxc.compiler.codegen_cpu.inner_loops.turned_squares import turn_square
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.schedules.open_planes import channel_room, window_at_call
from onnxc.compiler.codegen_cpu.schedules.planes import MOST_SUMS, PlaneWindow, is_flat, plane_window
from onnxc.compiler.codegen_host.llvm_ir import as_reg
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.domain import epilogue_leaves
from onnxc.compiler.planning.loops.views import View, operand_views, row_major
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.runtime.records import record


def emit_planes(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution whose result has its channels before its pixels."""
    x, w = operand_views(op)
    tile = frame.kernel.scheduled(ConvolutionSchedule).tile
    most = plane_window(op, frame.kernel.block, x, frame.lanes, (tile.depth, tile.rows, tile.columns))
    return _Planes(frame, op, x, w, window_at_call(most), channel_room(most)).emit(name)


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
class _Planes:
    frame: KernelFrame
    op: Op
    x: View
    w: View
    window: PlaneWindow
    channel_room: int

    @cached_property
    def element(self) -> str:
        return memory_type(self.op.dtype())

    @cached_property
    def vector(self) -> str:
        return vector_type(self.element, self.frame.lanes)

    @cached_property
    def registers(self) -> tuple[int, int]:
        """How many filters are summed at once, and pixels."""
        registers = self.frame.kernel.scheduled(ConvolutionSchedule).registers
        assert registers is not None, self.frame.kernel.schedule
        return registers.rows, registers.columns

    @cached_property
    def filters(self) -> int:
        """Those of a group."""
        return known_sizes(self.op.operands[1].shape[:1])[0] // self.op.int("groups")

    @cached_property
    def channels_lie_last(self) -> bool:
        """Whether the channels of a pixel lie side by side, and pixels do not: what is copied is turned."""
        axes = parse_dimensions(self.op.text("dimensions")).x
        return self.x.strides[axes.channel] == 1 and self.window.axes[-1].stride != 1

    @cached_property
    def depth(self) -> int:
        """How much is summed."""
        return self.window.channels * prod(self.window.taps)

    @cached_property
    def channels(self) -> int:
        """Those that there is room for: whole squares of what is turned."""
        lanes, channels = self.frame.lanes, self.window.channels
        return -(-channels // lanes) * lanes if self.channels_lie_last else channels

    @cached_property
    def room(self) -> Reg:
        """What of the image a unit reads, with as much behind it as is read at once."""
        return self.frame.f.alloca(self.element, self.channels * self.channel_room + self.registers[1])

    @property
    def pitch(self) -> Int:
        """How far apart lines are in what was copied."""
        return self.frame.size(self.window.pitch)

    @property
    def channel_step(self) -> Int:
        """How far apart channels are in it."""
        return self.frame.size(self.window.channel_step)

    @property
    def tile_step(self) -> Int:
        """How far the sums of a filter are from those of the next."""
        return self.frame.size(self.window.sums(self.registers[1]))

    @cached_property
    def tile(self) -> Reg:
        """[filter][plane][line][column]."""
        sums = self.window.sums(self.registers[1])
        return self.frame.f.alloca(self.element, self.registers[0] * (sums if isinstance(sums, int) else MOST_SUMS))

    @cached_property
    def offsets(self) -> Reg:
        """How far behind the place of a pixel what it reads lies, for each number of a filter."""
        return self.frame.f.alloca("i64", self.depth)

    # Units

    def emit(self, name: str) -> KernelCode:
        """The loop over units."""
        frame, f, axes = self.frame, self.frame.f, self.window.axes
        parts = [floordiv(axis.size + axis.count - 1, axis.count) for axis in axes]
        shape = (self.op.result.shape[0], self.op.int("groups"), *parts)
        self._find_offsets()
        self._clear_ends()

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
        panels = -(-self.filters // filters)
        base = self.frame.inputs[self.frame.kernel.block.parameters.index(self.w.base)]
        # Lines one by one, or all as one.
        lines, columns = unit.lines, unit.columns
        if window.sums_pitch(pixels) == window.pitch:
            lines, columns = 1, f.add(f.mul(f.sub(lines, 1), self.pitch), columns)
        kernel = PlaneKernel(self.element, filters, pixels // self.frame.lanes).name

        def panel(ordinal: Int) -> None:
            offset = f.mul(f.add(f.mul(unit.group, panels), ordinal), self.depth * filters)
            panel_filters = f.gep(base, offset, self.element)

            def block(plane: Int, line: Int, column: Int) -> None:
                plane_step = self.frame.size(window.plane_step)
                read = f.add(f.mul(plane, plane_step), f.add(f.mul(line, self.pitch), column))
                image = f.gep(self.room, read, self.element)
                tile = f.gep(self.tile, f.add(self._sums_of(plane, line), column), self.element)
                f.call(kernel, "void", image, self.offsets, self.depth, panel_filters, tile, self.tile_step)

            def line(plane: Int, ordinal: Int) -> None:
                f.loop(0, columns, pixels, partial(block, plane, ordinal), at_least_once=True)

            def plane(ordinal: Int) -> None:
                f.loop(0, lines, 1, partial(line, ordinal), at_least_once=True)

            f.loop(0, unit.planes, 1, plane, at_least_once=True)
            self._finish(unit, f.mul(ordinal, filters))

        f.loop(0, panels, 1, panel)

    # Where products read

    def _find_offsets(self) -> None:
        """The offsets of the taps of the first channel, and those of the others, a channel further each."""
        f, taps, window = self.frame.f, prod(self.window.taps), self.window

        def tap(ordinal: Int) -> None:
            rows: list[Int] = []
            behind: Int = 0
            for axis, position in zip(window.axes, self.frame.split(ordinal, window.taps), strict=True):
                element_offset = f.mul(position, axis.dilation)
                shift = f.udiv(element_offset, axis.step)
                phase = f.sub(element_offset, f.mul(shift, axis.step)) if axis.phases > 1 else 0
                rows = [phase, *rows] if axis is window.axes[-1] else [*rows, phase, shift]
                behind = shift
            offset = f.add(f.mul(self._row(rows), self.pitch), behind)
            f.store(offset, f.gep(self.offsets, ordinal, "i64"), align=8)

        def next_channel(k: Int) -> None:
            before = f.load("i64", f.gep(self.offsets, f.sub(k, taps), "i64"), align=8)
            f.store(f.add(before, self.channel_step), f.gep(self.offsets, k, "i64"), align=8)

        f.loop(0, taps, 1, tap)
        f.loop(taps, self.depth, 1, next_channel)

    def _row(self, coordinates: Sequence[Int]) -> Int:
        f, ordinal = self.frame.f, as_reg(0)
        for coordinate, size in zip(coordinates, self.window.rows, strict=True):
            ordinal = as_reg(f.add(f.mul(ordinal, self.frame.size(size)), coordinate))
        return ordinal

    # Copies

    def _clear_ends(self) -> None:
        """Zeros behind each channel, and behind the last: what only sums that nobody wants read may take long."""
        f, lanes, step = self.frame.f, self.frame.lanes, self.channel_step
        stop, zero = f.mul(self.channels, step), self.frame.f.constant(self.vector, 0.0)

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
        base = frame.inputs[frame.kernel.block.parameters.index(self.x.base)]
        begins = [
            f.sub(f.mul(first, axis.step), frame.size(axis.low))
            for first, axis in zip(unit.first, window.axes, strict=True)
        ]

        def row(ordinal: Int) -> None:
            last, *others = frame.split(ordinal, window.rows)
            offset, inside = start, list[Reg]()
            outer = zip(window.axes[:-1], begins[:-1], others[::2], others[1::2], strict=True)
            for axis, begin, phase, index in outer:
                position = f.add(begin, f.add(f.mul(index, axis.step), phase))
                inside.append(f.icmp("ult", position, frame.size(axis.image)))
                offset = f.add(offset, f.mul(position, frame.size(axis.stride)))
            line, target = f.gep(base, offset, self.element), f.mul(ordinal, self.pitch)
            column = f.add(begins[-1], last)
            copy = self._turn_line if self.channels_lie_last else self._copy_line
            is_inside = reduce(f.and_, inside, f.constant("i1", 1))
            f.if_(is_inside, partial(copy, line, column, step, target), partial(self._clear_line, target))

        f.loop(0, frame.size(product(window.rows)), 1, row, at_least_once=True)

    def _fill_line(self, target: Int, read: Callable[[Int, Int], Reg]) -> None:
        """A row of each channel, in whole vectors: read(channel, column). What is behind its end is written later."""
        f, window = self.frame.f, self.window

        def channel(ordinal: Int) -> None:
            row = f.gep(self.room, f.add(f.mul(ordinal, self.channel_step), target), self.element)

            def vector(column: Int) -> None:
                f.store(read(ordinal, column), f.gep(row, column, self.element))

            f.loop(0, self.pitch, self.frame.lanes, vector, at_least_once=True)

        f.loop(0, window.channels, 1, channel, at_least_once=True)

    def _clear_line(self, target: Int) -> None:
        zero = self.frame.f.constant(self.vector, 0.0)
        self._fill_line(target, lambda channel, column: zero)

    def _copy_line(self, line: Reg, first: Int, step: Int, target: Int) -> None:
        """Channels `step` apart, from a position on."""
        f, axis = self.frame.f, self.window.axes[-1]

        def read(channel: Int, column: Int) -> Reg:
            source = f.gep(line, f.mul(channel, step), self.element)
            return self._read(source, f.add(first, f.mul(column, axis.step)))

        self._fill_line(target, read)

    def _read(self, line: Reg, position: Int) -> Reg:
        """Elements of a line from a position on, a step of windows apart; zeros outside of it."""
        f, lanes, axis = self.frame.f, self.frame.lanes, self.window.axes[-1]
        size, stride = self.frame.size(axis.image), self.frame.size(axis.stride)
        address, steps = (
            f.gep(line, f.mul(position, stride), self.element),
            steps_of(f, f.mul(stride, axis.step), lanes),
        )
        # Of every second element two dense vectors are read, and so one behind the last.
        reach = lanes * axis.step - 1 if self._reads_pairs else (lanes - 1) * axis.step
        is_within = f.and_(f.icmp("sge", position, 0), f.icmp("slt", f.add(position, reach), size))

        def within() -> Sequence[Reg]:
            if not self._reads_pairs:
                return [read_strided(f, self.vector, address, steps, None)]
            low, high = (f.load(self.vector, f.gep(address, start, self.element)) for start in (0, lanes))
            return [f.shuffle(low, high, range(0, 2 * lanes, 2))]

        def across() -> Sequence[Reg]:
            vector = vector_type("i64", lanes)
            positions = f.mul(f.lane_ids(vector), f.splat(as_reg(axis.step), lanes))
            positions = f.add(positions, f.splat(as_reg(position), lanes))
            mask = f.icmp("ult", positions, f.splat(as_reg(size), lanes))
            return [read_strided(f, self.vector, address, steps, mask)]

        return f.if_(is_within, within, across)[0]

    @cached_property
    def _reads_pairs(self) -> bool:
        axis = self.window.axes[-1]
        return (axis.stride, axis.step) == (1, 2)

    def _turn_line(self, line: Reg, first: Int, step: Int, target: Int) -> None:
        """Channels side by side, from a position on: squares of them and of pixels."""
        f, lanes, window = self.frame.f, self.frame.lanes, self.window
        axis = window.axes[-1]
        stride, size = self.frame.size(axis.stride), self.frame.size(axis.image)

        def square(channel: Int, column: Int) -> None:
            mask, rows = f.tail_mask(lanes, f.sub(window.channels, channel)), list[Reg]()
            for lane in range(lanes):
                position = f.add(first, f.mul(f.add(column, lane), axis.step))
                exists = f.splat(f.icmp("ult", position, size), lanes)
                address = f.gep(line, f.add(f.mul(position, stride), channel), self.element)
                zeros = f.constant(self.vector, 0.0)
                rows.append(masked_load(f, self.vector, address, f.and_(mask, exists), passthru=zeros))
            for lane, row in enumerate(turn_square(f, rows)):
                offset = f.add(f.mul(f.add(channel, lane), self.channel_step), f.add(target, column))
                f.store(row, f.gep(self.room, offset, self.element))

        def squares(channel: Int) -> None:
            f.loop(0, self.pitch, lanes, partial(square, channel), at_least_once=True)

        f.loop(0, window.channels, lanes, squares, at_least_once=True)

    # The way to the result

    def _finish(self, unit: _Unit, filter: Int) -> None:
        """The pointwise ops on the sums of filters from one on, and their way to the result."""
        f, lanes = self.frame.f, self.frame.lanes
        rows = f.smin(f.sub(self.filters, filter), self.registers[0])

        def row(ordinal: Int) -> None:
            channel = f.add(f.mul(unit.group, self.filters), f.add(filter, ordinal))

            def line(plane: Int, position: Int) -> None:
                sums = f.add(f.mul(ordinal, self.tile_step), self._sums_of(plane, position))

                def vector(column: Int) -> None:
                    source = f.gep(self.tile, f.add(sums, column), self.element)
                    pixel = self._pixel(unit, (plane, position, column))
                    write = partial(self._write, source, (Index(unit.image), Index(channel), *pixel))
                    self.frame.lanes_left(lanes, f.sub(unit.columns, column), write)

                f.loop(0, unit.columns, lanes, vector, at_least_once=True)

            def plane(position: Int) -> None:
                f.loop(0, unit.lines, 1, partial(line, position), at_least_once=True)

            f.loop(0, unit.planes, 1, plane, at_least_once=True)

        f.loop(0, rows, 1, row, at_least_once=True)

    def _sums_of(self, plane: Int, line: Int) -> Int:
        """Where the sums of a line begin, of a filter."""
        f, pixels = self.frame.f, self.registers[1]
        step, pitch = (self.frame.size(each(pixels)) for each in (self.window.sums_step, self.window.sums_pitch))
        return f.add(f.mul(plane, step), f.mul(line, pitch))

    def _pixel(self, unit: _Unit, within: tuple[Int, Int, Int]) -> tuple[Index, ...]:
        """Where a result is, which is so many planes, lines and columns behind the first of a unit."""
        f, positions = self.frame.f, list(unit.first)
        for axis, ahead in zip(range(-len(positions), 0)[-3:], within[-len(positions) :], strict=True):
            positions[axis] = f.add(positions[axis], ahead)
        return (*map(Index, positions[:-1]), Index(positions[-1], 1))

    @cached_property
    def leaves(self) -> Mapping[Value, View] | None:
        """What the epilogue reads where all pixels are one axis."""
        block, rank = self.frame.kernel.block, self.op.result.rank
        return epilogue_leaves(block, self.op, 2, rank) if is_flat(self.op, block, self.x) else None

    def _write(self, source: Reg, index: tuple[Index, ...], mask: Reg | None) -> None:
        frame, f, root = self.frame, self.frame.f, self.frame.root
        e = frame.evaluator(frame.lanes, mask)
        e.bound[self.op.result] = f.load(self.vector, source)
        if self.leaves is not None:
            e.bind_views(self.leaves, index)
        strides = row_major(root.shape)
        offset = e.strided(index, strides if self.leaves is None else (*strides[:2], 1))
        e.store(to_memory(e.value(root, index), root.dtype, f), frame.output, memory_type(root.dtype), offset)
