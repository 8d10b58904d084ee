"""The queue of a model in every order of the threads that use it: nothing is lost, and nothing has two outcomes."""

import threading
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from onnxc.serving import batching
from onnxc.serving.batching import Asker, Batcher, BatchingRules, Feed, Request
from onnxc.serving.row_times import RowTimes
from onnxc.serving.serving_errors import ServingError
from onnxc.serving.statistics import Statistics
from tests.serving.lock_turns import TurnLock, Turns, every_order

PASSED_NS = 1
FAULTY = 9


class Scene:
    """A queue whose locks, threads and alarms are those of `turns`; y = 2 x.

    begins: whether calls are begun, however few requests they are for; the end of each is seen at some time.
    """

    def __init__(self, turns: Turns, monkeypatch: pytest.MonkeyPatch, *, begins: bool = False, **rules: int) -> None:
        def timer(after_s: float, work: Callable[..., None], arguments: tuple[int]) -> SimpleNamespace:
            return SimpleNamespace(start=lambda: turns.start(lambda: work(*arguments)))

        def pool(count: int, name: str) -> SimpleNamespace:
            return SimpleNamespace(submit=turns.start)

        locks = SimpleNamespace(Lock=lambda: TurnLock(turns), Condition=threading.Condition, Timer=timer)
        monkeypatch.setattr(batching, "threading", locks)
        monkeypatch.setattr(batching, "ThreadPoolExecutor", pool)
        monkeypatch.setattr(batching, "SHORT_CALL_NS", 10**12)
        self.turns, self.statistics = turns, Statistics()
        monkeypatch.setattr(batching, "MANY_REQUESTS", 1)
        if begins:
            monkeypatch.setattr(batching, "LEAST_ROWS", 1)
            monkeypatch.setattr(batching, "LEAST_BESIDE_NS", 0)
        limits, begin = BatchingRules(**{"max_rows": 4, "max_queue": 2, **rules}), self._begin if begins else None
        self.batcher = Batcher(self._call, limits, self.statistics, begin)
        self.begun = 0
        self._calls, self._most_calls = 0, rules.get("instances", 1)
        self.outcomes: dict[int, list[Feed | Exception]] = {}
        self.withdrawn: set[int] = set()
        # A first request, whose call tells that those of its sizes are short.
        self.ask(0)
        turns.run(in_any_order=False)
        assert len(self.outcomes[0]) == 1

    def _call(self, feed: Feed) -> Feed:
        self._calls += 1
        assert self._calls <= self._most_calls
        if self._most_calls == 1:
            self.turns.pause()
        self._calls -= 1
        return {"y": 2 * feed["x"]}

    def _begin(self, feed: Feed) -> SimpleNamespace | None:
        self._calls += 1
        assert self._calls <= self._most_calls
        self.begun += 1

        def outputs() -> Feed:
            self._calls -= 1
            if FAULTY in feed["x"]:
                raise InputError("faulty", code="index-out-of-range")
            return {"y": 2 * feed["x"]}

        return SimpleNamespace(has_ended=lambda: True, outputs=outputs, took_ns=1)

    def ask(self, value: int, deadline_ns: int = 0, *, goes: bool = False) -> None:
        """A thread that asks, and does at the end of its round what it was given; then its client may go."""
        outcomes: list[Feed | Exception] = []
        self.outcomes[value] = outcomes

        due: list[Callable[[], None]] = []

        def end_round() -> None:
            while due:
                due.pop(0)()

        def ended(work: Callable[[], None]) -> None:
            work()
            end_round()

        def watch(has_ended: Callable[[], bool], work: Callable[[], None]) -> None:
            self.turns.start(lambda: ended(work))

        def asking() -> None:
            request = Request(
                {"x": np.array([value])}, 1, (("x", ()),), (("x", (1,)),), deadline_ns, done=outcomes.append
            )
            try:
                self.batcher.submit(request, Asker(due.append, watch))
            except ServingError as problem:
                outcomes.append(problem)
            end_round()
            if goes and self.batcher.withdraw(request):
                self.withdrawn.add(value)

        self.turns.start(asking)

    def end(self) -> dict[int, str]:
        """What became of each request, once all threads have ended; nothing is left, and each has one outcome."""
        self.turns.run()
        assert self.batcher.pending == 0
        assert self.batcher._workers == 0
        told = {}
        for value, outcomes in self.outcomes.items():
            assert len(outcomes) == (value not in self.withdrawn), (value, outcomes)
            told[value] = "withdrawn" if value in self.withdrawn else self._told(value, outcomes[0])
        return told

    def _told(self, value: int, outcome: Feed | Exception) -> str:
        if isinstance(outcome, ServingError):
            return outcome.code
        assert not isinstance(outcome, Exception), outcome
        assert outcome["y"].tolist() == [2 * value]
        return "answered"


def ends(
    monkeypatch: pytest.MonkeyPatch, begin: Callable[[Scene], None], *, begins: bool = False, **rules: int
) -> tuple[int, set[str]]:
    """How many orders there are, and all that became of requests in any of them."""
    seen: set[str] = set()
    begun: list[int] = []

    def run(turns: Turns) -> None:
        with monkeypatch.context() as patches:
            scene = Scene(turns, patches, begins=begins, **rules)
            begin(scene)
            seen.update(scene.end().values())
            begun.append(scene.begun)

    count = sum(1 for _ in every_order(run))
    assert (max(begun) > 0) == begins
    return count, seen


def ask_twice(scene: Scene) -> None:
    scene.ask(1)
    scene.ask(2)


@pytest.mark.parametrize("max_rows", [1, 2])
def test_all_that_ask_are_answered(max_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count, seen = ends(monkeypatch, ask_twice, max_rows=max_rows)
    assert seen == {"answered"}
    assert count > 30


@pytest.mark.parametrize("max_rows", [1, 2])
def test_all_whose_calls_are_begun_are_answered(max_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask_thrice(scene: Scene) -> None:
        for value in (1, 2, 3):
            scene.ask(value)

    count, seen = ends(monkeypatch, ask_thrice, begins=True, max_rows=max_rows, max_queue=3)
    assert seen == {"answered"}
    assert count > 100


def test_a_begun_call_that_fails_is_made_again_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(scene: Scene) -> None:
        for value in (1, FAULTY, 3):
            scene.ask(value)

    count, seen = ends(monkeypatch, begin, begins=True, max_rows=2, max_queue=3)
    assert seen == {"answered"}
    assert count > 100


def test_what_a_call_leaves_in_the_queue_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowTimes, "enough_rows", lambda times, most: 1)
    count, seen = ends(monkeypatch, ask_twice)
    assert seen == {"answered"}
    assert count > 30


def test_two_calls_at_a_time_are_of_different_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    count, seen = ends(monkeypatch, ask_twice, instances=2)
    assert seen == {"answered"}
    assert count > 30


def test_who_goes_has_an_outcome_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(scene: Scene) -> None:
        scene.ask(1)
        scene.ask(2, goes=True)

    count, seen = ends(monkeypatch, begin)
    assert seen == {"answered", "withdrawn"}
    assert count > 100


def test_a_deadline_passes_or_the_call_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(scene: Scene) -> None:
        scene.ask(1)
        scene.ask(2, PASSED_NS)

    count, seen = ends(monkeypatch, begin)
    assert seen == {"answered", "deadline-exceeded"}
    assert count > 100


def test_where_the_queue_is_full_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    count, seen = ends(monkeypatch, ask_twice, max_queue=0)
    assert seen == {"answered", "queue-full"}
    assert count > 30
