"""The queue of a model: who is joined, who waits, who is refused. Tests hold the calls, so nothing is by chance."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from onnxc.serving.batching import Batcher, BatchingRules, Feed, Request
from onnxc.serving.serving_errors import ServingError
from onnxc.serving.statistics import Statistics

SECONDS = 10


class HeldModel:
    """y = 2 x, where -1 in x is an error; a call waits for `release`. `calls` are the rows of each."""

    def __init__(self, rules: BatchingRules) -> None:
        self.calls: list[int] = []
        self.entered, self.release = threading.Semaphore(0), threading.Semaphore(0)
        self.statistics = Statistics()
        self.batcher = Batcher(self._call, rules, self.statistics)
        self.threads = ThreadPoolExecutor(8)

    def _call(self, feed: Feed) -> Feed:
        self.calls.append(len(feed["x"]))
        self.entered.release()
        assert self.release.acquire(timeout=SECONDS)
        if (feed["x"] == -1).any():
            raise InputError("a row is -1", code="index-out-of-range")
        return {"y": 2 * feed["x"]}

    def send(self, values: Sequence[float], joined: object = 1, **named: object) -> "Future[Feed]":
        """The answer to come; returns when the request waits, or leads."""
        request = Request({"x": np.array(values)}, len(values), joined, **named)  # type: ignore[arg-type]
        waiting = self.batcher.pending
        answer = self.threads.submit(self.batcher.infer, request)
        wait_until(lambda: answer.done() or request.state == "leads" or self.batcher.pending > waiting)
        return answer


def wait_until(holds: Callable[[], bool]) -> None:
    last = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < last
        time.sleep(0.001)


def held(**rules: int) -> tuple[HeldModel, "Future[Feed]"]:
    """A model that is in the midst of a call."""
    model = HeldModel(BatchingRules(**{"max_rows": 4, "max_queue": 4, **rules}))
    first = model.send([1])
    assert model.entered.acquire(timeout=SECONDS)
    return model, first


def test_what_comes_during_a_call_is_one_call_and_each_gets_its_own_rows() -> None:
    model, first = held()
    others = [model.send(values) for values in ([2], [3, 4], [5])]
    model.release.release(2)
    assert [answer.result(SECONDS)["y"].tolist() for answer in (first, *others)] == [[2], [4], [6, 8], [10]]
    assert model.calls == [1, 4]
    assert model.statistics.totals() == (5, 2)


def test_only_what_fits_together_is_joined() -> None:
    model, first = held()
    answers = [model.send([2], "a"), model.send([3], "b"), model.send([4, 5, 6, 7], "a"), model.send([8], None)]
    model.release.release(9)
    results = [answer.result(SECONDS)["y"].tolist() for answer in (first, *answers)]
    assert results == [[2], [4], [6], [8, 10, 12, 14], [16]]
    assert sorted(model.calls) == [1, 1, 1, 1, 4]


def test_a_bad_request_does_not_spoil_those_it_was_joined_with() -> None:
    model, first = held()
    answers = [model.send([2]), model.send([-1]), model.send([3])]
    model.release.release(9)
    assert [answers[i].result(SECONDS)["y"].tolist() for i in (0, 2)] == [[4], [6]]
    with pytest.raises(InputError, match="a row is -1"):
        answers[1].result(SECONDS)
    assert first.result(SECONDS)["y"].tolist() == [2]


def test_more_than_may_wait_are_refused_at_once() -> None:
    model, _ = held(max_queue=2)
    waiting = [model.send([2]), model.send([3])]
    with pytest.raises(ServingError) as problem:
        model.send([4]).result(SECONDS)
    assert problem.value.code == "queue-full"
    model.release.release(9)
    assert [answer.result(SECONDS)["y"].tolist() for answer in waiting] == [[4], [6]]


def test_a_deadline_that_passes_in_the_queue_is_an_error_and_the_place_is_free_again() -> None:
    model, _ = held(max_queue=1)
    with pytest.raises(ServingError) as problem:
        model.send([2], deadline_ns=time.monotonic_ns() + 1).result(SECONDS)
    assert problem.value.code == "deadline-exceeded"
    last = model.send([3])
    model.release.release(9)
    assert last.result(SECONDS)["y"].tolist() == [6]


def test_nothing_is_computed_for_a_client_that_has_gone() -> None:
    model, _ = held()
    gone = model.send([2], is_wanted=lambda: False)
    model.release.release(9)
    with pytest.raises(ServingError) as problem:
        gone.result(SECONDS)
    assert problem.value.code == "client-gone"
    assert model.calls == [1]


def test_as_many_calls_run_as_there_are_instances() -> None:
    model, first = held(instances=2)
    second = model.send([2])
    assert model.entered.acquire(timeout=SECONDS)
    third = model.send([3])
    assert model.batcher.pending == 1
    model.release.release(9)
    assert [answer.result(SECONDS)["y"].tolist() for answer in (first, second, third)] == [[2], [4], [6]]


def test_many_threads_lose_and_mix_up_nothing() -> None:
    model = HeldModel(BatchingRules(max_rows=8, max_queue=64))
    model.release.release(10**6)
    with ThreadPoolExecutor(16) as threads:
        requests = [Request({"x": np.arange(i, i + 1 + i % 3)}, 1 + i % 3, 1) for i in range(600)]
        answers = list(threads.map(model.batcher.infer, requests))
    assert all(np.array_equal(answer["y"], 2 * r.feed["x"]) for answer, r in zip(answers, requests, strict=True))
    assert model.batcher.pending == 0
    assert model.statistics.totals()[0] == sum(request.rows for request in requests)
