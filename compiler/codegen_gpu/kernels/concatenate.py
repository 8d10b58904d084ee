"""Concatenation: flat tiles over the result, in which each operand is computed where it lies.

An operand that is where it belongs already, as in a cache that is written in place, is left alone: a tile of which
nothing else is written reads nothing either.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, unravel
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import operand_view, stays
from onnxc.compiler.planning.schedules import ConcatenateSchedule
from onnxc.compiler.target import Target


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a concatenation."""
    frame = open_kernel(kernel, target)
    shape = frame.root.shape

    def write(e: Evaluator, offset: Int) -> None:
        index = unravel(frame.b, offset, [frame.size(size) for size in shape])
        for ordinal, result in enumerate(frame.kernel.block.results):
            moved = _moved(frame, result.op, ordinal, index)
            if moved is None:
                e.store(e.value(result, index), result.dtype, frame.output(ordinal), offset)
                continue
            # Behind the last element of a result positions mean nothing; their lanes store nothing.
            with frame.b.block(f"if {_any(moved)}"):
                inner = e.wanted(moved)
                inner.store(inner.value(result, index), result.dtype, frame.output(ordinal), offset, moved)

    return frame.flat(product(shape), write, kernel.scheduled(ConcatenateSchedule).block)


def _moved(frame: KernelFrame, op: Op | None, ordinal: int, index: Sequence[Int]) -> Expr | None:
    """Which elements are not where they belong if the result is written into the buffer of an operand; None for all.

    Whether it is, addresses say: kernels of launches that differ in that alone are one.
    """
    staying = _staying(op)
    if op is None or not staying:
        return None
    b, position = frame.b, index[op.int("axis")]
    moved: Expr | None = None
    for base, start, stop in staying:
        before, after = b.compare(position, "<", frame.size(start)), b.compare(position, ">=", frame.size(stop))
        elsewhere = b.let(f"{frame.input(base)}.to(tl.int64) != {frame.output(ordinal)}.to(tl.int64)")
        moved = b.both(moved, b.let(f"{before} | {after} | {elsewhere}", before.dims | after.dims))
    return moved


def _staying(op: Op | None) -> list[tuple[Value, Dim, Dim]]:
    """The buffers of which parts stay where they are, with the first position of the part and the one behind it."""
    parts: list[tuple[Value, Dim, Dim]] = []
    if op is None or op.name != "concatenate":
        return parts
    start: Dim = 0
    for ordinal, operand in enumerate(op.operands):
        stop = start + operand.shape[op.int("axis")]
        view = operand_view(operand)
        if view is not None and view.base.op is None and stays(op, ordinal):
            parts.append((view.base, start, stop))
        start = stop
    return parts


def _any(condition: Expr) -> str:
    """Whether a condition holds for any element of the tile."""
    return f"tl.max({condition}.to(tl.int32)) != 0" if condition.dims else str(condition)
