"""The back end for NVIDIA's GPUs."""

from collections.abc import Sequence
from functools import partial

from onnxc.compiler.back_ends.back_end import BackEnd, Progress, computing_constants
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.emit import emit as emit_plan
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.schedules.product_tiles import multiplies
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.codegen_host.image import begin_support_objects
from onnxc.compiler.ir.dtypes import F8E4M3FN
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.passes.pipelines import GPU_FLOAT8_OPTIMIZE, GPU_OPTIMIZE, target_pipeline
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.target import parse_target
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.cpu import host_architecture
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.gpu.device import properties_of
from onnxc.runtime.gpu.load import this_driver

__all__ = ["make_back_end"]

# The processor that launches kernels may be another one than compiles them, so little is asked of it.
_LAUNCHING = {"x86_64": "cpu:x86-64-v2", "aarch64": "cpu:aarch64"}


def make_back_end(options: CompileOptions, progress: Progress | None) -> BackEnd:
    """The back end for the GPU that the options name, else for that of this machine; DeviceError if it has none."""
    target = options.target
    if not target.name:
        target = parse_target(f"cuda:{properties_of(this_driver(), 0).architecture}")
    host = parse_target(_LAUNCHING[host_architecture()])
    optimize = GPU_FLOAT8_OPTIMIZE if multiplies(F8E4M3FN, target) else GPU_OPTIMIZE
    plan_target = gpu_plan_target(target, options.precision)

    passes = (*optimize, *target_pipeline("cuda", options.precision), computing_constants(plan_target, options))

    def compiled(sources: Sequence[KernelSource]) -> Sequence[DeviceKernel]:
        return compile_kernels(sources, target, options.cache, progress=progress)

    def emit(plan: KernelPlan) -> Artifact:
        return emit_plan(plan, target, host, compiled, options.cache)

    return BackEnd(target, host, passes, plan_target, partial(begin_support_objects, host, options.cache), emit)
