"""The command: compiles and calls the same models with two checkouts, one after the other, and compares the bits.

What differs is printed with the kernels that are in one of the two plans only: results that differ although the plans
are the same come of another code of a kernel. Times are of the processor, cold, with one thread; the checkouts take
turns, so that a busy machine slows both.
"""

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from tests.conformance.cases import all_cases, draws_numbers
from tests.same_bits.compare import changed_kernels, difference
from tests.same_bits.side import Side
from tests.same_bits.worker import Answer, Job

ROOT = Path(__file__).parents[2]

Step = Literal["compile_s", "call_s"]
STEPS: tuple[Step, ...] = ("compile_s", "call_s")


@dataclass(frozen=True)
class Pair:
    """What both sides answered to one model, and the kernels that changed where the results did."""

    name: str
    before: Answer
    now: Answer
    kernels: str = ""

    @property
    def difference(self) -> str:
        return difference(self.before, self.now)

    def __str__(self) -> str:
        plans = f"kernels before -> now: {self.kernels}" if self.kernels else "the plans are the same"
        return f"{self.name}: {self.difference}; {plans}"


def official_jobs() -> Iterator[tuple[str, Job]]:
    """The official cases, but for those whose draws the standard leaves open."""
    for case in all_cases():
        model, data = case.load()
        if not draws_numbers(model.graph):
            yield case.name, Job(model=model.SerializeToString(), feeds=[inputs for inputs, _ in data])


def model_jobs(folder: Path) -> Iterator[tuple[str, Job]]:
    """The models of a folder that have their inputs beside them, in order: x.onnx, x.npz with arr_0, arr_1, ..."""
    for path in sorted(folder.glob("*.onnx")):
        with np.load(path.with_suffix(".npz")) as arrays:
            yield path.stem, Job(model=str(path), feeds=[[arrays[name] for name in arrays.files]])


def compared(name: str, job: Job, before: Side, now: Side) -> Pair:
    """What both sides say of one job."""
    pair = Pair(name, before.ask(job), now.ask(job))
    if not pair.difference:
        return pair
    with tempfile.TemporaryDirectory() as folder:
        model = job["model"]
        path = Path(model) if isinstance(model, str) else Path(folder) / "m.onnx"
        if isinstance(model, bytes):
            path.write_bytes(model)
        return Pair(name, pair.before, pair.now, changed_kernels(before.kernels(path), now.kernels(path)))


def ratios(pairs: Sequence[Pair], step: Step) -> str:
    """now / before of a time: the geometric mean over what both ran, and the largest with its name."""
    ran = [pair for pair in pairs if not pair.before["error"] and not pair.now["error"]]
    found = sorted((now / before, pair.name) for pair in ran for before, now in [seconds(pair, step)] if before > 0)
    if not found:
        return "nothing ran"
    mean = math.exp(math.fsum(math.log(max(ratio, 1e-9)) for ratio, _ in found) / len(found))
    worst = ", ".join(f"{name} {ratio:.2f}" for ratio, name in found[:-4:-1])
    total = [math.fsum(side) for side in zip(*(seconds(pair, step) for pair in ran), strict=True)]
    return f"geometric mean {mean:.3f}, of the sums {total[1] / total[0]:.3f}; largest {worst}"


def seconds(pair: Pair, step: Step) -> tuple[float, float]:
    return pair.before[step], pair.now[step]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.same_bits", description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="the checkout to compare this one with")
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="models instead of the official cases")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one model of N (default: all)")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="from the I-th model on (default: 0)")
    options = parser.parse_args()
    jobs = official_jobs() if options.models is None else model_jobs(options.models)
    before, now = Side(options.before.resolve()), Side(ROOT)
    pairs: list[Pair] = []
    for name, job in islice(jobs, options.first, None, options.every):
        pairs.append(compared(name, job, before, now))
        if pairs[-1].difference:
            print(pairs[-1], flush=True)
    before.stop()
    now.stop()
    different = sum(1 for pair in pairs if pair.difference)
    print(f"{len(pairs)} models: {len(pairs) - different} the same, {different} different")
    for step in STEPS:
        print(f"{step}: now / before {ratios(pairs, step)}")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
