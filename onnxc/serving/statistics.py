"""What a model has done so far: counts and durations of requests, executions and batches, as Triton counts them."""

import threading
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onnxc.runtime.program import JsonValue

__all__ = ["LATENCY_BOUNDS_S", "Durations", "Statistics", "Timed"]

LATENCY_BOUNDS_S = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class Durations(NamedTuple):
    """How long the three parts of an execution took: joining inputs, the call, taking results apart."""

    input_ns: int
    infer_ns: int
    output_ns: int


@dataclass
class Timed:
    """A number of events and their time together."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int, count: int = 1) -> None:
        self.count += count
        self.ns += ns

    def to_json(self) -> Mapping[str, int]:
        return {"count": self.count, "ns": self.ns}


ANSWERED = ("success", "queue", "compute_input", "compute_infer", "compute_output")


@dataclass
class _Counts:
    rows: int = 0
    executions: int = 0
    last_ms: int = 0
    answered: Sequence[Timed] = field(default_factory=lambda: [Timed() for _ in ANSWERED])
    failed: Timed = field(default_factory=Timed)
    batches: dict[int, Sequence[Timed]] = field(default_factory=dict)
    latency: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))

    def by_kind(self) -> dict[str, Timed]:
        return dict(zip(ANSWERED, self.answered, strict=True)) | {"fail": self.failed}


class Statistics:
    """The counts of one version of a model; any thread may add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = _Counts()

    def executed(self, rows: int, took: Durations) -> None:
        """Notes one call of the model."""
        with self._lock:
            self._counts.executions += 1
            parts = self._counts.batches.setdefault(rows, (Timed(), Timed(), Timed()))
            for part, ns in zip(parts, took, strict=True):
                part.add(ns)

    def answered(self, rows: int, total_ns: int, queue_ns: int, took: Durations) -> None:
        """Notes a request that was answered; `took` is the time of the call that it was part of."""
        with self._lock:
            counts = self._counts
            counts.rows += rows
            counts.last_ms = time.time_ns() // 1_000_000
            for timed, ns in zip(counts.answered, (total_ns, queue_ns, *took), strict=True):
                timed.add(ns)
            counts.latency[bisect_left(LATENCY_BOUNDS_S, total_ns / 1e9)] += 1

    def failed(self, total_ns: int) -> None:
        """Notes a request that was not."""
        with self._lock:
            self._counts.failed.add(total_ns)

    def to_json(self) -> Mapping[str, JsonValue]:
        """The counts in the form of the protocol's statistics."""
        with self._lock:
            counts = self._counts
            names = ("compute_input", "compute_infer", "compute_output")
            return {
                "last_inference": counts.last_ms,
                "inference_count": counts.rows,
                "execution_count": counts.executions,
                "inference_stats": {kind: timed.to_json() for kind, timed in counts.by_kind().items()},
                "batch_stats": [
                    {"batch_size": rows}
                    | {name: timed.to_json() for name, timed in zip(names, counts.batches[rows], strict=True)}
                    for rows in sorted(counts.batches)
                ],
            }

    def requests(self) -> Mapping[str, Timed]:
        """Requests by what became of them, and the parts of their time."""
        with self._lock:
            return {kind: Timed(timed.count, timed.ns) for kind, timed in self._counts.by_kind().items()}

    def totals(self) -> tuple[int, int]:
        """Rows that were computed, and calls of the model."""
        with self._lock:
            return self._counts.rows, self._counts.executions

    def latency(self) -> tuple[int, ...]:
        """How many requests took up to each of LATENCY_BOUNDS_S, and longer than the one before."""
        with self._lock:
            return tuple(self._counts.latency)
