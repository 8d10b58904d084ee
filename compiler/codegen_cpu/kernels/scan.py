"""Scans: running folds along an axis, each line by one thread.

Along the last axis lines are passed over element by element, a few beside each other, as each sum waits for the one
before; along another one lanes are neighbouring lines, and a stretch of them goes along together, so that memory is
read and written in order.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type, round_register, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.reduction import combine
from onnxc.compiler.codegen_cpu.schedules.elements import scan_accumulator, scan_registers
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.collapse_axes import collapse_axes
from onnxc.compiler.planning.loops.rows import identity
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import ScanSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

_Line = tuple[Sequence[Index], Sequence[Index]]
"""Where a line lies, or a vector of lines: the coordinates before its axis, and behind it."""


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a scan."""
    frame = open_kernel(replace(kernel, block=collapse_axes(kernel.block)), name, target)
    scan = _Scan(frame, next(op for op in frame.kernel.block.ops if op.name == "scan_axis"))
    frame.f.loop(frame.begin, frame.end, 1, scan.unit)
    frame.f.ret()
    return KernelCode(name, (frame.f,), product(scan.units), frame.grain(scan.shape[scan.axis] * scan.width))


@record
class _Scan:
    """One kernel: the lines of the operand of `op`."""

    frame: KernelFrame
    op: Op

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.op.result.shape

    @property
    def axis(self) -> int:
        return self.op.int("axis")

    @cached_property
    def lanes(self) -> int:
        return 1 if self.axis == len(self.shape) - 1 else self.frame.lanes

    @cached_property
    def width(self) -> int:
        """How many lines go along together."""
        return self.frame.kernel.scheduled(ScanSchedule).tile.rows

    @property
    def part(self) -> int:
        """How many of these are in registers at a time."""
        return scan_registers(self.frame.target) * self.lanes

    @cached_property
    def units(self) -> tuple[Dim, ...]:
        """The lines, along the last axis as many at once as a tile has."""
        outer, inner = self.shape[: self.axis], self.shape[self.axis + 1 :]
        if not inner:
            return (floordiv(product(outer) + self.width - 1, self.width),)
        return (*outer, *inner[:-1], floordiv(inner[-1] + self.width - 1, self.width))

    @cached_property
    def accumulator(self) -> DType:
        return scan_accumulator(self.op)

    def unit(self, ordinal: Reg) -> None:
        """The lines of one unit of work."""
        frame, f = self.frame, self.frame.f
        if self.lanes == 1:
            self._whole_lines(f.mul(ordinal, self.width))
            return
        coordinates = frame.split(ordinal, self.units)
        before, after = (tuple(map(Index, part)) for part in (coordinates[: self.axis], coordinates[self.axis :]))
        size, start = frame.size(self.shape[-1]), f.mul(coordinates[-1], self.width)
        stop = f.smin(f.add(start, self.width), size)

        def one_by_one() -> None:
            f.loop(start, stop, self.lanes, lambda column: self._vector(before, (*after[:-1], Index(column, 1)), stop))

        def together() -> None:
            if self.width <= self.part:
                self._registers(before, after[:-1], start, stop)
            else:
                self._stretch(before, after[:-1], start, stop)

        f.if_(f.icmp("sle", f.sub(stop, start), self.lanes), one_by_one, together)

    def _whole_lines(self, first: Int) -> None:
        """Lines along the last axis from the `first` on, as many as go along together where there are."""
        frame, f, outer = self.frame, self.frame.f, self.shape[: self.axis]
        stop = frame.size(product(outer))

        def lines(*ordinals: Int) -> None:
            self._lines([(tuple(map(Index, frame.split(ordinal, outer))), ()) for ordinal in ordinals])

        def together() -> None:
            lines(*(f.add(first, k) for k in range(self.width)))

        def rest() -> None:
            f.loop(first, stop, 1, lines)

        f.if_(f.icmp("sle", f.add(first, self.width), stop), together, rest)

    def _vector(self, before: Sequence[Index], columns: Sequence[Index], stop: Int) -> None:
        left = self.frame.f.sub(stop, columns[-1].base)
        self.frame.lanes_left(self.lanes, left, lambda mask: self._lines([(before, columns)], [mask]))

    def _registers(self, before: Sequence[Index], after: Sequence[Index], start: Int, stop: Int) -> None:
        """Lines from `start` to `stop`, an element of each and then the next; what they come to is in registers.

        Where there are fewer than a whole width, they go along together under masks: vector by vector the last 36
        lines of f32[2000, 100] took three passes, 58 us for all in place of 55 us.
        """
        f, offsets = self.frame.f, range(0, self.width, self.lanes)
        lines = [(before, (*after, Index(f.add(start, offset), 1))) for offset in offsets]

        def some() -> None:
            left = f.sub(stop, start)
            masks = [f.tail_mask(self.lanes, f.sub(left, offset)) for offset in offsets]
            self._lines(lines, masks)

        is_whole = f.icmp("sge", f.sub(stop, start), self.width)
        f.if_(is_whole, lambda: self._lines(lines), some)

    def _stretch(self, before: Sequence[Index], after: Sequence[Index], start: Int, stop: Int) -> None:
        """Lines from `start` to `stop`, an element of each and then the next; what they come to is on the stack."""
        f, scalar = self.frame.f, register_type(self.accumulator)
        totals, count = f.alloca(scalar, self.width), f.sub(stop, start)
        parts, vectors = (f.sub(stop, f.urem(count, width)) for width in (self.part, self.lanes))

        def total(column: Int) -> Reg:
            return f.gep(totals, f.sub(column, start), scalar)

        def step(ordinal: Reg) -> None:
            def advance(columns: Sequence[Int], mask: Reg | None = None) -> None:
                held = [f.load(self._identity.type, total(column)) for column in columns]
                rows = [(*before, self._position(ordinal), *after, Index(column, 1)) for column in columns]
                for column, value in zip(columns, self._advanced(rows, held, [mask] * len(rows)), strict=True):
                    f.store(value, total(column))

            offsets = range(0, self.part, self.lanes)
            f.loop(start, parts, self.part, lambda column: advance([f.add(column, offset) for offset in offsets]))
            f.loop(parts, vectors, self.lanes, lambda column: advance([column]))
            is_left = f.icmp("slt", vectors, stop)
            f.if_(is_left, lambda: advance([vectors], f.tail_mask(self.lanes, f.sub(stop, vectors))))

        f.loop(start, stop, self.lanes, lambda column: f.store(self._identity, total(column)))
        f.loop(0, self._length, 1, step)

    def _lines(self, lines: Sequence[_Line], masks: Sequence[Reg | None] = ()) -> None:
        """Lines, or vectors of lines, an element of each and then the next; what they come to is in registers."""

        def step(ordinal: Reg, *totals: Reg) -> Sequence[Reg]:
            rows = [(*before, self._position(ordinal), *after) for before, after in lines]
            return self._advanced(rows, totals, masks or [None] * len(lines))

        self.frame.f.loop(0, self._length, 1, step, [self._identity] * len(lines))

    @property
    def _length(self) -> Int:
        return self.frame.size(self.shape[self.axis])

    @property
    def _identity(self) -> Reg:
        """What a line comes to before its first element, in each lane."""
        type = vector_type(register_type(self.accumulator), self.lanes)
        return self.frame.f.constant(type, identity(self.op.text("kind"), self.op.results[0].dtype))

    def _position(self, ordinal: Reg) -> Index:
        """Where along the axis the element lies that is taken after `ordinal` others."""
        f = self.frame.f
        return Index(f.sub(f.sub(self._length, 1), ordinal) if self.op.flag("reverse") else ordinal)

    def _advanced(
        self, rows: Sequence[Sequence[Index]], totals: Sequence[Reg], masks: Sequence[Reg | None]
    ) -> Sequence[Reg]:
        """What lines come to with the elements at `rows`, where the results are written."""
        following = list[Reg]()
        for index, total, mask in zip(rows, totals, masks, strict=True):
            e = self.frame.evaluator(self.lanes, mask)
            combined = combine(self.op.text("kind"), self.accumulator, total, self._read(e, index), self.frame.f)
            self._write(e, index, total if self.op.flag("exclusive") else combined)
            following.append(combined)
        return following

    def _read(self, e: Evaluator, index: Sequence[Index]) -> Reg:
        operand = self.op.operands[0]
        x = e.vector(operand, index)
        return x if operand.dtype == self.accumulator else emit_cast(x, operand.dtype, self.accumulator, e.f)

    def _write(self, e: Evaluator, index: Sequence[Index], total: Reg) -> None:
        dtype = self.op.results[0].dtype
        x = total if dtype == self.accumulator else emit_cast(total, self.accumulator, dtype, e.f)
        stored = to_memory(round_register(x, dtype, e.f), dtype, e.f)
        e.store(stored, self.frame.output, memory_type(dtype), self._offset(e, index))

    def _offset(self, e: Evaluator, index: Sequence[Index]) -> Index:
        return e.strided(index, row_major(self.shape))
