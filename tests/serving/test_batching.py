"""The queue of a model: who is joined, who waits, who is refused. Tests hold the calls, so nothing is by chance."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from onnxc.serving import batching
from onnxc.serving.batching import Asker, Batcher, BatchingRules, Feed, Kind, Request, Shapes
from onnxc.serving.row_times import LEAST_ROWS, RowTimes
from onnxc.serving.serving_errors import ServingError
from onnxc.serving.statistics import Statistics

pytestmark = pytest.mark.anyio

SECONDS = 10

Answer = Awaitable[Feed]

ROW: Shapes = (("x", ()),)
OTHER: Shapes = (("x", (2,)),)


def rows_of(count: int) -> Shapes:
    return (("x", (count,)),)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class HeldModel:
    """y = 2 x, where -1 in x is an error, and -2 wants to end the process; a call waits for `release`.

    `calls` are the rows of each.
    """

    def __init__(self, **rules: int) -> None:
        self.calls: list[int] = []
        self.callers: list[threading.Thread] = []
        self.entered, self.release = threading.Semaphore(0), threading.Semaphore(0)
        self.statistics = Statistics()
        self.batcher = Batcher(self._call, BatchingRules(**{"max_rows": 4, "max_queue": 4, **rules}), self.statistics)

    def _call(self, feed: Feed) -> Feed:
        self.calls.append(len(feed["x"]))
        self.callers.append(threading.current_thread())
        self.entered.release()
        assert self.release.acquire(timeout=SECONDS)
        if (feed["x"] == -2).any():
            raise SystemExit
        if (feed["x"] == -1).any():
            raise InputError("a row is -1", code="index-out-of-range")
        return {"y": 2 * feed["x"]}

    async def infer(self, values: Sequence[float], joined: Shapes | None = ROW, deadline_ns: int = 0) -> Feed:
        request = Request({"x": np.array(values)}, len(values), joined, rows_of(len(values)), deadline_ns)
        return await self.batcher.infer(request)

    async def send(
        self, values: Sequence[float], joined: Shapes | None = ROW, deadline_ns: int = 0
    ) -> "asyncio.Task[Feed]":
        """The answer to come; returns when the request is in the queue, or was refused."""
        answer = asyncio.ensure_future(self.infer(values, joined, deadline_ns))
        await asyncio.sleep(0)
        return answer

    async def is_called(self) -> None:
        assert await asyncio.to_thread(self.entered.acquire, timeout=SECONDS)

    async def held(self) -> "asyncio.Task[Feed]":
        """The answer to a first request, which is in the midst of its call."""
        first = await self.send([1])
        await self.is_called()
        return first


async def values_of(*answers: Answer) -> list[list[float]]:
    async with asyncio.timeout(SECONDS):
        return [answer["y"].tolist() for answer in await asyncio.gather(*answers)]


async def code_of(answer: Answer) -> str:
    with pytest.raises(ServingError) as problem:
        await answer
    return problem.value.code


async def test_what_comes_during_a_call_is_one_call_and_each_gets_its_own_rows() -> None:
    model = HeldModel()
    answers = [await model.held(), *[await model.send(values) for values in ([2], [3, 4], [5])]]
    model.release.release(2)
    assert await values_of(*answers) == [[2], [4], [6, 8], [10]]
    assert model.calls == [1, 4]
    assert model.statistics.totals() == (5, 2)


async def test_a_call_takes_no_more_rows_than_make_a_row_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowTimes, "enough_rows", lambda times, most: 2)
    model = HeldModel()
    answers = [await model.held(), *[await model.send(values) for values in ([2], [3], [4], [5, 6, 7])]]
    model.release.release(9)
    assert await values_of(*answers) == [[2], [4], [6], [8], [10, 12, 14]]
    assert model.calls == [1, 2, 1, 3]


async def test_only_what_fits_together_is_joined() -> None:
    model = HeldModel()
    sent = (([2], ROW), ([3], OTHER), ([4, 5, 6, 7], ROW), ([8], None))
    answers = [await model.held(), *[await model.send(values, joined) for values, joined in sent]]
    model.release.release(9)
    assert await values_of(*answers) == [[2], [4], [6], [8, 10, 12, 14], [16]]
    assert model.calls == [1, 1, 1, 4, 1]


async def test_a_bad_request_does_not_spoil_those_it_was_joined_with() -> None:
    model = HeldModel()
    first, *answers = [await model.held(), *[await model.send(values) for values in ([2], [-1], [3])]]
    model.release.release(9)
    with pytest.raises(InputError, match="a row is -1"):
        await answers[1]
    assert await values_of(first, answers[0], answers[2]) == [[2], [4], [6]]


@pytest.mark.parametrize("short_ns", [0, SECONDS * 10**9])
async def test_a_call_that_wants_to_end_the_process_ends_but_its_request(
    short_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread, and on the loop."""
    monkeypatch.setattr(batching, "SHORT_CALL_NS", short_ns)
    model = HeldModel()
    model.release.release(9)
    await model.infer([1])
    assert await code_of(model.infer([-2])) == "server-busy"
    assert await values_of(model.infer([3])) == [[6]]


async def test_more_than_may_wait_are_refused_at_once() -> None:
    model = HeldModel(max_queue=2)
    await model.held()
    waiting = [await model.send([2]), await model.send([3])]
    assert await code_of(await model.send([4])) == "queue-full"
    model.release.release(9)
    assert await values_of(*waiting) == [[4], [6]]
    assert model.statistics.requests()["fail"].count == 1


async def test_a_deadline_that_passes_in_the_queue_is_an_error_and_leaves_room_for_another() -> None:
    model = HeldModel(max_queue=1)
    await model.held()
    assert await code_of(await model.send([2], deadline_ns=time.monotonic_ns() + 1)) == "deadline-exceeded"
    last = await model.send([3])
    model.release.release(9)
    assert await values_of(last) == [[6]]
    assert model.calls == [1, 1]


async def test_nothing_is_computed_for_a_client_that_has_gone() -> None:
    model = HeldModel(max_queue=1)
    first, gone = await model.held(), await model.send([2])
    gone.cancel()
    with suppress(asyncio.CancelledError):
        await gone
    last = await model.send([3])
    model.release.release(9)
    assert await values_of(first, last) == [[2], [6]]
    assert model.calls == [1, 1]


async def test_who_goes_during_the_call_harms_nobody() -> None:
    model = HeldModel()
    first, gone, kept = await model.held(), await model.send([2]), await model.send([3])
    model.release.release()
    await model.is_called()
    gone.cancel()
    model.release.release()
    assert await values_of(first, kept) == [[2], [6]]
    assert model.calls == [1, 2]


async def test_as_many_calls_run_as_there_are_instances() -> None:
    model = HeldModel(instances=2)
    first, second = await model.held(), await model.send([2])
    await model.is_called()
    third = await model.send([3])
    assert model.batcher.pending == 1
    model.release.release(9)
    assert await values_of(first, second, third) == [[2], [4], [6]]


async def test_the_first_waits_for_others_as_long_as_the_rules_say_or_until_the_call_is_full() -> None:
    model = HeldModel(delay_ns=3600 * 10**9)
    model.release.release(9)
    early = [await model.send([1, 2]), await model.send([3])]
    assert model.calls == []
    assert await values_of(*early, await model.send([4])) == [[2, 4], [6], [8]]
    assert model.calls == [4]
    soon = HeldModel(delay_ns=1)
    soon.release.release(9)
    assert await values_of(await soon.send([1])) == [[2]]


async def test_a_call_that_is_known_to_be_short_is_made_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "SHORT_CALL_NS", SECONDS * 10**9)
    model, here = HeldModel(), threading.current_thread()
    model.release.release(99)
    for _ in range(3):
        await model.infer([1])
    # The first of a kind is not known to be short, and an error says nothing of how long a call takes.
    assert [caller is here for caller in model.callers] == [False, True, True]
    for _ in range(2):
        with pytest.raises(InputError):
            await model.infer([-1, -1], None)
    assert here not in model.callers[3:]


@pytest.mark.parametrize(
    ("joined", "calls", "here"),
    [(ROW, [16, 16, 8], [True, False, False]), (None, [1] * 40, [True] * 40)],
    ids=["joined", "each alone"],
)
async def test_of_one_round_what_takes_few_rows_is_called_on_the_loop_and_a_second_call_of_many_by_another_thread(
    joined: Shapes | None, calls: Sequence[int], here: Sequence[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "SHORT_CALL_NS", SECONDS * 10**9)
    model = HeldModel(max_rows=LEAST_ROWS, max_queue=40)
    model.release.release(99)
    await model.infer([0], joined)
    assert await values_of(*(model.infer([value], joined) for value in range(40))) == [[2 * i] for i in range(40)]
    assert model.calls[1:] == calls
    assert [caller is threading.current_thread() for caller in model.callers[1:]] == here


async def test_between_calls_on_the_loop_it_does_what_else_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others ask all the time, so that the queue is never empty: the loop is not theirs for that."""
    monkeypatch.setattr(batching, "SHORT_CALL_NS", SECONDS * 10**9)
    model = HeldModel(max_queue=9)
    model.release.release(999)
    await model.infer([0], None)
    seen: list[int] = []

    async def ask_on_and_on() -> None:
        while len(model.calls) < 50:
            await model.infer([1], None)

    async def look() -> None:
        while len(model.calls) < 50:
            seen.append(len(model.calls))
            await asyncio.sleep(0)

    await asyncio.gather(look(), *(ask_on_and_on() for _ in range(4)))
    assert set(range(2, 50)) <= set(seen)


async def test_a_request_of_which_nobody_knows_the_sizes_is_called_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "SHORT_CALL_NS", SECONDS * 10**9)
    model = HeldModel()
    model.release.release(9)
    for _ in range(3):
        await model.batcher.infer(Request({"x": np.array([1])}, 1))
    assert threading.current_thread() not in model.callers


@pytest.mark.parametrize(("row_ns", "is_here"), [(90_000, True), (110_000, False)])
async def test_what_many_rows_may_take_on_the_loop_grows_with_them(
    row_ns: int, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six requests the limit is 500 us and five times 100."""
    monkeypatch.setattr(RowTimes, "expected_ns", lambda times, rows: rows * row_ns * 10 / 6)
    model, here = HeldModel(max_rows=6, max_queue=6), threading.current_thread()
    model.release.release(99)
    await model.infer([0])
    await asyncio.gather(*(model.infer([value]) for value in range(6)))
    assert model.calls == [1, 6]
    assert (model.callers[-1] is here) == is_here


async def test_of_what_comes_in_one_round_no_more_waits_than_may() -> None:
    model = HeldModel(max_queue=2)
    model.release.release(99)
    outcomes = await asyncio.gather(*(model.infer([value]) for value in range(4)), return_exceptions=True)
    assert [isinstance(outcome, ServingError) for outcome in outcomes] == [False, False, False, True]


async def test_many_requests_lose_and_mix_up_nothing() -> None:
    model = HeldModel(max_rows=8, max_queue=600, instances=3)
    model.release.release(10**6)
    requests = [Request({"x": np.arange(i, i + 1 + i % 3)}, 1 + i % 3, ROW) for i in range(600)]
    answers = await asyncio.gather(*map(model.batcher.infer, requests))
    assert all(np.array_equal(answer["y"], 2 * r.feed["x"]) for answer, r in zip(answers, requests, strict=True))
    assert model.batcher.pending == 0
    assert model.statistics.totals()[0] == sum(request.rows for request in requests)


async def test_a_rehearsed_call_is_known_like_one_that_was_asked_for() -> None:
    model = HeldModel()
    model.release.release(9)
    kind = Kind(None, ROW)
    model.batcher.rehearse(kind, 4, {"x": np.zeros(4)})
    model.batcher.rehearse(Kind(OTHER, None), 1, {"x": np.zeros(1)})
    await model.infer([1, 2])
    assert model.calls == [4, 1, 2]
    known = model.batcher.known_calls()
    assert sorted(call[1:] for call in known) == [(1, Kind(OTHER, None)), (2, kind), (4, kind)]
    assert [call.ns for call in known] == sorted(call.ns for call in known)
    assert model.statistics.totals()[0] == 2


class BegunModel(HeldModel):
    """A model whose calls may be begun, and asked by this thread, which looks at the ends of rounds of `looks`.

    begun: the rows of each call that was.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, may_begin: bool = True, max_rows: int = LEAST_ROWS) -> None:
        monkeypatch.setattr(batching, "SHORT_CALL_NS", SECONDS * 10**9)
        monkeypatch.setattr(batching, "LEAST_BESIDE_NS", 0)
        super().__init__(max_rows=max_rows, max_queue=200)
        self.release.release(10**6)
        self.may_begin, self.begun, self.events = may_begin, list[int](), list[str]()
        self.batcher = Batcher(self._call, self.batcher._rules, self.statistics, self._begin)
        self._later: list[Callable[[], None]] = []
        self._watched: list[tuple[Callable[[], bool], Callable[[], None]]] = []

    def _begin(self, feed: Feed) -> SimpleNamespace | None:
        if not self.may_begin:
            return None
        self.begun.append(len(feed["x"]))
        self.events.append(f"begun {len(feed['x'])}")
        return SimpleNamespace(has_ended=lambda: True, outputs=lambda: self._call(feed), took_ns=160 * len(feed["x"]))

    def ask(self, count: int, rows: int = 1, *, watches: bool = True) -> list[Feed | Exception]:
        """What becomes of so many requests, in the order in which that is known; the rows of request k are k."""
        outcomes: list[Feed | Exception] = []

        def done(outcome: Feed | Exception) -> None:
            self.events.append("answered")
            outcomes.append(outcome)

        watch = (lambda has_ended, work: self._watched.append((has_ended, work))) if watches else None
        asker = Asker(self._later.append, watch)
        for value in range(count):
            self.batcher.submit(Request({"x": np.array([value] * rows)}, rows, ROW, rows_of(rows), done=done), asker)
        last = time.monotonic() + SECONDS
        while len(outcomes) < count:
            assert time.monotonic() < last
            due, self._later[:] = self._later.copy(), []
            for work in due:
                work()
            for each in self._watched.copy():
                assert each[0]()
                self._watched.remove(each)
                each[1]()
        return outcomes


def rows(outcomes: Sequence[Feed | Exception]) -> list[list[float]]:
    return sorted(outcome["y"].tolist() for outcome in outcomes if not isinstance(outcome, Exception))


async def test_short_calls_of_many_are_begun_and_the_next_before_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BegunModel(monkeypatch)
    model.ask(1)
    assert model.begun == []
    model.events.clear()
    assert rows(model.ask(40)) == [[2 * k] for k in range(40)]
    # Beside the last there is nothing to do.
    assert model.begun == [16, 16]
    answers = ["answered"] * 16
    assert model.events == ["begun 16", "begun 16", *answers, *answers, *answers[:8]]
    assert model.calls == [1, 16, 16, 8]


@pytest.mark.parametrize(
    ("count", "rows_each", "watches", "begun"),
    [(9, 2, True, [16]), (9, 3, True, []), (8, 2, True, []), (9, 2, False, [])],
    ids=["eight and another", "five and four", "eight", "nobody looks"],
)
async def test_a_call_is_begun_for_many_where_others_wait(
    count: int, rows_each: int, begun: Sequence[int], monkeypatch: pytest.MonkeyPatch, *, watches: bool
) -> None:
    model = BegunModel(monkeypatch)
    model.ask(1)
    assert rows(model.ask(count, rows_each, watches=watches)) == [[2 * k] * rows_each for k in range(count)]
    assert model.begun == begun


async def test_where_nothing_can_be_begun_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BegunModel(monkeypatch, may_begin=False)
    model.ask(1)
    assert rows(model.ask(40)) == [[2 * k] for k in range(40)]
    assert model.calls == [1, 16, 16, 8]


async def test_a_begun_call_that_fails_fails_for_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BegunModel(monkeypatch)
    model.ask(1)
    call = model._call

    def faulty(feed: Feed) -> Feed:
        if (feed["x"] == 3).any():
            raise InputError("a row is 3", code="index-out-of-range")
        return call(feed)

    monkeypatch.setattr(model, "_call", faulty)
    monkeypatch.setattr(model.batcher, "_call", faulty)
    outcomes = model.ask(17)
    assert model.begun == [16]
    assert rows(outcomes) == [[2 * k] for k in range(17) if k != 3]
    assert sum(isinstance(outcome, InputError) for outcome in outcomes) == 1


async def test_how_long_begun_calls_take_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BegunModel(monkeypatch)
    model.ask(1)
    model.ask(17)
    assert model.begun == [16]
    assert model.statistics.totals() == (18, 3)
    times = model.batcher._times[Kind(None, ROW)]
    assert set(times.called._row_ns) == {0}
    # By the thread that made it.
    assert times.beside._row_ns == {4: 160}


async def test_calls_beside_leave_others_until_more_are_known_to_make_a_row_cheaper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = BegunModel(monkeypatch, max_rows=64)
    model.ask(1)
    model.ask(40)
    assert model.begun == [16, 16]
    times = model.batcher._times[Kind(None, ROW)].beside
    for row_ns, begun in ((1.1 * 40_000 + 49_000, [16] * 6), (1.1 * 40_000 + 51_000, [64, 36])):
        monkeypatch.setattr(times, "_row_ns", {4: row_ns, 6: 40_000})
        monkeypatch.setattr(times, "note", lambda rows, ns: None)
        model.begun.clear()
        model.ask(100)
        assert model.begun == begun


@pytest.mark.parametrize(
    ("row_ns", "begun"),
    [(99_000 // 16, []), (101_000 // 16, [16]), (7_900_000 // 16, [16]), (8_100_000 // 16, [])],
)
async def test_a_call_beside_is_neither_very_short_nor_four_times_as_long_as_a_short_one(
    row_ns: int, begun: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 16 requests the limit is four times 500 us and 15 times 100."""
    model = BegunModel(monkeypatch)
    monkeypatch.setattr(batching, "SHORT_CALL_NS", 500_000)
    monkeypatch.setattr(batching, "LEAST_BESIDE_NS", 100_000)
    monkeypatch.setattr(RowTimes, "expected_ns", lambda times, rows: rows * row_ns)
    model.ask(1)
    model.ask(17)
    assert model.begun == begun
