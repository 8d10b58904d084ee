"""A model divided over devices as one of its configurations says, compiled for devices of this process."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from onnxc.compiler.back_ends import back_end
from onnxc.compiler.compile_stages import compile_stages, expect_no_microbatches
from onnxc.compiler.driver import optimize, with_provenance
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.devices.node_shardings import choose_configuration
from onnxc.compiler.frontend.devices.stages import with_stages
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ignored_configurations import warn_of_undivided
from onnxc.compiler.limits import limited_to
from onnxc.compiler.model_symbols import expect_known_dims, expect_known_specializations
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.passes.pipelines import CPU_OPTIMIZE, DEVICES, target_pipeline
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.sharding.partition import Partition, partition
from onnxc.compiler.sharding.report import sharding_report
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.executable import Executable
from onnxc.runtime.load_for_devices import make_for_devices
from onnxc.runtime.program import JsonValue

__all__ = ["compile_for_devices"]


def compile_for_devices(source: ModelSource, options: CompileOptions) -> Executable:
    """The model on the devices of the configuration that the options name: one program, run by each of them.

    Raises InputError where the model has no such configuration, UnsupportedError for what cannot be executed yet.
    """
    assert options.config is not None, options
    end = back_end(options)
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links)
    checked = check_model(loaded, limits=options.limits, operators=options.operators)
    expect_known_dims(checked, options.inputs)
    checked = with_stages(checked, options.config)
    shardings = choose_configuration(checked, options.config, options.devices)
    with limited_to(options.limits):
        module = lower_model(checked, options.inputs, shardings)
    expect_known_specializations(module, options.specialize)
    module = optimize(module, CPU_OPTIMIZE, options.limits)
    if len(shardings.stages) > 1:
        return compile_stages(module, shardings.stages, checked, options, end)
    expect_no_microbatches(options)
    divided = partition(module, shardings.mesh)
    warn_of_undivided(divided.undivided)
    local = optimize(divided.module, (*DEVICES, *target_pipeline("cpu", options.precision)), options.limits)
    plan = plan_kernels(local, end.plan_target, options.specialize)
    with limited_to(options.limits):
        artifact = with_provenance(end.emit(plan), checked, options, end)
    shares = [_shares(divided, device) for device in range(shardings.mesh.devices)]
    held: dict[str, JsonValue] = {
        "share_bytes": [sum(array.nbytes for array in arrays) for arrays in shares],
        "whole_bytes": artifact.weights.nbytes,
    }
    told = {"configuration": options.config, **sharding_report(divided), **held}
    return make_for_devices(_with_report(artifact, told), shares, options.threads)


def _shares(divided: Partition, device: int) -> tuple[np.ndarray, ...]:
    """What a device holds of the constants that are divided."""
    return tuple(share.of_device(divided.found.mesh, device) for share in divided.shares)


def _with_report(artifact: Artifact, devices: JsonValue) -> Artifact:
    assert isinstance(artifact.report, Mapping), artifact.report
    return replace(artifact, report={**artifact.report, "devices": devices})
