"""Windows: folds of a rectangle that slides along every axis, and the place of its maximum.

A unit of work is a band of rows of the result. All that a row of windows meets is folded to one line, with the padding
beside it, and that line to the results, once the lines of the next rows are there. Windows of one line, of one element
in each, or few in a row go down the band together, as many along the last axis as there are lanes: what a window shares
with the one above is folded once. Where a row has one window, or few that begin far apart, lanes are the taps of one.
Padding is skipped on the other axes, and masked on the last.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce

import numpy as np

from onnxc.compiler.codegen_cpu.convolutions.line_windows import LineWindows
from onnxc.compiler.codegen_cpu.element_types import from_memory, memory_type, register_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.reduction import combine, fold_lanes
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.scalars import table_of
from onnxc.compiler.codegen_cpu.schedules.windows import LARGEST_SHARED
from onnxc.compiler.codegen_cpu.shuffles import LARGEST_SHUFFLED_STRIDE
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.rows import identity
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.planning.schedules import WindowSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

FEWEST_TAPS = 4
"""Windows of fewer taps along the last axis leave most lanes empty where each is folded on its own. An estimate."""

TOGETHER = (4, 8)
"""Which part of the registers has the vectors of channels that go down a band together, and of those that are left.

Along a row of the image a channel is as far from the next place as there are channels. us on one core with AVX-512, one
vector after another, 4 and 8 together: sums of 3 x 3 windows of f32[8, 14, 14, 512] 252, 141, 105; maxima of f32[1, 28,
28, 256], 5 x 5 86, 49, 49; of f32[1, 56, 56, 64], 2 apart, 18.9, 12.6."""

LARGEST_UNROLLED = 16
"""More taps along an axis are a loop."""


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a window kernel."""
    frame = open_kernel(kernel, name, target)
    op = next(op for op in kernel.block.ops if op.name in ("reduce_window", "arg_reduce_window"))
    source, view = operand_in_memory(frame, op.operands[0])
    windows = _Windows(frame, op, source, view, _axes(frame, op, view))
    *outer, rows, columns = windows.results
    band_rows = windows.band_rows
    bands = floordiv(rows + band_rows - 1, band_rows)
    if windows.schedule.algorithm == "lines":
        windows.folded_lines.clear()
    frame.each_unit((*outer, bands), lambda *coordinates: windows.unit(coordinates))
    frame.f.ret()
    work = minimum(rows, band_rows) * columns * product(op.ints("window"))
    return KernelCode(name, (frame.f,), product(outer) * bands, frame.grain(work))


@record
class _Axis:
    """An axis of the operand, `element_stride` in memory, and windows of `taps` along it that begin `step` apart."""

    f: FunctionBuilder
    size: Int
    element_stride: Int
    taps: int
    step: int
    dilation: int
    low: Int
    is_padded: bool

    def start(self, result: Int) -> Int:
        """Where the window of a result begins: before 0 in the padding."""
        return self.f.sub(self.f.mul(result, self.step), self.low)

    def holds(self, result: Int) -> Reg:
        """Whether the window of a result lies within the operand."""
        f, start = self.f, self.start(result)
        end = f.add(start, (self.taps - 1) * self.dilation + 1)
        return as_reg(f.and_(f.icmp("sge", start, 0), f.icmp("sle", end, self.size)))

    def taps_inside(self, start: Int) -> tuple[Int, Int]:
        """The first tap that is not before the operand, and the first that is behind it."""
        if not self.is_padded:
            return 0, self.taps
        f, dilation = self.f, self.dilation
        low, high = (
            f.smin(f.udiv(f.add(f.smax(count, 0), dilation - 1), dilation), self.taps)
            for count in (f.neg(start), f.sub(self.size, start))
        )
        return low, high


@record
class _Column:
    """As many windows of a row as there are lanes, whose first taps on each line begin at place `first`.

    Where not all taps of all lanes are `is_inside` the lines, `masks` say which lanes each load may read; they are
    None where the taps are read one by one.
    """

    windows: LineWindows
    first: Int
    is_inside: bool
    masks: Mapping[int, Reg] | None

    def read(self, address: Reg, ahead: Int) -> tuple[Reg, ...]:
        """A vector for each tap, from `ahead` places behind the first on."""
        position = self.windows.f.add(self.first, ahead)
        masks = self.windows.load_masks(position) if self.masks is None and not self.is_inside else self.masks
        return self.windows.read(address, position, masks)


Band = tuple[tuple[Int, ...], Int, Int]
"""The coordinates before the rows, and the first and last row."""


@record
class _Windows:
    """One kernel: the operand is `view` of the buffer `source`, and `axes` are those of `results`."""

    frame: KernelFrame
    op: Op
    source: Reg
    view: View
    axes: tuple[_Axis, ...]

    @property
    def schedule(self) -> WindowSchedule:
        """How the kernel is computed."""
        return self.frame.kernel.scheduled(WindowSchedule)

    @property
    def band_rows(self) -> int:
        """Rows of the result in a unit of work."""
        return self.schedule.block

    @cached_property
    def dtype(self) -> DType:
        return self.op.operands[0].dtype

    @cached_property
    def kind(self) -> str:
        return self.op.text("kind")

    @cached_property
    def results(self) -> tuple[Dim, ...]:
        """The shape of the result; a vector is one row."""
        shape = self.op.results[0].shape
        return shape if len(shape) > 1 else (1, *shape)

    @cached_property
    def folded_lines(self) -> "_FoldedLines":
        """The lines on the stack."""
        return _FoldedLines(self)

    @cached_property
    def outside(self) -> Reg:
        """What the padding holds, as an element in memory."""
        f, neutral = self.frame.f, identity(self.kind, self.dtype)
        if self.dtype in (F16, BF16):
            return f.constant("i16", int(np.array(neutral, self.dtype.numpy).view(np.uint16)))
        return f.constant(memory_type(self.dtype), neutral)

    # Bands

    def unit(self, coordinates: Sequence[Int]) -> None:
        """The results of one band; `coordinates` are the coordinates before the rows, and its number."""
        frame, f, (*_, rows, columns) = self.frame, self.frame.f, self.results
        *outer, band = coordinates
        start = f.mul(band, self.band_rows)
        stop = f.smin(f.add(start, self.band_rows), frame.size(rows))
        if self.schedule.algorithm == "lines":
            self._strips((tuple(outer), start, stop))
        elif self._stands_alone:
            f.loop(start, stop, 1, lambda row: self._windows_of_row((*outer, row)))
        else:
            self._columns((tuple(outer), start, stop), frame.size(columns))

    def _columns(self, band: Band, columns: Int) -> None:
        """All windows of a band: several vectors together where each lane has a window of its own elements."""
        f, lanes, axis = self.frame.f, self.frame.lanes, self.axes[-1]
        first: Int = 0
        has_own = (axis.taps, axis.step, axis.element_stride) == (1, 1, 1) and not axis.is_padded
        if self.op.name == "reduce_window" and has_own:
            for share in TOGETHER:
                windows = self.line_windows(1, 1, lanes * (f.vector_registers // share))
                first = self._wide_columns(band, windows, first, columns)
        f.loop(first, columns, lanes, lambda column: self._column(band, column))

    def _wide_columns(self, band: Band, windows: LineWindows, first: Int, columns: Int) -> Int:
        """Columns from `first` on, without masks, as many at once as the windows have lanes; the first that is left."""
        f = self.frame.f
        stop = f.add(first, f.mul(f.udiv(f.sub(columns, first), windows.lanes), windows.lanes))

        def rows(column: Int) -> None:
            self._rows(band, column, None, _Column(windows, column, is_inside=True, masks=None))

        f.loop(first, stop, windows.lanes, rows)
        return stop

    @property
    def _stands_alone(self) -> bool:
        """Whether lanes are the taps of one window: of the only one of a row, or of few that would be gathered.

        MaxPool of 7 x 7 with 4 windows in a row takes 90 us so and 240 gathered, with 16 windows 470 and 420.
        """
        axis, columns = self.axes[-1], self.results[-1]
        is_gathered = axis.element_stride == 1 and axis.step > LARGEST_SHUFFLED_STRIDE and axis.taps >= FEWEST_TAPS
        are_few = isinstance(columns, int) and (columns == 1 or (is_gathered and columns <= self.frame.lanes // 2))
        return self.op.name == "reduce_window" and are_few

    def _windows_of_row(self, results: Sequence[Int]) -> None:
        """The results at all columns, one after another; `results` are the coordinates before."""
        columns = self.frame.size(self.results[-1])

        def window(column: Int) -> None:
            self._write(None, self._one_window(results, column), (*results, column))

        self.frame.f.loop(0, columns, 1, window)

    def _column(self, band: Band, column: Int) -> None:
        """The windows from `column` on in each row of a band: by plain loads where no tap needs a mask."""
        frame, f, lanes, axis = self.frame, self.frame.f, self.frame.lanes, self.axes[-1]
        group = axis.taps if axis.taps <= LARGEST_UNROLLED else 1
        windows = self.line_windows(group, axis.step)
        first, left = axis.start(column), f.sub(frame.size(self.results[-1]), column)
        behind = f.add(first, (axis.taps - group) * axis.dilation + windows.reach)
        conditions = [f.icmp("sge", left, lanes), f.icmp("sle", behind, axis.size)]
        if axis.is_padded:
            conditions.append(f.icmp("sge", first, 0))

        def inside() -> None:
            self._rows(band, column, None, _Column(windows, first, is_inside=True, masks=None))

        def read_by(windows: LineWindows) -> None:
            masks = windows.load_masks(first) if group == axis.taps else None
            self._rows(band, column, f.tail_mask(lanes, left), _Column(windows, first, is_inside=False, masks=masks))

        def across() -> None:
            are_few = windows.can_be_few(left) if group == axis.taps else None
            if are_few is None:
                read_by(windows)
            else:
                f.if_(are_few, lambda: read_by(replace(windows, are_few=True)), lambda: read_by(windows))

        f.if_(f.conjunction(conditions), inside, across)

    def _rows(self, band: Band, column: Int, mask: Reg | None, windows: _Column) -> None:
        """One column of windows, down the rows of a band."""
        outer, start, stop = band
        if self.op.name == "reduce_window" and self.axes[-2].taps <= LARGEST_SHARED and self.axes[-2].dilation == 1:
            self._shared_rows(band, column, mask, windows)
            return

        def row(position: Int) -> None:
            find = self._find_indices if self.op.name == "arg_reduce_window" else self.fold
            self._write(mask, find(windows, (*outer, position)), (*outer, position, column))

        self.frame.f.loop(start, stop, 1, row)

    def _shared_rows(self, band: Band, column: Int, mask: Reg | None, windows: _Column) -> None:
        """The folds of the lines that the next row's windows meet again go from row to row."""
        f, axis, (outer, start, stop) = self.frame.f, self.axes[-2], band
        shared = max(axis.taps - axis.step, 0)
        above = axis.start(start)

        def row(position: Int, *lines: Reg) -> Sequence[Reg]:
            top = axis.start(position)
            below = [self._line(windows, outer, f.add(top, tap)) for tap in range(len(lines), axis.taps)]
            folded = (*lines, *below)
            total = reduce(lambda a, b: combine(self.kind, self.dtype, a, b, f), folded)
            self._write(mask, total, (*outer, position, column))
            return folded[axis.taps - shared :]

        f.loop(start, stop, 1, row, [self._line(windows, outer, f.add(above, tap)) for tap in range(shared)])

    def _line(self, column: _Column, outer: Sequence[Int], line: Int) -> Reg:
        """The fold of what windows meet at one position of the axis of rows."""
        f, axis = self.frame.f, self.axes[-2]

        def fold() -> tuple[Reg]:
            return (self.fold(column, outer, line),)

        if not axis.is_padded:
            return fold()[0]
        return f.if_(f.icmp("ult", line, axis.size), fold, lambda: (self.neutral(column.windows.lanes),))[0]

    # Lines

    def _strips(self, band: Band) -> None:
        """The rows of a band in strips, and of each the rows that fit the lines on the stack together."""
        frame, f, strip, (outer, start, stop) = self.frame, self.frame.f, self.schedule.strip, band
        columns, lines = frame.size(self.results[-1]), self.folded_lines
        pitch = lines.pitch(f.smin(columns, strip))
        together = f.udiv(lines.elements_on_stack, pitch)

        def rows(first: Int, top: Int) -> None:
            here = f.smin(f.sub(columns, first), strip)
            bottom = f.smin(f.add(top, together), stop)

            def line(row: Int) -> Int:
                return f.mul(f.sub(row, top), pitch)

            f.loop(top, bottom, 1, lambda row: lines.fill((*outer, row), first, here, line(row)))
            f.loop(top, bottom, 1, lambda row: self._strip(lines, (*outer, row), first, here, line(row)))

        f.loop(0, columns, strip, lambda first: f.loop(start, stop, together, lambda top: rows(first, top)))

    def _strip(self, lines: "_FoldedLines", row: Sequence[Int], first: Int, columns: Int, line: Int) -> None:
        """As many results of a row as `columns`, from the column `first` on, of what is folded to a line."""
        frame, f = self.frame, self.frame.f
        if self._stands_alone and self.axes[-1].dilation == 1:
            f.loop(0, columns, 1, lambda at: self._write(None, lines.fold_one(line, at), (*row, f.add(first, at))))
            return

        def vector(column: Int) -> None:
            total, at = lines.fold(line, column), (*row, f.add(first, column))
            frame.lanes_left(frame.lanes, f.sub(columns, column), lambda mask: self._write(mask, total, at))

        f.loop(0, columns, frame.lanes, vector)

    # Taps

    def line_windows(self, taps: int, step: int, lanes: int = 0) -> LineWindows:
        """Lines of the operand read through neighbouring taps of windows `step` apart; 0 lanes: those of a vector."""
        f, axis = self.frame.f, self.axes[-1]
        stride, dilation = axis.element_stride, axis.dilation
        return LineWindows(
            f, self.dtype, axis.size, stride, taps, step, dilation, lanes or self.frame.lanes, self.outside
        )

    def fold(self, column: _Column, results: Sequence[Int], line: Int | None = None) -> Reg:
        """The fold of each lane's window over `_lines`, in their order."""
        f, taps, group = self.frame.f, self.axes[-1].taps, column.windows.taps

        def visit(address: Reg, positions: Sequence[Int], *totals: Reg) -> Sequence[Reg]:
            def part(tap: Int, *inner: Reg) -> Sequence[Reg]:
                read = column.read(address, f.mul(tap, self.axes[-1].dilation))
                return (reduce(lambda a, b: combine(self.kind, self.dtype, a, b, f), (*inner, *read)),)

            return part(0, *totals) if group == taps else f.loop(0, taps, group, part, totals)

        address, starts = self._corner(results, line)
        if group == taps and all(axis.taps == 1 and not axis.is_padded for axis in self.axes[: len(results)]):
            return visit(address, starts)[0]
        return self._lines(address, starts, visit, (self.neutral(column.windows.lanes),))[0]

    def _corner(self, results: Sequence[Int], line: Int | None) -> tuple[Reg, tuple[Int, ...]]:
        """The first line that the windows at `results`, coordinates of the first axes, meet, and its positions there.

        `line` is the position on the axis after these; None where there is only the last.
        """
        f = self.frame.f
        starts = tuple(axis.start(result) for axis, result in zip(self.axes, results, strict=False))
        offset = self.frame.size(self.view.offset)
        for axis, position in zip(self.axes, starts if line is None else (*starts, line), strict=False):
            offset = f.add(offset, f.mul(position, axis.element_stride))
        return f.gep(self.source, offset, memory_type(self.dtype)), starts

    def _lines(
        self, address: Reg, starts: Sequence[Int], visit: Callable[..., Sequence[Reg]], carried: Sequence[Reg]
    ) -> tuple[Reg, ...]:
        """visit(address, positions, *carried) for the lines of the operand that a window meets from a corner on."""
        f = self.frame.f

        def step(address: Reg, positions: tuple[Int, ...], *values: Reg) -> Sequence[Reg]:
            if len(positions) == len(starts):
                return visit(address, positions, *values)
            axis, start = self.axes[len(positions)], starts[len(positions)]

            def tap(ordinal: Int, *inner: Reg) -> Sequence[Reg]:
                ahead = f.mul(ordinal, axis.dilation)
                there = f.gep(address, f.mul(ahead, axis.element_stride), memory_type(self.dtype))
                return step(there, (*positions, f.add(start, ahead)), *inner)

            return f.loop(*axis.taps_inside(start), 1, tap, values, unroll=axis.taps <= LARGEST_UNROLLED)

        return tuple(step(address, (), *carried))

    def _one_window(self, results: Sequence[Int], column: Int) -> Reg:
        """The fold of one window: a lane is a tap of it."""
        f, lanes, axis = self.frame.f, self.frame.lanes, self.axes[-1]
        windows, first = self.line_windows(1, axis.dilation), axis.start(column)

        def visit(address: Reg, positions: Sequence[Int], total: Reg) -> Sequence[Reg]:
            def part(tap: Int, total: Reg) -> Sequence[Reg]:
                position = f.add(first, f.mul(tap, axis.dilation))
                (x,) = windows.read(address, position, windows.load_masks(position))
                combined = combine(self.kind, self.dtype, total, x, f)
                return (f.select(f.tail_mask(lanes, f.sub(axis.taps, tap)), combined, total),)

            return f.loop(0, axis.taps, lanes, part, (total,))

        (total,) = self._lines(*self._corner(results, None), visit, (self.neutral(lanes),))
        return fold_lanes(self.kind, self.dtype, total, f)

    def _find_indices(self, column: _Column, results: Sequence[Int]) -> Reg:
        """Where the maximum of each lane's window is, in the row-major order of the operand's axes after 1."""
        f, windows, axis = self.frame.f, column.windows, self.axes[-1]
        indices = vector_type("i64", windows.lanes)
        lanes = f.mul(f.lane_ids(indices), f.constant(indices, axis.step if self.op.operands[0].rank > 2 else 0))

        def visit(address: Reg, positions: Sequence[Int], *best: Reg) -> Sequence[Reg]:
            def part(tap: Int, *best: Reg) -> Sequence[Reg]:
                ahead = f.mul(tap, axis.dilation)
                read, start = column.read(address, ahead), f.add(column.first, ahead)
                masks = (None,) * len(read) if column.is_inside else windows.tap_masks(start)
                for ordinal, (x, mask) in enumerate(zip(read, masks, strict=True)):
                    flat = self._flat_index((*positions, f.add(start, ordinal * axis.dilation)))
                    best = self._better(best, (x, f.add(f.splat(as_reg(flat), windows.lanes), lanes)), mask)
                return best

            return f.loop(0, axis.taps, windows.taps, part, best)

        nothing = (self.neutral(windows.lanes), f.constant(indices, -1))
        _, index = self._lines(*self._corner(results, None), visit, nothing)
        return f.smax(index, 0)

    def _index_strides(self) -> tuple[Int, ...]:
        """What a step along each axis of `results` adds to a flat index: nothing along the first two of the operand."""
        shape = self.op.operands[0].shape
        steps = tuple(self.frame.size(product(shape[axis + 1 :])) if axis >= 2 else 0 for axis in range(len(shape)))
        return steps if len(steps) > 1 else (0, *steps)

    def _flat_index(self, positions: Sequence[Int]) -> Int:
        f = self.frame.f
        flat: Int = 0
        for position, step in zip(positions, self._index_strides(), strict=True):
            flat = f.add(flat, f.mul(position, step))
        return flat

    def _better(self, best: Sequence[Reg], candidate: tuple[Reg, Reg], mask: Reg | None) -> tuple[Reg, Reg]:
        """(value, place) of what wins: the greater, the first NaN, or the first element within the operand at all."""
        f, (value, index), (x, here) = self.frame.f, best, candidate
        first = f.icmp("slt", index, 0)
        wins = table_of(self.dtype)["less"](f, self.dtype, value, x)
        wins = f.or_(wins, first if mask is None else f.and_(first, mask))
        if self.dtype.is_float:
            wins = f.or_(wins, f.and_(f.fcmp("uno", x, x), f.fcmp("ord", value, value)))
        return f.select(wins, x, value), f.select(wins, here, index)

    # Results

    def neutral(self, lanes: int) -> Reg:
        """The fold of nothing, in registers."""
        type = vector_type(register_type(self.dtype), lanes)
        return self.frame.f.constant(type, identity(self.kind, self.dtype))

    def _write(self, mask: Reg | None, x: Reg, coordinates: Sequence[Int]) -> None:
        """A result at `coordinates`, or one for each lane along the last axis."""
        *outer, column = coordinates[-self.op.results[0].rank :]
        index = (*map(Index, outer), Index(column, 0 if x.lanes == 1 else 1))
        write_result(self.frame.evaluator(x.lanes, mask), self.frame, self.op, x, index)


class _FoldedLines:
    """A line on the stack: the folds, over all other axes, of what the windows of a strip meet along the last one."""

    def __init__(self, windows: _Windows) -> None:
        frame, axis = windows.frame, windows.axes[-1]
        self.frame, self.axis, self.source = frame, axis, windows
        # What is read as windows of one element along the last axis.
        single = replace(axis, taps=1, step=1, dilation=1)
        self.elements = replace(windows, axes=(*windows.axes[:-1], single))
        # What is folded in f32 is rounded once, behind the fold.
        self.dtype = F32 if windows.dtype in (F16, BF16) else windows.dtype
        group = axis.taps if axis.taps <= LARGEST_UNROLLED else 1
        outside = frame.f.constant(memory_type(self.dtype), 0)
        self.windows = replace(
            windows.line_windows(group, axis.step), dtype=self.dtype, element_stride=1, outside=outside
        )
        strip = windows.schedule.strip
        reach = (axis.taps - group) * axis.dilation + self.windows.reach
        # A vector may begin at each of its elements.
        self.reach = reach + frame.lanes
        self.elements_on_stack = max((strip - frame.lanes) * axis.step + self.reach, windows.schedule.line_elements)
        self.line = frame.f.alloca(memory_type(self.dtype), self.elements_on_stack)

    def clear(self) -> None:
        """Writes 0 to all that the units of a call may read.

        Behind a line are lanes that nobody wants, and sums of what the stack holds there, such as halves of addresses,
        are subnormal: means of 2 x 2 windows of f32[256, 34, 34], 2 apart, took 40 us with AVX2 so, and 27 without.
        """
        f, lanes = self.frame.f, self.frame.lanes
        rows, columns = (self.frame.size(size) for size in self.source.results[-2:])
        met = f.mul(f.smin(rows, self.source.band_rows), self.pitch(f.smin(columns, self.source.schedule.strip)))
        zeros = f.constant(vector_type(memory_type(self.dtype), lanes), 0)
        end = f.sub(f.smin(met, self.elements_on_stack), lanes)

        def vector(at: Int) -> None:
            f.store(zeros, f.gep(self.line, at, memory_type(self.dtype)))

        f.loop(0, end, lanes, vector)
        vector(f.smax(end, 0))

    def pitch(self, columns: Int) -> Int:
        """How many elements a line of so many results takes."""
        f, lanes = self.frame.f, self.frame.lanes
        whole = f.mul(f.udiv(f.sub(columns, 1), lanes), lanes)
        return f.add(f.mul(whole, self.axis.step), self.reach)

    def fill(self, row: Sequence[Int], column: Int, columns: Int, line: Int) -> None:
        """The line, from the element `line` on: what as many windows of a row as `columns` meet, from `column` on.

        Where the windows are within all other axes and this one is as long as a vector, vectors are within it: the last
        begins earlier. The padding is written by itself.
        """
        f, lanes, axis, source = self.frame.f, self.frame.lanes, self.axis, self.elements
        begin, size = axis.start(column), axis.size
        met = f.add(f.mul(f.sub(columns, 1), axis.step), (axis.taps - 1) * axis.dilation + 1)
        inside = replace(source, axes=tuple(replace(axis, is_padded=False) for axis in source.axes))
        low = f.smin(f.smax(f.neg(begin), 0), met)
        high = f.smax(f.smin(f.sub(size, begin), met), low)

        def store(total: Reg, ahead: Int) -> None:
            address = f.gep(self.line, f.add(line, ahead), memory_type(self.dtype))
            f.store(to_memory(total, self.dtype, f), address)

        def padding(first: Int, end: Int) -> None:
            if axis.is_padded:
                f.loop(first, end, lanes, lambda ahead: store(self.source.neutral(lanes), ahead))

        def within() -> None:
            last = f.sub(high, lanes)

            def vector(ahead: Int) -> None:
                at = f.smin(ahead, last)
                store(self._folded(inside, row, f.add(begin, at), None), at)

            f.loop(low, high, lanes, vector)

        def across(at: Int) -> None:
            first = f.add(begin, at)
            store(self._folded(source, row, first, source.line_windows(1, 1).load_masks(first)), at)

        padding(0, low)
        are_inside = [axis.holds(result) for axis, result in zip(source.axes, row, strict=False) if axis.is_padded]
        fits = f.conjunction([f.icmp("sge", f.sub(high, low), lanes), *are_inside])
        f.if_(fits, within, lambda: f.loop(low, high, lanes, across))
        padding(high, met)

    def _folded(self, source: _Windows, results: Sequence[Int], first: Int, masks: Mapping[int, Reg] | None) -> Reg:
        """The folds over all other axes of a vector of elements, the first of which stands at `first` on the axis."""
        column = _Column(source.line_windows(1, 1), first, is_inside=masks is None, masks=masks)
        return source.fold(column, results)

    def fold(self, line: Int, column: Int) -> Reg:
        """The folds of the windows from `column` of a line on."""
        f, axis, group, source = self.frame.f, self.axis, self.windows.taps, self.source
        first = f.add(line, f.mul(column, axis.step))

        def part(tap: Int, *totals: Reg) -> Sequence[Reg]:
            read = self.windows.read(self.line, f.add(first, f.mul(tap, axis.dilation)), None)
            return (reduce(lambda a, b: combine(source.kind, source.dtype, a, b, f), (*totals, *read)),)

        if group == axis.taps:
            return part(0)[0]
        return f.loop(0, axis.taps, group, part, (source.neutral(self.frame.lanes),))[0]

    def fold_one(self, line: Int, column: Int) -> Reg:
        """The fold of the window at a column of a line, whose elements lie side by side: a lane is a tap of it."""
        f, lanes, axis, source = self.frame.f, self.frame.lanes, self.axis, self.source
        memory, first = memory_type(self.dtype), f.add(line, f.mul(column, axis.step))

        def part(tap: Int, total: Reg) -> Sequence[Reg]:
            loaded = f.load(vector_type(memory, lanes), f.gep(self.line, f.add(first, tap), memory))
            combined = combine(source.kind, source.dtype, total, from_memory(loaded, self.dtype, f), f)
            return (f.select(f.tail_mask(lanes, f.sub(axis.taps, tap)), combined, total),)

        (total,) = f.loop(0, axis.taps, lanes, part, (source.neutral(lanes),), unroll=axis.taps <= LARGEST_UNROLLED)
        return fold_lanes(source.kind, source.dtype, total, f)


def _axes(frame: KernelFrame, op: Op, view: View) -> tuple[_Axis, ...]:
    windows = zip(op.ints("window"), op.ints("strides"), op.ints("dilations"), strict=True)
    padding = zip(op.dims("low"), op.dims("high"), strict=True)
    axes = tuple(
        _Axis(frame.f, frame.size(size), frame.size(stride), *window, frame.size(low), is_padded=(low, high) != (0, 0))
        for size, stride, window, (low, high) in zip(view.shape, view.strides, windows, padding, strict=True)
    )
    return axes if len(axes) > 1 else (_Axis(frame.f, 1, 0, 1, 1, 1, 0, is_padded=False), *axes)
