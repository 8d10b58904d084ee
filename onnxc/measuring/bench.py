"""A benchmark of one model: every runtime opened cold, their answers compared, then measured in turns."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from onnxc.measuring.cold_start import ColdStart, StartJob, cold_start, write_feed
from onnxc.measuring.latency import Latency, latency_of
from onnxc.measuring.runtimes import RUNTIMES, Feed
from onnxc.measuring.scenarios import (
    MULTI_STREAM,
    OFFLINE,
    SERVER,
    SINGLE_STREAM,
    Call,
    Sample,
    run_callers,
    run_offline,
    served_rate,
)
from onnxc.measuring.values import Agreement, compare_outputs, worst
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["Bench", "Load", "Measurement", "Subject", "measure", "open_cold"]

ROUNDS = 5
"""Turns that runtimes take in a scenario, so that a machine that slows down does so for all."""

WARMUP_CALLS = 3
WARMUP_PART = 0.1
"""Calls before a measurement, and the part of its time that they last at least: clocks and caches settle."""

SETTLE_SECONDS = 5e-3
"""ONNX Runtime's threads go on spinning for a while after a call; who is measured next would share processors."""

BOUND_FACTOR = 4
"""What a server may take unless told: so many times the median of one caller, of the slowest runtime."""


@record
class Load:
    """What to measure. seconds: of each scenario, for each runtime. precision: what onnxc computes in.

    bound: the seconds that a call of a server may take, None for BOUND_FACTOR medians of one caller.
    """

    scenarios: tuple[str, ...]
    threads: tuple[int, ...]
    callers: tuple[int, ...]
    seconds: float
    bound: float | None = None
    seed: int = 0
    precision: str = "fp32"


@record
class Subject:
    """A runtime, the file that it opens, and what its start took; compile_seconds: None where it did not compile."""

    runtime: str
    version: str
    model: Path
    start: ColdStart
    compile_seconds: float | None = None


@record
class Measurement:
    """A scenario of one runtime. bound_seconds is there for servers; a server that no rate holds for has no calls."""

    runtime: str
    scenario: str
    threads: int
    callers: int
    calls: int
    calls_per_second: float
    latency: Latency | None
    bound_seconds: float | None = None


@record
class Bench:
    """All that was found. agreements: of each other runtime with onnxc, by its name; the worst of the thread counts."""

    model: str
    inputs: Mapping[str, str]
    seed: int
    processor: str
    processors: int
    subjects: tuple[Subject, ...]
    agreements: Mapping[str, Agreement]
    measurements: tuple[Measurement, ...]

    @property
    def is_same(self) -> bool:
        """Whether all runtimes that ran gave the same answer."""
        return all(agreement.is_same for agreement in self.agreements.values())

    def to_json(self) -> dict[str, JsonValue]:
        """All of it as one JSON object; the names of its fields do not change. An infinite difference is null."""
        agreements = {
            name: {
                "output": each.output,
                "difference": each.difference if each.difference != float("inf") else None,
                "allowed": each.allowed,
                "same": each.is_same,
            }
            for name, each in self.agreements.items()
        }
        return {
            "model": self.model,
            "inputs": dict(self.inputs),
            "seed": self.seed,
            "processor": self.processor,
            "processors": self.processors,
            "subjects": [{**asdict(subject), "model": str(subject.model)} for subject in self.subjects],
            "agreements": agreements,
            "measurements": [asdict(each) for each in self.measurements],
        }


def open_cold(runtime: str, model: Path, feed: Feed, threads: int, folder: Path) -> ColdStart:
    """What opening a model and its first call take in a process of its own."""
    kept = folder / "feed.pickle"
    write_feed(feed, kept)
    return cold_start(StartJob(runtime, str(model), str(kept), threads), folder)


def measure(subjects: Sequence[Subject], feed: Feed, load: Load) -> tuple[dict[str, Agreement], list[Measurement]]:
    """How the answers agree with those of the first subject, and the scenarios for each number of threads.

    Subjects whose start failed are left out.
    """
    running = [subject for subject in subjects if not subject.start.error]
    agreements: dict[str, Agreement] = {}
    measurements: list[Measurement] = []
    for threads in load.threads:
        opened = {each.runtime: RUNTIMES[each.runtime].open(each.model, threads) for each in running}
        answers = {name: call(feed) for name, call in opened.items()}
        first, *others = answers
        for name in others:
            comparison = compare_outputs(answers[first], answers[name], load.precision)
            agreements[name] = worst((agreements.get(name, comparison), comparison))
        calls: dict[str, Call] = {name: partial(call, feed) for name, call in opened.items()}
        measurements += _Scenarios(calls, threads, load).all()
    return agreements, measurements


class _Scenarios:
    """The scenarios of a load, for runtimes at one number of threads."""

    def __init__(self, calls: Mapping[str, Call], threads: int, load: Load) -> None:
        self.calls, self.threads, self.load = calls, threads, load
        self.most_callers = max(load.callers)

    def all(self) -> list[Measurement]:
        """The measurements, scenario by scenario."""
        for call in self.calls.values():
            _warm_up(call, self.load.seconds * WARMUP_PART)
        wanted, made = self.load.scenarios, []
        if SINGLE_STREAM in wanted:
            made += self._streams(SINGLE_STREAM, 1)
        if MULTI_STREAM in wanted:
            made += [each for callers in self.load.callers for each in self._streams(MULTI_STREAM, callers)]
        if OFFLINE in wanted:
            made += [self._offline(name) for name in self.calls]
        if SERVER in wanted:
            made += self._servers(made)
        return made

    def _streams(self, scenario: str, callers: int) -> list[Measurement]:
        samples: dict[str, Sample] = {}
        for _ in range(ROUNDS):
            for name, call in self.calls.items():
                time.sleep(SETTLE_SECONDS)
                sample = run_callers(call, callers, self.load.seconds / ROUNDS)
                samples[name] = samples[name] + sample if name in samples else sample
        return [self._measurement(name, scenario, callers, sample) for name, sample in samples.items()]

    def _offline(self, name: str) -> Measurement:
        """So many calls as take about the seconds that there are."""
        call = self.calls[name]
        time.sleep(SETTLE_SECONDS)
        rate = run_callers(call, self.most_callers, self.load.seconds / ROUNDS).calls_per_second
        sample = run_offline(call, max(1, round(rate * self.load.seconds)), self.most_callers)
        return self._measurement(name, OFFLINE, self.most_callers, sample)

    def _servers(self, made: Sequence[Measurement]) -> list[Measurement]:
        bound = self.load.bound or self._usual_bound(made)
        servers = []
        for name, call in self.calls.items():
            time.sleep(SETTLE_SECONDS)
            throughput = run_callers(call, self.most_callers, self.load.seconds / ROUNDS).calls_per_second
            rate, sample = served_rate(
                call, throughput, bound, self.most_callers, self.load.seconds / 2, self.load.seed
            )
            latency = None if sample is None else latency_of(sample.latencies)
            calls = 0 if sample is None else len(sample.latencies)
            servers.append(Measurement(name, SERVER, self.threads, self.most_callers, calls, rate, latency, bound))
        return servers

    def _usual_bound(self, made: Sequence[Measurement]) -> float:
        alone = [each for each in made if each.scenario == SINGLE_STREAM] or self._streams(SINGLE_STREAM, 1)
        return BOUND_FACTOR * max(each.latency.median for each in alone if each.latency is not None)

    def _measurement(self, name: str, scenario: str, callers: int, sample: Sample) -> Measurement:
        latency = latency_of(sample.latencies)
        return Measurement(
            name, scenario, self.threads, callers, len(sample.latencies), sample.calls_per_second, latency
        )


def _warm_up(call: Call, seconds: float) -> None:
    started, count = time.perf_counter(), 0
    while count < WARMUP_CALLS or time.perf_counter() - started < seconds:
        call()
        count += 1
