"""Calls of a model whose pipeline stages run on devices of their own: segments, and what goes from one to another.

A call may go through in parts: while a stage computes on part i, the one before it is at part i + 1. Every device takes
parts and segments in the same order, and sending waits for nobody, so that no device waits for itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np

from onnxc.runtime.devices.device_threads import exchange_seconds, run_on_devices
from onnxc.runtime.devices.local_layout import LocalLayout
from onnxc.runtime.devices.pipeline import Pipeline
from onnxc.runtime.devices.shards import Shards
from onnxc.runtime.engine import ProgramEngine
from onnxc.runtime.fast_call import Shapes
from onnxc.runtime.host.rendezvous import receive, send
from onnxc.runtime.records import record
from onnxc.runtime.signature import Signature
from onnxc.runtime.stats import Stats, work_of
from onnxc.runtime.values import arrived, host_value

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = ["PipelineEngine", "RunningSegment", "SegmentOfDevices"]


class SegmentOfDevices(Protocol):
    """A segment on those of its devices that are of this process."""

    def run(self, device: int, values: Sequence["SlotValue"]) -> Sequence["SlotValue"]:
        """The results of a device for inputs of the whole, and what it was sent."""

    def stats(self) -> Stats:
        """What has run so far, on all of these devices."""


@record(eq=False)
class RunningSegment:
    """The program of a segment; `added` are, for each device that runs it here, the values of its last inputs."""

    engine: ProgramEngine
    signature: Signature
    added: Mapping[int, tuple[np.ndarray, ...]]

    def run(self, device: int, values: Sequence["SlotValue"]) -> Sequence["SlotValue"]:
        """The results of a device for inputs of the whole, and what it was sent."""
        given = (*values, *self.added[device])
        sizes = self.signature.bind_sizes(given)
        for check in self.engine.guards:
            check(sizes)
        return self.engine.run(given, sizes)

    def stats(self) -> Stats:
        """What has run so far, on all of these devices."""
        return self.engine.stats()


class PipelineEngine:
    """Runs the segments of a model, of which those of the devices of this process are here, by their ordinals."""

    def __init__(
        self, pipeline: Pipeline, segments: Mapping[int, SegmentOfDevices], defaults: Mapping[int, np.ndarray]
    ) -> None:
        self.pipeline, self._segments, self._defaults = pipeline, segments, defaults
        # The segments of a pipeline read whole inputs.
        self.devices: Sequence[int] = range(pipeline.devices)
        self.inputs: Sequence[LocalLayout | None] = ()
        self._seconds = exchange_seconds()
        self._calls, self._lock = 0, Lock()

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["HostValue"]:
        """The outputs, each from the first device of the segment that makes it."""
        self.count_call()
        made: dict[int, HostValue] = {}
        for outputs in run_on_devices(
            self.pipeline.devices, lambda device: self.run_device(device, values), self._seconds
        ):
            made |= outputs
        return [made[output] for output in sorted(made)]

    def count_call(self) -> None:
        """Counts a call that begins."""
        with self._lock:
            self._calls += 1

    def run_device(self, device: int, values: Sequence["SlotValue"]) -> dict[int, "HostValue"]:
        """The outputs that a device makes as the first of its segment."""
        split, whole = self.pipeline.split, list(map(host_value, values))
        made: dict[int, list[HostValue]] = {}
        for part, given in enumerate([tuple(whole)] if split is None else split.parts(whole)):
            kept: dict[int, SlotValue] = {}
            for ordinal, segment in self._segments.items():
                role = self.pipeline.roles[ordinal]
                if device not in role.devices:
                    continue
                results = segment.run(device, (*given, *self._received(ordinal, device, part, kept)))
                self._send(ordinal, device, part, results, kept)
                if device == role.devices[0]:
                    for output, result in zip(role.outputs, results[role.sent :], strict=True):
                        made.setdefault(output, []).append(host_value(result))
        return {output: parts[0] if split is None else split.joined(output, parts) for output, parts in made.items()}

    def _received(self, segment: int, device: int, part: int, kept: Mapping[int, "SlotValue"]) -> list["SlotValue"]:
        """What a segment gets from others, in order of its parameters."""
        return [
            kept[key] if source == device else receive(source, (key, part))
            for key, transfer in enumerate(self.pipeline.transfers)
            if transfer.target == segment
            for source, target in transfer.pairs
            if target == device
        ]

    def _send(
        self, segment: int, device: int, part: int, results: Sequence["SlotValue"], kept: dict[int, "SlotValue"]
    ) -> None:
        """Gives each result to the devices that read it; `kept` gets what this one reads itself."""
        for key, transfer in enumerate(self.pipeline.transfers):
            if transfer.source != segment:
                continue
            result = arrived(results[transfer.result])
            assert not isinstance(result, Shards), result
            for source, target in transfer.pairs:
                if source == target == device:
                    kept[key] = result
                elif source == device:
                    send(target, (key, part), result)

    def fast_call(self) -> None:
        """There is none: a call begins with all devices."""

    def learn(self, shapes: Shapes, sizes: tuple[int, ...]) -> None:
        """Nothing: segments check what sizes decide when they run."""

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""
        return self._defaults

    def stats(self) -> Stats:
        """What has run so far; launches are those of all devices."""
        return replace(work_of(segment.stats() for segment in self._segments.values()), calls=self._calls)
