"""The times of whole models, inputs on the device: a call among several, and each launch beside what was expected."""

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.gpu.bench import Bench, Row, rows_in_time
from benchmarks.gpu.pack_file import PackedModel
from benchmarks.gpu.packed_models import device_inputs, executable_of, skeletons_of
from onnxc.runtime.executable import Executable
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.gpu.shared_library import read_pointer

__all__ = ["interleaved_calls", "launch_profiles", "model_times"]

CALLS = {"full": 20, "quick": 10, "tiny": 2}
WARM_CALLS = 3

Call = Callable[[], object]

# CUlaunchConfig of cuda.h: the stream lies behind grid, block and shared memory.
_STREAM_OFFSET = 32


def model_times(bench: Bench) -> Iterator[Row]:
    """One row for each model, precision and size: seconds of a call, and of those that are expected."""
    yield from rows_in_time(bench, [(name, partial(_timed, bench, m, size)) for name, m, size in _cases(bench)])


def launch_profiles(bench: Bench) -> Iterator[Row]:
    """One row for each model and size in one precision: the seconds of each launch, with what was expected of it."""
    cases = [case for case in _cases(bench) if case[1].precision in ("bf16", "fp32")]
    cases.sort(key=lambda case: case[1].precision)
    yield from rows_in_time(bench, [(name, partial(_profiled, bench, m, size)) for name, m, size in cases])


def interleaved_calls(bench: Bench, calls: Mapping[str, Call]) -> dict[str, float]:
    """The median seconds of a call of each, several in a row, in turns."""
    durations: dict[str, list[float]] = {name: [] for name in calls}
    count = CALLS[bench.size]
    for call in calls.values():
        for _ in range(WARM_CALLS):
            call()
    for _ in range(bench.rounds):
        for name, call in calls.items():
            durations[name].append(bench.elapsed(lambda call=call: [call() for _ in range(count)] and None) / count)  # type: ignore[misc]
    return {name: float(np.median(times)) for name, times in durations.items()}


def _cases(bench: Bench) -> list[tuple[str, PackedModel, str]]:
    return [
        (f"{model.name}/{model.precision}/{size}", model, size)
        for model in skeletons_of(bench)
        for size in model.sizes or ()
    ]


def _timed(bench: Bench, model: PackedModel, size: str) -> Row:
    executable = executable_of(bench, model)
    feed = device_inputs(bench, model, size)
    times = interleaved_calls(bench, {"ours": lambda: executable.run(feed, stream=bench.stream)})
    report = executable.report()
    assert isinstance(report, Mapping)
    totals = report["totals"]
    return {"seconds": times["ours"], "launches": totals["launches"], "expected_seconds": totals["seconds"]}


def _profiled(bench: Bench, model: PackedModel, size: str) -> Row:
    profiler = _LaunchProfiler(bench)
    executable = executable_of(bench, model, profiler.driver, graphs=False)
    feed = device_inputs(bench, model, size)
    for _ in range(WARM_CALLS):
        profiler.forget()
        executable.run(feed, stream=bench.stream)
        bench.synchronize()
    measured = profiler.seconds()
    return {"seconds": sum(measured), "launches": _beside_expected(executable, measured)}


def _beside_expected(executable: Executable, measured: Sequence[float]) -> list[Row]:
    """Each launch of a call with its seconds; what the report says of it where both list as many.

    The report is of typical sizes: for others another variant of a launch may have run.
    """
    report = executable.report()
    assert isinstance(report, Mapping)
    typical = [(launch, step) for launch in report["launches"] for step in launch["steps"] if step["is_typical"]]
    if len(typical) != len(measured):
        return [{"seconds": seconds} for seconds in measured]
    return [
        {"seconds": seconds, "kernel": step["kernel"], "kind": launch["kind"], "ops": launch["ops"],
         "expected_seconds": launch["seconds"] / launch["launches"], "bound": launch["bound"]}
        for seconds, (launch, step) in zip(measured, typical, strict=True)
    ]  # fmt: skip


class _LaunchProfiler:
    """A driver as the bench's, whose launches stand between two events."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._events: list[tuple[int, int]] = []
        launch = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
        self._callback = launch(self._launch)
        address = read_pointer(ctypes.cast(self._callback, ctypes.c_void_p))
        addresses = {**bench.driver.addresses, "cuLaunchKernelEx": address}
        self.driver = Driver(addresses, "a profiled driver", (bench.driver, self))

    def forget(self) -> None:
        """Drops the launches so far."""
        for event in (event for pair in self._events for event in pair):
            self._call("cuEventDestroy_v2", event)
        self._events.clear()

    def seconds(self) -> list[float]:
        """The seconds of each launch, all being done."""
        took = ctypes.c_float()
        times = []
        for begin, end in self._events:
            self._call("cuEventSynchronize", end)
            self._call("cuEventElapsedTime", ctypes.byref(took), begin, end)
            times.append(took.value * 1e-3)
        return times

    def _launch(self, config: int, function: int, parameters: int, extra: int | None) -> int:
        (stream,) = struct.unpack("<Q", ctypes.string_at(config + _STREAM_OFFSET, 8))
        begin, end = self._event(), self._event()
        self._call("cuEventRecord", begin, stream)
        result = self._bench.driver.functions["cuLaunchKernelEx"](config, function, parameters, extra)
        self._call("cuEventRecord", end, stream)
        self._events.append((begin, end))
        return result

    def _event(self) -> int:
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 0)
        return read_pointer(event)

    def _call(self, name: str, *arguments: object) -> None:
        self._bench.driver.call("to profile launches", name, *arguments)
