"""The stages of a compilation, in order: each verb makes the noun that the next one takes.

read       a path, bytes, file or message    -> LoadedModel
check      names, versions, functions        -> CheckedModel
lower      operators to primitives           -> Module
optimize   passes                            -> Module
plan       kernels, launches, buffers        -> KernelPlan
emit       machine code                      -> Artifact
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from onnxc.compiler.back_ends import BackEnd, back_end
from onnxc.compiler.checked_model import checked_model
from onnxc.compiler.frontend.graph import CheckedModel, all_nodes
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import LoadedModel, read_model
from onnxc.compiler.ignored_configurations import warn_of_ignored_configurations
from onnxc.compiler.ir.module import Module, Parameter, Value, walk
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.jobs.rare_collections import rare_collections
from onnxc.compiler.limits import Limits, expect_within, limited_to
from onnxc.compiler.model_symbols import expect_known_dims, expect_known_specializations, frozen_inputs
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.passes.pipeline import Pass, run_pipeline
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.sharding.independent_batch import independent_batch
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.errors import UnsupportedError, reworded
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = [
    "Noun",
    "OfSegments",
    "compile_checked",
    "compile_model",
    "optimize",
    "run_stages",
    "with_provenance",
]


@record
class OfSegments:
    """What a stage makes of each segment of a pipeline, in order; its text is theirs, one after the other."""

    nouns: tuple[Module | KernelPlan, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.nouns))


Noun = LoadedModel | CheckedModel | Module | KernelPlan | OfSegments | Artifact


def compile_model(source: ModelSource | LoadedModel, options: CompileOptions) -> Artifact:
    """The artifact of a model."""
    with rare_collections():
        *_, (_, artifact) = run_stages(source, options)
    assert isinstance(artifact, Artifact), artifact
    return artifact


def run_stages(
    source: ModelSource | LoadedModel, options: CompileOptions, end: BackEnd | None = None
) -> Iterator[tuple[str, Noun]]:
    """The name of each stage with the noun it has made; a stage runs when its noun is asked for.

    end: another back end than the one for the options.
    """
    end = back_end(options) if end is None else end
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    yield "read", loaded
    loaded, checked = checked_model(loaded, options)
    expect_known_dims(checked, options.inputs)
    yield "check", checked
    yield from _stages_of_checked(checked, options, end)


def compile_checked(checked: CheckedModel, options: CompileOptions) -> Artifact:
    """The artifact of a model that is checked already."""
    with rare_collections():
        *_, (_, artifact) = _stages_of_checked(checked, options, back_end(options))
    assert isinstance(artifact, Artifact), artifact
    return artifact


def _stages_of_checked(checked: CheckedModel, options: CompileOptions, end: BackEnd) -> Iterator[tuple[str, Noun]]:
    end.begin()
    with limited_to(options.limits):
        module = lower_model(checked, options.inputs)
    ignored = warn_of_ignored_configurations(checked)
    expect_known_specializations(module, options.specialize)
    yield "lower", module
    inputs = module.main.body.parameters
    with _advice_for(inputs):
        module = optimize(module, end.passes, options.limits)
    yield "optimize", module
    plan = plan_kernels(module, end.plan_target, options.specialize)
    yield "plan", plan
    with _advice_for(inputs), limited_to(options.limits):
        artifact = end.emit(plan)
    artifact = _with_batch(with_provenance(artifact, checked, options, end), independent_batch(module.main))
    artifact = _with_nodes(artifact, checked)
    yield "emit", _with_ignored(artifact, ignored)


@contextmanager
def _advice_for(inputs: Sequence[Value]) -> Iterator[None]:
    """Errors of limits name the inputs without a shape: what follows on these is compiled for each of their ranks."""
    try:
        yield
    except UnsupportedError as problem:
        producers = (
            value.producer for value in inputs if isinstance(value.type, TensorType) and value.type.shape is None
        )
        names = [f'"{each.name}"' for each in producers if isinstance(each, Parameter)]
        if problem.code not in ("code-too-large", "model-too-complex") or not names:
            raise
        advice = f"{', '.join(names)} may have any rank, and each is compiled: shapes= gives inputs a shape"
        raise reworded(problem, f"{problem}\n  {advice}") from None


def optimize(module: Module, passes: Sequence[Pass], limits: Limits) -> Module:
    """The module after `passes`. Raises ModelError where it has more ops than the limits let it have."""
    with limited_to(limits):
        ops = Counter(op.location for function in module.functions for op in walk(function.body))
        what = "the number of ops that the nodes become"
        expect_within("lowered_ops", ops.total(), what, "model-too-complex", ops)
        return run_pipeline(module, passes)


def with_provenance(artifact: Artifact, model: CheckedModel, options: CompileOptions, end: BackEnd) -> Artifact:
    """The artifact, which says what it was made from, and how."""
    provenance = {
        **artifact.provenance,
        "model": model.name,
        "model_digest": model.digest,
        "target": str(end.target),
        "precision": options.precision,
        "frozen_inputs": list(frozen_inputs(model, options.inputs)),
    }
    # What a model does not say takes no room, and does not change the bytes of its artifact.
    said = {"metadata": dict(model.metadata), "about": dict(model.about)}
    provenance |= {key: texts for key, texts in said.items() if texts}
    features = dict.fromkeys(artifact.images, end.host.features)
    return replace(artifact, provenance=provenance, features=features)


def _with_batch(artifact: Artifact, symbol: str) -> Artifact:
    """The artifact, which says along which size calls may be joined into one."""
    if not symbol:
        return artifact
    return replace(artifact, provenance={**artifact.provenance, "independent_batch": symbol})


def _with_nodes(artifact: Artifact, model: CheckedModel) -> Artifact:
    """The artifact, whose report lists the nodes that launches came from, with the values that go between them."""
    if not isinstance(artifact.report, Mapping):
        return artifact
    nodes = list(all_nodes(model.graph))
    known = {name for node in nodes for name in node.outputs} | {info.name for info in model.graph.inputs}
    known -= {"", *model.graph.initializers}
    listed: list[JsonValue] = [
        {
            "node": str(node.location),
            "reads": [name for name in node.inputs if name in known],
            "writes": [name for name in node.outputs if name],
        }
        for node in nodes
    ]
    return replace(artifact, report={**artifact.report, "nodes": listed})


def _with_ignored(artifact: Artifact, ignored: tuple[str, ...]) -> Artifact:
    """The artifact, whose report names the device configurations that the compilation has ignored."""
    if not ignored or not isinstance(artifact.report, Mapping):
        return artifact
    return replace(artifact, report={**artifact.report, "ignored_configurations": list(ignored)})
