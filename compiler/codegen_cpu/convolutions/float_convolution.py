"""What kernels of convolutions of floats know: the op, its operands, its schedule, and vectors of its elements."""

from functools import cached_property

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_host.llvm_values import vector_type
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.runtime.records import record

__all__ = ["FloatConvolution"]


@record
class FloatConvolution:
    """A convolution of the images `x` by the filters `w`, of one type."""

    frame: KernelFrame
    op: Op
    x: View
    w: View

    @cached_property
    def schedule(self) -> ConvolutionSchedule:
        return self.frame.kernel.scheduled(ConvolutionSchedule)

    @cached_property
    def element(self) -> str:
        """The type of elements, and of their sums."""
        return memory_type(self.op.dtype())

    @cached_property
    def vector(self) -> str:
        return vector_type(self.element, self.frame.lanes)

    @cached_property
    def registers(self) -> tuple[int, int]:
        """What is summed at once in registers: filters, or taps of one, and pixels."""
        registers = self.schedule.registers
        assert registers is not None, self.schedule
        return registers.rows, registers.columns
