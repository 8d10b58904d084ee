"""Kernels whose tile does not fit the registers: the next of their ranking is compiled in their place.

How many registers a kernel takes is known once it is compiled. What does not fit lies on the stack, in memory, and goes
there and back in each round along k.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.codegen_gpu.growing_sizes import growing_symbols
from onnxc.compiler.codegen_gpu.kernels import emit_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode, KernelSource
from onnxc.compiler.codegen_gpu.source.loaded_sizes import with_loaded_sizes
from onnxc.compiler.planning.kernel_plan import Kernel, KernelPlan
from onnxc.compiler.planning.schedules import Schedule
from onnxc.compiler.target import Target
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.records import record

__all__ = ["CompileKernels", "FittedPlan", "fit_registers"]

CompileKernels = Callable[[Sequence[KernelSource]], Sequence[DeviceKernel]]


@record
class FittedPlan:
    """A plan with the kernels that are taken, the code of each by its ordinal, and all sources of these, compiled."""

    plan: KernelPlan
    codes: Sequence[KernelCode]
    kernels: Mapping[KernelSource, DeviceKernel]


@record
class _Fit:
    """A kernel as it was compiled, the stack of its threads, and the schedules that are left to try."""

    kernel: Kernel
    code: KernelCode
    stack_bytes: int
    left: tuple[Schedule, ...]


def fit_registers(plan: KernelPlan, target: Target, compile_kernels: CompileKernels) -> FittedPlan:
    """The plan compiled, with the first fallback without stack in place of each kernel that has some.

    Where all have some, the one with the least.
    """
    compiled: dict[KernelSource, DeviceKernel] = {}

    growing = growing_symbols(plan)

    def compile(kernels: Mapping[int, Kernel]) -> list[_Fit]:
        codes = [
            with_loaded_sizes(emit_kernel(kernel, target), growing[ordinal]) for ordinal, kernel in kernels.items()
        ]
        missing = [source for source in _sources(codes) if source not in compiled]
        compiled.update(zip(missing, compile_kernels(missing), strict=True))
        stacks = [max((compiled[step.source].stack_bytes for step in code.steps), default=0) for code in codes]
        triples = zip(kernels.values(), codes, stacks, strict=True)
        return [_Fit(kernel, code, stack, kernel.schedule.fallbacks) for kernel, code, stack in triples]

    fits = compile(dict(enumerate(plan.kernels)))
    while spilled := [ordinal for ordinal, fit in enumerate(fits) if fit.stack_bytes and fit.left]:
        others = compile({ordinal: _fallback(fits[ordinal]) for ordinal in spilled})
        for ordinal, other in zip(spilled, others, strict=True):
            fits[ordinal] = _better(fits[ordinal], other)
    codes = [fit.code for fit in fits]
    kernels = {source: compiled[source] for source in _sources(codes)}
    return FittedPlan(replace(plan, kernels=tuple(fit.kernel for fit in fits)), codes, kernels)


def _sources(codes: Sequence[KernelCode]) -> list[KernelSource]:
    """The sources of all launches, each once."""
    return list(dict.fromkeys(step.source for code in codes for step in code.steps))


def _fallback(fit: _Fit) -> Kernel:
    """The kernel with the next of its schedules, which says why."""
    schedule, *left = fit.left
    why = f"{fit.kernel.schedule.brief} has {fit.stack_bytes} bytes of stack"
    whys = "; ".join(each for each in (schedule.why, why) if each)
    return replace(fit.kernel, schedule=replace(schedule, fallbacks=tuple(left), why=whys))


def _better(fit: _Fit, other: _Fit) -> _Fit:
    """The one with less stack, and what is left to try behind both."""
    return replace(fit if fit.stack_bytes <= other.stack_bytes else other, left=other.left)
