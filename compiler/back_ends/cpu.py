"""The back end for processors."""

from functools import partial

from onnxc.compiler.back_ends.back_end import BackEnd, Progress, computing_constants
from onnxc.compiler.codegen_cpu.emit import emit
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import has_dots
from onnxc.compiler.codegen_cpu.inner_loops.tile_kernels import has_bfloat_tiles
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.codegen_cpu.schedules.block_products import multiplies_bytes
from onnxc.compiler.codegen_cpu.schedules.convolutions import convolves_as_floats
from onnxc.compiler.codegen_host.image import begin_support_objects
from onnxc.compiler.ir.dtypes import BF16
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.passes.cpu_traits import CpuTraits
from onnxc.compiler.passes.pipelines import cpu_optimize, target_pipeline
from onnxc.compiler.target import Target

__all__ = ["cpu_traits", "make_back_end"]


def make_back_end(options: CompileOptions, progress: Progress | None) -> BackEnd:
    """The back end for the processor that the options name."""
    target, plan_target = options.target, cpu_plan_target(options.target)
    traits = cpu_traits(target)
    pipeline = (*cpu_optimize(traits), *target_pipeline("cpu", options.precision, traits))
    passes = (*pipeline, computing_constants(plan_target, options))
    begin = partial(begin_support_objects, target, options.cache)
    return BackEnd(target, target, passes, plan_target, begin, lambda plan: emit(plan, target, options.cache, progress))


def cpu_traits(target: Target) -> CpuTraits:
    """What passes ask of a processor."""
    multiplied = (BF16,) if has_bfloat_tiles(target) else ()
    has_kernel = partial(multiplies_bytes, target=target)
    return (
        CpuTraits(multiplied, has_kernel)
        if has_dots(target)
        else CpuTraits(multiplied, has_kernel, convolves_as_floats)
    )
