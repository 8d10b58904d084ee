"""Operands that a kernel reads from memory itself, as strided views of its inputs."""

from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.loops.views import View, operand_view


def operand_in_memory(frame: KernelFrame, operand: Value) -> tuple[Reg, View]:
    """The buffer that an operand is a view of, and the view. An operand that is one number is put on the stack."""
    view = operand_view(operand)
    if view is not None:
        return frame.inputs[frame.kernel.block.parameters.index(view.base)], view
    slot = frame.f.alloca(memory_type(operand.dtype))
    value = frame.evaluator(lanes=1).value(operand, [Index()] * operand.rank)
    frame.f.store(to_memory(value, operand.dtype, frame.f), slot)
    return slot, View(operand, operand.shape, 0, (0,) * operand.rank)
