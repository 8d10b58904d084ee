"""Convolution by columns: each pixel is multiplied by all taps of a filter, and the products are added to the results.

A unit of work is some filters of a group, of one image. Some lines of the image are multiplied at a time, by a few taps
in registers; what comes of them is added to the sums of the unit, line by line, which lie with each phase of the last
axis by itself. When all are there, the phases are brought between each other on their way to the result.
"""

from collections.abc import Sequence
from functools import cached_property
from math import prod

from onnxc.compiler.codegen_cpu.convolutions.float_convolution import FloatConvolution
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.column_kernels import ColumnKernel
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.schedules.columns import ColumnSums, column_sums
from onnxc.compiler.codegen_cpu.shuffles import pick_lanes
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.planning.loops.views import operand_views
from onnxc.runtime.records import record


def emit_columns(frame: KernelFrame, op: Op, name: str) -> KernelCode:
    """The code of a convolution that adds up what each pixel is multiplied to."""
    x, w = operand_views(op)
    return _Columns(frame, op, x, w, column_sums(op)).emit(name)


@record
class _Unit:
    """Its image and group, the first filter of the group, and how many there are."""

    image: Int
    group: Int
    first: Int
    filters: Int


@record
class _Block:
    """Lines of an image from one on, and columns of each: several lines are whole."""

    line: Int
    lines: Int
    column: Int
    columns: Int


@record
class _Columns(FloatConvolution):
    sums: ColumnSums

    @property
    def panels(self) -> int:
        """How many times as many taps a unit has at most."""
        return -(-self.schedule.tile.depth * self.sums.taps // self.registers[0])

    @cached_property
    def totals(self) -> Reg:
        """[filter][*outer axes][phase][column], and room for what whole vectors write behind them."""
        count = self.schedule.tile.depth * self.sums.elements
        return self.frame.f.alloca(self.element, self._in_vectors(count) + self.frame.lanes)

    @cached_property
    def filters(self) -> Reg:
        """[panel][channel][tap of it] of a unit."""
        return self.frame.f.alloca(self.element, self.panels * self.sums.channels * self.registers[0])

    @cached_property
    def tile_step(self) -> int:
        """How far the products of a tap are from those of the next: whole registers of pixels."""
        pixels = self.registers[1]
        return -(-self.schedule.tile.rows * self.schedule.tile.columns // pixels) * pixels

    @cached_property
    def tile(self) -> Reg:
        """[tap][pixel] of a block, and a vector behind them, which the last line of a tap may read."""
        return self.frame.f.alloca(self.element, self.registers[0] * self.tile_step + self.frame.lanes)

    @cached_property
    def line_offsets(self) -> Reg:
        """Where the sums begin that the first pixel of each line adds to, by a tap without a shift."""
        return self.frame.f.alloca("i64", self.sums.lines)

    @cached_property
    def tap_offsets(self) -> Reg:
        """How far behind those the sums of each tap of each filter of a unit lie."""
        return self.frame.f.alloca("i64", self.panels * self.registers[0])

    def _in_vectors(self, count: int) -> int:
        return -(-count // self.frame.lanes) * self.frame.lanes

    # Units

    def emit(self, name: str) -> KernelCode:
        """The loop over units."""
        frame, f, most = self.frame, self.frame.f, self.schedule.tile.depth
        shape = (self.op.result.shape[0], self.op.int("groups"), -(-self.sums.filters // most))
        self._note_lines()
        self._note_taps()
        self._clear(self.filters, self.panels * self.sums.channels * self.registers[0])

        def unit(ordinal: Reg) -> None:
            image, group, block = frame.split(ordinal, shape)
            first = f.mul(block, most)
            self._unit(_Unit(image, group, first, f.smin(f.sub(self.sums.filters, first), most)))

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        work = most * self.sums.taps * self.sums.channels * self.sums.lines * self.sums.last.image
        library = ColumnKernel(self.element, self.registers[0], self.registers[1] // frame.lanes)
        return KernelCode(name, (f,), product(shape), frame.grain(work), (library,))

    def _unit(self, unit: _Unit) -> None:
        f, tile, sums = self.frame.f, self.schedule.tile, self.sums
        self._clear(self.totals, self._in_vectors(tile.depth * sums.elements))
        self._pack(unit)

        def lines(first: Int) -> None:
            count = f.smin(f.sub(sums.lines, first), tile.rows)

            def columns(begin: Int) -> None:
                width = f.smin(f.sub(sums.last.image, begin), tile.columns)
                self._add_block(unit, _Block(first, count, begin, width))

            f.loop(0, sums.last.image, tile.columns, columns, at_least_once=True)

        f.loop(0, sums.lines, tile.rows, lines, at_least_once=True)
        self._finish(unit)

    def _clear(self, room: Reg, count: int) -> None:
        """Zeros; what is behind the last whole vector is written one by one."""
        f, lanes = self.frame.f, self.frame.lanes
        zero, whole = f.constant(self.vector, 0.0), count // lanes * lanes
        f.loop(0, whole, lanes, lambda offset: f.store(zero, f.gep(room, offset, self.element)))
        one = f.constant(self.element, 0.0)
        f.loop(whole, count, 1, lambda offset: f.store(one, f.gep(room, offset, self.element)))

    # Where products are added

    def _note_lines(self) -> None:
        f, sums = self.frame.f, self.sums

        def line(ordinal: Int) -> None:
            offset: Int = 0
            positions = self.frame.split(ordinal, [axis.image for axis in sums.axes[:-1]])
            for axis, position, stride in zip(sums.axes[:-1], positions, sums.strides, strict=True):
                offset = f.add(offset, f.mul(position, axis.spread * stride))
            f.store(offset, f.gep(self.line_offsets, ordinal, "i64"), align=8)

        f.loop(0, sums.lines, 1, line, at_least_once=True)

    def _note_taps(self) -> None:
        f, sums, last = self.frame.f, self.sums, self.sums.last

        def tap(ordinal: Int) -> None:
            filter, *taps = self.frame.split(ordinal, (self.schedule.tile.depth, *(axis.taps for axis in sums.axes)))
            offset = f.mul(filter, sums.elements)
            for axis, position, stride in zip(sums.axes[:-1], taps[:-1], sums.strides, strict=True):
                shift = f.sub(axis.before + axis.low, f.mul(position, axis.dilation))
                offset = f.add(offset, f.mul(shift, stride))
            shift = f.sub(last.phase_before * last.spread + last.low, f.mul(taps[-1], last.dilation))
            column = f.udiv(shift, last.spread)
            phase = f.sub(shift, f.mul(column, last.spread))
            offset = f.add(offset, f.add(f.mul(phase, last.phase_extent), column))
            f.store(offset, f.gep(self.tap_offsets, ordinal, "i64"), align=8)

        f.loop(0, self.schedule.tile.depth * sums.taps, 1, tap, at_least_once=True)

    def _pack(self, unit: _Unit) -> None:
        """filters[panel][channel][tap] of the filters of a unit."""
        f, sums, rows = self.frame.f, self.sums, self.registers[0]
        base = self.frame.inputs[self.frame.kernel.block.parameters.index(self.w.base)]
        labels = parse_dimensions(self.op.text("dimensions")).w
        output, channels = (self.frame.size(self.w.strides[axis]) for axis in (labels.output, labels.input))
        steps = [self.frame.size(self.w.strides[axis]) for axis in labels.spatial]
        start = f.add(f.mul(unit.group, sums.filters), unit.first)

        def tap(ordinal: Int) -> None:
            filter, *taps = self.frame.split(ordinal, (self.schedule.tile.depth, *(axis.taps for axis in sums.axes)))
            offset = f.add(self.frame.size(self.w.offset), f.mul(f.add(start, filter), output))
            for position, step in zip(taps, steps, strict=True):
                offset = f.add(offset, f.mul(position, step))
            panel = f.udiv(ordinal, rows)
            lane = f.sub(ordinal, f.mul(panel, rows))
            target = f.add(f.mul(panel, sums.channels * rows), lane)

            def channel(k: Int) -> None:
                read = f.load(self.element, f.gep(base, f.add(offset, f.mul(k, channels)), self.element))
                f.store(read, f.gep(self.filters, f.add(target, f.mul(k, rows)), self.element))

            f.loop(0, sums.channels, 1, channel, at_least_once=True)

        f.loop(0, f.mul(unit.filters, sums.taps), 1, tap, at_least_once=True)

    # Products

    def _add_block(self, unit: _Unit, block: _Block) -> None:
        f, sums, (rows, pixels) = self.frame.f, self.sums, self.registers
        labels = parse_dimensions(self.op.text("dimensions")).x
        base = self.frame.inputs[self.frame.kernel.block.parameters.index(self.x.base)]
        images, step = (self.frame.size(self.x.strides[axis]) for axis in (labels.batch, labels.channel))
        offset = f.add(self.frame.size(self.x.offset), f.mul(unit.image, images))
        offset = f.add(offset, f.mul(f.mul(unit.group, sums.channels), step))
        offset = f.add(offset, f.add(f.mul(block.line, sums.last.image), block.column))
        image = f.gep(base, offset, self.element)
        count, taps = f.mul(block.lines, block.columns), f.mul(unit.filters, sums.taps)
        name = ColumnKernel(self.element, rows, pixels // self.frame.lanes).name

        def panel(first: Int) -> None:
            factors = f.gep(self.filters, f.mul(first, sums.channels), self.element)

            def multiply(pixel: Int) -> None:
                source, tile = (f.gep(each, pixel, self.element) for each in (image, self.tile))
                f.call(name, "void", source, step, sums.channels, factors, tile, self.tile_step, f.sub(count, pixel))

            f.loop(0, count, pixels, multiply, at_least_once=True)

            def tap(row: Int) -> None:
                shift = f.load("i64", f.gep(self.tap_offsets, f.add(first, row), "i64"), align=8)
                self._add_lines(block, f.mul(row, self.tile_step), f.add(shift, block.column))

            f.loop(0, f.smin(f.sub(taps, first), rows), 1, tap, at_least_once=True)

        f.loop(0, taps, rows, panel, at_least_once=True)

    def _add_lines(self, block: _Block, products: Int, shift: Int) -> None:
        """Adds the products of a tap, which begin at an offset in the tile, to the sums so far behind their lines."""
        f, lanes = self.frame.f, self.frame.lanes

        def line(ordinal: Int) -> None:
            begin = f.load("i64", f.gep(self.line_offsets, f.add(block.line, ordinal), "i64"), align=8)
            sums = f.gep(self.totals, f.add(begin, shift), self.element)
            read = f.gep(self.tile, f.add(products, f.mul(ordinal, block.columns)), self.element)

            def add(mask: Reg | None, column: Int) -> None:
                place, x = f.gep(sums, column, self.element), f.load(self.vector, f.gep(read, column, self.element))
                # What is behind a line is of the next one, and other sums.
                more = x if mask is None else f.select(mask, x, f.constant(self.vector, 0.0))
                f.store(f.fadd(f.load(self.vector, place), more), place)

            whole = f.and_(block.columns, -lanes)
            f.loop(0, whole, lanes, lambda column: add(None, column))
            left = f.sub(block.columns, whole)

            def rest() -> None:
                add(f.tail_mask(lanes, left), whole)

            f.if_(f.icmp("sgt", left, 0), rest)

        f.loop(0, block.lines, 1, line, at_least_once=True)

    # The way to the result

    def _finish(self, unit: _Unit) -> None:
        f, sums, last = self.frame.f, self.sums, self.sums.last
        outer, lanes = sums.axes[:-1], self.frame.lanes
        phases = -(-last.size // last.spread)

        def row(ordinal: Int) -> None:
            filter, *positions = self.frame.split(ordinal, (self.schedule.tile.depth, *(axis.size for axis in outer)))
            offset = f.add(f.mul(filter, sums.elements), last.phase_before)
            for axis, position, stride in zip(outer, positions, sums.strides, strict=True):
                offset = f.add(offset, f.mul(f.add(position, axis.before), stride))
            channel = f.add(f.add(f.mul(unit.group, sums.filters), unit.first), filter)
            before = (unit.image, channel, *positions)

            def columns(first: Int) -> None:
                self._write_columns(before, f.add(offset, first), f.mul(first, last.spread))

            f.loop(0, phases, lanes, columns, at_least_once=True)

        f.loop(0, f.mul(unit.filters, prod(axis.size for axis in outer)), 1, row, at_least_once=True)

    def _write_columns(self, before: Sequence[Int], offset: Int, column: Int) -> None:
        """A vector of sums of each phase, which begin at an offset, as results from a column on."""
        f, lanes, last = self.frame.f, self.frame.lanes, self.sums.last
        phases = [
            f.load(self.vector, f.gep(self.totals, f.add(offset, phase * last.phase_extent), self.element))
            for phase in range(last.spread)
        ]
        for ordinal in range(last.spread):
            positions = range(ordinal * lanes, (ordinal + 1) * lanes)
            picks = [place % last.spread * lanes + place // last.spread for place in positions]
            result = pick_lanes(f, phases, picks)
            at = f.add(column, ordinal * lanes)

            def write(mask: Reg | None, result: Reg = result, at: Int = at) -> None:
                index = (*map(Index, before), Index(at, 1))
                write_result(self.frame.evaluator(lanes, mask), self.frame, self.op, result, index)

            self.frame.lanes_left(lanes, f.sub(last.size, at), write)
