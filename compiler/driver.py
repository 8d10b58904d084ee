"""The stages of a compilation, in order: each verb makes the noun that the next one takes.

read       a path, bytes, file or message    -> LoadedModel
check      names, versions, functions        -> CheckedModel
lower      operators to primitives           -> Module
optimize   passes                            -> Module
plan       kernels, launches, buffers        -> KernelPlan
emit       machine code                      -> Artifact
"""

from collections.abc import Iterator
from dataclasses import replace

from compiler.codegen_cpu.emit import emit
from compiler.codegen_cpu.plan_target import cpu_plan_target
from compiler.frontend.check import check_model
from compiler.frontend.graph import CheckedModel
from compiler.frontend.lower import lower_model
from compiler.frontend.read import LoadedModel, read_model
from compiler.ir.module import Module
from compiler.limits import limited_to
from compiler.model_symbols import expect_known_dims, frozen_inputs
from compiler.options import CompileOptions, ModelSource
from compiler.passes.pipeline import run_pipeline
from compiler.passes.pipelines import OPTIMIZE, target_pipeline
from compiler.planning.kernel_plan import KernelPlan
from compiler.planning.plan import plan_kernels
from compiler.target import parse_target
from runtime.artifact import Artifact

__all__ = ["STAGES", "Noun", "compile_model", "run_stages"]

Noun = LoadedModel | CheckedModel | Module | KernelPlan | Artifact

STAGES = ("read", "check", "lower", "optimize", "plan", "emit")


def compile_model(source: ModelSource, options: CompileOptions) -> Artifact:
    """The artifact of a model."""
    *_, (_, artifact) = run_stages(source, options)
    assert isinstance(artifact, Artifact), artifact
    return artifact


def run_stages(source: ModelSource, options: CompileOptions) -> Iterator[tuple[str, Noun]]:
    """The name of each stage with the noun it has made; a stage runs when its noun is asked for."""
    loaded = read_model(source)
    yield "read", loaded
    checked = check_model(loaded, limits=options.limits)
    expect_known_dims(checked, options.inputs)
    yield "check", checked
    module = lower_model(checked, options.inputs)
    yield "lower", module
    with limited_to(options.limits):
        module = run_pipeline(module, (*OPTIMIZE, *target_pipeline("cpu", options.precision)))
    yield "optimize", module
    plan = plan_kernels(module, cpu_plan_target(options.target))
    yield "plan", plan
    artifact = emit(plan, options.target)
    yield "emit", _with_provenance(artifact, checked, options)


def _with_provenance(artifact: Artifact, model: CheckedModel, options: CompileOptions) -> Artifact:
    provenance = {
        **artifact.provenance,
        "model": model.name,
        "model_digest": model.digest,
        "target": str(options.target),
        "precision": options.precision,
        "frozen_inputs": list(frozen_inputs(model, options.inputs)),
    }
    features = {target: parse_target(target).features for target in artifact.images}
    return replace(artifact, provenance=provenance, features=features)
