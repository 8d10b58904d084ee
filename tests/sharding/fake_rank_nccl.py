"""NCCL between processes of MPI, each with a fake driver of its own: what goes from one to another goes by MPI.

It is as strict as that of one process, and as lazy as NCCL may be: a communicator is there when all its ranks have
joined, what is called for it goes on behind the call until it is asked for twice, and only then is on the stream, whose
exchanges are done when all others have come to theirs. A stream that is not done is asked for without waiting.
"""

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import c_int, c_void_p
from dataclasses import dataclass, field

import numpy as np
from mpi4py import MPI

from onnxc.runtime.gpu.nccl import ID_BYTES, Config, UniqueId
from tests.support.fake_driver import FakeDriver
from tests.support.fake_nccl import OPERATIONS, TYPES, FakeNccl
from tests.support.fake_streams import NotYet

__all__ = ["FakeRankNccl", "RankDriver"]

IN_PROGRESS, NOT_READY = 7, 600

Key = tuple[object, ...]


class RankDriver(FakeDriver):
    """A driver whose streams go on when somebody asks whether they have, and wait where the driver does."""

    def cuStreamQuery(self, stream: int) -> int:
        found = self.streams.find(stream)
        assert found is not None
        try:
            found.run()
        except NotYet:
            return NOT_READY
        return 0

    def go_on(self) -> None:
        """All streams, as far as they come without waiting: a device works on while its host waits for others."""
        with self.lock:
            for stream in self.streams.all():
                with suppress(NotYet):
                    stream.run()

    def cuStreamSynchronize(self, stream: int) -> int:
        return self._patient(lambda: super(RankDriver, self).cuStreamSynchronize(stream))

    def cuEventSynchronize(self, event: int) -> int:
        return self._patient(lambda: super(RankDriver, self).cuEventSynchronize(event))

    def _patient(self, act: Callable[[], int]) -> int:
        while True:
            try:
                return act()
            except NotYet:
                time.sleep(1e-4)


@dataclass(frozen=True)
class _Called:
    """One call within a group: for sends and receipts `extra` is the peer, for reductions the operation."""

    name: str
    stream: int
    send: int
    receive: int
    count: int
    type: int
    extra: int = 0


@dataclass(eq=False)
class _Joined:
    """A communicator as one rank has it. `pending`: groups that are called and not on their streams yet."""

    name: bytes
    rank: int
    count: int
    exchanges: int = 0
    pending: list[list[_Called]] = field(default_factory=list)
    is_ended: bool = False


class FakeRankNccl(FakeNccl):
    """The NCCL of one process. `moved` are, as for one process, the calls that this rank takes part in."""

    def __init__(self, driver: FakeDriver, version: int = 22304) -> None:
        super().__init__(driver, version)
        self.comm = MPI.COMM_WORLD.Dup()
        self.joined: dict[int, _Joined] = {}
        self._sent: list[MPI.Request] = []
        self._came: dict[Key, object] = {}
        self._busy_once: set[int] = set()
        self._calls: list[tuple[int, _Called]] | None = None

    # Communicators

    def ncclGetUniqueId(self, out: "ctypes._Pointer[UniqueId]") -> None:
        ctypes.memmove(out, os.urandom(ID_BYTES), ID_BYTES)

    def ncclCommInitRankConfig(
        self, out: "ctypes._Pointer[c_void_p]", count: int, name: UniqueId, rank: int, config: "ctypes._Pointer[Config]"
    ) -> int:
        said = config[0]
        assert (said.size, said.magic, said.version, said.blocking) == (24, 0xCAFEBEEF, 21400, 0)
        self._next += 1
        made = self.joined[self._next] = _Joined(bytes(name.data), rank, count)
        out[0] = self._next
        for other in range(self.comm.size):
            self._give(other, ("join", made.name, rank), self.comm.rank)
        return IN_PROGRESS

    def ncclCommAbort(self, communicator: int) -> None:
        self.joined.pop(communicator).is_ended = True
        self.aborted += 1

    def ncclCommGetAsyncError(self, communicator: int, out: "ctypes._Pointer[c_int]") -> None:
        joined = self.joined[communicator]
        self._take()
        out[0] = self.async_error
        if any(("join", joined.name, rank) not in self._came for rank in range(joined.count)):
            out[0] = self.async_error or IN_PROGRESS
        elif communicator in self._busy_once:
            self._busy_once.discard(communicator)
            out[0] = self.async_error or IN_PROGRESS
        else:
            while joined.pending:
                self._put_on_stream(joined, joined.pending.pop(0))

    # Calls

    def ncclGroupStart(self) -> None:
        assert self._calls is None, "a group within a group"
        self._calls = []

    def ncclGroupEnd(self) -> int | None:
        calls, self._calls = self._calls, None
        if not calls:
            # What a failed call leaves of a group.
            return None
        (communicator,) = {each for each, _ in calls}
        joined = self.joined[communicator]
        assert not joined.pending, "a call for a communicator that is busy"
        joined.pending.append([called for _, called in calls])
        self._busy_once.add(communicator)
        return IN_PROGRESS

    def ncclAllReduce(self, send: int, receive: int, count: int, type: int, operation: int, comm: int, s: int) -> None:
        self._call(comm, _Called("ncclAllReduce", s, send, receive, count, type, operation))

    def ncclReduceScatter(
        self, send: int, receive: int, count: int, type: int, operation: int, comm: int, s: int
    ) -> None:
        self._call(comm, _Called("ncclReduceScatter", s, send, receive, count, type, operation))

    def ncclAllGather(self, send: int, receive: int, count: int, type: int, comm: int, s: int) -> None:
        self._call(comm, _Called("ncclAllGather", s, send, receive, count, type))

    def ncclSend(self, send: int, count: int, type: int, peer: int, comm: int, s: int) -> None:
        self._call(comm, _Called("ncclSend", s, send, 0, count, type, peer))

    def ncclRecv(self, receive: int, count: int, type: int, peer: int, comm: int, s: int) -> None:
        self._call(comm, _Called("ncclRecv", s, 0, receive, count, type, peer))

    def _call(self, communicator: int, called: _Called) -> None:
        assert self._calls is not None, "a call outside of a group"
        self._calls.append((communicator, called))

    # Exchanges

    def _put_on_stream(self, joined: _Joined, calls: list[_Called]) -> None:
        (handle,) = {called.stream for called in calls}
        ordinal, is_sent = joined.exchanges, False
        joined.exchanges += 1
        self._note(calls, joined.count)

        def run() -> None:
            nonlocal is_sent
            if joined.is_ended:
                return
            if not is_sent:
                is_sent = True
                self._send_parts(joined, ordinal, calls)
            self._take()
            self._finish(joined, ordinal, calls)

        self._stream(handle).enqueue(run)

    def _note(self, calls: Sequence[_Called], count: int) -> None:
        sends = [called for called in calls if called.name == "ncclSend"]
        if not sends and calls[0].name == "ncclRecv":
            return
        name = "all_to_all" if len(sends) > 1 else calls[0].name
        sent = sum(called.count * TYPES[called.type].itemsize for called in sends or calls)
        self.moved.append((name, sent * count if name == "ncclReduceScatter" else sent))

    def _send_parts(self, joined: _Joined, ordinal: int, calls: Sequence[_Called]) -> None:
        for called in calls:
            if called.name == "ncclRecv":
                continue
            peers = [called.extra] if called.name == "ncclSend" else range(joined.count)
            whole = called.count * (joined.count if called.name == "ncclReduceScatter" else 1)
            data = self._view(called.send, called.type, whole).tobytes()
            kind = ("ncclSend", 0) if called.name == "ncclSend" else (called.name, called.extra)
            for peer in peers:
                part = (kind, called.count, called.type, data)
                self._give(self._process(joined, peer), ("part", joined.name, ordinal, joined.rank), part)

    def _finish(self, joined: _Joined, ordinal: int, calls: Sequence[_Called]) -> None:
        receipts = [called for called in calls if called.name == "ncclRecv"]
        if receipts or calls[0].name == "ncclSend":
            parts = self._parts(joined, ordinal, [called.extra for called in receipts])
            for called, (kind, count, type, data) in zip(receipts, parts, strict=True):
                assert (kind, count, type) == (("ncclSend", 0), called.count, called.type)
                self._view(called.receive, type, count)[:] = np.frombuffer(data, TYPES[type])
            self._expect_taken(joined, ordinal, calls)
            return
        (called,) = calls
        parts = self._parts(joined, ordinal, range(joined.count))
        assert {part[:3] for part in parts} == {((called.name, called.extra), called.count, called.type)}
        result = self._combined(called, joined, [np.frombuffer(part[3], TYPES[called.type]) for part in parts])
        self._view(called.receive, called.type, result.size)[:] = result

    def _expect_taken(self, joined: _Joined, ordinal: int, calls: Sequence[_Called]) -> None:
        """A value that goes one way is sent when the other has it."""
        (first, *others) = calls
        key = ("taken", joined.name, ordinal)
        if others:
            return
        if first.name == "ncclRecv":
            self._give(self._process(joined, first.extra), key, True)
        elif key not in self._came:
            raise NotYet

    def _combined(self, called: _Called, joined: _Joined, sent: Sequence[np.ndarray]) -> np.ndarray:
        if called.name == "ncclAllGather":
            return np.concatenate(sent)
        combined = sent[0]
        for other in sent[1:]:
            combined = OPERATIONS[called.extra](combined, other)
        return np.split(combined, joined.count)[joined.rank] if called.name == "ncclReduceScatter" else combined

    def _parts(
        self, joined: _Joined, ordinal: int, ranks: Sequence[int]
    ) -> list[tuple[tuple[str, int], int, int, bytes]]:
        """What these ranks have sent in an exchange; NotYet where one of them has not come to it."""
        keys = [("part", joined.name, ordinal, rank) for rank in ranks]
        if any(key not in self._came for key in keys):
            raise NotYet
        return [self._came.pop(key) for key in keys]  # type: ignore[misc]

    # Messages

    def _process(self, joined: _Joined, rank: int) -> int:
        process = self._came["join", joined.name, rank]
        assert isinstance(process, int)
        return process

    def _give(self, process: int, key: Key, value: object) -> None:
        if process == self.comm.rank:
            self._came[key] = value
            return
        self._sent = [*(each for each in self._sent if not each.Test()), self.comm.isend((key, value), process)]

    def _take(self) -> None:
        while (message := self.comm.improbe()) is not None:
            key, value = message.recv()
            self._came[key] = value
