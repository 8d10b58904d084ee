"""An executable whose pipeline stages run on devices of their own: segments, and what goes from one to another.

A call may go through in parts: while a stage computes on part i, the one before it is at part i + 1. Every device takes
parts and segments in the same order, and sending waits for nobody, so that no device waits for itself.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from onnxc.runtime.devices.device_threads import exchange_seconds, run_on_devices
from onnxc.runtime.engine import ProgramEngine
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.host.rendezvous import receive, send
from onnxc.runtime.native.fast_call import Shapes
from onnxc.runtime.signature import Signature
from onnxc.runtime.stats import Stats
from onnxc.runtime.values import as_array

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue

__all__ = ["PipelineEngine", "PipelineExecutable", "RunningSegment", "Split", "Transfer"]


@dataclass(frozen=True)
class Transfer:
    """A result of segment `source` that is the next parameter of segment `target`.

    pairs: for each device of the target, from which device it comes to it.
    """

    source: int
    result: int
    target: int
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class RunningSegment:
    """The program of a segment on its devices, of which each has shares of the constants.

    outputs: for its results behind those that it sends, which output of the whole each is.
    """

    engine: ProgramEngine
    signature: Signature
    devices: tuple[int, ...]
    shares: tuple[tuple[np.ndarray, ...], ...]
    sent: int
    outputs: tuple[int, ...]

    def run(self, device: int, values: Sequence["HostValue"], received: Sequence["HostValue"]) -> Sequence["HostValue"]:
        """The results of a device for these inputs of the whole, and what it was sent."""
        ordinal = self.devices.index(device)
        given = (*values, *received, np.array(ordinal, np.int64), *self.shares[ordinal])
        sizes = self.signature.bind_sizes(given)
        for check in self.engine.guards:
            check(sizes)
        return self.engine.run(given, sizes)


@dataclass(frozen=True)
class Split:
    """How calls go through in parts: the axis of each input and output that is split, and the most parts.

    least: how many elements a part must have.
    """

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    most: int
    least: int

    def parts(self, values: Sequence["HostValue"]) -> list[tuple["HostValue", ...]]:
        """The inputs of each part; parts differ by one element at most."""
        index, axis = next((index, axis) for index, axis in enumerate(self.inputs) if axis is not None)
        size = as_array(values[index]).shape[axis]
        count = max(min(self.most, size // self.least), 1)
        ends = [size * k // count for k in range(count + 1)]
        return [
            tuple(
                value if axis is None else _slice(as_array(value), axis, start, end)
                for value, axis in zip(values, self.inputs, strict=True)
            )
            for start, end in itertools.pairwise(ends)
        ]

    def joined(self, output: int, parts: Sequence["HostValue"]) -> "HostValue":
        """An output of the whole; one that is not split is the same in every part."""
        axis = self.outputs[output]
        return parts[0] if axis is None or len(parts) == 1 else np.concatenate(list(map(as_array, parts)), axis)


class PipelineEngine:
    """Runs the segments of a model, each on its devices; `count` is how many devices there are."""

    def __init__(
        self, count: int, segments: Sequence[RunningSegment], transfers: Sequence[Transfer], split: Split | None
    ) -> None:
        self._count, self._segments, self._transfers, self._split = count, segments, transfers, split
        self._seconds = exchange_seconds()
        self._calls, self._lock = 0, Lock()

    def run(
        self, values: Sequence["HostValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["HostValue"]:
        """The outputs, each from the first device of the segment that makes it."""
        with self._lock:
            self._calls += 1
        parts = [tuple(values)] if self._split is None else self._split.parts(values)
        made: dict[int, list[HostValue]] = {}
        for outputs in run_on_devices(self._count, lambda device: self._run_device(device, parts), self._seconds):
            made |= outputs
        if self._split is None:
            return [made[output][0] for output in sorted(made)]
        return [self._split.joined(output, made[output]) for output in sorted(made)]

    def _run_device(self, device: int, parts: Sequence[Sequence["HostValue"]]) -> dict[int, list["HostValue"]]:
        """For each output that this device gives its parts."""
        made: dict[int, list[HostValue]] = {}
        for part, values in enumerate(parts):
            kept: dict[int, HostValue] = {}
            for ordinal, segment in enumerate(self._segments):
                if device not in segment.devices:
                    continue
                results = segment.run(device, values, self._received(ordinal, device, part, kept))
                self._send(ordinal, device, part, results, kept)
                if device == segment.devices[0]:
                    for output, result in zip(segment.outputs, results[segment.sent :], strict=True):
                        made.setdefault(output, []).append(result)
        return made

    def _received(self, segment: int, device: int, part: int, kept: Mapping[int, "HostValue"]) -> list["HostValue"]:
        """What a segment gets from others, in order of its parameters."""
        return [
            kept[key] if source == device else receive(source, (key, part))
            for key, transfer in enumerate(self._transfers)
            if transfer.target == segment
            for source, target in transfer.pairs
            if target == device
        ]

    def _send(
        self, segment: int, device: int, part: int, results: Sequence["HostValue"], kept: dict[int, "HostValue"]
    ) -> None:
        """Gives each result to the devices that read it; `kept` gets what this one reads itself."""
        for key, transfer in enumerate(self._transfers):
            if transfer.source != segment:
                continue
            for source, target in transfer.pairs:
                if source == target == device:
                    kept[key] = results[transfer.result]
                elif source == device:
                    send(target, (key, part), results[transfer.result])

    def fast_call(self) -> None:
        """There is none: a call starts threads."""

    def learn(self, shapes: Shapes, sizes: tuple[int, ...]) -> None:
        """Nothing: segments check what sizes decide when they run."""

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""
        return self._segments[0].engine.defaults()

    def stats(self) -> Stats:
        """What has run so far; launches are those of all devices."""
        each = [segment.engine.stats() for segment in self._segments]
        launches, arena_bytes = (sum(stats.launches for stats in each), sum(stats.arena_bytes for stats in each))
        return Stats(calls=self._calls, launches=launches, arena_bytes=arena_bytes)


class PipelineExecutable(Executable):
    """A model with pipeline stages, called as any other."""

    def _expect_artifact(self) -> NoReturn:
        message = "an executable with pipeline stages cannot be saved, pickled or copied yet"
        raise UnsupportedError(message, code="no-artifact")


def _slice(value: np.ndarray, axis: int, start: int, end: int) -> np.ndarray:
    return np.ascontiguousarray(value[(slice(None),) * axis + (slice(start, end),)])
