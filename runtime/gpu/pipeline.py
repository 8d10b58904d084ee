"""Pipeline stages on GPUs of one process: segments, each on the devices of its stage, with what they send on those."""

from collections.abc import Mapping, Sequence
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.devices.device_threads import exchange_seconds
from onnxc.runtime.devices.division import groups_of
from onnxc.runtime.devices.pipeline import Pipeline, Role
from onnxc.runtime.devices.pipeline_engine import PipelineEngine
from onnxc.runtime.gpu.collectives import Communicators
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.gpu.engine import DeviceEngine
from onnxc.runtime.gpu.nccl import Nccl
from onnxc.runtime.gpu.shares import engines_on, exchanging_call, resident_shares
from onnxc.runtime.gpu.transfers import Transfers, pair_of
from onnxc.runtime.gpu.wanted import Residency
from onnxc.runtime.load import own_signature
from onnxc.runtime.records import record
from onnxc.runtime.signature import Signature
from onnxc.runtime.stats import Stats, work_of

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = ["GpuSegment", "gpu_pipeline_engine", "segment_on"]


def gpu_pipeline_engine(artifact: Artifact, pipeline: Pipeline, driver: Driver, nccl: Nccl) -> "GpuPipelineEngine":
    """What runs all segments, device i of the configuration being CUDA device i."""
    groups = chain.from_iterable(chain(*groups_of(segment.program.body)) for segment in artifact.segments)
    pairs = [pair_of(*pair) for transfer in pipeline.transfers for pair in transfer.pairs if pair[0] != pair[1]]
    communicators = Communicators(nccl, [*groups, *pairs], exchange_seconds())
    transfers = Transfers(communicators)
    segments = {
        ordinal: segment_on(
            dict(zip(role.devices, role.devices, strict=True)), segment, role, driver, communicators, transfers
        )
        for ordinal, (segment, role) in enumerate(zip(artifact.segments, pipeline.roles, strict=True))
    }
    return GpuPipelineEngine(pipeline, segments, segments[0].defaults(), communicators)


def segment_on(
    devices: Mapping[int, int],
    artifact: Artifact,
    role: Role,
    driver: Driver,
    communicators: Communicators,
    transfers: Transfers,
) -> "GpuSegment":
    """The segment on those of its devices that are of this process, each with its CUDA device."""
    division = artifact.division
    assert division is not None, artifact.program.name
    engines = dict(zip(devices, engines_on(artifact, devices.values(), driver, communicators), strict=True))
    added = {
        device: resident_shares(artifact, division, engine, role.devices.index(device))
        for device, engine in engines.items()
    }
    return GpuSegment(own_signature(artifact), role, engines, added, communicators, transfers)


@record(eq=False)
class GpuSegment:
    """The program of a segment on its devices that are of this process; `added` are the values of its last inputs."""

    signature: Signature
    role: Role
    engines: Mapping[int, DeviceEngine]
    added: Mapping[int, Sequence["SlotValue"]]
    communicators: Communicators
    transfers: Transfers

    def run(self, device: int, values: Sequence["SlotValue"]) -> Sequence["SlotValue"]:
        """The results of a device, complete: what it sends in its memory, outputs of the whole on the host.

        Of what its devices have whole, only the first copies anything to the host.
        """
        engine = self.engines[device]
        residency = Residency.HOST if device == self.role.devices[0] else Residency.DEVICE
        wanted = (Residency.DEVICE,) * self.role.sent + (residency,) * len(self.role.outputs)
        with exchanging_call(engine, self.communicators) as call:
            given = (*(self.transfers.bring(value, call) for value in values), *self.added[device])
            sizes = self.signature.bind_sizes(given)
            engine.learn((), sizes)
            return engine.run_in(call, given, sizes, wanted)

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""
        return next(iter(self.engines.values())).defaults()

    def stats(self) -> Stats:
        """What has run so far, on all of these devices."""
        return work_of(engine.stats() for engine in self.engines.values())


class GpuPipelineEngine(PipelineEngine):
    """Runs segments on GPUs, one call after the other: those of NCCL must come in one order everywhere."""

    def __init__(
        self,
        pipeline: Pipeline,
        segments: Mapping[int, GpuSegment],
        defaults: Mapping[int, np.ndarray],
        communicators: Communicators,
    ) -> None:
        super().__init__(pipeline, segments, defaults)
        self._communicators, self._running = communicators, Lock()

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["HostValue"]:
        """The outputs, each from the first device of the segment that makes it."""
        with self._running:
            self._communicators.open()
            return super().run(values, sizes, given)
