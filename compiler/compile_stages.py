"""A model with pipeline stages for devices of this process: its segments, each divided over the mesh of its stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from onnxc.compiler.back_ends import BackEnd
from onnxc.compiler.driver import optimize, with_provenance
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.ignored_configurations import warn_of_undivided
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.ir.sharding import Sharding, Stage
from onnxc.compiler.limits import limited_to
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.passes.pipelines import DEVICES, target_pipeline
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.sharding.cut import Segment, cut_stages
from onnxc.compiler.sharding.exchange import local_shape
from onnxc.compiler.sharding.factors import has_axes
from onnxc.compiler.sharding.microbatches import Batch, NoBatch, find_batch
from onnxc.compiler.sharding.partition import Edges, Partition, partition
from onnxc.compiler.sharding.report import sharding_report
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.devices.load_pipeline import CompiledSegment, make_pipeline
from onnxc.runtime.devices.pipeline_engine import Split, Transfer
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.program import JsonValue

__all__ = ["compile_stages", "expect_no_microbatches"]


def compile_stages(
    module: Module, stages: Sequence[Stage], model: CheckedModel, options: CompileOptions, end: BackEnd
) -> Executable:
    """The optimised module of a model on the devices of its stages.

    Raises UnsupportedError for what cannot be executed yet.
    """
    batch = find_batch(module.main)
    split = _split(batch, len(stages), options.microbatches)
    divided = _divide(cut_stages(module, stages[0].ordinal), {stage.ordinal: stage for stage in stages})
    transfers = [transfer for target in range(len(divided)) for transfer in _transfers(divided, target)]
    compiled = []
    for each in divided:
        artifact = with_provenance(_artifact(each.partition.module, options, end), model, options, end)
        compiled.append(
            CompiledSegment(artifact, each.stage.devices, each.shares(), len(each.segment.sent), each.segment.outputs)
        )
    count = max(device for stage in stages for device in stage.devices) + 1
    devices: dict[str, JsonValue] = {
        "configuration": options.config,
        "segments": [_told(each, made) for each, made in zip(divided, compiled, strict=True)],
        "transfers": [_told_transfer(divided, transfer) for transfer in transfers],
        "held_bytes": [sum(made.held_bytes(device) for made in compiled) for device in range(count)],
        "microbatches": 1 if split is None else split.most,
        "batch": batch.symbol if isinstance(batch, Batch) else f"none: {batch.reason}",
    }
    inputs = len(module.main.body.parameters)
    return make_pipeline(compiled, transfers, split, inputs, {"devices": devices}, options.threads)


def expect_no_microbatches(options: CompileOptions) -> None:
    """Raises InputError where a call of a model without pipeline stages is to go through in parts."""
    if options.microbatches not in (None, 1):
        message = f"microbatches is {options.microbatches}, and config {options.config!r} has one pipeline stage"
        raise InputError(message, code="microbatches-without-stages")


@dataclass(frozen=True, eq=False)
class _Divided:
    """A segment divided over the devices of its stage."""

    segment: Segment
    stage: Stage
    partition: Partition

    def shares(self) -> tuple[tuple[np.ndarray, ...], ...]:
        """What each device holds of the constants that are divided."""
        mesh = self.stage.mesh
        return tuple(
            tuple(share.of_device(mesh, ordinal) for share in self.partition.shares) for ordinal in range(mesh.devices)
        )


def _divide(segments: Sequence[Segment], stages: Mapping[int, Stage]) -> tuple[_Divided, ...]:
    """Each segment as its devices run it. What is sent stays divided where all that receive it have the same mesh."""
    given: dict[Value, Sharding] = {}
    divided = []
    for segment in segments:
        stage = stages[segment.stage]
        meshes = {value: {stages[s.stage].mesh for s in segments if value in s.received} for value in segment.sent}
        kept = frozenset(index for index, value in enumerate(segment.sent) if meshes[value] == {stage.mesh})
        received = zip(segment.parameters, segment.received, strict=True)
        edges = Edges({parameter: given[value] for parameter, value in received if has_axes(parameter)}, kept)
        made = partition(segment.module, stage.mesh, stage.devices, edges)
        warn_of_undivided(made.undivided)
        given |= dict(zip(segment.sent, made.results, strict=False))
        divided.append(_Divided(segment, stage, made))
    return tuple(divided)


def _transfers(divided: Sequence[_Divided], target: int) -> list[Transfer]:
    """What a segment receives, in the order of its parameters."""
    devices = divided[target].stage.devices
    found = []
    for value in divided[target].segment.received:
        source = next(index for index, each in enumerate(divided) if value in each.segment.sent)
        result, holders = divided[source].segment.sent.index(value), divided[source].stage.devices
        if divided[source].partition.results[result].is_replicated:
            pairs = [
                (device if device in holders else holders[k % len(holders)], device) for k, device in enumerate(devices)
            ]
        else:
            pairs = list(zip(holders, devices, strict=True))
        found.append(Transfer(source, result, target, tuple(pairs)))
    return found


def _split(batch: Batch | NoBatch, stages: int, asked: int | None) -> Split | None:
    """How calls go through in parts: as many as are asked for, else as there are stages, so that all can be at work."""
    if asked == 1 or (asked is None and isinstance(batch, NoBatch)):
        return None
    if isinstance(batch, NoBatch):
        message = f"microbatches is {asked}, and the model does not let itself be parted: {batch.reason}"
        raise UnsupportedError(message, code="unsupported-microbatches")
    return Split(batch.inputs, batch.outputs, stages if asked is None else asked, batch.least)


def _artifact(module: Module, options: CompileOptions, end: BackEnd) -> Artifact:
    local = optimize(module, (*DEVICES, *target_pipeline("cpu", options.precision)), options.limits)
    plan = plan_kernels(local, end.plan_target, options.specialize)
    with limited_to(options.limits):
        return end.emit(plan)


def _told(divided: _Divided, compiled: CompiledSegment) -> JsonValue:
    return {
        "stage": divided.stage.ordinal,
        "devices": list(divided.stage.devices),
        **sharding_report(divided.partition),
        "share_bytes": [sum(array.nbytes for array in arrays) for arrays in compiled.shares],
        "whole_bytes": compiled.artifact.weights.nbytes,
        "kernels": compiled.artifact.report,
    }


def _told_transfer(divided: Sequence[_Divided], transfer: Transfer) -> JsonValue:
    """A transfer; `bytes` are those that each device receives, where sizes are known."""
    source, target = divided[transfer.source], divided[transfer.target]
    value, sharding = source.segment.sent[transfer.result], source.partition.results[transfer.result]
    told: dict[str, JsonValue] = {
        "from": source.stage.ordinal,
        "to": target.stage.ordinal,
        "pairs": [list(pair) for pair in transfer.pairs],
        "type": str(value.type),
    }
    if has_axes(value):
        shape = local_shape(value.shape, sharding, source.stage.mesh)
        nbytes = prod(shape, start=value.dtype.bits) // 8
        told |= {"sharding": str(sharding), "bytes": nbytes if isinstance(nbytes, int) else str(nbytes)}
    return told
