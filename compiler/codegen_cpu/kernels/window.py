"""Windows: folds of a rectangle that slides along every axis, and the place of its maximum.

A unit of work is one row of the result. Lanes are neighbouring windows along the last axis; where there is one window
in a row, lanes are its taps. Taps in the padding are skipped on the outer axes and masked on the last one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from compiler.codegen_cpu.element_types import memory_type, register_type, to_memory
from compiler.codegen_cpu.evaluate import Index
from compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, grain_for, open_kernel
from compiler.codegen_cpu.kernels.contraction import operand_view, write_result
from compiler.codegen_cpu.kernels.reduction import combine, fold_lanes, identity
from compiler.codegen_cpu.line_windows import LineWindows
from compiler.codegen_cpu.scalars import table_of
from compiler.codegen_host.llvm_ir import FunctionBuilder, as_reg
from compiler.codegen_host.llvm_values import Int, Reg, vector_type
from compiler.ir.dims import product
from compiler.ir.dtypes import BF16, DType
from compiler.ir.module import Op
from compiler.planning.kernel_plan import Kernel
from compiler.planning.views import View
from compiler.target import Target

LARGEST_UNROLLED = 16
"""More taps along an axis are a loop."""


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a window kernel."""
    frame = open_kernel(kernel, name, target)
    op = next(op for op in kernel.block.ops if op.name in ("reduce_window", "arg_reduce_window"))
    windows = _Windows(frame, op)
    frame.f.loop(frame.begin, frame.end, 1, windows.row, at_least_once=True)
    frame.f.ret()
    shape = op.results[0].shape
    return KernelCode(name, (frame.f,), product(shape[:-1]), grain_for(shape[-1] * product(op.ints("window"))))


@dataclass(frozen=True)
class _Corner:
    """Where the windows of one row of the result begin.

    `line` is the address of the first element of the first row that they meet, `starts` its positions along the outer
    axes, and taps [low, high) of each of these axes are inside the operand.
    """

    line: Reg
    starts: tuple[Int, ...]
    taps: tuple[tuple[Int, Int], ...]


@dataclass(frozen=True)
class _Windows:
    """One kernel."""

    frame: KernelFrame
    op: Op

    @cached_property
    def dtype(self) -> DType:
        return self.op.operands[0].dtype

    @cached_property
    def kind(self) -> str:
        return self.op.text("kind")

    @cached_property
    def last(self) -> int:
        """The last axis, along which a row lies."""
        return self.op.operands[0].rank - 1

    @cached_property
    def source(self) -> tuple[Reg, View]:
        """The operand in memory; one that is a number is put there."""
        frame, operand = self.frame, self.op.operands[0]
        view = operand_view(operand)
        if view is not None:
            return frame.inputs[frame.kernel.block.parameters.index(view.base)], view
        slot = frame.f.alloca(memory_type(self.dtype))
        number = frame.evaluator(lanes=1).value(operand, [Index()] * operand.rank)
        frame.f.store(to_memory(number, self.dtype, frame.f), slot)
        return slot, View(operand, operand.shape, 0, (0,) * operand.rank)

    @cached_property
    def outside(self) -> Reg:
        """What the padding holds, as an element in memory."""
        f, number = self.frame.f, identity(self.kind, self.dtype)
        if self.dtype == BF16:
            return f.constant("i16", int(np.array(number, self.dtype.numpy).view(np.uint16)))
        return f.constant(memory_type(self.dtype), number)

    def taps(self, axis: int) -> int:
        return self.op.ints("window")[axis]

    def dilation(self, axis: int) -> int:
        return self.op.ints("dilations")[axis]

    def is_padded(self, axis: int) -> bool:
        return (self.op.dims("low")[axis], self.op.dims("high")[axis]) != (0, 0)

    # Rows

    def row(self, number: Reg) -> None:
        """The results of one row."""
        frame, f = self.frame, self.frame.f
        length = self.op.results[0].shape[-1]
        outer = frame.split(number, self.op.results[0].shape[:-1])
        corner = self._corner(outer)
        if length == 1 and self.op.name == "reduce_window":
            self._write(None, self._one_window(corner), (*outer, 0))
        else:
            f.loop(0, frame.size(length), frame.lanes, lambda column: self._many_windows(corner, outer, column))

    def _corner(self, outer: Sequence[Int]) -> _Corner:
        frame, f, (pointer, view) = self.frame, self.frame.f, self.source
        offset = frame.size(view.offset)
        starts = tuple(self._start(axis, coordinate) for axis, coordinate in enumerate(outer))
        for start, stride in zip(starts, view.strides, strict=False):
            offset = f.add(offset, f.mul(start, frame.size(stride)))
        taps = tuple(self._taps_inside(axis, start) for axis, start in enumerate(starts))
        return _Corner(f.gep(pointer, offset, memory_type(self.dtype)), starts, taps)

    def _start(self, axis: int, coordinate: Int) -> Int:
        """Where the first tap of a window is along an axis: before 0 in the padding."""
        f = self.frame.f
        return f.sub(f.mul(coordinate, self.op.ints("strides")[axis]), self.frame.size(self.op.dims("low")[axis]))

    def _taps_inside(self, axis: int, start: Int) -> tuple[Int, Int]:
        """The first tap that is not before the operand, and the first that is behind it."""
        f, taps, dilation = self.frame.f, self.taps(axis), self.dilation(axis)
        if not self.is_padded(axis):
            return 0, taps
        size = self.frame.size(self.op.operands[0].shape[axis])
        low, high = (
            f.smin(f.udiv(f.add(f.smax(count, 0), dilation - 1), dilation), taps)
            for count in (f.neg(start), f.sub(size, start))
        )
        return low, high

    def _over_lines(
        self, corner: _Corner, visit: Callable[..., Sequence[Reg]], carried: Sequence[Reg]
    ) -> tuple[Reg, ...]:
        """visit(first element of a row, its positions, *carried) for the rows of the operand that a window meets."""
        frame, f, (_, view) = self.frame, self.frame.f, self.source

        def step(line: Reg, positions: tuple[Int, ...], *values: Reg) -> Sequence[Reg]:
            axis = len(positions)
            if axis == self.last:
                return visit(line, positions, *values)
            (low, high), dilation = corner.taps[axis], self.dilation(axis)
            stride = frame.size(view.strides[axis])

            def tap(number: Int, *inner: Reg) -> Sequence[Reg]:
                ahead = f.mul(number, dilation)
                there = f.gep(line, f.mul(ahead, stride), memory_type(self.dtype))
                return step(there, (*positions, f.add(corner.starts[axis], ahead)), *inner)

            return f.loop(low, high, 1, tap, values, unroll=self.taps(axis) <= LARGEST_UNROLLED)

        return tuple(step(corner.line, (), *carried))

    def _line_windows(self, taps: int, stride: int) -> LineWindows:
        """Lines of the operand read through `taps` neighbouring taps of windows `stride` apart."""
        frame, (_, view) = self.frame, self.source
        length, step = frame.size(view.shape[-1]), frame.size(view.strides[-1])
        dilation = self.dilation(self.last)
        return LineWindows(frame.f, self.dtype, length, step, taps, stride, dilation, frame.lanes, self.outside)

    # Many windows in a row: each lane is a window

    def _many_windows(self, corner: _Corner, outer: Sequence[Int], column: Int) -> None:
        """The windows from `column` on, as many as there are lanes: by plain loads if no tap needs a mask."""
        frame, f, lanes, taps = self.frame, self.frame.f, self.frame.lanes, self.taps(self.last)
        group = taps if taps <= LARGEST_UNROLLED else 1
        windows = self._line_windows(group, self.op.ints("strides")[self.last])
        first = self._start(self.last, column)
        left = f.sub(frame.size(self.op.results[0].shape[-1]), column)
        behind = f.add(first, (taps - group) * self.dilation(self.last) + windows.reach)
        conditions = [f.icmp("sge", left, lanes), f.icmp("sle", behind, windows.length)]
        if self.is_padded(self.last):
            conditions.append(f.icmp("sge", first, 0))

        def vector(mask: Reg | None, *, is_inside: bool) -> None:
            find = self._find_places if self.op.name == "arg_reduce_window" else self._fold_windows
            self._write(mask, find(windows, corner, first, is_inside=is_inside), (*outer, column))

        f.if_(
            _all(conditions, f),
            lambda: vector(None, is_inside=True),
            lambda: vector(f.tail_mask(lanes, left), is_inside=False),
        )

    def _fold_windows(self, windows: LineWindows, corner: _Corner, first: Int, *, is_inside: bool) -> Reg:
        """The fold of each lane's window; the taps of a line one after another, line after line."""
        f = self.frame.f
        known = None if is_inside or windows.taps < self.taps(self.last) else windows.load_masks(first)

        def line(pointer: Reg, positions: Sequence[Int], total: Reg) -> Sequence[Reg]:
            def taps(number: Int, total: Reg) -> Sequence[Reg]:
                place = f.add(first, f.mul(number, self.dilation(self.last)))
                masks = windows.load_masks(place) if known is None and not is_inside else known
                for x in windows.read(pointer, place, masks):
                    total = combine(self.kind, self.dtype, total, x, f)
                return (total,)

            return f.loop(0, self.taps(self.last), windows.taps, taps, (total,))

        (total,) = self._over_lines(corner, line, (self._neutral(windows.lanes),))
        return total

    def _find_places(self, windows: LineWindows, corner: _Corner, first: Int, *, is_inside: bool) -> Reg:
        """Where the maximum of each lane's window is, in the row-major order of the axes after 1."""
        f, places = self.frame.f, vector_type("i64", windows.lanes)
        steps = [self.frame.size(product(self.op.operands[0].shape[axis + 1 :])) for axis in range(self.last + 1)]
        lanes = f.mul(f.lane_ids(places), windows.stride) if self.last >= 2 else f.constant(places, 0)

        def line(pointer: Reg, positions: Sequence[Int], best: Reg, place: Reg) -> Sequence[Reg]:
            def taps(number: Int, best: Reg, place: Reg) -> Sequence[Reg]:
                start = f.add(first, f.mul(number, self.dilation(self.last)))
                read = windows.read(pointer, start, None if is_inside else windows.load_masks(start))
                masks = (None,) * len(read) if is_inside else windows.tap_masks(start)
                for tap, (x, mask) in enumerate(zip(read, masks, strict=True)):
                    coordinates = (*positions, f.add(start, tap * windows.dilation))
                    flat: Int = 0
                    for coordinate, step in list(zip(coordinates, steps, strict=True))[2:]:
                        flat = f.add(flat, f.mul(coordinate, step))
                    here = f.add(f.splat(as_reg(flat), windows.lanes), lanes)
                    wins = self._wins(x, best, place, mask)
                    best, place = f.select(wins, x, best), f.select(wins, here, place)
                return best, place

            return f.loop(0, self.taps(self.last), windows.taps, taps, (best, place))

        start = (self._neutral(windows.lanes), f.constant(places, -1))
        _, place = self._over_lines(corner, line, start)
        return f.smax(place, 0)

    def _wins(self, x: Reg, best: Reg, place: Reg, mask: Reg | None) -> Reg:
        """Whether x is greater, or the first NaN, or the first element within the operand at all."""
        f = self.frame.f
        first = f.icmp("slt", place, 0)
        greater = table_of(self.dtype)["less"](f, self.dtype, best, x)
        wins = f.or_(greater, first if mask is None else f.and_(first, mask))
        if self.dtype.is_float:
            wins = f.or_(wins, f.and_(f.fcmp("uno", x, x), f.fcmp("ord", best, best)))
        return wins

    # One window in a row: each lane is a tap of it

    def _one_window(self, corner: _Corner) -> Reg:
        f, lanes, taps = self.frame.f, self.frame.lanes, self.taps(self.last)
        windows = self._line_windows(1, self.dilation(self.last))
        first = self._start(self.last, 0)

        def line(pointer: Reg, positions: Sequence[Int], total: Reg) -> Sequence[Reg]:
            def part(tap: Int, total: Reg) -> Sequence[Reg]:
                place = f.add(first, f.mul(tap, self.dilation(self.last)))
                (x,) = windows.read(pointer, place, windows.load_masks(place))
                exists = f.tail_mask(lanes, f.sub(taps, tap))
                combined = combine(self.kind, self.dtype, total, x, f)
                return (f.select(exists, combined, total),)

            return f.loop(0, taps, lanes, part, (total,), unroll=taps <= LARGEST_UNROLLED)

        (total,) = self._over_lines(corner, line, (self._neutral(lanes),))
        return fold_lanes(self.kind, self.dtype, total, f)

    # Results

    def _neutral(self, lanes: int) -> Reg:
        """The fold of nothing, in registers."""
        type = vector_type(register_type(self.dtype), lanes)
        return self.frame.f.constant(type, identity(self.kind, self.dtype))

    def _write(self, mask: Reg | None, x: Reg, place: Sequence[Int]) -> None:
        """Results from `place` on: a number, or one for each lane along the last axis."""
        *outer, column = place
        index = (*map(Index, outer), Index(column, 0 if x.lanes == 1 else 1))
        write_result(self.frame.evaluator(x.lanes, mask), self.frame, self.op, x, index)


def _all(conditions: Sequence[Reg], f: FunctionBuilder) -> Reg:
    """The conjunction; what is known while writing is left out."""
    result = f.constant("i1", 1)
    for condition in conditions:
        if condition.is_literal and condition.text == "false":
            return condition
        if not condition.is_literal:
            result = condition if result.is_literal else f.and_(result, condition)
    return result
