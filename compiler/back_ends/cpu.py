"""The back end for processors."""

from onnxc.compiler.back_ends.back_end import BackEnd, Progress, computing_constants
from onnxc.compiler.codegen_cpu.emit import emit
from onnxc.compiler.codegen_cpu.inner_loops.tile_kernels import multiplied_halves
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.passes.pipelines import CPU_OPTIMIZE, target_pipeline

__all__ = ["make_back_end"]


def make_back_end(options: CompileOptions, progress: Progress | None) -> BackEnd:
    """The back end for the processor that the options name."""
    target, plan_target = options.target, cpu_plan_target(options.target)
    pipeline = target_pipeline("cpu", options.precision, multiplied_halves(target))
    passes = (*CPU_OPTIMIZE, *pipeline, computing_constants(plan_target, options))
    return BackEnd(target, target, passes, plan_target, lambda plan: emit(plan, target, options.cache, progress))
