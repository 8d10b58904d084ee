"""Scans: running folds along an axis, each line by one thread.

Along the last axis a line is passed over element by element; along another one lanes are neighbouring lines, of which
several vectors go along together. Sums of f32 run in f64, as the primitive means them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type, round_register, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.reduction import combine
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.rows import identity
from onnxc.compiler.planning.loops.views import is_dense, operand_view, row_major
from onnxc.compiler.planning.schedules import ScanSchedule
from onnxc.compiler.target import Target


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a scan."""
    frame = open_kernel(kernel, name, target)
    scan = _Scan(frame, next(op for op in kernel.block.ops if op.name == "scan_axis"))
    frame.f.loop(frame.begin, frame.end, 1, scan.unit)
    frame.f.ret()
    return KernelCode(name, (frame.f,), product(scan.units), frame.grain(scan.shape[scan.axis] * scan.width))


@dataclass(frozen=True)
class _Scan:
    """One kernel. Lines that lie side by side in memory are one axis of `shape` where the operand is a whole buffer."""

    frame: KernelFrame
    op: Op

    @cached_property
    def is_whole(self) -> bool:
        view = operand_view(self.op.operands[0])
        return view is not None and is_dense(view)

    @cached_property
    def shape(self) -> tuple[Dim, ...]:
        shape, axis = self.op.results[0].shape, self.op.int("axis")
        if not self.is_whole:
            return shape
        inner = product(shape[axis + 1 :])
        return (product(shape[:axis]), shape[axis], *(() if inner == 1 else (inner,)))

    @cached_property
    def axis(self) -> int:
        return 1 if self.is_whole else self.op.int("axis")

    @cached_property
    def lanes(self) -> int:
        return 1 if self.axis == len(self.shape) - 1 else self.frame.lanes

    @cached_property
    def width(self) -> int:
        """How many lines that lie side by side go along together."""
        return 1 if self.lanes == 1 else self.frame.kernel.scheduled(ScanSchedule).tile.rows

    @cached_property
    def units(self) -> tuple[Dim, ...]:
        """The lines, along the last axis as many at once as a tile has."""
        outer, inner = self.shape[: self.axis], self.shape[self.axis + 1 :]
        if not inner:
            return outer
        return (*outer, *inner[:-1], floordiv(inner[-1] + self.width - 1, self.width))

    @cached_property
    def accumulator(self) -> DType:
        dtype = self.op.results[0].dtype
        return F64 if dtype == F32 and self.op.text("kind") == "sum" else dtype

    def unit(self, number: Reg) -> None:
        """The lines of one unit of work."""
        frame, f = self.frame, self.frame.f
        coordinates = frame.split(number, self.units)
        before, after = (tuple(map(Index, part)) for part in (coordinates[: self.axis], coordinates[self.axis :]))
        if self.lanes == 1:
            self._lines(before, [after], None)
            return
        size, start = frame.size(self.shape[-1]), f.mul(coordinates[-1], self.width)
        stop = f.smin(f.add(start, self.width), size)

        def together() -> None:
            columns = range(0, self.width, self.lanes)
            self._lines(before, [(*after[:-1], Index(f.add(start, column), 1)) for column in columns], None)

        def one_by_one() -> None:
            f.loop(start, stop, self.lanes, lambda column: self._vector(before, (*after[:-1], Index(column, 1)), stop))

        f.if_(f.icmp("sge", f.sub(stop, start), self.width), together, one_by_one)

    def _vector(self, before: Sequence[Index], columns: Sequence[Index], stop: Int) -> None:
        left = self.frame.f.sub(stop, columns[-1].base)
        self.frame.lanes_left(self.lanes, left, lambda mask: self._lines(before, [columns], mask))

    def _lines(self, before: Sequence[Index], columns: Sequence[Sequence[Index]], mask: Reg | None) -> None:
        """A line, or as many vectors of them as there are columns."""
        f, kind, dtype = self.frame.f, self.op.text("kind"), self.accumulator
        length = self.frame.size(self.shape[self.axis])
        type = vector_type(register_type(dtype), self.lanes)

        def step(number: Int, *totals: Reg) -> Sequence[Reg]:
            position = f.sub(f.sub(length, 1), number) if self.op.flag("reverse") else number
            following = list[Reg]()
            for after, total in zip(columns, totals, strict=True):
                e, index = self.frame.evaluator(self.lanes, mask), (*before, Index(position), *after)
                combined = combine(kind, dtype, total, self._read(e, index), f)
                self._write(e, index, total if self.op.flag("exclusive") else combined)
                following.append(combined)
            return following

        start = f.constant(type, identity(kind, self.op.results[0].dtype))
        f.loop(0, length, 1, step, [start] * len(columns))

    def _read(self, e: Evaluator, index: Sequence[Index]) -> Reg:
        operand = self.op.operands[0]
        view = operand_view(operand)
        if self.is_whole and view is not None:
            x = e.spread(e.read(view.base, self._place(e, index)))
        else:
            x = e.vector(operand, index)
        return x if operand.dtype == self.accumulator else emit_cast(x, operand.dtype, self.accumulator, e.f)

    def _write(self, e: Evaluator, index: Sequence[Index], total: Reg) -> None:
        dtype = self.op.results[0].dtype
        x = total if dtype == self.accumulator else emit_cast(total, self.accumulator, dtype, e.f)
        stored = to_memory(round_register(x, dtype, e.f), dtype, e.f)
        e.store(stored, self.frame.output, memory_type(dtype), self._place(e, index))

    def _place(self, e: Evaluator, index: Sequence[Index]) -> Index:
        return e.strided(index, row_major(self.shape))
