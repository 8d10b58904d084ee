"""Scenarios of load on calls that are known: who calls, how often, and what counts as latency."""

import threading
import time

import pytest

from onnxc.measuring.latency import Latency, latency_of
from onnxc.measuring.scenarios import Sample, run_callers, run_offline, serve, served_rate


class Counted:
    """A call that notes its threads, and how many of it run at once."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.count, self.running, self.most = seconds, 0, 0, 0
        self.threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.count += 1
            self.running += 1
            self.most = max(self.most, self.running)
            self.threads.add(threading.current_thread())
        time.sleep(self.seconds)
        with self._lock:
            self.running -= 1


def test_percentiles_are_latencies_of_calls() -> None:
    seconds = [k / 1000 for k in range(100, 0, -1)]
    assert latency_of(seconds) == Latency(0.001, pytest.approx(0.0505), 0.05, 0.09, 0.095, 0.099)  # type: ignore[arg-type]
    assert latency_of([2.0]) == Latency(2.0, 2.0, 2.0, 2.0, 2.0, 2.0)


@pytest.mark.parametrize("callers", [1, 3])
def test_each_caller_calls_one_after_another_and_at_least_once(callers: int) -> None:
    call = Counted(0.001)
    sample = run_callers(call, callers, 0.0)
    assert (len(sample.latencies), call.count, len(call.threads)) == (callers, callers, callers)
    longer = run_callers(call, callers, 0.05)
    assert len(longer.latencies) > callers
    assert longer.seconds >= 0.05
    assert call.most <= callers


def test_offline_makes_every_call_once_with_as_many_at_a_time_as_there_are_workers() -> None:
    call = Counted(0.002)
    sample = run_offline(call, 20, 4)
    assert (call.count, len(sample.latencies)) == (20, 20)
    assert 2 <= call.most <= 4


def test_waiting_for_a_worker_counts_for_a_server() -> None:
    call = Counted(0.01)
    sample = serve(call, rate=10_000, workers=1, seconds=0.001, seed=0)
    # Ten calls come within a millisecond; the last of them waits for the nine before it.
    assert call.count == 10
    assert max(sample.latencies) >= 0.09


def test_arrivals_are_the_same_for_the_same_seed_and_come_at_the_rate() -> None:
    sample = serve(lambda: None, rate=1000, workers=2, seconds=0.2, seed=3)
    assert len(sample.latencies) == 200
    assert sample.seconds > 0.1


def test_the_rate_of_a_server_is_searched_below_what_it_could_do_at_most() -> None:
    rate, sample = served_rate(lambda: None, 500.0, bound=10.0, workers=2, seconds=0.02, seed=0)
    # Every try holds: the search ends one step of 1/64 below the throughput.
    assert rate == pytest.approx(500 * 63 / 64)
    assert sample is not None
    none, nothing = served_rate(lambda: time.sleep(0.001), 500.0, bound=1e-6, workers=2, seconds=0.002, seed=0)
    assert (none, nothing) == (0.0, None)


@pytest.mark.parametrize("callers", [1, 2])
def test_what_a_call_raises_is_raised(callers: int) -> None:
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_callers(fails, callers, 0.1)


def test_samples_add_up() -> None:
    both = Sample((1.0, 2.0), 3.0) + Sample((3.0,), 3.0)
    assert (both.latencies, both.seconds, both.calls_per_second) == ((1.0, 2.0, 3.0), 6.0, 0.5)
