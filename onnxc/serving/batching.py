"""Requests of one model in a queue, and calls of the model for one or several of them at a time.

All of a queue but the calls themselves happens on one event loop, so it needs no lock. What comes while calls run is
joined in the next one. A call is made by a thread, which leaves the loop free to read what comes meanwhile; only one
request that is alone, of sizes whose last call was short, is computed on the loop: to change threads costs it more.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from onnxc.runtime.records import record
from onnxc.serving.serving_errors import ServingError
from onnxc.serving.statistics import Durations, Statistics

__all__ = ["Batcher", "BatchingRules", "Call", "Feed", "Request"]

Feed = Mapping[str, np.ndarray]
Call = Callable[[Feed], Feed]

SHORT_CALL_NS = 500_000
"""A call that takes less is made on the loop if it is alone.

To hand a call to a thread and its result back took 230 us of the time of an otherwise empty request (gRPC, one client,
two cores); nothing else of the server gets on for longer than this.
"""
CROWD_NS = 100_000_000
"""For how long after two requests were there at a time no call is made on the loop.

Under load the loop is what there is least of; and what comes while a thread calls is joined.
"""
_KNOWN_SHAPES = 256
"""Of how many sizes a queue remembers how long a call took."""


@record
class BatchingRules:
    """max_rows: of a call, 1 where requests must not be joined. delay_ns: for how long the first waits for others.

    max_queue: requests that may wait. instances: calls at a time. timeout_ns: of requests that say none; 0 is none.
    """

    max_rows: int
    delay_ns: int = 0
    max_queue: int = 64
    instances: int = 1
    timeout_ns: int = 0


@dataclass(eq=False)
class Request:
    """A request on its way. deadline_ns: by time.monotonic_ns, 0 for none.

    `joined` says which requests may be one call: those with the same inputs, alike but for their rows; None for those
    that are a call of their own. `shapes`: of all inputs, None where nobody knows.
    """

    feed: Feed
    rows: int
    joined: Hashable = None
    shapes: Hashable = None
    deadline_ns: int = 0
    arrived_ns: int = field(default_factory=time.monotonic_ns)
    answer: "asyncio.Future[Feed]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    expiry: asyncio.TimerHandle | None = None


class _Execution(NamedTuple):
    """What a call gave for its requests, in order: a feed for each, or an error."""

    batch: Sequence[Request]
    outcomes: Sequence[Feed | Exception]
    took: Durations


class Batcher:
    """The queue of one model. Every method is called on one loop."""

    def __init__(self, call: Call, rules: BatchingRules, statistics: Statistics) -> None:
        self._call, self._rules, self._statistics = call, rules, statistics
        # Threads are made when they are needed, and end when the model has gone.
        self._threads = ThreadPoolExecutor(rules.instances, "onnxc call")
        self._queue: deque[Request] = deque()
        self._running = 0
        self._is_due = False
        self._opening: asyncio.TimerHandle | None = None
        self._last_ns: dict[Hashable, int] = {}
        self._crowded_until_ns = 0

    @property
    def pending(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    async def infer(self, request: Request) -> Feed:
        """The outputs for a request.

        Raises ServingError where the queue is full or the deadline passes before the call begins; else what the call
        raises for this request alone. A request that is cancelled leaves the queue.
        """
        try:
            self._enter(request)
            return await request.answer
        except Exception:
            self._statistics.failed(time.monotonic_ns() - request.arrived_ns)
            raise
        finally:
            if request.expiry is not None:
                request.expiry.cancel()
            if request.answer.cancelled() and request in self._queue:
                self._queue.remove(request)

    def _enter(self, request: Request) -> None:
        if self._running >= self._rules.instances and len(self._queue) >= self._rules.max_queue:
            message = f"{len(self._queue)} requests wait for this model already, no more may"
            raise ServingError(message, code="queue-full")
        if self._running or self._queue:
            self._crowded_until_ns = request.arrived_ns + CROWD_NS
        self._queue.append(request)
        loop = request.answer.get_loop()
        if request.deadline_ns:
            left = (request.deadline_ns - time.monotonic_ns()) / 1e9
            request.expiry = loop.call_later(max(left, 0), self._expire, request)
        if self._running < self._rules.instances and not self._is_due:
            # What comes in the same round of the loop is joined.
            self._is_due = True
            loop.call_soon(self._serve, loop)

    def _expire(self, request: Request) -> None:
        """Called when the deadline passes: what still waits then has its error."""
        if request in self._queue:
            self._queue.remove(request)
            _give(request, ServingError("the deadline of the request passed in the queue", code="deadline-exceeded"))

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins as many calls as may run, for the requests at the head of the queue."""
        self._is_due = False
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        while self._queue and self._running < self._rules.instances:
            left_ns = self._opens_ns() - time.monotonic_ns()
            if left_ns > 0:
                self._opening = loop.call_later(left_ns / 1e9, self._serve, loop)
                return
            self._begin(self._take(), loop)

    def _opens_ns(self) -> int:
        """Until when the first request waits for others, by time.monotonic_ns."""
        rules = self._rules
        if not rules.delay_ns or sum(request.rows for request in self._queue) >= rules.max_rows:
            return 0
        return self._queue[0].arrived_ns + rules.delay_ns

    def _take(self) -> list[Request]:
        """The requests of the next call: the first that waits, and those that may be joined to it."""
        first = self._queue.popleft()
        batch, rows = [first], first.rows
        if first.joined is None:
            return batch
        kept: deque[Request] = deque()
        for request in self._queue:
            if request.joined == first.joined and rows + request.rows <= self._rules.max_rows:
                batch.append(request)
                rows += request.rows
            else:
                kept.append(request)
        self._queue = kept
        return batch

    def _begin(self, batch: Sequence[Request], loop: asyncio.AbstractEventLoop) -> None:
        self._running += 1
        taken_ns = time.monotonic_ns()
        is_alone = taken_ns > self._crowded_until_ns
        if is_alone and self._last_ns.get(batch[0].shapes, SHORT_CALL_NS) < SHORT_CALL_NS:
            self._settle(self._executions(batch), taken_ns, loop)
            return

        def work() -> None:
            executions = self._executions(batch)
            loop.call_soon_threadsafe(self._settle, executions, taken_ns, loop)

        self._threads.submit(work)

    def _settle(self, executions: Sequence[_Execution], taken_ns: int, loop: asyncio.AbstractEventLoop) -> None:
        """Begins the next call, and then answers the requests of this one."""
        self._running -= 1
        if self._queue:
            self._serve(loop)
        for execution in executions:
            self._answer(execution, taken_ns)

    def _answer(self, execution: _Execution, taken_ns: int) -> None:
        now = time.monotonic_ns()
        for request, outcome in zip(execution.batch, execution.outcomes, strict=True):
            if not isinstance(outcome, Exception):
                waited = taken_ns - request.arrived_ns
                self._statistics.answered(request.rows, now - request.arrived_ns, waited, execution.took)
                if len(execution.batch) == 1:
                    self._remember(request, execution.took.infer_ns)
            _give(request, outcome)

    def _remember(self, request: Request, took_ns: int) -> None:
        if request.shapes is not None:
            if len(self._last_ns) >= _KNOWN_SHAPES:
                self._last_ns.clear()
            self._last_ns[request.shapes] = took_ns

    def _executions(self, batch: Sequence[Request]) -> list[_Execution]:
        """A call for all requests, or one for each where that one fails."""
        try:
            return [self._execution(batch)]
        except Exception as problem:
            outcome = problem
        except BaseException as problem:
            # As sys.exit() of a function that a model calls, which must end neither the loop nor the thread.
            outcome = ServingError(f"the call was given up: {type(problem).__name__}", code="server-busy")
        if len(batch) == 1:
            return [_Execution(batch, [outcome], Durations(0, 0, 0))]
        return [execution for request in batch for execution in self._executions([request])]

    def _execution(self, batch: Sequence[Request]) -> _Execution:
        started = time.monotonic_ns()
        feed = batch[0].feed if len(batch) == 1 else _joined(batch)
        joined = time.monotonic_ns()
        outputs = self._call(feed)
        called = time.monotonic_ns()
        parts = [outputs] if len(batch) == 1 else _taken_apart(outputs, batch)
        took = Durations(joined - started, called - joined, time.monotonic_ns() - called)
        self._statistics.executed(sum(request.rows for request in batch), took)
        return _Execution(batch, parts, took)


def _give(request: Request, outcome: Feed | Exception) -> None:
    """Ends the request, unless its client has gone."""
    if request.answer.done():
        return
    if isinstance(outcome, Exception):
        request.answer.set_exception(outcome)
    else:
        request.answer.set_result(outcome)


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
