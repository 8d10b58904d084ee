"""One model of a folder: onnxc and another runtime in turns at each size. Run by `benchmarks.folder`."""

import json
import statistics
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

import onnxc
from benchmarks.measure_calls import SETTLE_S, batch_size, time_batch
from onnxc.command_line.random_inputs import draw_array
from onnxc.measuring.runtimes import RUNTIMES
from onnxc.measuring.values import compare_outputs
from onnxc.runtime.dtypes import STRING
from onnxc.runtime.signature import TensorInfo

WORDS = ("red", "green", "blue", "u", "v", "w")
"""What texts are drawn from."""


def measure(path: Path, vs: str, sizes: Sequence[int], threads: int, seconds: float, rounds: int) -> None:
    """Prints a JSON row for each size: both times, and how far the outputs lie apart."""
    warnings.simplefilter("ignore")
    started = time.process_time()
    executable = onnxc.compile(path, threads=threads)
    compile_s = time.process_time() - started
    peer = RUNTIMES[vs].open(path, threads)
    # Workers that spin while they wait would count as work; OpenVINO computes in a thread of its own.
    clock = time.thread_time if threads == 1 and vs == "onnxruntime" else time.perf_counter
    for size in sizes:
        feeds = feeds_of(path, executable.inputs, size)
        calls = partial(executable.run, feeds), partial(peer, feeds)
        agreement = compare_outputs(calls[0](), calls[1]())
        counts = [batch_size(call, clock) for call in calls]
        taken: tuple[list[float], list[float]] = ([], [])
        ends = time.monotonic() + seconds
        while len(taken[0]) < 3 or (len(taken[0]) < rounds and time.monotonic() < ends):
            for call, count, into in zip(calls, counts, taken, strict=True):
                time.sleep(SETTLE_S)
                into.append(time_batch(call, count, clock))
        row = {
            "size": size, "ours": statistics.median(taken[0]), "theirs": statistics.median(taken[1]),
            "difference": agreement.difference, "same": agreement.is_same, "compile": compile_s,
        }  # fmt: skip
        print(json.dumps(row), flush=True)


def feeds_of(path: Path, infos: Sequence[TensorInfo], size: int) -> Mapping[str, np.ndarray]:
    """The arrays beside the model, or draws for those of its inputs that have no default."""
    needed = [info for info in infos if not info.optional]
    beside = path.with_suffix(".npz")
    if beside.exists():
        arrays = np.load(beside)
        names = arrays.files
        if {info.name for info in needed} <= set(names):
            return {info.name: arrays[info.name] for info in needed}
        return {info.name: arrays[name] for info, name in zip(needed, names, strict=True)}
    rng = np.random.default_rng(0)
    return {info.name: drawn(info, size, rng) for info in needed}


def drawn(info: TensorInfo, size: int, rng: np.random.Generator) -> np.ndarray:
    """A few words for texts, else what the command line draws."""
    if info.shape is None or info.dtype is None:
        raise SystemExit(f"{info.name} is {info.text}: it needs an array beside the model")
    shape = tuple(axis if isinstance(axis, int) else size for axis in info.shape)
    if info.dtype == STRING:
        return rng.choice(WORDS, shape).astype(object)
    return draw_array(info.dtype, shape, rng)


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    measure(Path(options.pop("path")), **options)
