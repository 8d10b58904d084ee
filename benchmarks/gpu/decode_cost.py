"""What a step of a decoder costs on the host: microseconds against a driver whose functions return at once.

    python -m benchmarks.gpu.decode_cost MODEL.onnx [--steps 64]

Needs neither a GPU nor Triton. Each step feeds one token of one sequence, whose length is another in every step. A real
driver adds about 2 microseconds for each launch outside of a graph.
"""

import argparse
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.gpu.emitted import emitted_decoder
from benchmarks.gpu.stub_driver import StubDriver
from onnxc.compiler.options import ModelSource, make_options
from onnxc.runtime.decoding.load_decoder import make_decoder
from tests.support.fake_gpu import fake_kernels

__all__ = ["DecodeCost", "decode_cost"]

STEPS, ROUNDS = 64, 5


@dataclass(frozen=True)
class DecodeCost:
    """Microseconds of the thread in a step, the least of the medians of rounds; what of the last round was a graph."""

    step_us: float
    launched_alone: int
    captures: int
    replays: int


def decode_cost(model: ModelSource, steps: int = STEPS, rounds: int = ROUNDS, precision: str = "bf16") -> DecodeCost:
    """The cost of the steps behind a prompt of three tokens, each round in a session of its own."""
    stub, options = StubDriver(), make_options("cuda:sm_90", precision=precision, cache=False)
    decoder = make_decoder(emitted_decoder(model, options, fake_kernels), 1, driver=stub.driver)
    token, medians, before = np.zeros((1, 1), np.int64), [], stub.calls
    for _ in range(rounds):
        session, took = decoder.session(capacity=steps + 3), []
        session.feed([0, 0, 0])
        before = stub.calls
        for _ in range(steps):
            started = time.thread_time_ns()
            session.feed(token)
            took.append(time.thread_time_ns() - started)
        medians.append(statistics.median(took) / 1000)
    captures, replays = (stub.calls[name] - before[name] for name in ("cuGraphInstantiateWithFlags", "cuGraphLaunch"))
    return DecodeCost(min(medians), steps - replays, captures, replays)


def main() -> int:
    """Prints the cost of a step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.decode_cost", description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a decoder as an .onnx file")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    cost = decode_cost(str(options.model), options.steps)
    alone = cost.launched_alone
    print(f"{cost.step_us:.0f} us a step; {cost.captures} captures, {cost.replays} replays, {alone} without a graph")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
