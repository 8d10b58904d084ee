"""A model with pipeline stages: its segments, each divided over the mesh of its stage, as one artifact."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from onnxc.compiler.back_ends import BackEnd
from onnxc.compiler.codegen_gpu.exchangeable import expect_exchangeable
from onnxc.compiler.driver import Noun, OfSegments, optimize, with_provenance
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.held_shares import held_shares, share_bytes
from onnxc.compiler.ignored_configurations import warn_of_undivided
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.ir.sharding import Sharding, Stage
from onnxc.compiler.limits import limited_to
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.passes.pipeline import Pass
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.sharding.cut import Segment, cut_stages
from onnxc.compiler.sharding.exchange import local_shape
from onnxc.compiler.sharding.factors import has_axes
from onnxc.compiler.sharding.microbatches import Batch, NoBatch, find_batch
from onnxc.compiler.sharding.partition import Edges, Partition, partition
from onnxc.compiler.sharding.report import sharding_report
from onnxc.runtime.artifact import Artifact, tie_images
from onnxc.runtime.devices.division import divide_weights
from onnxc.runtime.devices.pipeline import Pipeline, Role, Split, Transfer
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = [
    "DividedSegment",
    "divide_segments",
    "expect_no_microbatches",
    "run_pipeline_stages",
    "split_of",
    "transfers_to",
]


def run_pipeline_stages(
    module: Module,
    stages: Sequence[Stage],
    model: CheckedModel,
    options: CompileOptions,
    end: BackEnd,
    passes: Sequence[Pass],
) -> Iterator[tuple[str, Noun]]:
    """From the optimised module of a model to the artifact of its segments, as `run_stages` of compiler/driver.py.

    passes: those of the program of a device. Raises UnsupportedError for what cannot be executed yet.
    """
    batch = find_batch(module.main)
    split = split_of(batch, len(stages), options.microbatches)
    divided = divide_segments(cut_stages(module, stages[0].ordinal), {stage.ordinal: stage for stage in stages})
    local = [optimize(each.partition.module, passes, options.limits) for each in divided]
    if end.target.kind == "cuda":
        for program in local:
            expect_exchangeable(program)
    yield "optimize", OfSegments(tuple(local))
    plans = [
        plan_kernels(program, end.plan_target, options.specialize, shares=len(each.partition.shares))
        for program, each in zip(local, divided, strict=True)
    ]
    yield "plan", OfSegments(tuple(plans))
    transfers = tuple(transfer for target in range(len(divided)) for transfer in transfers_to(divided, target))
    roles = tuple(Role(each.stage.devices, len(each.segment.sent), each.segment.outputs) for each in divided)
    pipeline = Pipeline(len(module.main.body.parameters), roles, transfers, split)
    artifacts = [_artifact(each, plan, model, options, end) for each, plan in zip(divided, plans, strict=True)]
    report = {"devices": {"configuration": options.config, **_report(divided, pipeline, artifacts, batch)}}
    # What segments report is in that of the whole.
    first, *others = (tie_images(replace(artifact, report="")) for artifact in artifacts)
    yield "emit", tie_images(replace(first, report=report, pipeline=pipeline, others=tuple(others)))


def expect_no_microbatches(options: CompileOptions) -> None:
    """Raises InputError where a call of a model without pipeline stages is to go through in parts."""
    if options.microbatches not in (None, 1):
        message = f"microbatches is {options.microbatches}, and config {options.config!r} has one pipeline stage"
        raise InputError(message, code="microbatches-without-stages")


@record(eq=False)
class DividedSegment:
    """A segment divided over the devices of its stage."""

    segment: Segment
    stage: Stage
    partition: Partition


def divide_segments(segments: Sequence[Segment], stages: Mapping[int, Stage]) -> tuple[DividedSegment, ...]:
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
        divided.append(DividedSegment(segment, stage, made))
    return tuple(divided)


def transfers_to(divided: Sequence[DividedSegment], target: int) -> list[Transfer]:
    """What a segment receives, in the order of its parameters."""
    devices = divided[target].stage.devices
    transfers = []
    for value in divided[target].segment.received:
        source = next(index for index, each in enumerate(divided) if value in each.segment.sent)
        result, holders = divided[source].segment.sent.index(value), divided[source].stage.devices
        if divided[source].partition.results[result].is_replicated:
            pairs = [
                (device if device in holders else holders[k % len(holders)], device) for k, device in enumerate(devices)
            ]
        else:
            pairs = list(zip(holders, devices, strict=True))
        transfers.append(Transfer(source, result, target, tuple(pairs)))
    return transfers


def split_of(batch: Batch | NoBatch, stages: int, asked: int | None) -> Split | None:
    """How calls go through in parts: as many as are asked for, else as there are stages, so that all can be at work."""
    if asked == 1 or (asked is None and isinstance(batch, NoBatch)):
        return None
    if isinstance(batch, NoBatch):
        message = f"microbatches is {asked}, and the model does not let itself be parted: {batch.reason}"
        raise UnsupportedError(message, code="unsupported-microbatches")
    return Split(batch.inputs, batch.outputs, stages if asked is None else asked, batch.least)


def _artifact(
    divided: DividedSegment, plan: KernelPlan, model: CheckedModel, options: CompileOptions, end: BackEnd
) -> Artifact:
    """A segment, with what each of its devices holds."""
    with limited_to(options.limits):
        artifact = with_provenance(end.emit(plan), model, options, end)
    return replace(artifact, division=divide_weights(held_shares(divided.partition, plan.shares)))


def _held_bytes(pipeline: Pipeline, artifacts: Sequence[Artifact], device: int) -> int:
    """What a device holds of the constants: its shares, and those that each device of a stage has whole."""
    held = 0
    for role, artifact in zip(pipeline.roles, artifacts, strict=True):
        if device in role.devices:
            assert artifact.division is not None, artifact
            held += artifact.weights.nbytes + artifact.division.shares[role.devices.index(device)].nbytes
    return held


def _report(
    divided: Sequence[DividedSegment], pipeline: Pipeline, artifacts: Sequence[Artifact], batch: Batch | NoBatch
) -> dict[str, JsonValue]:
    return {
        "segments": [_segment_json(each, made) for each, made in zip(divided, artifacts, strict=True)],
        "transfers": [_transfer_json(divided, transfer) for transfer in pipeline.transfers],
        "held_bytes": [_held_bytes(pipeline, artifacts, device) for device in range(pipeline.devices)],
        "microbatches": 1 if pipeline.split is None else pipeline.split.most,
        "batch": batch.symbol if isinstance(batch, Batch) else f"none: {batch.reason}",
    }


def _segment_json(divided: DividedSegment, artifact: Artifact) -> JsonValue:
    return {
        "stage": divided.stage.ordinal,
        "devices": list(divided.stage.devices),
        **sharding_report(divided.partition),
        "share_bytes": share_bytes(divided.partition),
        "whole_bytes": artifact.weights.nbytes,
        "kernels": artifact.report,
    }


def _transfer_json(divided: Sequence[DividedSegment], transfer: Transfer) -> JsonValue:
    """A transfer; `bytes` are those that each device receives, where sizes are known."""
    source, target = divided[transfer.source], divided[transfer.target]
    value, sharding = source.segment.sent[transfer.result], source.partition.results[transfer.result]
    entry: dict[str, JsonValue] = {
        "from": source.stage.ordinal,
        "to": target.stage.ordinal,
        "pairs": [list(pair) for pair in transfer.pairs],
        "type": str(value.type),
    }
    if has_axes(value):
        shape = local_shape(value.shape, sharding, source.stage.mesh)
        nbytes = prod(shape, start=value.dtype.bits) // 8
        entry |= {"sharding": str(sharding), "bytes": nbytes if isinstance(nbytes, int) else str(nbytes)}
    return entry
