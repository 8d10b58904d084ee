"""Collectives between processes: each rank sends the others their parts, and combines what comes in one fixed order.

An exchange begins with what is sent, and ends where its result is asked for. All ranks begin theirs in the same order,
and a link keeps it: what comes early is of an exchange that has begun here, or else ranks are at different ones.

Nothing waits without looking: a message that does not come is asked for again and again, between looks at the health
of who should send it. Messages of calls that were given up are known by their stamps, and dropped.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.host.collectives import PARTS, Parts
from onnxc.runtime.host.rendezvous import Combine, Sendable, group_of
from onnxc.runtime.host.values import HostValue
from onnxc.runtime.ranks.health import Failure, RankFailed
from onnxc.runtime.ranks.messages import Message, Stamp, pack, unpack

__all__ = ["BLOCKWISE_BYTES", "Link", "RankExchanges", "Swap"]

BLOCKWISE_BYTES = 1 << 19
"""From here on an all_reduce is a reduce_scatter and an all_gather: 2(n-1)/n of the bytes are sent in place of n-1.

Measured with 4 ranks of Open MPI on one host of 2 processors: a round of wholes took a quarter of the time at 256 KiB,
two rounds of blocks did at 1 MiB.
"""

LONGEST_PAUSE_S = 1e-3
"""Between two looks: what a wait adds to a call at most, and little beside the limits of waits."""


TRANSFER = -1
"""In the place of a round: a value for one rank, that is known by its key."""


class Link(Protocol):
    """Carries bytes between ranks: in order from each to each, sooner or later."""

    def send(self, rank: int, data: npt.NDArray[np.uint8]) -> Callable[[], bool]:
        """Begins to send, and keeps the bytes as long as that needs them; gives what says whether it is done."""

    def receive(self, rank: int) -> npt.NDArray[np.uint8] | None:
        """The next bytes from a rank, or None where they are not all there yet."""


class Swap:
    """One exchange of one group as this rank sees it: every other member gets a part and sends one."""

    def __init__(
        self,
        rank: int,
        group: Sequence[int],
        stamp: Stamp,
        parts: Sequence[np.ndarray],
        link: Link,
        take: Callable[[int, Stamp], Message | None],
    ) -> None:
        self.group, self._stamp, self._take = group, stamp, take
        self._came = {rank: parts[group.index(rank)]}
        # Where all get the same, it is packed once.
        packed = {id(part): pack(stamp, part) for part in parts}
        pairs = zip(group, parts, strict=True)
        self._sent = [link.send(member, packed[id(part)]) for member, part in pairs if member != rank]

    def poll(self) -> bool:
        """Whether all is sent and received; takes what has come."""
        for member in self.missing():
            message = self._take(member, self._stamp)
            if message is not None:
                self._came[member] = message.array
        return not self.missing() and all(is_sent() for is_sent in self._sent)

    @property
    def what(self) -> str:
        """The collective."""
        return self._stamp.what.partition(" ")[0]

    def missing(self) -> tuple[int, ...]:
        """The members whose part has not come."""
        return tuple(member for member in self.group if member not in self._came)

    def received(self) -> list[np.ndarray]:
        """The parts in the order of the group."""
        return [self._came[member] for member in self.group]


class RankExchanges:
    """The exchanges of this rank: as those of a thread (runtime/host/rendezvous.py), with the same results bit for bit.

    failure: what ends a call that waits for some ranks. A rank that does not come within `seconds` is named.
    """

    def __init__(
        self, rank: int, link: Link, seconds: float, failure: Callable[[int, Sequence[int]], Failure | None]
    ) -> None:
        self.call = 0
        self.seconds = seconds
        self._rank, self._link, self._failure = rank, link, failure
        self._rounds: dict[tuple[int, ...], int] = {}
        self._begun: set[Stamp] = set()
        self._ahead: dict[int, Message] = {}
        # What came before it was asked for: transfers, and parts of exchanges that have begun.
        self._early: dict[tuple[int, Stamp], Message] = {}

    def begin(self) -> int:
        """The ordinal of a call that begins; every rank makes the same calls in the same order."""
        self.call += 1
        self._rounds.clear()
        self._begun.clear()
        self._early.clear()
        return self.call

    def bring(
        self, device: int, name: str, operand: np.ndarray, attributes: Mapping[str, object], combine: Combine
    ) -> Callable[[], np.ndarray]:
        """Sends what others read of `operand`; gives what waits for what they send, and combines it."""
        group = group_of(device, attributes)
        if len(group) == 1:
            (result,) = combine([operand], attributes)
            return lambda: result
        if name == "all_reduce" and operand.nbytes >= BLOCKWISE_BYTES:
            return self._begin_all_reduce_in_blocks(group, operand, attributes)
        if name not in PARTS:
            swap, mine = self.started(group, name, [operand] * len(group)), group.index(device)
            return lambda: combine(self._received(swap), attributes)[mine]
        parts = PARTS[name]
        swap = self.started(group, name, parts.split(operand, len(group), attributes))
        return lambda: _silenced(parts, self._received(swap), attributes)

    def _begin_all_reduce_in_blocks(
        self, group: tuple[int, ...], operand: np.ndarray, attributes: Mapping[str, object]
    ) -> Callable[[], np.ndarray]:
        first = self.started(group, "all_reduce", np.array_split(operand.reshape(-1), len(group)))

        def finish() -> np.ndarray:
            block = _silenced(PARTS["all_reduce"], self._received(first), attributes)
            return np.concatenate(self.swap(group, "all_reduce", [block] * len(group))).reshape(operand.shape)

        return finish

    def swap(self, group: tuple[int, ...], name: str, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What each of the group has sent to this rank, which sends each of them a part."""
        return self._received(self.started(group, name, parts))

    def _received(self, swap: Swap) -> list[np.ndarray]:
        """The parts of an exchange, once all are there."""
        self._wait(swap.poll, lambda: swap.missing() or swap.group, f"come to {swap.what}")
        return swap.received()

    def send(self, device: int, target: int, key: Hashable, value: Sendable) -> None:
        """Begins to send a tensor; waits for nobody."""
        assert isinstance(value, np.ndarray), value
        self._link.send(target, pack(self._transfer(key), value))

    def receive(self, device: int, source: int, key: Hashable) -> HostValue:
        """What `source` sends to this rank by this key, whatever else it has sent before."""
        came: list[Message] = []

        def poll() -> bool:
            message = self._take(source, self._transfer(key))
            came.extend(() if message is None else (message,))
            return bool(came)

        self._wait(poll, lambda: (source,), f"send what device {self._rank} waits for")
        return came[0].array

    def expect_well(self, awaited: Sequence[int]) -> None:
        """Raises RankFailed where the call, which waits for these ranks, cannot be completed."""
        failure = self._failure(self.call, awaited)
        if failure is not None:
            raise RankFailed(failure)

    def _transfer(self, key: Hashable) -> Stamp:
        return Stamp(self.call, TRANSFER, str(key))

    def _wait(self, poll: Callable[[], bool], missing: Callable[[], Sequence[int]], what: str) -> None:
        """Looks until `poll` holds; raises RankFailed, or DeviceError where `missing` do not `what` in time."""
        deadline, pause = time.monotonic() + self.seconds, 0.0
        while not poll():
            self.expect_well(missing())
            if time.monotonic() > deadline:
                late = ", ".join(map(str, missing()))
                message = f"device {late} did not {what} within {self.seconds:g} s"
                raise DeviceError(message, code="device-stalled")
            time.sleep(pause)
            pause = min(2 * pause + 1e-5, LONGEST_PAUSE_S)

    def started(self, group: tuple[int, ...], name: str, parts: Sequence[np.ndarray]) -> Swap:
        """The next exchange of a group."""
        round = self._rounds.get(group, 0)
        self._rounds[group] = round + 1
        stamp = Stamp(self.call, round, f"{name} of {', '.join(map(str, group))}")
        self._begun.add(stamp)
        return Swap(self._rank, group, stamp, parts, self._link, self._take)

    def _take(self, rank: int, stamp: Stamp) -> Message | None:
        """The message of a rank for an exchange; those of calls before are dropped, one of a later call is kept.

        So are transfers and parts of what has begun, which come in the order in which they are sent, and are read in
        another.
        """
        if (rank, stamp) in self._early:
            return self._early.pop((rank, stamp))
        while True:
            message = self._ahead.pop(rank, None)
            if message is None:
                data = self._link.receive(rank)
                if data is None:
                    return None
                message = unpack(data)
            if message.stamp == stamp:
                return message
            if message.stamp.call == stamp.call and (message.stamp.round == TRANSFER or message.stamp in self._begun):
                self._early[rank, message.stamp] = message
                continue
            if message.stamp.call == stamp.call:
                text = f"device {self._rank} comes to {stamp.what}, device {rank} to {message.stamp.what}"
                raise DeviceError(text, code="collectives-differ")
            if message.stamp.call > stamp.call:
                # Its sender has given up this call; why, comes another way.
                self._ahead[rank] = message
                return None


def _silenced(parts: Parts, received: Sequence[np.ndarray], attributes: Mapping[str, object]) -> np.ndarray:
    """What is made of the parts that came, without NumPy's warnings."""
    with np.errstate(all="ignore"):
        return parts.join(received, attributes)
