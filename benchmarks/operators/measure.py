"""Some cases of the sweep on one thread: onnxc and ONNX Runtime in turns, on the same inputs. Run by `operators`."""

import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from onnx.shape_inference import InferenceError
from onnxruntime.capi import onnxruntime_pybind11_state as ort

import onnxc
from benchmarks.inputs import make_inputs
from benchmarks.measure_calls import Call, alternate, largest_difference, ort_session, time_batch
from benchmarks.operators.case import OperatorCase, build_model
from benchmarks.operators.suites import all_cases

TOLERANCES = {"float16": 5e-3, "float32": 1e-4, "float64": 1e-6, "uint8": 5e-3, "int8": 1e-2}
"""The largest difference over the largest magnitude, by the type of the result; of others every element is equal.

Sums and powers of float16 are rounded at other points; of 8-bit results, where a half is rounded may differ by one."""
SLOW_S = 20e-3
"""Of what takes longer one round in three is timed."""

ORT_ERRORS = (ort.Fail, ort.InvalidArgument, ort.InvalidGraph, ort.NotImplemented, ort.RuntimeException)


def main() -> None:
    asked: Mapping[str, object] = json.loads(sys.argv[1])
    names, rounds = set(str(asked["cases"]).split("\n")), int(str(asked["rounds"]))
    for case in all_cases():
        if case.name in names:
            print(json.dumps(measure(case, rounds)), flush=True)


def measure(case: OperatorCase, rounds: int) -> Mapping[str, object]:
    """The row of a case; where one of the two cannot run it, what it says."""
    row: dict[str, object] = {"case": case.name, "operator": case.operator, "form": case.form}
    inputs = make_inputs(case.inputs, case.sizes)
    try:
        model = build_model(case).SerializeToString()
    except InferenceError as error:
        return {**row, "error": f"the case is no model: {first_line(error)}"}
    try:
        session = ort_session(model, 1)
        theirs = session.run(None, inputs)
    except ORT_ERRORS as error:
        return {**row, "skipped": first_line(error)}
    try:
        return {**row, **compare(model, partial(session.run, None, inputs), inputs, theirs, rounds)}
    except onnxc.OnnxcError as error:
        return {**row, "error": first_line(error)}


def compare(
    model: bytes, peer: Call, inputs: Mapping[str, np.ndarray], theirs: Sequence[np.ndarray], rounds: int
) -> Mapping[str, object]:
    """Microseconds a call of both, and how far the outputs are apart."""
    started = time.process_time()
    executable = onnxc.compile(model, threads=1)
    compile_s = time.process_time() - started
    ours = tuple(executable.run(inputs).values())
    difference = largest_difference(ours, theirs)
    limit = max(TOLERANCES.get(str(y.dtype), 0.0) for y in theirs)
    slow = time_batch(peer, 1, time.thread_time) > SLOW_S
    # Others may share the processor, but not the time of a thread.
    times = alternate(
        partial(executable.run, inputs), peer, max(rounds // 3, 1) if slow else rounds, time.thread_time, settle_s=0
    )
    onnxc_us, ort_us = (quiet_median(each) * 1e6 for each in times)
    return {
        "onnxc_us": onnxc_us,
        "ort_us": ort_us,
        "ratio": ort_us / onnxc_us,
        "difference": difference,
        "equal": difference <= limit,
        "compile_s": compile_s,
    }


def quiet_median(seconds: Sequence[float]) -> float:
    """The least of the medians of three parts: a neighbour that empties the caches for a while does not count."""
    size = max(len(seconds) // 3, 1)
    return min(statistics.median(seconds[start : start + size]) for start in range(0, len(seconds), size))


def first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]


if __name__ == "__main__":
    main()
