"""A model compiled for a GPU: the machine code of its kernels, with what they are for, and what compiling took."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnxc
from benchmarks.gpu.emitted import emitted
from benchmarks.gpu.machine_code.code import MachineCode, read_code
from benchmarks.gpu.machine_code.timed_kernels import TimedKernels
from onnxc.compiler.codegen_gpu.compile.kernel_cache import KernelCache
from onnxc.compiler.codegen_gpu.fit_registers import FittedPlan, fit_registers
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.kernel_plan import Kernel, KernelPlan
from onnxc.compiler.planning.reported_launches import reported_launches
from onnxc.compiler.planning.typical_sizes import TypicalSizes
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.device_code import DeviceKernel

__all__ = ["CompiledModel", "Request", "TakenKernel", "compiled_model"]

CORES = 2
"""On so many the whole compilation is to be done in its time."""


@dataclass(frozen=True)
class Request:
    """A model, by its file, in a precision; sizes: of symbols, which stay open without."""

    name: str
    path: Path
    target: str
    precision: str
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class TakenKernel:
    """A kernel that some launches take: that of the plan, with the source and code of one of its launches.

    nodes: of the model, those that launches of it were built around first. operators: of all nodes behind these.
    """

    planned: Kernel
    source: KernelSource
    device: DeviceKernel
    code: MachineCode
    nodes: tuple[str, ...]
    operators: frozenset[str]


@dataclass(frozen=True)
class CompiledModel:
    """The kernels of a model, and what compiling took, in seconds of a processor.

    cold_s: with nothing known. least_s: the same where the kernels are compiled by two at once and nothing else takes
    the processors. planned_s: where all kernels are known. warm_s: where the whole model is.
    """

    kernels: tuple[TakenKernel, ...]
    cold_s: float
    least_s: float
    planned_s: float
    warm_s: float


def compiled_model(request: Request, timed: TimedKernels) -> CompiledModel:
    """The model compiled. Raises what compiling raises."""
    plans: list[KernelPlan] = []
    asked: dict[KernelSource, None] = {}

    def kept(plan: KernelPlan) -> KernelPlan:
        plans.append(plan)
        return plan

    def compile(sources: Sequence[KernelSource]) -> Sequence[DeviceKernel]:
        asked.update(dict.fromkeys(sources))
        return timed.compile(sources)

    options = make_options(request.target, dict(request.sizes), precision=request.precision, cache=False)
    started = time.process_time()
    artifact = emitted(str(request.path), options, compile, kept)
    serial = time.process_time() - started
    kernels_s = timed.seconds(list(asked))
    fitted = fit_registers(_as_emitted(plans[0], artifact), options.target, timed.compile)
    planned_s, warm_s = _again(request, list(fitted.kernels.values()))
    return CompiledModel(
        tuple(_taken(fitted)),
        serial + CORES * timed.start_seconds + kernels_s,
        serial + timed.start_seconds + kernels_s / CORES,
        planned_s,
        warm_s,
    )


def _as_emitted(plan: KernelPlan, artifact: Artifact) -> KernelPlan:
    """The plan whose kernels an artifact has: without sizes that grow where no graph serves these."""
    growing = artifact.report.get("growing") if isinstance(artifact.report, Mapping) else None
    is_without = isinstance(growing, Mapping) and not growing["one_graph"]
    return replace(plan, growing={}) if is_without else plan


def _again(request: Request, kernels: Sequence[DeviceKernel]) -> tuple[float, float]:
    """What a whole compilation takes where its kernels are known, and then one more."""
    with tempfile.TemporaryDirectory() as folder:
        KernelCache(Path(folder)).store(kernels)
        return _whole(request, folder), _whole(request, folder)


def _whole(request: Request, cache: str) -> float:
    started = time.process_time()
    onnxc.compile(
        request.path, target=request.target, dims=dict(request.sizes), precision=request.precision, cache=cache
    )
    return time.process_time() - started


def _taken(fitted: FittedPlan) -> Iterator[TakenKernel]:
    """Each kernel of the device once, for the first kernel of the plan that takes it."""
    nodes, operators = _nodes(fitted.plan)
    seen: set[KernelSource] = set()
    for ordinal, (planned, code) in enumerate(zip(fitted.plan.kernels, fitted.codes, strict=True)):
        for step in code.steps:
            if step.source not in seen:
                seen.add(step.source)
                device = fitted.kernels[step.source]
                names = tuple(dict.fromkeys(nodes.get(ordinal, ())))
                all_operators = frozenset(operators.get(ordinal, ()))
                yield TakenKernel(planned, step.source, device, read_code(device.cubin), names, all_operators)


def _nodes(plan: KernelPlan) -> tuple[Mapping[int, list[str]], Mapping[int, list[str]]]:
    """For kernels by their ordinals the first nodes of their launches, and the operators of all their nodes."""
    nodes: dict[int, list[str]] = {}
    operators: dict[int, list[str]] = {}
    for each in reported_launches(plan, TypicalSizes(plan.function.symbols)):
        location = each.launch.location
        name = "" if location is None else f"{location.name or location.index} ({location.operator})"
        # "MatMul-13", with its domain before that where it is not that of the standard.
        names = [node.operator.partition("-")[0].rpartition(".")[2] for node in each.launch.nodes]
        for variant in each.launch.variants:
            nodes.setdefault(variant.kernel, []).append(name)
            operators.setdefault(variant.kernel, []).extend(names)
    return nodes, operators
