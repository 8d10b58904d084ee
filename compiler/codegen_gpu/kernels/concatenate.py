"""Concatenation: flat tiles over the result, in which each operand is computed where it lies."""

from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, dims_of, unravel
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import ConcatenateSchedule
from onnxc.compiler.target import Target


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a concatenation."""
    frame = open_kernel(kernel, target)
    b, op = frame.b, frame.root.op
    assert op is not None, kernel
    axis, shape = op.int("axis"), op.results[0].shape

    def write(e: Evaluator, place: Int) -> None:
        index = unravel(b, place, [frame.size(size) for size in shape])
        position = index[axis]
        result: Expr | None = None
        start: Dim = 0
        for operand in op.operands:
            first, stop = e.size(start), e.size(start + operand.shape[axis])
            inside = b.both(e.compare(position, ">=", first), e.compare(position, "<", stop))
            assert inside is not None, operand
            within = (*index[:axis], b.sub(position, first), *index[axis + 1 :])
            x = e.wanted(inside).value(operand, within)
            # The parts before are wanted only where they lie, so the last one to be chosen may be this one.
            result = x if result is None else b.let(f"tl.where({inside}, {x}, {result})", dims_of(x, result, inside))
            start = start + operand.shape[axis]
        assert result is not None, op
        e.store(result, frame.root.dtype, frame.output(), place)

    return frame.flat(product(shape), write, kernel.scheduled(ConcatenateSchedule).block)
