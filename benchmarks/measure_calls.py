"""One model with one number of threads: onnxc and ONNX Runtime in turns, on the same inputs. Run by `benchmarks`."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime

import onnxc
from benchmarks.inputs import make_inputs, read_manifest

Call = Callable[[], object]
Clock = Callable[[], float]

# A timed batch lasts at least this long, so that the clock's own cost does not count.
BATCH_S = 2e-3
# ONNX Runtime's workers spin for about 35 ms after a call; onnxc is not timed beside them. On two processors
# regnety_008 took 14.7 ms 5 ms after a call of ONNX Runtime, and 9.6 ms from 50 ms after it on.
SETTLE_S = 5e-2


def measure(folder: Path, name: str, sizes: Sequence[str], threads: int, rounds: int) -> None:
    """Prints a JSON row for each of the sizes."""
    model = next(model for model in read_manifest(folder) if model.name == name)
    started = time.perf_counter()
    executable = onnxc.compile(model.path, threads=threads)
    compile_s = time.perf_counter() - started
    session = ort_session(model.path, threads)
    for size in sizes:
        inputs = make_inputs(model.inputs, model.sizes[size])
        difference = largest_difference(tuple(executable.run(inputs).values()), session.run(None, inputs))
        ours, theirs = partial(executable.run, inputs), partial(session.run, None, inputs)
        ours_s, ort_s = alternate(ours, theirs, rounds)
        row = {
            "model": name,
            "size": size,
            "values": dict(model.sizes[size]),
            "threads": threads,
            "onnxc_ms": median_ms(ours_s),
            "ort_ms": median_ms(ort_s),
            "onnxc_spread": spread(ours_s),
            "ort_spread": spread(ort_s),
            "difference": difference,
            "compile_s": compile_s,
            "compilations": executable.stats.compilations,
        }
        print(json.dumps(row), flush=True)


def ort_session(model: Path | bytes, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def alternate(
    first: Call, second: Call, rounds: int, clock: Clock = time.perf_counter, settle_s: float = SETTLE_S
) -> tuple[list[float], list[float]]:
    """Seconds a call of each, one figure a round, in the order A B A B."""
    counts = [batch_size(call, clock) for call in (first, second)]
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, count, into in zip((first, second), counts, seconds, strict=True):
            time.sleep(settle_s)
            into.append(time_batch(call, count, clock))
    return seconds


def batch_size(call: Call, clock: Clock) -> int:
    """How many calls a batch needs to last long enough."""
    call()
    return max(1, round(BATCH_S / max(time_batch(call, 3, clock), 1e-7)))


def time_batch(call: Call, count: int, clock: Clock) -> float:
    """Seconds a call, after one that is not timed."""
    call()
    started = clock()
    for _ in range(count):
        call()
    return (clock() - started) / count


def median_ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1e3


def spread(seconds: Sequence[float]) -> float:
    """The distance between the quartiles as a part of the median."""
    if len(seconds) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(seconds, n=4)
    return (high - low) / middle


def largest_difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The largest difference over the largest magnitude, the worst of the outputs; infinity where shapes differ."""
    return max(relative_difference(*pair) for pair in zip(ours, theirs, strict=True))


def relative_difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return float("inf")
    if not theirs.size:
        return 0.0
    different = ours != theirs
    if not different.any():
        return 0.0
    if theirs.dtype.hasobject:
        return float("inf")
    scale = float(np.abs(theirs).max())
    return float(np.abs(ours[different].astype(np.float64) - theirs[different]).max()) / (scale or 1.0)


def main() -> None:
    options: Mapping[str, object] = json.loads(sys.argv[1])
    folder, name, sizes = Path(str(options["folder"])), str(options["model"]), str(options["sizes"]).split(",")
    measure(folder, name, sizes, int(str(options["threads"])), int(str(options["rounds"])))


if __name__ == "__main__":
    main()
