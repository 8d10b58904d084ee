"""The roofline of the machine: how many operations, and how many bytes of a working set, threads get through at most.

Both are measured here: bandwidth by copies, operations by a function that every image has.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from onnxc.runtime.cpu import Image
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["MULTIPLY_ADDS", "Bandwidth", "Limits", "measured_limits"]

MULTIPLY_ADDS = "onnxc_multiply_adds"
"""The function of an image that makes multiply-adds of f32 in registers for so many rounds, and gives their number."""

WORKING_SETS = (1 << 18, 1 << 21, 1 << 24, 1 << 27)
"""What fits into the caches of a core, into those that cores share, and into none."""

ROUNDS = 5
ROUND_SECONDS = 1e-3
"""The best of five rounds of at least 1 ms was within 3 % of the best of fifty on a machine of two cores."""


@record
class Bandwidth:
    """Bytes read and written in a second where all that is touched takes `working_set` bytes."""

    working_set: int
    bytes_per_second: float


@record
class Limits:
    """Limits of `threads` threads; bandwidths from the smallest working set on.

    flops_per_second: of f32, None where there is no native code. All are those of one thread times the threads, which
    memory that cores share does not reach, nor do threads that share a core.
    """

    threads: int
    flops_per_second: float | None
    bandwidths: tuple[Bandwidth, ...]

    def bytes_per_second(self, nbytes: float) -> float:
        """The bandwidth of a launch that touches so many bytes."""
        fitting = (each for each in self.bandwidths if each.working_set >= nbytes)
        return next(fitting, self.bandwidths[-1]).bytes_per_second

    def seconds(self, flops: float, nbytes: float, of_a_lane: float = 1.0) -> tuple[float, str]:
        """The least time for so much work, and which limit says so: "memory" or "operations".

        of_a_lane: how many operations are made where one of f32 would be.
        """
        moving = nbytes / self.bytes_per_second(nbytes)
        computing = flops / (self.flops_per_second * of_a_lane) if self.flops_per_second else 0.0
        return (computing, "operations") if computing > moving else (moving, "memory")

    def to_json(self) -> dict[str, JsonValue]:
        """As a JSON object."""
        bandwidths = [{"working_set": b.working_set, "bytes_per_second": b.bytes_per_second} for b in self.bandwidths]
        return {
            "threads": self.threads,
            "flops_per_second": self.flops_per_second,
            "bandwidths": bandwidths,
        }


def measured_limits(image: Image | None, threads: int) -> Limits:
    """The limits of this machine for code of the kind that an image has. The first time this takes half a second."""
    bandwidths = tuple(Bandwidth(each.working_set, each.bytes_per_second * threads) for each in _bandwidths())
    return Limits(threads, None if image is None else _multiply_adds_per_second(image) * threads, bandwidths)


def _multiply_adds_per_second(image: Image) -> float:
    """The operations of one thread."""
    multiply_adds = image.function(MULTIPLY_ADDS, 1)
    seconds, rounds = _best_seconds(multiply_adds)
    return multiply_adds(rounds) / seconds


@cache
def _bandwidths() -> Sequence[Bandwidth]:
    """Those of one thread."""
    return [Bandwidth(size, _copied_per_second(size)) for size in WORKING_SETS]


def _copied_per_second(working_set: int) -> float:
    source = np.ones(working_set // 2, np.uint8)
    target = np.empty_like(source)

    def copy(rounds: int) -> None:
        for _ in range(rounds):
            np.copyto(target, source)

    seconds, rounds = _best_seconds(copy)
    return working_set * rounds / seconds


def _best_seconds(work: Callable[[int], object]) -> tuple[float, int]:
    """The least time that so many rounds of work take, enough of them for a clock, and how many these are."""
    rounds = 1
    while (seconds := _timed(work, rounds)) < ROUND_SECONDS:
        rounds *= 2
    return min(seconds, *(_timed(work, rounds) for _ in range(ROUNDS))), rounds


def _timed(work: Callable[[int], object], rounds: int) -> float:
    started = time.perf_counter()
    work(rounds)
    return time.perf_counter() - started
