"""Calls one model again and again, with one feed, and says whether each call gave the bits of the first.

`python -m tests.support.equal_calls MODEL COUNT [SIZE [THREADS]]` gives every symbol the same size. More threads than
cores are what makes a pool wait, and a wait that never ends is what this looks for: it prints the slowest call.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import onnxc
from onnxc.runtime.executable import Executable
from onnxc.runtime.signature import TensorInfo


@dataclass(frozen=True)
class EqualCalls:
    """How many calls gave other bits than the first, and how long the slowest and all of them took."""

    different: int
    slowest_s: float
    total_s: float


def call_again(executable: Executable, feed: Mapping[str, np.ndarray], count: int) -> EqualCalls:
    """Calls as often as said, after a first one that the others are compared with."""
    first = {name: np.array(value) for name, value in executable.run(feed).items()}
    different, slowest, started = 0, 0.0, time.perf_counter()
    for _ in range(count):
        before = time.perf_counter()
        outputs = executable.run(feed)
        slowest = max(slowest, time.perf_counter() - before)
        different += any(np.asarray(outputs[name]).tobytes() != value.tobytes() for name, value in first.items())
    return EqualCalls(different, slowest, time.perf_counter() - started)


def feed_of_size(executable: Executable, size: int) -> dict[str, np.ndarray]:
    """Values for all inputs: floats near 0, and integers that are legal as tokens and as masks."""
    random = np.random.default_rng(0)
    return {info.name: _drawn(info, size, random) for info in executable.inputs}


def _drawn(info: TensorInfo, size: int, random: np.random.Generator) -> np.ndarray:
    shape = [dim if isinstance(dim, int) else size for dim in info.shape or ()]
    if info.dtype is not None and np.dtype(info.dtype).kind in "iub":
        return random.integers(0, 2, shape).astype(info.dtype)
    return random.standard_normal(shape).astype(info.dtype)


def main(model: str, count: str, size: str = "8", threads: str = "8") -> None:
    executable = onnxc.compile(model, threads=int(threads))
    print(call_again(executable, feed_of_size(executable, int(size)), int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
