"""Scans: running folds along an axis, each line by one thread.

Along the last axis a line is passed over element by element; along another one lanes are neighbouring lines. Sums of
f32 run in f64, as the primitive means them.
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
from onnxc.compiler.planning.rows import identity
from onnxc.compiler.planning.views import is_dense, operand_view, row_major
from onnxc.compiler.target import Target


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a scan."""
    frame = open_kernel(kernel, name, target)
    scan = _Scan(frame, next(op for op in kernel.block.ops if op.name == "scan_axis"))
    frame.f.loop(frame.begin, frame.end, 1, scan.unit)
    frame.f.ret()
    return KernelCode(name, (frame.f,), product(scan.units), frame.grain(scan.shape[scan.axis] * scan.lanes))


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
    def units(self) -> tuple[Dim, ...]:
        """The lines, along the last axis as many at once as there are lanes."""
        outer, inner = self.shape[: self.axis], self.shape[self.axis + 1 :]
        if not inner:
            return outer
        return (*outer, *inner[:-1], floordiv(inner[-1] + self.lanes - 1, self.lanes))

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
            self._line(before, after, None)
            return
        start = f.mul(coordinates[-1], self.lanes)
        columns = (*after[:-1], Index(start, 1))
        left = f.sub(frame.size(self.shape[-1]), start)
        frame.lanes_left(self.lanes, left, lambda mask: self._line(before, columns, mask))

    def _line(self, before: Sequence[Index], after: Sequence[Index], mask: Reg | None) -> None:
        f, kind, dtype = self.frame.f, self.op.text("kind"), self.accumulator
        length = self.frame.size(self.shape[self.axis])
        type = vector_type(register_type(dtype), self.lanes)

        def step(number: Int, total: Reg) -> tuple[Reg]:
            position = f.sub(f.sub(length, 1), number) if self.op.flag("reverse") else number
            e, index = self.frame.evaluator(self.lanes, mask), (*before, Index(position), *after)
            combined = combine(kind, dtype, total, self._read(e, index), f)
            self._write(e, index, total if self.op.flag("exclusive") else combined)
            return (combined,)

        f.loop(0, length, 1, step, (f.constant(type, identity(kind, self.op.results[0].dtype)),))

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
