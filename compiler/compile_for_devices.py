"""A model divided over devices as one of its configurations says: one program, which each of them runs."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onnxc.compiler.back_ends import BackEnd, back_end
from onnxc.compiler.compile_stages import compile_stages, expect_no_microbatches
from onnxc.compiler.driver import Noun, optimize, with_provenance
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.devices.node_shardings import NodeShardings, choose_configuration
from onnxc.compiler.frontend.devices.stages import with_stages
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ignored_configurations import warn_of_undivided
from onnxc.compiler.ir.module import Module
from onnxc.compiler.limits import limited_to
from onnxc.compiler.model_symbols import expect_known_dims, expect_known_specializations
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.passes.pipelines import CPU_OPTIMIZE, DEVICES, target_pipeline
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.sharding.partition import Partition, partition
from onnxc.compiler.sharding.report import sharding_report
from onnxc.runtime.artifact import Artifact, tie_images
from onnxc.runtime.devices.division import divide_weights
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import make_compiled
from onnxc.runtime.program import JsonValue

__all__ = ["compile_for_devices", "run_divided_stages"]


def compile_for_devices(source: ModelSource, options: CompileOptions) -> Executable:
    """The model on the devices of the configuration that the options name.

    Raises InputError where the model has no such configuration, UnsupportedError for what cannot be executed yet.
    """
    end = back_end(options)
    whole = _last_of(_run_whole(source, options))
    if len(whole.shardings.stages) > 1:
        module = optimize(whole.module, CPU_OPTIMIZE, options.limits)
        return compile_stages(module, whole.shardings.stages, whole.model, options, end)
    *_, (_, artifact) = _run_program(whole, options, end)
    assert isinstance(artifact, Artifact), artifact
    return make_compiled(artifact, options.threads)


def run_divided_stages(
    source: ModelSource, options: CompileOptions, end: BackEnd | None = None
) -> Iterator[tuple[str, Noun]]:
    """As `run_stages` of compiler/driver.py: lowering gives the whole, optimization the program of each device.

    Raises UnsupportedError for a model with pipeline stages, which have a program each.
    """
    whole = yield from _run_whole(source, options)
    if len(whole.shardings.stages) > 1:
        message = f"config {options.config!r} has pipeline stages, and their programs are no artifact yet"
        raise UnsupportedError(message, code="no-artifact")
    yield from _run_program(whole, options, back_end(options) if end is None else end)


@dataclass(frozen=True)
class _Whole:
    """The lowered model, and how a configuration divides it."""

    model: CheckedModel
    shardings: NodeShardings
    module: Module


def _run_whole(source: ModelSource, options: CompileOptions) -> Generator[tuple[str, Noun], None, _Whole]:
    assert options.config is not None, options
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    yield "read", loaded
    checked = check_model(loaded, limits=options.limits, operators=options.operators)
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
    divided = partition(optimize(whole.module, CPU_OPTIMIZE, options.limits), whole.shardings.mesh)
    warn_of_undivided(divided.undivided)
    local = optimize(divided.module, (*DEVICES, *target_pipeline("cpu", options.precision)), options.limits)
    yield "optimize", local
    plan = plan_kernels(local, end.plan_target, options.specialize)
    yield "plan", plan
    with limited_to(options.limits):
        artifact = with_provenance(end.emit(plan), whole.model, options, end)
    yield "emit", _divided(artifact, divided, options.config)


def _last_of(steps: Generator[tuple[str, Noun], None, _Whole]) -> _Whole:
    """What all steps lead to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            whole: _Whole = end.value
            return whole


def _divided(artifact: Artifact, partition: Partition, configuration: str) -> Artifact:
    """The artifact with what each device holds, and what was decided."""
    shares = [_shares(partition, device) for device in range(partition.found.mesh.devices)]
    devices: JsonValue = {
        "configuration": configuration,
        **sharding_report(partition),
        "share_bytes": [sum(array.nbytes for array in arrays) for arrays in shares],
        "whole_bytes": artifact.weights.nbytes,
    }
    assert isinstance(artifact.report, Mapping), artifact.report
    report = {**artifact.report, "devices": devices}
    return tie_images(replace(artifact, division=divide_weights(shares), report=report))


def _shares(divided: Partition, device: int) -> tuple[np.ndarray, ...]:
    """What a device holds of the constants that are divided."""
    return tuple(share.of_device(divided.found.mesh, device) for share in divided.shares)
