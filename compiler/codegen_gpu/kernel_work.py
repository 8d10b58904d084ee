"""The work of a kernel on a GPU: also which of its units do the operations, and how often each."""

from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.schedules.cards import Unit
from onnxc.compiler.codegen_gpu.schedules.product_tiles import UNITS
from onnxc.compiler.planning import kernel_work
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import AttentionSchedule, ContractionSchedule, ConvolutionSchedule

__all__ = ["DeviceWork", "work_of"]

_PRODUCTS = ("dot", "convolution", "attention")

_THREE_PRODUCTS = 3
"""f32 as accurate as f32 itself takes so many products of tensor cores."""


@dataclass(frozen=True)
class DeviceWork(kernel_work.KernelWork):
    """Operations are mostly of `unit`, which `repeats` each so often because one pass is not exact enough."""

    unit: Unit
    repeats: int = 1


def work_of(kernel: Kernel) -> DeviceWork:
    """The work of one launch of a kernel."""
    work = kernel_work.work_of(kernel)
    products = [op for op in kernel.block.ops if op.name in _PRODUCTS]
    unit: Unit = UNITS.get(products[0].operands[0].dtype, "fp32") if products else "fp32"
    is_exact = unit == "tf32" and _operand_form(kernel) == "tf32x3"
    repeats = _THREE_PRODUCTS if is_exact else 1
    return DeviceWork(work.read_bytes, work.written_bytes, work.flops, unit, repeats)


def _operand_form(kernel: Kernel) -> str:
    """The form in which a kernel multiplies operands."""
    schedule = kernel.schedule
    if isinstance(schedule, ContractionSchedule | ConvolutionSchedule | AttentionSchedule):
        return schedule.arithmetic.operands
    return ""
