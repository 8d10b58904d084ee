"""All ranks as one of them sees them: calls that all make together, and what becomes of those that fail."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from onnxc.runtime.devices.device_threads import exchange_seconds, of_device
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.program import JsonValue
from onnxc.runtime.ranks.connections import Address, connect_all, listener
from onnxc.runtime.ranks.exchanges import RankExchanges
from onnxc.runtime.ranks.health import Failure, Health, RankFailed, failure_of
from onnxc.runtime.ranks.mpi_link import MpiLink, open_link
from onnxc.runtime.ranks.termination import answer_sigterm, part_at_exit
from onnxc.runtime.ranks.watch import SILENCE_S, Watch

__all__ = ["World", "connect"]


class World:
    """The ranks of MPI, connected; rank i is device i.

    sharers: how many of them have the same processors as this one. local_rank: how many of those before it are on its
    host.
    """

    def __init__(self, link: MpiLink) -> None:
        self.rank, self.size, self._link = link.rank, link.size, link
        self._everyone = tuple(range(link.size))
        self._lock, self._caller, self._completed = threading.Lock(), 0, 0
        self._health: Health | None = None
        self.exchanges = RankExchanges(self.rank, link, exchange_seconds(), self._failure)
        gathered = self._gather_json([socket.gethostname(), os.getpid(), sorted(os.sched_getaffinity(0))])
        about = list(map(_as_list, gathered))
        processors = [(host, cpus) for host, _, cpus in about]
        self.sharers = processors.count(processors[self.rank])
        hosts = [host for host, _ in processors]
        self.local_rank = hosts[: self.rank].count(hosts[self.rank])
        is_local = len(set(map(str, hosts))) == 1
        listening, own = listener(self.size, is_local=is_local)
        sockets = connect_all(self.rank, listening, self._addresses, own)
        names = {
            rank: f"device {rank} (process {process} on {host})"
            for rank, (host, process, _) in enumerate(about)
            if rank != self.rank
        }
        health = self._health = Health(names, SILENCE_S, time.monotonic())
        self._watch = Watch(sockets, health, self._pending)
        answer_sigterm(lambda: health.failure(self.exchanges.call) is not None)
        part_at_exit(self._part)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Within it all ranks do the same; what one of them raises is raised by all, with the device named.

        A call within a call is a part of it. Raises InputError where another thread is in one: nothing would say
        which of two calls at once is which of another rank.
        """
        if self._caller == threading.get_ident():
            yield
            return
        if not self._lock.acquire(blocking=False):
            message = "another thread is in a call of the ranks; these calls are made one after the other"
            raise InputError(message, code="overlapping-calls")
        self._caller = threading.get_ident()
        try:
            self._begin()
            yield
            self._completed = self.exchanges.call
        except RankFailed as relayed:
            self._tell(relayed.failure)
            raise relayed.failure.error() from None
        except Exception as problem:
            named = of_device(self.rank, problem)
            self._tell(failure_of(self.exchanges.call, named))
            raise named from problem
        except BaseException as problem:
            # Who is interrupted raises just that.
            self._tell(failure_of(self.exchanges.call, of_device(self.rank, problem)))
            raise
        finally:
            self._caller = 0
            self._lock.release()

    def expect_equal(self, text: str) -> None:
        """Raises DeviceError unless every rank has come with the same text: the identity of its artifact."""
        texts = self._gather_json(text)
        others = [rank for rank, each in enumerate(texts) if each != texts[0]]
        if others:
            listed = ", ".join(map(str, others))
            raise DeviceError(f"device {listed} has another artifact than device 0", code="artifacts-differ")

    def meet(self, name: str) -> None:
        """Returns when all ranks have come to this, so that what one of them lacks is an error in all."""
        self.gather(np.zeros(0, np.uint8), name)

    def gather(self, array: np.ndarray, name: str) -> list[np.ndarray]:
        """What each rank has come with, in order; `name` says what for, and is the same on all."""
        return self.exchanges.swap(self._everyone, name, [array] * self.size)

    def _begin(self) -> None:
        call = self.exchanges.begin()
        assert self._health is not None, self
        self._health.begin(call)
        failure = self._health.failure(call)
        if failure is not None:
            raise RankFailed(failure)

    def _tell(self, failure: Failure) -> None:
        """Tells all others why this call cannot be completed."""
        assert self._health is not None, self
        self._health.note(failure)
        self._watch.tell(failure.line())

    def _failure(self, call: int, awaited: Sequence[int]) -> Failure | None:
        return None if self._health is None else self._health.failure(call, awaited)

    def _pending(self) -> Failure | None:
        """What ends not only the call that runs, but all that could follow."""
        return self._health.failure(None, self._everyone) if self._caller and self._health is not None else None

    def _part(self) -> bool:
        """Whether MPI can be finalized, which waits for all ranks and for all that was sent."""
        return self._watch.part(self._completed, exchange_seconds()) and self._link.is_idle()

    def _gather_json(self, value: JsonValue) -> list[JsonValue]:
        """What each rank has come with."""
        data = np.frombuffer(json.dumps(value).encode(), np.uint8)
        return [json.loads(text.tobytes()) for text in self.gather(data, "gather")]

    def _addresses(self, own: Address) -> list[Address]:
        gathered = self._gather_json([own.host, own.port, own.secret])
        return [Address(str(host), int(str(port)), str(secret)) for host, port, secret in map(_as_list, gathered)]


def _as_list(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list), value
    return value


_connecting = threading.Lock()
_worlds: list[World] = []


def connect() -> World:
    """The ranks that this process is one of, connected at the first call. Raises DeviceError."""
    with _connecting:
        if not _worlds:
            _worlds.append(World(open_link()))
        return _worlds[0]
