"""From the program of each of several devices to one executable; only who runs several devices loads this."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.devices_engine import DevicesEngine, DevicesExecutable
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import image_of, program_engine, signature_of
from onnxc.runtime.pipeline_engine import PipelineEngine, RunningSegment, Split, Transfer
from onnxc.runtime.program import JsonValue
from onnxc.runtime.signature import Signature, first_inputs
from onnxc.runtime.thread_pool import available_threads

__all__ = ["CompiledSegment", "make_for_devices", "make_pipeline"]


def make_for_devices(artifact: Artifact, shares: Sequence[Sequence[np.ndarray]], threads: int | None) -> Executable:
    """The artifact of the program of each device, ready to be called on all of them as one.

    shares: for each device the values of its last parameters, which no caller passes. threads: how many a call may use,
    all devices together.
    """
    each = _threads_each(threads, len(shares))
    engine = DevicesEngine(program_engine(artifact, image_of(artifact), each), shares)
    signature = first_inputs(signature_of(artifact), len(artifact.program.inputs) - 1 - len(shares[0]))
    return DevicesExecutable(signature, engine, report=artifact.report, compilations=1)


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
    each = _threads_each(threads, count)
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
    return DevicesExecutable(_whole_signature(running, inputs), engine, report=report, compilations=1)


def _whole_signature(segments: Sequence[RunningSegment], inputs: int) -> Signature:
    """The inputs that all segments have, and the outputs of all."""
    outputs = {
        output: info
        for segment in segments
        for output, info in zip(segment.outputs, segment.signature.outputs[segment.sent :], strict=True)
    }
    first = first_inputs(segments[0].signature, inputs)
    return replace(first, outputs=tuple(outputs[index] for index in sorted(outputs)))


def _threads_each(threads: int | None, devices: int) -> int:
    """How many threads each device has, where a call may use `threads`."""
    return max((available_threads() if threads is None else threads) // devices, 1)
