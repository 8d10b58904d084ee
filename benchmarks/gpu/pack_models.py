"""The models of a pack, compiled: those whose values are checked, with what is right, and exported ones, emptied."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import GraphProto

import onnxc
from benchmarks.gpu.emitted import emitted
from benchmarks.gpu.kernel_values import FLOORS, worst_error
from benchmarks.gpu.pack_file import Feed, PackedModel
from benchmarks.gpu.skeletons import emptied
from benchmarks.inputs import ModelSpec, make_inputs, read_manifest
from onnxc.compiler.codegen_gpu.emit import CompileKernels
from onnxc.compiler.options import ModelSource, make_options
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.runtime.artifact import artifact_bytes
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.executable import Executable
from tests.conformance.cases import Case, all_cases, draws_numbers
from tests.models.builders import Built, decoder, encoder, llama, mlp, mobile, resnet, unet

__all__ = [
    "CHECKED", "EXPORTED", "PRECISIONS", "Choice", "checked_models", "choice_of", "official_models", "official_sample",
    "skeletons",
]  # fmt: skip

PRECISIONS = ("fp32", "bf16", "fp16")

CHECKED: Mapping[str, Callable[..., Built]] = {
    "mlp": mlp, "resnet": resnet, "mobile": mobile, "unet": unet,
    "encoder": encoder, "decoder": decoder, "llama": llama,
}  # fmt: skip

EXPORTED = ("bert_tiny", "mnist_cnn", "resnet50", "bert_base", "gpt2_decode", "mobilenet_v2", "vit_base")

# Sizes of the sheets of others: many images or rows, long sentences and caches.
_MANY = {"batch": 32, "sequence": 128, "past": 1024}

OFFICIAL = 60
"""About so many of the official node cases, of which most are a kernel or two."""

_FLOORS = {"fp32": FLOORS["f32"], "bf16": FLOORS["bf16"], "fp16": FLOORS["f16"]}

ALLOWED = 2.0
"""How often the error may be made that rounding after each op makes."""

Emitted = tuple[PackedModel, bytes]


@dataclass(frozen=True)
class Choice:
    """The models of a pack by name, and precisions."""

    checked: tuple[str, ...]
    exported: tuple[str, ...]
    precisions: tuple[str, ...]


def choice_of(only: Sequence[str]) -> Choice:
    """What of all models and precisions is named; all where nothing of a group is."""
    groups = (tuple(CHECKED), EXPORTED, PRECISIONS)
    named = [tuple(name for name in group if name in only) for group in groups]
    has_models = bool(named[0] or named[1])
    return Choice(named[0] if has_models else groups[0], named[1] if has_models else groups[1], named[2] or PRECISIONS)


def checked_models(
    choice: Choice, architecture: str, compile_kernels: CompileKernels
) -> tuple[list[Emitted], dict[str, list[Feed]]]:
    """Artifacts of the models whose values are checked, with inputs and right outputs of each."""
    models: list[Emitted] = []
    feeds: dict[str, list[Feed]] = {}
    for name in choice.checked:
        built = CHECKED[name]("dynamo")
        source = built.model.SerializeToString()
        given = [make_inputs(built.inputs, sizes, seed) for seed, sizes in enumerate(built.sizes.values())]
        feeds[name] = _with_outputs(onnxc.compile(source, threads=1), given)
        for precision in choice.precisions:
            model = PackedModel(name, precision, bound=_bound(source, precision, feeds[name]))
            models.append((model, _compiled(source, precision, architecture, compile_kernels)))
    return models, feeds


def skeletons(
    choice: Choice, models: Path | None, architecture: str, compile_kernels: CompileKernels
) -> Iterator[Emitted]:
    """Artifacts of the exported models of a folder, without their large weights."""
    specs = [] if models is None else [spec for spec in read_manifest(models) if spec.name in choice.exported]
    for spec in specs:
        for precision in choice.precisions:
            model = PackedModel(spec.name, precision, inputs=spec.inputs, sizes=_sizes(spec))
            yield model, _compiled(str(spec.path), precision, architecture, compile_kernels, emptied)


def _sizes(spec: ModelSpec) -> dict[str, dict[str, int]]:
    """One of all, and many."""
    large = spec.sizes["large"]
    many = {name: max(size, _MANY.get(name, size)) for name, size in large.items()}
    return {"one": {**many, "batch": 1}, "many": many}


def _compiled(
    source: ModelSource,
    precision: str,
    architecture: str,
    compile_kernels: CompileKernels,
    prepared: Callable[[KernelPlan], KernelPlan] = lambda plan: plan,
) -> bytes:
    """The bytes of the artifact of a model, its plan changed before code is written."""
    options = make_options(f"cuda:{architecture}", precision=precision)
    return artifact_bytes(emitted(source, options, compile_kernels, prepared))


def _with_outputs(executable: Executable, given: Sequence[Mapping[str, np.ndarray]]) -> list[Feed]:
    """Each inputs with the outputs of an executable."""
    return [(feed, {name: np.asarray(y) for name, y in executable.run(feed).items()}) for feed in given]


def _bound(source: bytes, precision: str, feeds: Sequence[Feed]) -> float:
    """How far outputs in a precision may be from f32, by what the interpreter loses, which rounds after each op."""
    rounded = onnxc.compile(source, "interpreter", precision=precision)
    lost = [
        worst_error(np.asarray(y), wanted[name]) for given, wanted in feeds for name, y in rounded.run(given).items()
    ]
    return max(_FLOORS[precision], ALLOWED * max(lost))


def official_sample() -> list[Case]:
    """Some of the official node cases, the same each time; all of them are loaded for that, which takes a while."""
    cases = [case for case in all_cases() if case.kind == "node"]
    return cases[:: len(cases) // OFFICIAL]


def official_models(
    cases: Sequence[Case], architecture: str, compile_kernels: CompileKernels
) -> tuple[list[Emitted], dict[str, list[Feed]]]:
    """Cases as models in f32 whose values are checked: those of tensors of numbers that are not drawn."""
    models: list[Emitted] = []
    feeds: dict[str, list[Feed]] = {}
    for case in cases:
        model, data = case.load()
        given = [_named(model.graph, *pair) for pair in data]
        if draws_numbers(model.graph) or not all(map(_is_of_numbers, given)):
            continue
        try:
            artifact = _compiled(model.SerializeToString(), "fp32", architecture, compile_kernels)
        except UnsupportedError:
            continue
        packed = PackedModel(f"case_{case.name}", "fp32", bound=max(_FLOORS["fp32"], case.rtol))
        feeds[packed.name] = given
        models.append((packed, artifact))
    return models, feeds


def _named(graph: GraphProto, inputs: Sequence[object], outputs: Sequence[object]) -> Feed:
    """Values by the names of inputs and outputs."""
    names = [[value.name for value in side] for side in (graph.input, graph.output)]
    given, wanted = (
        dict(zip(side, values, strict=False)) for side, values in zip(names, (inputs, outputs), strict=True)
    )
    return given, wanted  # type: ignore[return-value]


def _is_of_numbers(feed: Feed) -> bool:
    return all(isinstance(x, np.ndarray) and x.dtype.kind in "biuf" for side in feed for x in side.values())
