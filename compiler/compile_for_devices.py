"""A model divided over devices as one of its configurations says: one program, which each of them runs."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.back_ends import BackEnd, back_end
from onnxc.compiler.back_ends.cpu import cpu_traits
from onnxc.compiler.checked_model import checked_model
from onnxc.compiler.codegen_gpu.exchangeable import expect_exchangeable
from onnxc.compiler.compile_stages import expect_no_microbatches, run_pipeline_stages
from onnxc.compiler.driver import Noun, optimize, with_provenance
from onnxc.compiler.frontend.devices.node_shardings import NodeShardings, choose_configuration
from onnxc.compiler.frontend.devices.stages import with_stages
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import LoadedModel, read_model
from onnxc.compiler.held_shares import held_shares, share_bytes
from onnxc.compiler.ignored_configurations import warn_of_undivided
from onnxc.compiler.ir.dims import render
from onnxc.compiler.ir.module import Function, Module, Value
from onnxc.compiler.ir.sharding import Sharding
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.limits import limited_to
from onnxc.compiler.model_symbols import expect_known_dims, expect_known_specializations
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.passes.pipeline import Pass
from onnxc.compiler.passes.pipelines import DEVICES, GPU_DEVICES, OPTIMIZE, cpu_optimize, target_pipeline
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.sharding.factors import has_axes
from onnxc.compiler.sharding.partition import Edges, Partition, partition
from onnxc.compiler.sharding.report import sharding_report
from onnxc.runtime.artifact import Artifact, tie_images
from onnxc.runtime.devices.division import Division, divide_weights
from onnxc.runtime.devices.local_layout import LocalLayout
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.program import JsonValue, Program
from onnxc.runtime.records import record

__all__ = ["device_passes", "divide_model", "run_divided_stages"]


def divide_model(source: ModelSource | LoadedModel, options: CompileOptions) -> Artifact:
    """The artifact of the model on the devices of the configuration that the options name.

    Raises InputError where the model has no such configuration, UnsupportedError for what cannot be executed yet.
    """
    *_, (_, artifact) = run_divided_stages(source, options)
    assert isinstance(artifact, Artifact), artifact
    return artifact


def run_divided_stages(
    source: ModelSource | LoadedModel, options: CompileOptions, end: BackEnd | None = None
) -> Iterator[tuple[str, Noun]]:
    """As `run_stages` of compiler/driver.py: lowering gives the whole, optimization the program of each device.

    Where the model has pipeline stages, these are programs of segments.
    """
    whole = yield from _run_whole(source, options)
    end = back_end(options) if end is None else end
    if len(whole.shardings.stages) > 1:
        if options.local_outputs:
            message = f"outputs is 'local', and config {options.config!r} has pipeline stages, which give them whole"
            raise UnsupportedError(message, code="unsupported-outputs")
        before, behind = device_passes(end, options)
        module = optimize(whole.module, before, options.limits)
        yield from run_pipeline_stages(module, whole.shardings.stages, whole.model, options, end, behind)
    else:
        yield from _run_program(whole, options, end)


@record
class _Whole:
    """The lowered model, and how a configuration divides it."""

    model: CheckedModel
    shardings: NodeShardings
    module: Module


def _run_whole(source: ModelSource | LoadedModel, options: CompileOptions) -> Generator[tuple[str, Noun], None, _Whole]:
    assert options.config is not None, options
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    yield "read", loaded
    loaded, checked = checked_model(loaded, options)
    expect_known_dims(checked, options.inputs)
    yield "check", checked
    checked = with_stages(checked, options.config)
    shardings = choose_configuration(checked, options.config, options.devices)
    with limited_to(options.limits):
        module = lower_model(checked, options.inputs, shardings)
    expect_known_specializations(module, options.specialize)
    yield "lower", module
    return _Whole(checked, shardings, module)


def _run_program(whole: _Whole, options: CompileOptions, end: BackEnd) -> Iterator[tuple[str, Noun]]:
    """The stages of the one program that all devices run."""
    assert options.config is not None, options
    expect_no_microbatches(options)
    before, behind = device_passes(end, options)
    module = optimize(whole.module, before, options.limits)
    kept = _kept_results(module.main) if options.local_outputs else frozenset[int]()
    divided = partition(module, whole.shardings.mesh, edges=Edges({}, kept, _cut_inputs(module.main)))
    warn_of_undivided(divided.undivided)
    local = optimize(divided.module, behind, options.limits)
    if end.target.kind == "cuda":
        expect_exchangeable(local)
    yield "optimize", local
    plan = plan_kernels(local, end.plan_target, options.specialize, shares=len(divided.shares))
    yield "plan", plan
    with limited_to(options.limits):
        artifact = with_provenance(end.emit(plan), whole.model, options, end)
    inputs = _layouts(module.main.body.parameters, divided.inputs, divided, artifact.program)
    outputs = _layouts(module.main.body.results, divided.results, divided, artifact.program)
    division = divide_weights(held_shares(divided, plan.shares), outputs, inputs)
    yield "emit", _divided(artifact, divided, division, options.config)


def _kept_results(function: Function) -> frozenset[int]:
    """The ordinals of the results that may stay divided: tensors whose sizes a call knows before it runs."""
    return frozenset(
        ordinal
        for ordinal, result in enumerate(function.body.results)
        if has_axes(result) and type_symbols(result.type) <= function.symbols.keys()
    )


def _cut_inputs(function: Function) -> frozenset[Value]:
    """The inputs of which devices may get blocks: tensors that every call passes."""
    parameters = function.body.parameters
    return frozenset(each for each in parameters if has_axes(each) and each.producer.name not in function.defaults)


def _layouts(
    values: Sequence[Value], shardings: Sequence[Sharding], divided: Partition, program: Program
) -> tuple[LocalLayout | None, ...]:
    """How each parameter or result is divided, None for those that are whole on each device; empty if all are."""
    if all(sharding.is_replicated for sharding in shardings):
        return ()
    mesh, ordinals = divided.propagation.mesh, {symbol.name: index for index, symbol in enumerate(program.symbols)}
    return tuple(
        None
        if sharding.is_replicated
        else LocalLayout(
            value.dtype.name,
            tuple(map(str, value.shape)),
            tuple(render(size, lambda name: f"s[{ordinals[name]}]") for size in value.shape),
            tuple(map(mesh.shards, sharding.dims)),
            tuple(tuple(mesh.block(device, axes) for device in range(mesh.devices)) for axes in sharding.dims),
        )
        for value, sharding in zip(values, shardings, strict=True)
    )


def device_passes(end: BackEnd, options: CompileOptions) -> tuple[tuple[Pass, ...], tuple[Pass, ...]]:
    """What runs before a model is divided, and what behind that."""
    if end.target.kind == "cuda":
        return OPTIMIZE, (*GPU_DEVICES, *end.passes)
    traits = cpu_traits(end.target)
    return cpu_optimize(traits), (*DEVICES, *target_pipeline("cpu", options.precision, traits))


def _divided(
    artifact: Artifact,
    partition: Partition,
    division: Division,
    configuration: str,
) -> Artifact:
    """The artifact with what each device holds, and what was decided."""
    devices: JsonValue = {
        "configuration": configuration,
        "inputs": {
            parameter.producer.name: str(sharding)
            for parameter, sharding in zip(partition.module.main.body.parameters, partition.inputs, strict=False)
            if not sharding.is_replicated
        },
        **sharding_report(partition),
        "share_bytes": share_bytes(partition),
        "whole_bytes": artifact.weights.nbytes,
        "held_bytes": [artifact.weights.nbytes + held.nbytes for held in division.shares],
    }
    assert isinstance(artifact.report, Mapping), artifact.report
    report = {**artifact.report, "devices": devices}
    return tie_images(replace(artifact, division=division, report=report))
