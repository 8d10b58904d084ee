"""Calls on the GPU of one process of MPI: the program of its device, which exchanges values with those of others."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.devices.division import Division, groups_of
from onnxc.runtime.devices.load_pipeline import expect_tensors
from onnxc.runtime.devices.pipeline import Pipeline
from onnxc.runtime.engine import default_arrays
from onnxc.runtime.fast_call import Shapes
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.gpu.engine import DeviceEngine
from onnxc.runtime.gpu.load import this_driver
from onnxc.runtime.gpu.nccl import Nccl, this_nccl
from onnxc.runtime.gpu.pipeline import GpuSegment, segment_on
from onnxc.runtime.gpu.rank_communicators import Lane, RankCommunicators, Tickets
from onnxc.runtime.gpu.rank_transfers import RankTransfers
from onnxc.runtime.gpu.shares import engines_on, exchanging_call, readable, resident_shares, wanted_of
from onnxc.runtime.gpu.transfers import Transfers
from onnxc.runtime.gpu.wanted import Residency
from onnxc.runtime.host.rendezvous import Combine, Sendable
from onnxc.runtime.ranks.engine import RanksEngine, RanksPipelineEngine
from onnxc.runtime.ranks.world import World
from onnxc.runtime.records import record
from onnxc.runtime.stats import Stats

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = ["gpu_engine_of_rank"]


def gpu_engine_of_rank(
    artifact: Artifact, division: Division, world: World, driver: Driver | None
) -> "RanksEngine | _GpuPipelineOfRank":
    """What runs the part of this rank on the CUDA device of its host that it has by its order there.

    Raises DeviceError where there is no such device, or no NCCL.
    """
    driver = this_driver() if driver is None else driver
    nccl = this_nccl()
    if artifact.pipeline is not None:
        return _pipeline_engine(artifact, artifact.pipeline, world, driver, nccl)
    tickets = Tickets(world.exchanges)
    communicators = RankCommunicators(nccl, chain(*groups_of(artifact.program.body)), (), world, tickets)
    (engine,) = engines_on(artifact, [world.local_rank], driver, communicators)
    added = resident_shares(artifact, division, engine, world.rank)
    exchanges = _Exchanges(tickets, RankTransfers(communicators, world.exchanges, engine.device, world.rank))
    wanted = wanted_of(division.outputs or (None,) * len(artifact.program.outputs), whole=Residency.HOST)
    of_rank = _EngineOfRank(engine, communicators, wanted)
    return RanksEngine(of_rank, added, world, division.inputs, division.outputs, exchanges, on_device=True)


def _pipeline_engine(
    artifact: Artifact, pipeline: Pipeline, world: World, driver: Driver, nccl: Nccl
) -> "_GpuPipelineOfRank":
    expect_tensors(artifact)
    tickets, rank = Tickets(world.exchanges), world.rank
    groups = chain.from_iterable(chain(*groups_of(segment.program.body)) for segment in artifact.segments)
    lanes = [Lane(*pair) for transfer in pipeline.transfers for pair in transfer.pairs if pair[0] != pair[1]]
    communicators = RankCommunicators(nccl, groups, lanes, world, tickets)
    segments = {
        ordinal: segment_on({rank: world.local_rank}, segment, role, driver, communicators, Transfers(communicators))
        for ordinal, (segment, role) in enumerate(zip(artifact.segments, pipeline.roles, strict=True))
        if rank in role.devices
    }
    device = next(iter(segments.values())).engines[rank].device
    transfers = RankTransfers(communicators, world.exchanges, device, rank)
    defaults = segments[0].defaults() if 0 in segments else default_arrays(artifact.program, artifact.weights)
    return _GpuPipelineOfRank(pipeline, segments, defaults, world, communicators, _Exchanges(tickets, transfers))


@record(eq=False)
class _Exchanges:
    """Those of a GPU of this rank, as runtime/host/rendezvous.py has them: what is exchanged stays on devices."""

    tickets: Tickets
    transfers: RankTransfers

    def bring(
        self, device: int, name: str, operand: np.ndarray, attributes: Mapping[str, object], combine: Combine
    ) -> Callable[[], np.ndarray]:
        return self.tickets.bring(device, name, operand, attributes, combine)

    def send(self, device: int, target: int, key: Hashable, value: Sendable) -> None:
        self.transfers.send(device, target, key, value)

    def receive(self, device: int, source: int, key: Hashable) -> Sendable:
        return self.transfers.receive(device, source, key)


@record(eq=False)
class _EngineOfRank:
    """Runs the program of one device, whose outputs lie where they are wanted."""

    engine: DeviceEngine
    communicators: RankCommunicators
    wanted: tuple[Residency, ...]

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["SlotValue"]:
        """The outputs, complete."""
        with self.engine.device.current():
            self.communicators.open()
            with exchanging_call(self.engine, self.communicators) as call:
                return self.engine.run_in(call, readable(values, call), sizes, self.wanted)

    def fast_call(self) -> None:
        """There is none: a call begins with all devices."""

    def learn(self, shapes: Shapes, sizes: tuple[int, ...]) -> None:
        """Checks what sizes alone decide."""
        self.engine.learn(shapes, sizes)

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""
        return self.engine.defaults()

    def stats(self) -> Stats:
        """What has run so far."""
        return self.engine.stats()


class _GpuPipelineOfRank(RanksPipelineEngine):
    """Runs the segments of this rank on its GPU, which sends what others read to theirs."""

    def __init__(
        self,
        pipeline: Pipeline,
        segments: Mapping[int, GpuSegment],
        defaults: Mapping[int, np.ndarray],
        world: World,
        communicators: RankCommunicators,
        exchanges: _Exchanges,
    ) -> None:
        super().__init__(pipeline, segments, defaults, world, exchanges)
        self._communicators, self._transfers = communicators, exchanges.transfers
        self._device = next(iter(segments.values())).engines[world.rank].device

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["HostValue"]:
        """The outputs, which every rank has whole on the host."""
        with self._device.current():
            try:
                self._communicators.open()
                self._transfers.open()
                results = super().run(values, sizes, given)
                self._transfers.finish()
            except BaseException:
                self._communicators.abort()
                self._transfers.abandon()
                raise
        return results
