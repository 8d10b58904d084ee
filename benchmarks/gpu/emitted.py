"""Models compiled for a GPU whose kernels come from elsewhere: out of a cache, or of nothing that compiles."""

from collections.abc import Callable
from dataclasses import replace

from onnxc.compiler.back_ends import back_end
from onnxc.compiler.codegen_gpu.emit import CompileKernels, emit
from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.runtime.artifact import Artifact

__all__ = ["emitted"]


def emitted(
    source: ModelSource,
    options: CompileOptions,
    compile_kernels: CompileKernels,
    prepared: Callable[[KernelPlan], KernelPlan] = lambda plan: plan,
) -> Artifact:
    """The artifact of a model; `prepared` sees its plan, and may change it, before code is written."""
    real = back_end(options)
    end = replace(real, emit=lambda plan: emit(prepared(plan), real.target, real.host, compile_kernels))
    *_, (_, artifact) = run_stages(source, options, end)
    assert isinstance(artifact, Artifact)
    return artifact
