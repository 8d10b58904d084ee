"""The back ends: for each kind of target its passes, its view of planning, and what writes its code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_cpu.emit import emit as emit_for_cpu
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.emit import emit as emit_for_gpu
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.schedules.product_tiles import multiplies
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.ir.dtypes import F8E4M3FN
from onnxc.compiler.ir.module import Module
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.passes.pipeline import Pass
from onnxc.compiler.passes.pipelines import CPU_OPTIMIZE, GPU_FLOAT8_OPTIMIZE, GPU_OPTIMIZE, target_pipeline
from onnxc.compiler.planning import compute_constants as planning
from onnxc.compiler.planning.choose_schedules import PlanTarget
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.cpu import host_architecture
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.gpu.device import properties_of
from onnxc.runtime.gpu.load import this_driver

__all__ = ["BackEnd", "back_end"]

# The processor that launches kernels may be another one than compiles them, so little is asked of it.
_LAUNCHING = {"x86_64": "cpu:x86-64-v2", "aarch64": "cpu:aarch64"}


@dataclass(frozen=True)
class BackEnd:
    """How modules become artifacts for one target. `host` is the processor that runs the native functions."""

    target: Target
    host: Target
    passes: tuple[Pass, ...]
    plan_target: PlanTarget
    emit: Callable[[KernelPlan], Artifact]


def back_end(options: CompileOptions, progress: Callable[[int, int], None] | None = None) -> BackEnd:
    """The back end for the options. Raises DeviceError for the GPU of this machine where there is none.

    progress: is told how many kernels of a GPU, or modules for a processor, are compiled, and of how many.
    """
    if options.target.kind == "cuda":
        return _for_gpu(options, progress)
    target, plan_target = options.target, cpu_plan_target(options.target)
    passes = (*CPU_OPTIMIZE, *target_pipeline("cpu", options.precision), _computing_constants(plan_target, options))
    return BackEnd(
        target,
        target,
        passes,
        plan_target,
        lambda plan: emit_for_cpu(plan, target, options.cache, progress),
    )


def _computing_constants(target: PlanTarget, options: CompileOptions) -> Callable[[Module], Module]:
    """The last pass, which plans with what all others have made."""

    def compute_constants(module: Module) -> Module:
        """Computes what is made of constants and would be written in calls."""
        return planning.compute_constants(module, target, options.limits.folding_bytes)

    return compute_constants


def _for_gpu(options: CompileOptions, progress: Callable[[int, int], None] | None) -> BackEnd:
    target = options.target
    if not target.name:
        target = parse_target(f"cuda:{properties_of(this_driver(), 0).architecture}")
    host = parse_target(_LAUNCHING[host_architecture()])
    optimize = GPU_FLOAT8_OPTIMIZE if multiplies(F8E4M3FN, target) else GPU_OPTIMIZE
    plan_target = gpu_plan_target(target, options.precision)

    passes = (*optimize, *target_pipeline("cuda", options.precision), _computing_constants(plan_target, options))

    def compiled(sources: Sequence[KernelSource]) -> Sequence[DeviceKernel]:
        return compile_kernels(sources, target, options.cache, progress=progress)

    def emit(plan: KernelPlan) -> Artifact:
        return emit_for_gpu(plan, target, host, compiled, options.cache)

    return BackEnd(target, host, passes, plan_target, emit)
