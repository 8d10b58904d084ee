"""The kernels of a module as sources, without a device: what a pack holds, and what a runner launches."""

from dataclasses import dataclass, replace

from onnxc.compiler.codegen_gpu.kernels import emit_kernel
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode, KernelSource
from onnxc.compiler.ir.module import Module
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import Schedule
from onnxc.compiler.target import Target

__all__ = ["PlannedKernels", "planned"]


@dataclass(frozen=True, eq=False)
class PlannedKernels:
    """A plan, the launches that carry out each of its kernels, and their sources, each once."""

    plan: KernelPlan
    codes: tuple[KernelCode, ...]

    @property
    def sources(self) -> list[KernelSource]:
        return list(dict.fromkeys(step.source for code in self.codes for step in code.steps))


def planned(
    module: Module, target: Target, precision: str = "fp32", schedule: Schedule | None = None
) -> PlannedKernels:
    """The kernels of a module for a target; `schedule` replaces that of its only kernel."""
    plan_target = gpu_plan_target(target, precision)
    if schedule is not None:
        plan_target = replace(plan_target, candidates=lambda problem, case: (schedule,))
    plan = plan_kernels(module, plan_target)
    return PlannedKernels(plan, tuple(emit_kernel(kernel, target) for kernel in plan.kernels))
