"""What ends a kernel with an anchor: the pointwise ops that follow it, and the way of the result to memory."""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.element_types import memory_type, round_register, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.loops.views import row_major
from onnxc.runtime.cpu import CACHE_LINE_BYTES


def write_result(e: Evaluator, frame: KernelFrame, anchor: Op, x: Reg, index: Sequence[Index]) -> None:
    """Stores the root of a kernel at `index`, where its anchor is `x`."""
    root = frame.root
    e.bound[anchor.results[0]] = round_register(x, anchor.results[0].dtype, frame.f)
    offset = e.strided(index, row_major(root.shape))
    e.store(to_memory(e.value(root, index), root.dtype, frame.f), frame.output, memory_type(root.dtype), offset)


def fetch_operands(frame: KernelFrame, index: Sequence[Index], count: int) -> None:
    """Asks for what `count` neighbours of the root from `index` on will be made of, besides the anchor.

    Those are operands of its shape, such as what is added to a product: they are read where it is written.
    """
    f, shape = frame.f, frame.root.shape
    offset = frame.evaluator(1).strided(index, row_major(shape)).base
    for parameter, pointer in zip(frame.kernel.block.parameters, frame.inputs, strict=True):
        if parameter.shape == shape:
            begin = f.gep(pointer, offset, memory_type(parameter.dtype))
            for byte in range(0, count * parameter.dtype.itemsize, CACHE_LINE_BYTES):
                f.prefetch(f.gep(begin, byte))
