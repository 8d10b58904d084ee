"""The work of a kernel on a GPU: also which of its units do the operations, and how often each."""

from onnxc.compiler.codegen_gpu.schedules.cards import Unit
from onnxc.compiler.codegen_gpu.schedules.product_tiles import UNITS
from onnxc.compiler.codegen_gpu.schedules.recurrences import exchanged, recurrence_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import walk
from onnxc.compiler.planning import kernel_work
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import (
    AttentionSchedule,
    ContractionSchedule,
    ConvolutionSchedule,
    RecurrenceSchedule,
)
from onnxc.runtime.records import record

__all__ = ["DeviceWork", "work_of"]

_PRODUCTS = ("dot", "convolution", "attention", "block_product")

_LOADS_OF_MEETING = 3
"""To arrive, to see that all have, and to read what they wrote: each a way to the L2 cache and back."""

_THREE_PRODUCTS = 3
"""f32 as accurate as f32 itself takes so many products of tensor cores."""


@record
class DeviceWork(kernel_work.KernelWork):
    """Operations are mostly of `unit`, which `repeats` each so often because one pass is not exact enough.

    steps: loads that wait for one another in a program, beyond what every kernel has.
    """

    unit: Unit
    repeats: int = 1
    steps: Dim = 1


def work_of(kernel: Kernel) -> DeviceWork:
    """The work of one launch of a kernel."""
    work = kernel_work.work_of(kernel)
    products = [op for op in walk(kernel.block) if op.name in _PRODUCTS]
    unit: Unit = UNITS.get(products[0].operands[0].dtype, "fp32") if products else "fp32"
    is_exact = unit == "tf32" and _operand_form(kernel) == "tf32x3"
    repeats = _THREE_PRODUCTS if is_exact else 1
    return DeviceWork(work.read_bytes, work.written_bytes, work.flops, unit, repeats, _steps(kernel))


def _steps(kernel: Kernel) -> Dim:
    """In each round of a recurrence programs say that they have come, look who has, and read, for all they exchange."""
    if not isinstance(kernel.schedule, RecurrenceSchedule):
        return 1
    op = recurrence_of(kernel.block)
    return op.dim("trips") * _LOADS_OF_MEETING * len(exchanged(op.blocks[0]))


def _operand_form(kernel: Kernel) -> str:
    """The form in which a kernel multiplies operands."""
    schedule = kernel.schedule
    if isinstance(schedule, ContractionSchedule | ConvolutionSchedule | AttentionSchedule | RecurrenceSchedule):
        return schedule.arithmetic.operands
    return ""
