"""A model divided over devices as one of its configurations says: one program, which each of them runs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from onnxc.compiler.back_ends import BackEnd, back_end
from onnxc.compiler.driver import Noun, optimize, with_provenance
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.devices.node_shardings import choose_configuration
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.limits import limited_to
from onnxc.compiler.model_symbols import expect_known_dims, expect_known_specializations
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.passes.pipelines import CPU_OPTIMIZE, DEVICES, target_pipeline
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.sharding.partition import Partition, partition
from onnxc.compiler.sharding.report import sharding_report
from onnxc.runtime.artifact import Artifact, tie_images
from onnxc.runtime.division import divide_weights
from onnxc.runtime.program import JsonValue

__all__ = ["compile_divided", "run_divided_stages"]


def compile_divided(source: ModelSource, options: CompileOptions) -> Artifact:
    """The artifact of the program that each device of the configuration runs, with what each of them holds.

    Raises InputError where the model has no such configuration, UnsupportedError for what cannot be executed yet.
    """
    *_, (_, artifact) = run_divided_stages(source, options)
    assert isinstance(artifact, Artifact), artifact
    return artifact


def run_divided_stages(
    source: ModelSource, options: CompileOptions, end: BackEnd | None = None
) -> Iterator[tuple[str, Noun]]:
    """As `run_stages` of compiler/driver.py: lowering gives the whole, optimization the program of each device."""
    assert options.config is not None, options
    end = back_end(options) if end is None else end
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    yield "read", loaded
    checked = check_model(loaded, limits=options.limits, operators=options.operators)
    expect_known_dims(checked, options.inputs)
    yield "check", checked
    shardings = choose_configuration(checked, options.config, options.devices)
    with limited_to(options.limits):
        module = lower_model(checked, options.inputs, shardings)
    expect_known_specializations(module, options.specialize)
    yield "lower", module
    divided = partition(optimize(module, CPU_OPTIMIZE, options.limits), shardings.mesh)
    local = optimize(divided.module, (*DEVICES, *target_pipeline("cpu", options.precision)), options.limits)
    yield "optimize", local
    plan = plan_kernels(local, end.plan_target, options.specialize)
    yield "plan", plan
    with limited_to(options.limits):
        artifact = with_provenance(end.emit(plan), checked, options, end)
    yield "emit", _divided(artifact, divided, options.config)


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
