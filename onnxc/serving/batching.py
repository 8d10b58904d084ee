"""Requests of one model in a queue, and calls of the model for one or several of them at a time.

There is no thread of the queue: a request that comes when fewer calls run than may leads, which means that its thread
makes a call for the requests at the head of the queue; the next leader is then the thread of a request that waits.
So a request that comes alone costs no change of threads, and those that come meanwhile are joined.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from onnxc.runtime.errors import OnnxcError
from onnxc.serving.serving_errors import ServingError
from onnxc.serving.statistics import Durations, Statistics

__all__ = ["Batcher", "BatchingRules", "Call", "Feed", "Request"]

Feed = Mapping[str, np.ndarray]
Call = Callable[[Feed], Feed]


def _always() -> bool:
    return True


@dataclass(frozen=True)
class BatchingRules:
    """max_rows: of a call, 1 where requests must not be joined. delay_ns: for how long a leader waits for others.

    max_queue: requests that may wait. instances: calls at a time. timeout_ns: of requests that say none; 0 is none.
    """

    max_rows: int
    delay_ns: int = 0
    max_queue: int = 64
    instances: int = 1
    timeout_ns: int = 0


@dataclass(eq=False)
class Request:
    """A request on its way. is_wanted: whether there is still a client; deadline_ns: by time.monotonic_ns, 0 for none.

    `joined` says which requests may be one call: those with the same inputs, alike but for their rows; None for those
    that are a call of their own. state: "queued", then "leads" or "taken"; "done" at the end.
    """

    feed: Feed
    rows: int
    joined: object
    deadline_ns: int = 0
    is_wanted: Callable[[], bool] = _always
    arrived_ns: int = field(default_factory=time.monotonic_ns)
    taken_ns: int = 0
    state: str = "queued"
    took: Durations = field(default_factory=partial(Durations, 0, 0, 0))
    outcome: Feed | Exception | None = None
    # Held until the state of a queued request changes; a plain lock wakes its thread in less time than an Event.
    turn: threading.Lock = field(default_factory=threading.Lock)


class Batcher:
    """The queue of one model."""

    def __init__(self, call: Call, rules: BatchingRules, statistics: Statistics) -> None:
        self._call, self._rules, self._statistics = call, rules, statistics
        self._lock = threading.Lock()
        self._arrival = threading.Condition(self._lock)
        self._queue: deque[Request] = deque()
        self._running = 0

    @property
    def pending(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    def infer(self, request: Request) -> Feed:
        """The outputs for a request; returns when they are there.

        Raises ServingError where the queue is full or the deadline passes before the call begins; else what the call
        raises for this request alone.
        """
        try:
            outcome = self._outcome(request)
            if isinstance(outcome, Exception):
                raise outcome
        except Exception:
            self._statistics.failed(time.monotonic_ns() - request.arrived_ns)
            raise
        now = time.monotonic_ns()
        queued_ns = request.taken_ns - request.arrived_ns
        self._statistics.answered(request.rows, now - request.arrived_ns, queued_ns, request.took)
        return outcome

    def _outcome(self, request: Request) -> Feed | Exception:
        self._enter(request)
        if request.state == "queued":
            self._wait(request)
        if request.state == "leads":
            self._lead(request)
        assert request.outcome is not None, request.state
        return request.outcome

    def _enter(self, request: Request) -> None:
        """The request leads if there is room for one more call, and waits in the queue if not."""
        with self._lock:
            if self._running < self._rules.instances:
                self._running += 1
                request.state = "leads"
                return
            if len(self._queue) >= self._rules.max_queue:
                message = f"{len(self._queue)} requests wait for this model already, no more may"
                raise ServingError(message, code="queue-full")
            request.turn.acquire()
            self._queue.append(request)
            self._arrival.notify()

    def _wait(self, request: Request) -> None:
        """Returns when the request leads or is done; raises when its deadline passes in the queue."""
        left = max(request.deadline_ns - time.monotonic_ns(), 0) / 1e9 if request.deadline_ns else -1
        if request.turn.acquire(timeout=left):
            return
        with self._lock:
            if request.state == "queued":
                self._queue.remove(request)
                raise _late()
        # It was taken at the last moment.
        request.turn.acquire()

    def _lead(self, leader: Request) -> None:
        """Makes a call for the leader and those that may be joined to it, then gives the lead to who waits."""
        with self._lock:
            self._gather(leader)
            batch = self._take(leader)
        try:
            self._execute(batch)
        finally:
            with self._lock:
                for request in batch:
                    self._finish(request, leader)
                self._hand_over()

    def _gather(self, leader: Request) -> None:
        """Waits for others to join, up to the delay that is allowed; the lock is held, but for the waiting."""
        if self._rules.delay_ns and self._rules.max_rows > 1:
            room = self._rules.max_rows - leader.rows
            enough = partial(_has_rows, self._queue, room)
            self._arrival.wait_for(enough, self._rules.delay_ns / 1e9)

    def _take(self, leader: Request) -> list[Request]:
        """The requests of the next call: the leader's, and those in the queue that may be joined to it."""
        batch, rows = [leader], leader.rows
        if leader.joined is not None:
            for request in tuple(self._queue):
                if request.joined == leader.joined and rows + request.rows <= self._rules.max_rows:
                    self._queue.remove(request)
                    request.state = "taken"
                    batch.append(request)
                    rows += request.rows
        now = time.monotonic_ns()
        for request in batch:
            request.taken_ns = now
        return batch

    def _finish(self, request: Request, leader: Request) -> None:
        if request.outcome is None:
            request.outcome = ServingError("the call was given up", code="server-busy")
        request.state = "done"
        if request is not leader:
            request.turn.release()

    def _hand_over(self) -> None:
        """The first request that waits leads from now on; without one, there is a call less."""
        if not self._queue:
            self._running -= 1
            return
        heir = self._queue.popleft()
        heir.state = "leads"
        heir.turn.release()

    def _execute(self, batch: Sequence[Request]) -> None:
        """Sets the outcome of each request: that of a call for all, or of one for each where that one fails."""
        wanted = [request for request in batch if not _refuse(request)]
        if not wanted:
            return
        try:
            self._run(wanted)
        except Exception as problem:
            if len(wanted) == 1:
                wanted[0].outcome = problem
                return
            for request in wanted:
                self._execute([request])

    def _run(self, batch: Sequence[Request]) -> None:
        started = time.monotonic_ns()
        feed = batch[0].feed if len(batch) == 1 else _joined(batch)
        joined = time.monotonic_ns()
        outputs = self._call(feed)
        called = time.monotonic_ns()
        parts = [outputs] if len(batch) == 1 else _taken_apart(outputs, batch)
        took = Durations(joined - started, called - joined, time.monotonic_ns() - called)
        self._statistics.executed(sum(request.rows for request in batch), took)
        for request, part in zip(batch, parts, strict=True):
            request.took, request.outcome = took, part


def _has_rows(queue: Iterable[Request], wanted: int) -> bool:
    return sum(request.rows for request in queue) >= wanted


def _refuse(request: Request) -> bool:
    """Whether nobody waits for the answer any more; the request then has its error."""
    if request.deadline_ns and time.monotonic_ns() > request.deadline_ns:
        request.outcome = _late()
    elif not request.is_wanted():
        request.outcome = ServingError("the client has gone", code="client-gone")
    return request.outcome is not None


def _late() -> OnnxcError:
    return ServingError("the deadline of the request passed in the queue", code="deadline-exceeded")


def _joined(batch: Sequence[Request]) -> Feed:
    return {name: np.concatenate([request.feed[name] for request in batch]) for name in batch[0].feed}


def _taken_apart(outputs: Feed, batch: Sequence[Request]) -> list[Feed]:
    """The rows of each request, as views."""
    parts: list[Feed] = []
    start = 0
    for request in batch:
        stop = start + request.rows
        parts.append({name: array[start:stop] for name, array in outputs.items()})
        start = stop
    return parts
