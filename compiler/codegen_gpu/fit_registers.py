"""Kernels whose tile does not fit the registers: the next of their ranking is compiled in their place.

How many registers a kernel takes is known once it is compiled. What does not fit lies on the stack, in memory, and goes
there and back in each round along k. So it is with a kernel that needs more of a card than there is, or that the
compiler does not take.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.codegen_gpu.compile.compile_kernels import KernelsFailed
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
    """A kernel as it was compiled, the stack of its threads, and the schedules that are left to try.

    failure: why it was not compiled, None where it was.
    """

    kernel: Kernel
    code: KernelCode
    stack_bytes: int
    left: tuple[Schedule, ...]
    failure: KernelsFailed | None

    @property
    def badness(self) -> tuple[bool, int]:
        """Greater for what is less wanted; (False, 0) for what is as it should be."""
        return self.failure is not None, self.stack_bytes


def fit_registers(plan: KernelPlan, target: Target, compile_kernels: CompileKernels) -> FittedPlan:
    """The plan compiled, with the first fallback without stack in place of each kernel that has some or fails.

    Where all have some, the one with the least. KernelsFailed where all of a kernel fail.
    """
    compiled: dict[KernelSource, DeviceKernel] = {}

    growing = growing_symbols(plan)

    def compile(kernels: Mapping[int, Kernel]) -> list[_Fit]:
        codes = [
            with_loaded_sizes(emit_kernel(kernel, target), growing[ordinal]) for ordinal, kernel in kernels.items()
        ]
        missing = [source for source in _sources(codes) if source not in compiled]
        failure = None
        try:
            compiled.update(zip(missing, compile_kernels(missing), strict=True))
        except KernelsFailed as problem:
            failure = problem
            compiled.update(problem.compiled)
        return [_fit(kernel, code, compiled, failure) for kernel, code in zip(kernels.values(), codes, strict=True)]

    fits = compile(dict(enumerate(plan.kernels)))
    while poor := [ordinal for ordinal, fit in enumerate(fits) if any(fit.badness) and fit.left]:
        others = compile({ordinal: _fallback(fits[ordinal]) for ordinal in poor})
        for ordinal, other in zip(poor, others, strict=True):
            fits[ordinal] = _better(fits[ordinal], other)
    for fit in fits:
        if fit.failure is not None:
            raise fit.failure
    codes = [fit.code for fit in fits]
    kernels = {source: compiled[source] for source in _sources(codes)}
    return FittedPlan(replace(plan, kernels=tuple(fit.kernel for fit in fits)), codes, kernels)


def _fit(
    kernel: Kernel, code: KernelCode, compiled: Mapping[KernelSource, DeviceKernel], failure: KernelsFailed | None
) -> _Fit:
    """A kernel beside what was compiled; `failure` is of another where all of its sources are there."""
    made = [compiled[step.source] for step in code.steps if step.source in compiled]
    stack = max((each.stack_bytes for each in made), default=0)
    return _Fit(kernel, code, stack, kernel.schedule.fallbacks, failure if len(made) < len(code.steps) else None)


def _sources(codes: Sequence[KernelCode]) -> list[KernelSource]:
    """The sources of all launches, each once."""
    return list(dict.fromkeys(step.source for code in codes for step in code.steps))


def _fallback(fit: _Fit) -> Kernel:
    """The kernel with the next of its schedules, which says why."""
    schedule, *left = fit.left
    reason = f"has {fit.stack_bytes} bytes of stack" if fit.failure is None else "does not compile"
    why = f"{fit.kernel.schedule.brief} {reason}"
    whys = "; ".join(each for each in (schedule.why, why) if each)
    return replace(fit.kernel, schedule=replace(schedule, fallbacks=tuple(left), why=whys))


def _better(fit: _Fit, other: _Fit) -> _Fit:
    """The one that compiles, with less stack, and what is left to try behind both."""
    return replace(fit if fit.badness <= other.badness else other, left=other.left)
