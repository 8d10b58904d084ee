"""Models compiled for a GPU whose kernels come from elsewhere: out of a cache, or of nothing that compiles."""

from collections.abc import Callable
from dataclasses import replace

from onnxc.compiler.back_ends import BackEnd, back_end
from onnxc.compiler.codegen_gpu.emit import CompileKernels, emit
from onnxc.compiler.compile_decoder import decoder_artifact
from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.runtime.artifact import Artifact

__all__ = ["emitted", "emitted_decoder"]


def emitted(
    source: ModelSource,
    options: CompileOptions,
    compile_kernels: CompileKernels,
    prepared: Callable[[KernelPlan], KernelPlan] = lambda plan: plan,
) -> Artifact:
    """The artifact of a model; `prepared` sees its plan, and may change it, before code is written."""
    *_, (_, artifact) = run_stages(source, options, _emitting(options, compile_kernels, prepared))
    assert isinstance(artifact, Artifact)
    return artifact


def emitted_decoder(
    source: ModelSource,
    options: CompileOptions,
    compile_kernels: CompileKernels,
    prepared: Callable[[KernelPlan], KernelPlan] = lambda plan: plan,
) -> Artifact:
    """As `emitted`, of a model as a decoder."""
    return decoder_artifact(source, options, _emitting(options, compile_kernels, prepared))


def _emitting(
    options: CompileOptions, compile_kernels: CompileKernels, prepared: Callable[[KernelPlan], KernelPlan]
) -> BackEnd:
    real = back_end(options)
    return replace(real, emit=lambda plan: emit(prepared(plan), real.target, real.host, compile_kernels))
