"""From recorded calls to a profile: times are summed for each launch of a call, and means taken over calls.

What lies before, between and behind launches is measured as they are, from the end of one to the beginning of the next.

The means are those of the calls of middle length, half of all: what disturbed the others does not count, and unlike
medians they add up.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxc.runtime.engine import Engine, ProgramEngine
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.native.launch_log import RECORD_ENDED, RECORD_LOOP, RECORD_STARTED, RECORD_THREAD
from onnxc.runtime.profiling.between import between_times
from onnxc.runtime.profiling.limits import Limits, measured_limits
from onnxc.runtime.profiling.memory_plan import memory_plan
from onnxc.runtime.profiling.profile import Compiled, HostTime, KernelTime, Profile
from onnxc.runtime.profiling.recorded_calls import RecordedCall, RecordingEngine
from onnxc.runtime.profiling.report_entries import entries_of, factor_of, texts_of
from onnxc.runtime.profiling.trace import Event
from onnxc.runtime.program import JsonValue, Program, compile_sizes
from onnxc.runtime.records import record

__all__ = ["MOST_EVENTS", "profile_calls", "recording_engine"]

MOST_EVENTS = 20_000
"""Events of the timeline: a page of so many opens within a second, and no plan that is no loop has more launches."""

Entry = Mapping[str, JsonValue]


@record
class _Variant:
    """What the ordinal of a recorded launch stands for: a launch of the report, and one of its steps."""

    launch: int
    entry: Entry
    step: Entry

    @property
    def name(self) -> str:
        nodes = texts_of(self.entry, "nodes")
        return f"{self.step.get('kernel')} {self.entry.get('kind')}" + (f" {nodes[0]}" if nodes else "")


def profile_calls(
    engine: RecordingEngine,
    report: JsonValue,
    sizes: tuple[int, ...],
    ordinary: Callable[[], object],
    recorded: Callable[[], object],
    calls: int,
    warmup: int,
) -> Profile:
    """The profile of a call that is given twice: as it is, and on the engine that records; `sizes` are what it binds.

    The two take turns, so that a machine that slows down does so for both.

    Raises InputError for numbers of calls that are none, else what a call raises.
    """
    _expect_count("calls", calls, 1)
    _expect_count("warmup", warmup, 0)
    limits = measured_limits(engine.image, engine.pool.threads if engine.pool is not None else 1)
    for _ in range(warmup):
        ordinary()
        engine.record(recorded, sizes)
    seconds: list[float] = []
    records: list[RecordedCall] = []
    for _ in range(calls):
        started = time.perf_counter_ns()
        ordinary()
        seconds.append((time.perf_counter_ns() - started) * 1e-9)
        records.append(engine.record(recorded, sizes))
    return _summary(engine.program, report, seconds, records, limits)


def recording_engine(engine: Engine) -> RecordingEngine:
    """The same program with launches that are recorded. Raises UnsupportedError for all but native code of the CPU."""
    if not isinstance(engine, ProgramEngine):
        raise UnsupportedError("only programs for the CPU can be profiled", code="no-profile")
    return RecordingEngine(engine)


def _expect_count(name: str, count: object, least: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < least:
        raise InputError(f"{name} is {count!r}, expected an integer from {least} on", code="call-count")


def _variants(report: JsonValue) -> list[_Variant]:
    """The variants of all launches of a report, in the order of their ordinals."""
    return [
        _Variant(launch, entry, step)
        for launch, entry in enumerate(entries_of(report, "launches"))
        for step in entries_of(entry, "steps")
    ]


def _summary(
    program: Program,
    report: JsonValue,
    plain: Sequence[float],
    recorded: Sequence[RecordedCall],
    limits: Limits,
) -> Profile:
    middle = _middle_half(recorded)
    total = statistics.fmean(call.ended - call.started for call in middle) * 1e-9
    typical = middle[len(middle) // 2]
    # What native code binds is not among the symbols of the report: what data decides has no work of its own.
    symbols, variants = typical.symbols, _variants(report)
    kernels = _kernel_times(variants, middle, total, symbols, limits)
    host = _host_times(middle, total)
    between = between_times(middle, total)
    inputs, outputs = (tuple(each.name for each in side) for side in (program.inputs, program.outputs))
    in_kernels, on_host, outside = (sum(each.seconds for each in part) for part in (kernels, host, between))
    return Profile(
        program.name or "model",
        limits.threads,
        len(plain),
        {symbol.name: symbols[k] for k, symbol in enumerate(program.symbols) if not symbol.name.startswith("?")},
        statistics.median(plain),
        total,
        in_kernels,
        on_host,
        outside,
        limits,
        kernels,
        host,
        between,
        tuple(_events(typical, variants))[:MOST_EVENTS],
        sum(call.lost for call in recorded),
        memory_plan(report, symbols, inputs, outputs),
        Compiled(report, inputs, outputs),
    )


def _middle_half(recorded: Sequence[RecordedCall]) -> Sequence[RecordedCall]:
    """The calls of middle length, from the shortest of them on."""
    ordered = sorted(recorded, key=lambda call: call.ended - call.started)
    left_out = len(ordered) // 4
    return ordered[left_out : len(ordered) - left_out]


def _kernel_times(
    variants: Sequence[_Variant],
    recorded: Sequence[RecordedCall],
    total: float,
    symbols: Sequence[int],
    limits: Limits,
) -> tuple[KernelTime, ...]:
    """What ran, in the order of the plan."""
    seconds, counts = np.zeros((2, len(recorded), len(variants)))
    for row, call in enumerate(recorded):
        launches = call.rows[call.rows[:, RECORD_LOOP] % 2 == 0]
        ordinals = launches[:, RECORD_LOOP] // 2
        lengths = (launches[:, RECORD_ENDED] - launches[:, RECORD_STARTED]) * 1e-9
        seconds[row] = np.bincount(ordinals, lengths, len(variants))
        counts[row] = np.bincount(ordinals, minlength=len(variants))
    return tuple(
        _kernel_time(variants[ordinal], seconds[:, ordinal], float(counts[:, ordinal].mean()), total, symbols, limits)
        for ordinal in np.flatnonzero(counts.any(axis=0)).tolist()
    )


def _kernel_time(
    variant: _Variant, times: np.ndarray, executions: float, total: float, symbols: Sequence[int], limits: Limits
) -> KernelTime:
    entry, step, seconds = variant.entry, variant.step, float(times.mean())
    timed = KernelTime(
        variant.launch,
        str(step.get("kernel", "")),
        str(entry.get("kind", "")),
        str(step.get("algorithm", "")),
        str(step.get("schedule", "")),
        str(step.get("why", "")),
        texts_of(entry, "nodes"),
        texts_of(entry, "operators"),
        executions,
        seconds,
        float(times.min()),
        seconds / total if total else 0.0,
    )
    work = step.get("work")
    if not isinstance(work, Mapping) or not seconds:
        return timed
    read, written, flops = compile_sizes([str(work[name]) for name in ("read_bytes", "written_bytes", "flops")])(
        symbols
    )
    least, bound = limits.seconds(flops, read + written, factor_of(step, "operations_of_a_lane"))
    moved, computed = (read + written) * executions, flops * executions
    return replace(
        timed,
        flops=computed,
        bytes=moved,
        flops_per_second=computed / seconds,
        bytes_per_second=moved / seconds,
        roofline_share=least * executions / seconds,
        bound=bound,
    )


def _host_times(recorded: Sequence[RecordedCall], total: float) -> tuple[HostTime, ...]:
    parts: dict[tuple[str, str], list[float]] = {}
    for timed in (timed for call in recorded for timed in call.host):
        lengths = parts.setdefault((timed.step.function, timed.step.location), [])
        lengths.append((timed.ended - timed.started) * 1e-9)
    return tuple(
        HostTime(function, node, len(lengths) / len(recorded), seconds, seconds / total if total else 0.0)
        for (function, node), lengths in parts.items()
        for seconds in [sum(lengths) / len(recorded)]
    )


def _events(call: RecordedCall, variants: Sequence[_Variant]) -> list[Event]:
    """What happened in a call, in the order of its beginnings."""
    threads = {int(thread): 0 for thread in call.rows[call.rows[:, RECORD_LOOP] % 2 == 0][:1, RECORD_THREAD]}
    events = []
    for loop, thread, started, ended in call.rows.tolist():
        variant, is_chunk = variants[loop // 2], loop % 2
        index = threads.setdefault(thread, len(threads))
        start, length = (started - call.started) / 1e3, (ended - started) / 1e3
        events.append(Event("chunk" if is_chunk else "launch", variant.name, index, start, length, variant.launch))
    for timed in call.host:
        start, length = (timed.started - call.started) / 1e3, (timed.ended - timed.started) / 1e3
        events.append(Event("host", f"{timed.step.function} {timed.step.location}".strip(), 0, start, length, -1))
    return sorted(events, key=lambda event: event.start_us)
