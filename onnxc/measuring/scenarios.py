"""Scenarios of load, after those of MLPerf Inference: each makes calls and says how long they took.

single-stream: one caller, who calls again when the answer is there. multi-stream: several such callers at once.
offline: all calls are there at the start, and what counts is when the last one is done. server: calls come when they
come, as a Poisson process, and each is to be answered within a bound.
"""

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from onnxc.measuring.latency import latency_of
from onnxc.runtime.records import record

__all__ = [
    "MULTI_STREAM", "OFFLINE", "SCENARIOS", "SERVER", "SINGLE_STREAM", "Call", "Sample", "run_callers", "run_offline",
    "serve", "served_rate",
]  # fmt: skip

Call = Callable[[], object]

SINGLE_STREAM, MULTI_STREAM, OFFLINE, SERVER = SCENARIOS = ("single-stream", "multi-stream", "offline", "server")

SEARCH_STEPS = 6
"""Halvings of the rate that a server is searched in: the last one is 1/64 of the throughput, near the noise of runs."""


@record
class Sample:
    """The seconds of each call, and of all together from the first begin to the last end."""

    latencies: tuple[float, ...]
    seconds: float

    @property
    def calls_per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def __add__(self, other: "Sample") -> "Sample":
        return Sample(self.latencies + other.latencies, self.seconds + other.seconds)


def run_callers(call: Call, callers: int, seconds: float) -> Sample:
    """Calls by so many callers at once, each back to back, for at least so long and at least once each."""

    def one_caller(latencies: list[float], started: float) -> None:
        while not latencies or time.perf_counter() - started < seconds:
            before = time.perf_counter()
            call()
            latencies.append(time.perf_counter() - before)

    return _in_threads(one_caller, callers)


def run_offline(call: Call, count: int, workers: int) -> Sample:
    """So many calls that are all there at the start; a latency is the time of the call itself."""
    return _answer(call, [0.0] * count, workers, waiting_counts=False)


def serve(call: Call, rate: float, workers: int, seconds: float, seed: int) -> Sample:
    """Calls that arrive at `rate` a second on average, served in their order; a latency runs from the arrival.

    Who waits for a worker waits within its latency, so a rate that is too high shows.
    """
    count = max(1, round(rate * seconds))
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count)).tolist()
    return _answer(call, arrivals, workers, waiting_counts=True)


def _answer(call: Call, arrivals: Sequence[float], workers: int, *, waiting_counts: bool) -> Sample:
    """Calls that arrive at these seconds, answered by so many workers."""
    remaining, lock = iter(arrivals), threading.Lock()

    def one_worker(latencies: list[float], started: float) -> None:
        while True:
            with lock:
                arrival = next(remaining, None)
            if arrival is None:
                return
            wait = started + arrival - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            begun = started + arrival if waiting_counts else time.perf_counter()
            call()
            latencies.append(time.perf_counter() - begun)

    return _in_threads(one_worker, workers)


def served_rate(
    call: Call, throughput: float, bound: float, workers: int, seconds: float, seed: int
) -> tuple[float, Sample | None]:
    """The highest rate found at which 99 of 100 calls are answered within `bound` seconds, and its calls.

    It is searched below `throughput` by halving, each try for `seconds`; 0 and None where no rate that was tried holds.
    """
    low, high, best = 0.0, throughput, None
    for step in range(SEARCH_STEPS):
        rate = (low + high) / 2
        sample = serve(call, rate, workers, seconds, seed + step)
        if latency_of(sample.latencies).p99 <= bound:
            low, best = rate, sample
        else:
            high = rate
    return low, best


def _in_threads(work: Callable[[list[float], float], None], count: int) -> Sample:
    """What threads that begin together append; what one of them raises is raised."""
    latencies: list[list[float]] = [[] for _ in range(count)]
    problems: list[Exception] = []
    started = time.perf_counter()

    def guarded(own: list[float]) -> None:
        try:
            work(own, started)
        except Exception as problem:  # of the thread, whatever it is, to be raised by who waits for it
            problems.append(problem)

    if count == 1:
        work(latencies[0], started)
    else:
        threads = [threading.Thread(target=guarded, args=(own,)) for own in latencies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if problems:
        raise problems[0]
    return Sample(tuple(latency for own in latencies for latency in own), time.perf_counter() - started)
