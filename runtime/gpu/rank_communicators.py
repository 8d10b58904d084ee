"""Communicators of NCCL of a process of MPI that has one GPU: the others of each are those of other processes.

Every rank tells its group over MPI that it comes to an exchange, and enqueues its own part, which waits for nobody.
NCCL is never waited for in a call of its own: its communicators do not block, and whoever waits, for them or for a
stream, looks at the other ranks between. A rank that is dead, stopped, has failed or does not come is so known by name.

Where NCCL first connects two GPUs, a communicator takes no more calls before both are there. Nobody waits for ever: all
ranks come to the same exchanges in the same order, so that the one that is least far waits for others that have come.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.collectives import POLL_SECONDS, Communicators, Group, expect_alike
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.nccl import ID_BYTES, Nccl
from onnxc.runtime.host.rendezvous import Combine, group_of
from onnxc.runtime.ranks.exchanges import RankExchanges, Swap
from onnxc.runtime.ranks.world import World
from onnxc.runtime.records import record

__all__ = ["Lane", "RankCommunicators", "Tickets"]

REASON_S = 0.1
"""How long an error of NCCL waits for the reason, which is that of another rank: less than what mpirun leaves."""


@record
class Lane:
    """A communicator by which one device sends values to another, apart from all others: in an order of its own."""

    source: int
    target: int

    @property
    def members(self) -> Group:
        return self.source, self.target


class Tickets:
    """What this rank has told its groups it comes to in this call, and what has come of the others."""

    def __init__(self, exchanges: RankExchanges) -> None:
        self._exchanges = exchanges
        self._begun: list[Swap] = []

    def begin(self) -> None:
        """Forgets those of calls before this one."""
        self._begun.clear()

    def bring(
        self, device: int, name: str, operand: np.ndarray, attributes: Mapping[str, object], combine: Combine
    ) -> Callable[[], np.ndarray]:
        """Tells the group of the ticket `operand`, and does the part of this rank alone."""
        group = group_of(device, attributes)
        self._begun.append(self._exchanges.started(group, name, [operand] * len(group)))
        (result,) = combine([operand], attributes)
        return lambda: result

    def expect_alike(self) -> None:
        """Raises DeviceError where others have come to another exchange, or with something else."""
        waiting = []
        for swap in self._begun:
            if swap.poll():
                expect_alike(swap.what, swap.received())
            else:
                waiting.append(swap)
        self._begun = waiting

    def late(self) -> str | None:
        """Who has not come to what; None where all have."""
        swap = next((swap for swap in self._begun if swap.missing()), None)
        if swap is None:
            return None
        return f"device {', '.join(map(str, swap.missing()))} did not come to {swap.what}"


class RankCommunicators(Communicators):
    """Those of this rank, which is a device of the program with a CUDA device of its host."""

    def __init__(
        self, nccl: Nccl, groups: Iterable[Group], lanes: Iterable[Lane], world: World, tickets: Tickets
    ) -> None:
        super().__init__(nccl, groups, world.exchanges.seconds)
        self.lanes = tuple(dict.fromkeys(lanes))
        self.generation = 0
        self._world, self._tickets = world, tickets

    def open(self) -> None:
        """Has them all there. All ranks come to this in each call; one that has ended its own has all make new ones.

        The CUDA device must be current.
        """
        self._tickets.begin()
        with self._held():
            opened = self._world.gather(np.array(self._is_open), "open_communicators")
            if not all(opened):
                self._connect()

    def member(self, device: Device) -> int:
        return self._world.rank

    @contextmanager
    def of_group(self, group: Hashable) -> Iterator[Mapping[int, int]]:
        """As of one process; NCCL has taken what was enqueued at the end of the `with` block."""
        with super().of_group(group) as members:
            yield members
            self._settle(members)

    def expect_well(self, device: int) -> None:
        """Raises DeviceError where an exchange, or another rank, has failed."""
        self._look()
        try:
            super().expect_well(device)
        except DeviceError:
            self._await_reason()
            raise

    def late(self, device: int) -> str:
        coming = self._tickets.late()
        return super().late(device) if coming is None else f"{coming} within {self.seconds:g} s"

    def _connect(self) -> None:
        self._end()
        everyone: Sequence[tuple[Hashable, Group]] = (
            *((group, group) for group in self._groups),
            *((lane, lane.members) for lane in self.lanes),
        )
        rank = self._world.rank
        names = [self.nccl.new_id() for _, members in everyone if members[0] == rank]
        own = np.frombuffer(b"".join(names), np.uint8).reshape(-1, ID_BYTES)
        named = [iter(each) for each in self._world.gather(own, "name_communicators")]
        for group, members in everyone:
            name = next(named[members[0]]).tobytes()
            if rank in members:
                self._made[group] = {rank: self.nccl.join(name, members.index(rank), len(members))}
                self._settle(self._made[group])
        self._is_open = True
        self.generation += 1

    def _settle(self, members: Mapping[int, int]) -> None:
        """Returns when NCCL has done what was called for communicators of this rank."""
        limit = time.monotonic() + self.seconds
        for communicator in members.values():
            while self._is_busy(communicator):
                self._look()
                if time.monotonic() > limit:
                    raise DeviceError(self.late(self._world.rank), code="device-stalled")
                time.sleep(POLL_SECONDS)

    def _is_busy(self, communicator: int) -> bool:
        try:
            return self.nccl.is_busy(communicator)
        except DeviceError:
            self._await_reason()
            raise

    def _look(self) -> None:
        """Raises DeviceError where the other ranks will not complete this call."""
        self._world.exchanges.expect_well(range(self._world.size))
        self._tickets.expect_alike()

    def _await_reason(self) -> None:
        """Raises what another rank has failed of, which NCCL notices too and cannot name."""
        limit = time.monotonic() + REASON_S
        while time.monotonic() < limit:
            self._look()
            time.sleep(POLL_SECONDS)
