"""NCCL over the fake driver: the same table of functions, whose exchanges run when a stream comes to them.

It is strict: calls are made in groups, each rank of a communicator takes part once, with the same counts and types, on
a stream of its own, and what is sent and received lies in live memory. An exchange needs all that is enqueued before it
on the streams of all ranks. What is wrong is among the problems of the driver.
"""

import ctypes
from collections.abc import Callable
from ctypes import c_int, c_void_p
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from onnxc.runtime.gpu.nccl import PROTOTYPES, Config, Nccl, UniqueId
from tests.support.fake_driver import FakeDriver
from tests.support.fake_streams import FakeStream, Record

INVALID_USAGE = 5
TYPES: dict[int, np.dtype[np.generic]] = {
    number: np.dtype(name)
    for number, name in enumerate(
        (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64)
    )
} | {9: np.dtype(ml_dtypes.bfloat16)}
OPERATIONS: dict[int, np.ufunc] = {0: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum}


class EagerQueries(FakeDriver):
    """A driver whose streams go on when somebody asks whether they have; as far as `stalled` exchanges allow."""

    stalled = False

    def cuStreamQuery(self, stream: int) -> int:
        found = self.streams.find(stream)
        assert found is not None
        if self.stalled:
            return 600
        found.run()
        return 0


@dataclass(eq=False)
class _Communicator:
    devices: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class _Called:
    """One call of a rank within a group. For sends and receipts `extra` is the peer, for reductions the operation."""

    name: str
    communicator: _Communicator
    stream: int
    send: int
    receive: int
    count: int
    type: int
    extra: int = 0


@dataclass(eq=False)
class _Exchange:
    """What the ranks of a communicator do at once; it runs when the first of their streams comes to it."""

    calls: list[_Called]
    records: list[Record] = field(default_factory=list)
    is_done: bool = False


class FakeNccl:
    """One process's NCCL on the devices of a fake driver. `moved`: (name, bytes that a device brings) of each call."""

    def __init__(self, driver: FakeDriver, version: int = 22304, without: tuple[str, ...] = ()) -> None:
        self.driver, self.version = driver, version
        self.communicators: dict[int, _Communicator] = {}
        self.aborted = 0
        self.async_error = 0
        self.moved: list[tuple[str, int]] = []
        self._failures: dict[str, int] = {}
        self._grouped: list[_Called] | None = None
        self._next = 0x9000
        self._callbacks = {name: self._callback(name) for name in PROTOTYPES if name not in without}

    @property
    def nccl(self) -> Nccl:
        addresses = {name: ctypes.cast(callback, c_void_p).value or 0 for name, callback in self._callbacks.items()}
        return Nccl(addresses, "a fake", self)

    def fail(self, function: str, result: int) -> None:
        """The next call of the function gives the result."""
        self._failures[function] = result

    def _callback(self, name: str) -> "ctypes._CFuncPtr":
        function: Callable[..., int | None] = getattr(self, name)

        def call(*arguments: object) -> int:
            with self.driver.lock:
                if name in self._failures:
                    return self._failures.pop(name)
                try:
                    return function(*(0 if x is None else x for x in arguments)) or 0
                except BaseException as problem:
                    self.driver.problems.append(f"{name}: {problem!r}")
                    return INVALID_USAGE

        return ctypes.CFUNCTYPE(c_int, *PROTOTYPES[name])(call)

    def ncclGetVersion(self, out: "ctypes._Pointer[c_int]") -> None:
        out[0] = self.version

    def ncclCommInitAll(self, out: "ctypes._Pointer[c_void_p]", count: int, devices: "ctypes._Pointer[c_int]") -> None:
        listed = tuple(devices[rank] for rank in range(count))
        assert len(set(listed)) == count, listed
        assert max(listed) < self.driver.devices, listed
        for rank in range(count):
            self._next += 1
            self.communicators[self._next] = _Communicator(listed, rank)
            out[rank] = self._next

    def ncclGetUniqueId(self, out: "ctypes._Pointer[UniqueId]") -> None:
        raise AssertionError("one process has no need of it")

    def ncclCommInitRankConfig(
        self, out: "ctypes._Pointer[c_void_p]", count: int, name: UniqueId, rank: int, config: "ctypes._Pointer[Config]"
    ) -> int | None:
        raise AssertionError("one process makes all communicators at once")

    def ncclCommAbort(self, communicator: int) -> None:
        del self.communicators[communicator]
        self.aborted += 1

    def ncclCommGetAsyncError(self, communicator: int, out: "ctypes._Pointer[c_int]") -> int | None:
        assert communicator in self.communicators
        out[0] = self.async_error

    def ncclGroupStart(self) -> None:
        assert self._grouped is None, "a group within a group"
        self._grouped = []

    def ncclGroupEnd(self) -> int | None:
        grouped, self._grouped = self._grouped, None
        assert grouped is not None
        by_rank: dict[int, list[_Called]] = {}
        for called in grouped:
            by_rank.setdefault(called.communicator.rank, []).append(called)
        devices = grouped[0].communicator.devices if grouped else ()
        if not grouped or len(by_rank) != len(devices):
            # What a failed call leaves of a group never runs.
            return
        streams = {called.stream for called in grouped}
        assert len(streams) == len(devices), "a stream for each rank"
        exchange = _Exchange(grouped)
        for rank in range(len(devices)):
            stream = self._stream(by_rank[rank][0].stream)
            exchange.records.append(stream.record())
            stream.enqueue(lambda: self._run(exchange))
        first = by_rank[0]
        sends = [call for call in grouped if call.name == "ncclSend"]
        name = "all_to_all" if len(sends) > 1 else sends[0].name if sends else first[0].name
        brought = sends if name == "ncclSend" else [call for call in first if call.name != "ncclRecv"]
        sent = sum(call.count * TYPES[call.type].itemsize for call in brought)
        if name == "ncclReduceScatter":
            sent *= len(devices)
        self.moved.append((name, sent))

    def _stream(self, handle: int) -> FakeStream:
        found = self.driver.streams.find(handle)
        assert found is not None, handle
        return found

    def ncclAllReduce(self, send: int, receive: int, count: int, type: int, operation: int, comm: int, s: int) -> None:
        self._add(_Called("ncclAllReduce", self.communicators[comm], s, send, receive, count, type, operation))

    def ncclReduceScatter(
        self, send: int, receive: int, count: int, type: int, operation: int, comm: int, s: int
    ) -> None:
        self._add(_Called("ncclReduceScatter", self.communicators[comm], s, send, receive, count, type, operation))

    def ncclAllGather(self, send: int, receive: int, count: int, type: int, comm: int, s: int) -> None:
        self._add(_Called("ncclAllGather", self.communicators[comm], s, send, receive, count, type))

    def ncclSend(self, send: int, count: int, type: int, peer: int, comm: int, s: int) -> None:
        self._add(_Called("ncclSend", self.communicators[comm], s, send, 0, count, type, peer))

    def ncclRecv(self, receive: int, count: int, type: int, peer: int, comm: int, s: int) -> None:
        self._add(_Called("ncclRecv", self.communicators[comm], s, 0, receive, count, type, peer))

    def _add(self, called: _Called) -> None:
        assert self._grouped is not None, "a call outside of a group"
        self._grouped.append(called)

    def _run(self, exchange: _Exchange) -> None:
        if exchange.is_done:
            return
        exchange.is_done = True
        for record in exchange.records:
            record.stream.run_until(record)
        calls = exchange.calls
        if calls[0].name in ("ncclSend", "ncclRecv"):
            self._send(calls)
            return
        assert len({(call.name, call.count, call.type, call.extra) for call in calls}) == 1, calls
        results = self._results(sorted(calls, key=lambda call: call.communicator.rank))
        for call, result in zip(sorted(calls, key=lambda call: call.communicator.rank), results, strict=True):
            self._view(call.receive, call.type, result.size)[:] = result

    def _results(self, calls: list[_Called]) -> list[np.ndarray]:
        """What each rank receives."""
        name, count, ranks = calls[0].name, calls[0].count, len(calls)
        whole = count * ranks if name == "ncclReduceScatter" else count
        sent = [self._view(call.send, call.type, whole).copy() for call in calls]
        if name == "ncclAllGather":
            return [np.concatenate(sent)] * ranks
        combined = sent[0]
        for other in sent[1:]:
            combined = OPERATIONS[calls[0].extra](combined, other)
        return np.split(combined, ranks) if name == "ncclReduceScatter" else [combined] * ranks

    def _send(self, calls: list[_Called]) -> None:
        sends = {(c.communicator.rank, c.extra): c for c in calls if c.name == "ncclSend"}
        receipts = {(c.extra, c.communicator.rank): c for c in calls if c.name == "ncclRecv"}
        assert sends.keys() == receipts.keys(), "sends without receipts"
        data = {pair: self._view(call.send, call.type, call.count).copy() for pair, call in sends.items()}
        for pair, call in receipts.items():
            self._view(call.receive, call.type, call.count)[:] = data[pair]

    def _view(self, address: int, type: int, count: int) -> np.ndarray:
        return self.driver.view(address, TYPES[type], (count,))
