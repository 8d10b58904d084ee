"""Values that go from the GPU of one process of MPI to that of another, each pair of which has a lane for a direction.

Who sends tells what comes, over MPI, and enqueues its part on the stream of the lane, on which nothing else waits. Who
reads takes what was told in that order until the value that it asks for is among it: what it takes before has been
sent, so that it waits for nobody but the sender of its value, as the processes of a CPU do. Lanes are connected before
anything is sent, as NCCL takes a first send only when its receipt is there.
"""

import json
import weakref
from collections.abc import Hashable

import numpy as np

from onnxc.runtime.dtypes import DTYPES, dtype_name
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.collectives import NOT_READY
from onnxc.runtime.gpu.device import Device, end_handles
from onnxc.runtime.gpu.memory import MemoryPool
from onnxc.runtime.gpu.nccl import BYTES
from onnxc.runtime.gpu.rank_communicators import Lane, RankCommunicators
from onnxc.runtime.host.rendezvous import Sendable
from onnxc.runtime.ranks.exchanges import RankExchanges

__all__ = ["RankTransfers"]

_PURPOSE = "to send a value from one device to another"


class RankTransfers:
    """The lanes of this rank. The context of its device must be current wherever they are used."""

    def __init__(self, communicators: RankCommunicators, exchanges: RankExchanges, device: Device, rank: int) -> None:
        self._communicators, self._exchanges, self._device, self._rank = communicators, exchanges, device, rank
        self._wait, self._pool = communicators.watch(device), MemoryPool(device)
        own = [lane for lane in communicators.lanes if rank in lane.members]
        with device.current():
            self._lanes = {lane: _LaneStream(device) for lane in own}
        self._generation = 0
        # How many values were sent, or taken, by each lane in this call; what was taken before it was asked for.
        self._counts: dict[Lane, int] = {}
        self._early: dict[tuple[int, str], Sendable] = {}

    def open(self) -> None:
        """Begins a call; where the communicators are new, a byte goes through each lane first."""
        self._counts.clear()
        self._early.clear()
        if self._generation == self._communicators.generation:
            return
        byte = self._pool.take(1, "a byte for each lane")
        for lane in self._lanes:
            self._enqueue(lane, byte.address, 1)
        for stream in self._lanes.values():
            self._wait(stream.handle)
        self._generation = self._communicators.generation

    def send(self, device: int, target: int, key: Hashable, value: Sendable) -> None:
        """Begins to send a tensor that is complete; waits for nobody."""
        assert isinstance(value, DeviceArray | np.ndarray), value
        lane, text = Lane(device, target), str(key)
        dtype = dtype_name(value.dtype) if isinstance(value, DeviceArray) else None
        coming = np.array([json.dumps([text, dtype, value.shape])], object)
        self._exchanges.send(device, target, self._next(lane), coming)
        if isinstance(value, np.ndarray):
            self._exchanges.send(device, target, text, value)
        elif value.nbytes:
            self._lanes[lane].hold(value)
            self._enqueue(lane, value.address, value.nbytes)

    def receive(self, device: int, source: int, key: Hashable) -> Sendable:
        """What `source` sends to this rank by this key, whatever else it has sent before; complete."""
        wanted = source, str(key)
        while wanted not in self._early:
            text, value = self._taken(Lane(source, device))
            self._early[source, text] = value
        return self._early.pop(wanted)

    def finish(self) -> None:
        """Returns when others have all that this rank has sent in the call."""
        for lane, stream in self._lanes.items():
            if lane.source == self._rank:
                self._wait(stream.handle)
                stream.held.clear()

    def abandon(self) -> None:
        """After an error, when the communicators have ended: nothing runs any more that was sent."""
        self._early.clear()
        for stream in self._lanes.values():
            self._device.driver.functions["cuStreamSynchronize"](stream.handle)
            stream.held.clear()

    def _taken(self, lane: Lane) -> tuple[str, Sendable]:
        """What comes next by a lane, and its key."""
        coming = self._exchanges.receive(lane.target, lane.source, self._next(lane))
        assert isinstance(coming, np.ndarray), coming
        text, dtype, shape = json.loads(coming.item())
        if dtype is None:
            return text, self._exchanges.receive(lane.target, lane.source, text)
        made = DeviceArray(self._device, 0, tuple(shape), DTYPES[dtype], None)
        made.owner = block = self._pool.take(made.nbytes, "what another device sends")
        made.address = block.address
        if made.nbytes:
            self._enqueue(lane, made.address, made.nbytes)
            self._wait(self._lanes[lane].handle)
        return text, made

    def _next(self, lane: Lane) -> Hashable:
        """The key of what is said of the next value of a lane."""
        ordinal = self._counts.get(lane, 0)
        self._counts[lane] = ordinal + 1
        return "coming", ordinal

    def _enqueue(self, lane: Lane, address: int, nbytes: int) -> None:
        """The part of this rank in sending so many bytes."""
        is_sent, stream = lane.source == self._rank, self._lanes[lane].handle
        function, peer = ("ncclSend", 1) if is_sent else ("ncclRecv", 0)
        with self._communicators.of_group(lane) as members:
            nccl = self._communicators.nccl
            with nccl.group(_PURPOSE):
                nccl.call(_PURPOSE, function, address, nbytes, BYTES, peer, members[self._rank], stream)


class _LaneStream:
    """The stream of a lane at one of its ends, and the values that are on their way by it."""

    def __init__(self, device: Device) -> None:
        self._device, self.handle = device, device.new_stream()
        self.held: list[DeviceArray] = []
        ending = (("cuStreamSynchronize", self.handle), ("cuStreamDestroy_v2", self.handle))
        weakref.finalize(self, end_handles, device, ending).atexit = False

    def hold(self, value: DeviceArray) -> None:
        """Keeps a value alive that is about to be sent; those before it are given up once they all are."""
        if self.held and self._device.driver.functions["cuStreamQuery"](self.handle) != NOT_READY:
            self.held.clear()
        self.held.append(value)
