"""Concatenation: flat tiles over the result, in which each operand is computed where it lies."""

from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Int, unravel
from onnxc.compiler.ir.dims import product
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import ConcatenateSchedule
from onnxc.compiler.target import Target


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a concatenation."""
    frame = open_kernel(kernel, target)
    shape = frame.root.shape

    def write(e: Evaluator, offset: Int) -> None:
        index = unravel(frame.b, offset, [frame.size(size) for size in shape])
        for ordinal, result in enumerate(frame.kernel.block.results):
            e.store(e.value(result, index), result.dtype, frame.output(ordinal), offset)

    return frame.flat(product(shape), write, kernel.scheduled(ConcatenateSchedule).block)
