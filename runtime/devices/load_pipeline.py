"""From the artifact of a pipeline to what runs its segments; only who runs several devices loads this."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.devices.pipeline import Pipeline
from onnxc.runtime.devices.pipeline_engine import PipelineEngine, RunningSegment
from onnxc.runtime.engine import default_arrays
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.load import image_of, own_signature, program_engine
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.ranks.engine import RanksPipelineEngine
from onnxc.runtime.ranks.world import World

__all__ = ["expect_tensors", "pipeline_engine", "ranks_pipeline_engine"]


def pipeline_engine(artifact: Artifact, pipeline: Pipeline, threads: int, *, resident: bool) -> PipelineEngine:
    """What runs all segments in threads of this process, `threads` for each device."""
    segments = _running(artifact, pipeline, range(pipeline.devices), threads, resident=resident)
    return PipelineEngine(pipeline, segments, _defaults(artifact, segments, resident=resident))


def ranks_pipeline_engine(
    artifact: Artifact, pipeline: Pipeline, threads: int, world: World, *, resident: bool
) -> RanksPipelineEngine:
    """What runs the segments of this rank, whose weights alone are read."""
    expect_tensors(artifact)
    segments = _running(artifact, pipeline, [world.rank], threads, resident=resident)
    return RanksPipelineEngine(pipeline, segments, _defaults(artifact, segments, resident=resident), world)


def expect_tensors(artifact: Artifact) -> None:
    """Raises UnsupportedError where a segment makes what is no tensor, which ranks cannot send."""
    sent = [result for each in artifact.segments for result in each.program.outputs]
    if unsent := [result.text for result in sent if not result.dtype]:
        message = f"ranks of MPI send tensors to each other, and a segment makes {unsent[0]}; devices='cpu:N' runs it"
        raise UnsupportedError(message, code="unsupported-pipeline")


def _running(
    artifact: Artifact, pipeline: Pipeline, devices: Sequence[int], threads: int, *, resident: bool
) -> dict[int, RunningSegment]:
    """By its ordinal each segment that some of these devices run."""
    made = {}
    for ordinal, (segment, role) in enumerate(zip(artifact.segments, pipeline.roles, strict=True)):
        division = segment.division
        assert division is not None, segment
        added = {
            device: division.added_inputs(segment.program, role.devices.index(device), resident=resident)
            for device in role.devices
            if device in devices
        }
        if added:
            held = _in_memory(segment) if resident else segment
            engine = program_engine(held, image_of(held), threads)
            made[ordinal] = RunningSegment(engine, own_signature(segment), added)
    return made


def _defaults(
    artifact: Artifact, segments: Mapping[int, RunningSegment], *, resident: bool
) -> Mapping[int, np.ndarray]:
    """The values of inputs that calls may leave out, which are with the first segment, whoever runs it."""
    if 0 in segments:
        return segments[0].engine.defaults()
    held = _in_memory(artifact) if resident else artifact
    return default_arrays(held.program, held.weights)


def _in_memory(artifact: Artifact) -> Artifact:
    """The artifact with its weights in memory, not in pages of a file."""
    weights = allocate_aligned(artifact.weights.nbytes, huge_pages=True)
    weights[:] = artifact.weights
    return replace(artifact, weights=weights)
