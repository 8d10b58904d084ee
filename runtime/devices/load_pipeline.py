"""From the programs of the segments of a pipeline to one executable; only who runs pipeline stages loads this."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.devices.pipeline_engine import PipelineEngine, PipelineExecutable, RunningSegment, Split, Transfer
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import image_of, program_engine, signature_of
from onnxc.runtime.program import JsonValue
from onnxc.runtime.signature import Signature, first_inputs, without_random_state
from onnxc.runtime.thread_pool import available_threads

__all__ = ["CompiledSegment", "make_pipeline"]


@dataclass(frozen=True, eq=False)
class CompiledSegment:
    """A segment of a pipeline: its artifact, and for each of its devices the values of its last parameters.

    sent: how many results go to other segments; outputs: which output of the whole each result behind these is.
    """

    artifact: Artifact
    devices: tuple[int, ...]
    shares: tuple[tuple[np.ndarray, ...], ...]
    sent: int
    outputs: tuple[int, ...]

    def held_bytes(self, device: int) -> int:
        """What a device holds of the constants: its shares, and those that each device of the stage has whole."""
        if device not in self.devices:
            return 0
        own = self.shares[self.devices.index(device)]
        return self.artifact.weights.nbytes + sum(array.nbytes for array in own)


def make_pipeline(
    segments: Sequence[CompiledSegment],
    transfers: Sequence[Transfer],
    split: Split | None,
    inputs: int,
    report: JsonValue,
    threads: int | None,
) -> Executable:
    """Segments ready to be called as one, which has `inputs` inputs."""
    count = max(device for segment in segments for device in segment.devices) + 1
    each = max((available_threads() if threads is None else threads) // count, 1)
    running = [
        RunningSegment(
            program_engine(segment.artifact, image_of(segment.artifact), each),
            signature_of(segment.artifact),
            segment.devices,
            segment.shares,
            segment.sent,
            segment.outputs,
        )
        for segment in segments
    ]
    engine = PipelineEngine(count, running, transfers, split)
    return PipelineExecutable(_whole_signature(running, inputs), engine, report=report, compilations=1)


def _whole_signature(segments: Sequence[RunningSegment], inputs: int) -> Signature:
    """The inputs that all segments have, and the outputs of all."""
    outputs = {
        output: info
        for segment in segments
        for output, info in zip(segment.outputs, segment.signature.outputs[segment.sent :], strict=True)
    }
    first = without_random_state(first_inputs(segments[0].signature, inputs))
    return replace(first, outputs=tuple(outputs[index] for index in sorted(outputs)))
