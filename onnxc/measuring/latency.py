"""The latencies of calls as the figures that people compare."""

from collections.abc import Sequence

import numpy as np

from onnxc.runtime.records import record

__all__ = ["Latency", "latency_of"]


@record
class Latency:
    """Seconds of a call. p99 is what 99 of 100 calls do not exceed: one of the calls, not a value between two."""

    min: float
    mean: float
    median: float
    p90: float
    p95: float
    p99: float


def latency_of(seconds: Sequence[float]) -> Latency:
    """The figures of at least one call."""
    median, p90, p95, p99 = np.quantile(seconds, (0.5, 0.9, 0.95, 0.99), method="inverted_cdf").tolist()
    return Latency(min(seconds), float(np.mean(seconds)), median, p90, p95, p99)
