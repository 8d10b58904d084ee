"""Concatenation: each operand is computed straight into its part of the result."""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, grain_for, open_kernel
from onnxc.compiler.codegen_cpu.kernels.pointwise import write_row
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.views import row_major
from onnxc.compiler.target import Target


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a concatenation: a unit of work is one row of the result before the joined axis."""
    frame = open_kernel(kernel, name, target)
    op = frame.root.op
    assert op is not None
    axis = op.int("axis")
    outer = op.results[0].shape[:axis]
    frame.f.loop(frame.begin, frame.end, 1, lambda unit: _write_parts(frame, op, axis, frame.split(unit, outer)))
    frame.f.ret()
    inner = product(op.results[0].shape[axis:])
    return KernelCode(name, (frame.f,), product(outer), grain_for(inner))


def _write_parts(frame: KernelFrame, op: Op, axis: int, outer: Sequence[Reg | int]) -> None:
    start: Dim = 0
    for operand in op.operands:
        _write_part(frame, op, axis, outer, operand, start)
        start = start + operand.shape[axis]


def _write_part(frame: KernelFrame, op: Op, axis: int, outer: Sequence[Reg | int], operand: Value, start: Dim) -> None:
    """One operand within one outer row: its rows along the last axis."""
    f, result = frame.f, op.results[0]
    inner = operand.shape[axis:-1]
    before = tuple(Index(coordinate) for coordinate in outer)
    strides = [frame.size(stride) for stride in row_major(result.shape)]
    offset = f.mul(frame.size(start), strides[axis])

    def write(e: Evaluator, middle: Sequence[Index], column: Index) -> None:
        index = (*before, *middle, column)
        x = to_memory(e.value(operand, index), operand.dtype, f)
        e.store(x, frame.output, memory_type(operand.dtype), e.linear(index, strides, offset))

    def row(number: Reg) -> None:
        middle = tuple(Index(coordinate) for coordinate in frame.split(number, inner))
        write_row(frame, 0, frame.size(operand.shape[-1]), lambda e, column: write(e, middle, column))

    f.loop(0, frame.size(product(inner)), 1, row)
