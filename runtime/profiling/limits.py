"""The roofline of the machine: how many operations, and how many bytes of a working set, threads get through at most.

Bandwidth is measured here, by copies; operations are those of the cost model, which the report of an artifact carries.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["Bandwidth", "Limits", "measured_limits"]

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

    flops_per_second: of f32, None where the report does not say. Bandwidths are those of one thread times the threads,
    which memory that cores share does not reach.
    """

    threads: int
    flops_per_second: float | None
    bandwidths: tuple[Bandwidth, ...]
    flops_from: str = ""

    def bytes_per_second(self, nbytes: float) -> float:
        """The bandwidth of a launch that touches so many bytes."""
        fitting = (each for each in self.bandwidths if each.working_set >= nbytes)
        return next(fitting, self.bandwidths[-1]).bytes_per_second

    def seconds(self, flops: float, nbytes: float) -> tuple[float, str]:
        """The least time for so much work, and which limit says so: "memory" or "operations"."""
        moving = nbytes / self.bytes_per_second(nbytes)
        computing = flops / self.flops_per_second if self.flops_per_second else 0.0
        return (computing, "operations") if computing > moving else (moving, "memory")

    def to_json(self) -> dict[str, JsonValue]:
        """As a JSON object."""
        bandwidths = [{"working_set": b.working_set, "bytes_per_second": b.bytes_per_second} for b in self.bandwidths]
        return {
            "threads": self.threads,
            "flops_per_second": self.flops_per_second,
            "flops_from": self.flops_from,
            "bandwidths": bandwidths,
        }


def measured_limits(report: JsonValue, threads: int) -> Limits:
    """The limits of this machine for code with this report. The first time this takes half a second."""
    entries = report if isinstance(report, Mapping) else {}
    per_core = entries.get("limits")
    flops = per_core.get("flops_per_second") if isinstance(per_core, Mapping) else None
    peak = flops * threads if isinstance(flops, int | float) else None
    bandwidths = tuple(Bandwidth(each.working_set, each.bytes_per_second * threads) for each in _bandwidths())
    return Limits(threads, peak, bandwidths, str(entries.get("calibrated_on", "")))


@cache
def _bandwidths() -> Sequence[Bandwidth]:
    """Those of one thread."""
    return [Bandwidth(size, _copied_per_second(size)) for size in WORKING_SETS]


def _copied_per_second(working_set: int) -> float:
    source = np.ones(working_set // 2, np.uint8)
    target = np.empty_like(source)
    count = 1
    while (seconds := _timed(lambda: np.copyto(target, source), count)) < ROUND_SECONDS:
        count *= 2
    best = min(seconds, *(_timed(lambda: np.copyto(target, source), count) for _ in range(ROUNDS)))
    return working_set * count / best


def _timed(call: Callable[[], object], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - started
