"""Requests of one model in a queue, and calls of the model for one or several of them at a time.

Any thread may ask. The first to ask where nobody waits looks, at the end of its round, at what has come by then. If a
short call is the next, it makes that itself, one in a round, so that it goes on reading, or, for many requests, has it
made beside it by native code, and looks between what it reads whether that has ended; else, and for what comes while
a call runs, a thread of the queue does. To change threads costs a short call more than it gains, also under load: of
5,600 requests of bert_tiny a second, which came at random, half were answered within 3.2 ms where two at a time sent
for a thread, and are within 0.6 (two cores of Zen 5, clients on the same).

A call takes no more rows than make a row cheaper (`row_times.py`). With all that wait in one call nothing would be
read or answered while it is computed, and nothing computed while its requests are answered and ask again: of 64 clients
of bert_tiny 6,600 requests a second were answered where a call took all, and 9,000 are; of mnist_cnn 7,000 and 8,900.

One lock guards the queue and the number of workers, which are the threads that make calls; it is held for no call and
no answer. Two things hold whenever it is free:

* A request is in the queue, or was taken out by one: a worker that takes it for a call, the alarm when its deadline
  has passed, `withdraw`. The first two give its outcome, the third gives none. So each has one outcome or none.
* While requests wait, a worker is there or to come. One leaves, under the lock, only when it finds the queue empty, and
  sends for another in its place else, or looks again at the end of its round; a call that is made beside the thread
  that asks counts as one, and when it has ended that thread does as one. Who puts a request where there are fewer
  than may be sends for one, too. Where there is none, who puts the first request looks at the end of its round. Nothing
  can make it forget that: the loop of asyncio calls what it has been given, as does the one of gRPC, which ends only
  when it has.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from onnxc.runtime.records import record
from onnxc.serving.row_times import LEAST_ROWS, CallTimes
from onnxc.serving.serving_errors import ServingError
from onnxc.serving.statistics import Durations, Statistics

__all__ = [
    "Asker",
    "Batcher",
    "BatchingRules",
    "Begin",
    "Begun",
    "Call",
    "Done",
    "Feed",
    "KnownCall",
    "Request",
    "Shapes",
]

Feed = Mapping[str, np.ndarray]
Call = Callable[[Feed], Feed]
Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""Of inputs, by name."""

Done = Callable[[Feed | Exception], None]
"""Is given the outcome of a request, once, by any thread; it raises nothing."""


class Begun(Protocol):
    """A call that goes on beside the thread that began it. took_ns: known with its outputs."""

    took_ns: int

    def has_ended(self) -> bool:
        """Whether it does no more."""

    def outputs(self) -> Feed:
        """The outputs; raises what the call does."""


Begin = Callable[[Feed], Begun | None]
"""Begins a call of the model; None where another is to make it. Raises what is wrong with the feed."""


@record
class Asker:
    """The thread that asks. later: does work on it, when it has read all that has come for it.

    watch: does the second on it soon after the first is true; None for a thread that does not look meanwhile.
    """

    later: Callable[[Callable[[], None]], object]
    watch: Callable[[Callable[[], bool], Callable[[], None]], object] | None = None


SHORT_CALL_NS, SHORT_ROW_NS = 500_000, 100_000
"""A call that is expected to take less, the second for each request beyond the first, is made by the thread that asks.

To hand a call to a thread and its result back took 230 us of the time of an otherwise empty request (gRPC, one client,
two cores); nothing else that comes by the same thread gets on for longer than this. To read a request and to answer it
takes that thread 85 us, so that calls of many are not what it does most of.
"""
MANY_REQUESTS, LEAST_BESIDE_NS, LONGER_BESIDE = 8, 100_000, 4
"""From so many requests on a call is made beside the thread that asks, where that can look whether it has ended, and
has others to read or answer meanwhile, if it is expected to take so long, and not so many times as long as a short one.

It looks all the time, which a call of few is not worth: two hardware threads of a core share what it takes. To begin a
call takes longer than to make a very short one: of mlp_tiny 64 clients got 0.93 as many answers.
"""

_KNOWN_KINDS = 256
"""Of how many kinds of requests a queue remembers how long calls took."""

_LONGEST_ALARM_NS = 10**9
"""After which the alarm looks whether anything waits still: it holds the model until then."""


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


def _forget(outcome: Feed | Exception) -> None:
    """What is done of a request that nobody has asked yet."""


class Kind(NamedTuple):
    """What requests have in common whose rows take the same time: all shapes, or, where they may be joined, of rows."""

    shapes: Shapes | None
    joined: Shapes | None


@dataclass(eq=False)
class Request:
    """A request on its way. deadline_ns: by time.monotonic_ns, 0 for none.

    `joined` says which requests may be one call, by the shapes of their rows: those with the same inputs, alike but for
    how many rows; None for those that are a call of their own. `shapes`: of all inputs, None where nobody knows.
    """

    feed: Feed
    rows: int
    joined: Shapes | None = None
    shapes: Shapes | None = None
    deadline_ns: int = 0
    arrived_ns: int = field(default_factory=time.monotonic_ns)
    done: Done = _forget

    @property
    def kind(self) -> Kind | None:
        """What requests have in common whose rows take the same time; None where nobody knows."""
        if self.joined is not None:
            return Kind(None, self.joined)
        return None if self.shapes is None else Kind(self.shapes, None)


class KnownCall(NamedTuple):
    """A call for requests of a kind, and how long one of so many rows takes."""

    ns: float
    rows: int
    kind: Kind

    def shapes(self, rows: int) -> Mapping[str, Sequence[int]]:
        """Of the inputs of such a call of so many rows, unless it is of a kind that is never joined."""
        if self.kind.joined is not None:
            return {name: (rows, *shape) for name, shape in self.kind.joined}
        return dict(self.kind.shapes or ())


class _Execution(NamedTuple):
    """What a call gave for its requests, in order: a feed for each, or an error."""

    batch: Sequence[Request]
    outcomes: Sequence[Feed | Exception]
    took: Durations

    @property
    def rows(self) -> int:
        return sum(request.rows for request in self.batch)


class Batcher:
    """The queue of one model."""

    def __init__(self, call: Call, rules: BatchingRules, statistics: Statistics, begin: Begin | None = None) -> None:
        self._call, self._rules, self._statistics, self._begin = call, rules, statistics, begin
        # Threads are made when they are needed, and end when the model has gone: for each call at a time one that makes
        # it, and one that answers those of the call before.
        self._threads = ThreadPoolExecutor(2 * rules.instances, "onnxc call")
        self._lock = threading.Lock()
        self._comes = threading.Condition(self._lock)
        self._queue: deque[Request] = deque()
        self._workers = 0
        self._alarm_ns = 0
        self._times: dict[Kind, CallTimes] = {}

    @property
    def pending(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    async def infer(self, request: Request) -> Feed:
        """The outputs for a request, on a loop of asyncio.

        Raises ServingError where the queue is full or the deadline passes before the call begins; else what the call
        raises for this request alone. A request that is cancelled leaves the queue.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Feed] = loop.create_future()

        def done(outcome: Feed | Exception) -> None:
            # A loop that has ended has nobody who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, answer, outcome)

        request.done = done
        self.submit(request, Asker(loop.call_soon))
        try:
            return await answer
        finally:
            if answer.cancelled():
                self.withdraw(request)

    def known_calls(self) -> Sequence[KnownCall]:
        """The calls of which it is known how long they take, the shortest first."""
        with self._lock:
            calls = [
                KnownCall(ns, rows, kind)
                for kind, times in self._times.items()
                for rows, ns in times.called.known().items()
            ]
        return sorted(calls, key=lambda call: call.ns)

    def rehearse(self, kind: Kind, rows: int, feed: Feed) -> None:
        """Makes a call that nobody has asked for, to know how long it takes. Raises what it does."""
        started_ns = time.monotonic_ns()
        self._call(feed)
        took_ns = time.monotonic_ns() - started_ns
        with self._lock:
            self._times_of(kind).called.note(rows, took_ns)

    def submit(self, request: Request, asker: Asker) -> None:
        """Puts a request into the queue; ServingError where that is full. Its `done` is called with the outcome."""
        rules = self._rules
        with self._lock:
            at_once = max(rules.instances - self._workers, 0)
            if len(self._queue) >= rules.max_queue + at_once:
                message = f"{len(self._queue)} requests wait for this model already, no more may"
                self._statistics.failed(time.monotonic_ns() - request.arrived_ns)
                raise ServingError(message, code="queue-full")
            is_first = not self._workers and not self._queue
            is_another = 0 < self._workers < rules.instances
            self._workers += is_another
            self._queue.append(request)
            if self._workers and request.deadline_ns:
                self._expect_alarm(request.deadline_ns)
            # A worker that waits for more may have enough now.
            self._comes.notify()
        if is_first:
            asker.later(partial(self._look, asker))
        elif is_another:
            self._threads.submit(self._work)

    def withdraw(self, request: Request) -> bool:
        """Whether the request still waited; it is then forgotten."""
        with self._lock:
            if request not in self._queue:
                return False
            self._queue.remove(request)
            request.done = _forget
            return True

    def _expect_alarms(self) -> None:
        """From now on the alarm rings for all that wait. The lock is held."""
        deadlines = [request.deadline_ns for request in self._queue if request.deadline_ns]
        if deadlines:
            self._expect_alarm(min(deadlines))

    def _expect_alarm(self, due_ns: int) -> None:
        """From now on the alarm rings at that time at the latest. The lock is held."""
        now = time.monotonic_ns()
        due_ns = min(due_ns, now + _LONGEST_ALARM_NS)
        if 0 < self._alarm_ns <= due_ns:
            return
        self._alarm_ns = due_ns
        alarm = threading.Timer(max(due_ns - now, 0) / 1e9, self._ring, (due_ns,))
        alarm.daemon = True
        alarm.start()

    def _ring(self, due_ns: int) -> None:
        """Those whose deadlines passed while they waited have their error; `due_ns` tells one alarm from another."""
        with self._lock:
            if self._alarm_ns != due_ns:
                return
            now = time.monotonic_ns()
            late = [request for request in self._queue if 0 < request.deadline_ns <= now]
            for request in late:
                self._queue.remove(request)
            self._alarm_ns = 0
            self._expect_alarms()
        for request in late:
            problem = ServingError("the deadline of the request passed in the queue", code="deadline-exceeded")
            self._fail(request, problem)

    def _look(self, asker: Asker, *, has_answers: bool = False) -> None:
        """Makes or begins a short call for what has come, or sends for the workers that what has come wants."""
        with self._lock:
            if self._workers or not self._queue:
                return
            batch, begins = self._short_batch(asker, has_answers)
            self._workers = 1 if batch else min(len(self._queue), self._rules.instances)
            workers = 0 if batch else self._workers
            self._expect_alarms()
        for _ in range(workers):
            self._threads.submit(self._work)
        if batch:
            self._serve(batch, asker, begins=begins)

    def _work(self) -> None:
        """Makes a call for what waits."""
        batch = self._next()
        if batch:
            self._serve(batch)

    def _next(self) -> Sequence[Request]:
        """The requests of the next call, when it is due; none where nothing waits, and the worker has left."""
        with self._lock:
            while self._queue:
                left_ns = self._opens_ns() - time.monotonic_ns()
                if left_ns <= 0:
                    return self._take()
                self._comes.wait(left_ns / 1e9)
            self._workers -= 1
            return ()

    def _opens_ns(self) -> int:
        """Until when the first request waits for others, by time.monotonic_ns."""
        rules = self._rules
        if not rules.delay_ns or sum(request.rows for request in self._queue) >= rules.max_rows:
            return 0
        return self._queue[0].arrived_ns + rules.delay_ns

    def _take(self) -> Sequence[Request]:
        """Takes the requests of the next call out of the queue. The lock is held."""
        batch, self._queue = self._next_batch(None)
        return batch

    def _next_batch(self, asker: Asker | None) -> tuple[Sequence[Request], deque[Request]]:
        """The requests of the next call, the first that waits and those that may be joined to it; and all others.

        asker: who makes or begins it, if it has asked.
        """
        first, *rest = self._queue
        batch, rows = [first], first.rows
        most = self._most_rows(first.kind, asker)
        others: deque[Request] = deque()
        for request in rest:
            if first.joined is not None and request.joined == first.joined and rows + request.rows <= most:
                batch.append(request)
                rows += request.rows
            else:
                others.append(request)
        return batch, others

    def _most_rows(self, kind: Kind | None, asker: Asker | None) -> int:
        """How many rows the next call of a kind may have."""
        most, times = self._rules.max_rows, self._times.get(kind) if kind is not None else None
        if times is None:
            return most
        is_worth = self._may_begin(asker) and _is_worth_beginning(
            times.expected_ns(LEAST_ROWS, beside=True), LEAST_ROWS
        )
        return times.enough_rows_beside(most) if is_worth else times.called.enough_rows(most)

    def _short_batch(self, asker: Asker, has_answers: bool) -> tuple[Sequence[Request], bool]:
        """Takes the requests of the next call if it is known to be so short that the thread that asks makes it.

        And whether it begins it: where it has something to do meanwhile. The lock is held.
        """
        batch, others = self._next_batch(asker)
        kind = batch[0].kind
        times = None if kind is None else self._times.get(kind)
        if self._rules.delay_ns or times is None:
            return (), False
        count, rows = len(batch), sum(each.rows for each in batch)
        may_begin = (has_answers or bool(others)) and count >= MANY_REQUESTS and self._may_begin(asker)
        begins = may_begin and _is_worth_beginning(times.expected_ns(rows, beside=True), count)
        if not begins and times.called.expected_ns(rows) >= _short_ns(count):
            return (), False
        self._queue = others
        return batch, begins

    def _serve(self, batch: Sequence[Request], asker: Asker | None = None, *, begins: bool = False) -> None:
        """Makes the call of a batch and answers its requests. asker: who does it, if it has asked, or begins it."""
        taken_ns = time.monotonic_ns()
        if asker is None or not begins or not self._begins(batch, taken_ns, asker):
            self._go_on(self._executions(batch), taken_ns, asker)

    def _may_begin(self, asker: Asker | None) -> bool:
        return self._begin is not None and asker is not None and asker.watch is not None

    def _begins(self, batch: Sequence[Request], taken_ns: int, asker: Asker) -> bool:
        """Whether the call of a batch goes on beside the thread that asks, which answers its requests later.

        What is wrong with it is for the call to say that is made then.
        """
        if self._begin is None or asker.watch is None:
            return False
        try:
            feed = _joined(batch)
            joined_ns = time.monotonic_ns()
            begun = self._begin(feed)
        except Exception:
            return False
        if begun is not None:
            asker.watch(begun.has_ended, partial(self._end, begun, batch, taken_ns, joined_ns, asker))
        return begun is not None

    def _end(self, begun: Begun, batch: Sequence[Request], taken_ns: int, joined_ns: int, asker: Asker) -> None:
        """Answers the requests of a call that has ended; where there are many others, their call begins before."""
        try:
            outputs = begun.outputs()
            executions = [self._execution(batch, outputs, joined_ns - taken_ns, begun.took_ns)]
        except Exception:
            executions = self._executions(batch)
        self._go_on(executions, taken_ns, asker, was_begun=True)

    def _go_on(
        self, executions: Sequence[_Execution], taken_ns: int, asker: Asker | None, *, was_begun: bool = False
    ) -> None:
        """Answers the requests of a call.

        The next call begins before: while those of one are answered and ask again, those of another are computed. One
        that has asked looks for it when it has read what came meanwhile, unless it is for many and no call may be begun
        beside it. Where nothing waits when the call has ended, the worker has left before it answers: who asks again is
        alone.
        """
        with self._lock:
            for execution in executions:
                self._note(execution, beside=was_begun and len(executions) == 1)
            is_more = bool(self._queue)
            are_many = is_more and len(self._next_batch(asker)[0]) >= LEAST_ROWS
            looks = asker if is_more and (self._may_begin(asker) or not are_many) else None
            self._workers -= not is_more or looks is not None
        if looks is not None:
            if was_begun and are_many:
                self._look(looks, has_answers=True)
            else:
                looks.later(partial(self._look, looks))
        elif is_more:
            self._threads.submit(self._work)
        for execution in executions:
            self._answer(execution, taken_ns)

    def _answer(self, execution: _Execution, taken_ns: int) -> None:
        now = time.monotonic_ns()
        for request, outcome in zip(execution.batch, execution.outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._fail(request, outcome)
                continue
            waited = taken_ns - request.arrived_ns
            self._statistics.answered(request.rows, now - request.arrived_ns, waited, execution.took)
            _give(request, outcome)

    def _fail(self, request: Request, problem: Exception) -> None:
        self._statistics.failed(time.monotonic_ns() - request.arrived_ns)
        _give(request, problem)

    def _note(self, execution: _Execution, *, beside: bool) -> None:
        """Keeps how long the rows of a call took, unless it failed. The lock is held."""
        kind = execution.batch[0].kind
        if kind is None or not execution.took.infer_ns:
            return
        times = self._times_of(kind)
        (times.beside if beside else times.called).note(execution.rows, execution.took.infer_ns)

    def _times_of(self, kind: Kind) -> CallTimes:
        """What is known of the calls of a kind. The lock is held."""
        if kind not in self._times and len(self._times) >= _KNOWN_KINDS:
            self._times.clear()
        return self._times.setdefault(kind, CallTimes())

    def _executions(self, batch: Sequence[Request]) -> list[_Execution]:
        """A call for all requests, or one for each where that one fails."""
        try:
            return [self._called(batch)]
        except Exception as problem:
            outcome = problem
        except BaseException as problem:
            # As sys.exit() of a function that a model calls, which must end neither the loop nor the thread.
            outcome = ServingError(f"the call was given up: {type(problem).__name__}", code="server-busy")
        if len(batch) == 1:
            return [_Execution(batch, [outcome], Durations(0, 0, 0))]
        return [execution for request in batch for execution in self._executions([request])]

    def _called(self, batch: Sequence[Request]) -> _Execution:
        started_ns = time.monotonic_ns()
        feed = batch[0].feed if len(batch) == 1 else _joined(batch)
        joined_ns = time.monotonic_ns()
        outputs = self._call(feed)
        return self._execution(batch, outputs, joined_ns - started_ns, time.monotonic_ns() - joined_ns)

    def _execution(self, batch: Sequence[Request], outputs: Feed, input_ns: int, infer_ns: int) -> _Execution:
        """What a call gave, which took so long, as did making its feed."""
        called_ns = time.monotonic_ns()
        parts = [outputs] if len(batch) == 1 else _taken_apart(outputs, batch)
        took = Durations(input_ns, infer_ns, time.monotonic_ns() - called_ns)
        execution = _Execution(batch, parts, took)
        self._statistics.executed(execution.rows, took)
        return execution


def _short_ns(requests: int) -> int:
    """A call for so many requests that is expected to take less is made by the thread that asks."""
    return SHORT_CALL_NS + SHORT_ROW_NS * (requests - 1)


def _is_worth_beginning(expected_ns: float, requests: int) -> bool:
    """Whether a call for so many requests is made beside the thread that asks, which has something to do meanwhile."""
    return LEAST_BESIDE_NS <= expected_ns < LONGER_BESIDE * _short_ns(requests)


def _give(request: Request, outcome: Feed | Exception) -> None:
    # Who is asked may hold the request; a cycle of both would wait for the collector of garbage.
    done, request.done = request.done, _forget
    done(outcome)


def _settle(answer: "asyncio.Future[Feed]", outcome: Feed | Exception) -> None:
    """Ends the wait for an answer, unless its client has gone."""
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


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
