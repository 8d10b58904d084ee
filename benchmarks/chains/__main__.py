"""Times random chains of operators with onnxc and with ONNX Runtime, in turns, and compares the outputs.

    python -m benchmarks.chains [--first N] [--count N] [--above RATIO] [--save DIR]

A seed is a chain, the same everywhere; one thread each, pinned, by the time of that thread. Chains run in batches, each
in a process of its own with a limit of time. Printed are those whose ratio, ours to ONNX Runtime's, is above, or whose
outputs differ; these are saved, for `python -m benchmarks.folder DIR`. Where ONNX Runtime and NumPy differ about NaN,
as in ArgMax of it, outputs differ with no fault of ours.
"""

import argparse
import math
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.isolation import Row, run_isolated

BATCH = 50
"""Chains in a process: starting one takes as long as five chains."""

LIMIT_S = 6.0
"""What a chain may take on average."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chains", description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first seed (default: %(default)s)")
    parser.add_argument("--count", type=int, default=500, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument(
        "--above", type=float, default=1.0, metavar="RATIO", help="print what is (default: %(default)s)"
    )
    parser.add_argument("--save", type=Path, default=Path("chains"), metavar="DIR", help="default: %(default)s")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), metavar="N", help="default: the last")
    options = parser.parse_args()
    rows: list[Row] = []
    for first in range(options.first, options.first + options.count, BATCH):
        count = min(BATCH, options.first + options.count - first)
        arguments = {"first": first, "count": count, "folder": str(options.save)}
        rows += run_isolated("benchmarks.chains.measure", arguments, [options.cpu], BATCH * LIMIT_S)
        print(f"{first + count - options.first} of {options.count}", end="\r", file=sys.stderr, flush=True)
    print(report(rows, options.above))


def report(rows: Sequence[Row], above: float) -> str:
    """What is slower than `above`, the slowest first, what differs or failed, and all in one line."""
    timed = [row for row in rows if ratio(row)]
    slow = sorted((row for row in timed if ratio(row) > above), key=ratio, reverse=True)
    lines = [line(row) for row in slow]
    lines += [f"{line(row)}: differs by {row['difference']}" for row in timed if not row["same"]]
    lines += [f"{row.get('seed', '')} {row['error']}" for row in rows if "error" in row]
    if timed:
        ratios = [ratio(row) for row in timed]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        counts = ", ".join(f"{sum(each > limit for each in ratios)} above {limit}" for limit in (1.0, 1.1, 1.5))
        lines.append(f"{len(timed)} chains, geometric mean of the ratio {mean:.2f}; {counts}")
    return "\n".join(lines)


def line(row: Row) -> str:
    ours, theirs = (1e6 * float(str(row[side])) for side in ("ours", "theirs"))
    sizes = "open " if row["symbolic"] else ""
    return f"{row['seed']} {ours:.1f} us / {theirs:.1f} = {ratio(row):.2f} {sizes}{row['shape']} {row['nodes']}"


def ratio(row: Row) -> float:
    """Our time over the other one; 0 where there is none."""
    return float(str(row["ours"])) / float(str(row["theirs"])) if row.get("theirs") else 0.0


if __name__ == "__main__":
    main()
