"""Any folder of models, each beside another runtime: values compared, calls timed in turns, a process for each.

    python -m benchmarks.folder DIR [--vs onnxruntime] [--sizes 1,100] [--threads 1] [--filter RE] [--seconds N]
        [--rounds N]

Inputs are the arrays of NAME.npz beside NAME.onnx, by name or in order, else seeded draws in which every symbol has the
size. Times are processor time of the calling thread, or by the clock where other threads work: medians of rounds. The
rows are a table in Markdown, those that lose most first.
"""

import argparse
import math
import os
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.isolation import Row, run_isolated
from onnxc.measuring.runtimes import OTHERS


def table(rows: Sequence[Row], vs: str) -> str:
    """Rows with a result, the slowest beside `vs` first, and why there is none for others."""
    timed = [row for row in rows if "error" not in row]
    lines = [f"| model | size | ours, ms | {vs}, ms | ratio | difference |", "|---|---:|---:|---:|---:|---:|"]
    for row in sorted(timed, key=ratio, reverse=True):
        ours, theirs = (1e3 * float(str(row[side])) for side in ("ours", "theirs"))
        note = "" if row["same"] else " WRONG"
        difference = f"{float(str(row['difference'])):.0e}{note}"
        lines.append(
            f"| {row['model']} | {row['size']} | {ours:.4g} | {theirs:.4g} | {ratio(row):.2f} | {difference} |"
        )
    lines += [f"| {row['model']} | | | | | {row['error']} |" for row in rows if "error" in row]
    if timed:
        mean = math.exp(statistics.fmean(math.log(ratio(row)) for row in timed))
        lines += ["", f"{len(timed)} rows, geometric mean of the ratio {mean:.2f}, worst {max(map(ratio, timed)):.2f}"]
    return "\n".join(lines)


def ratio(row: Row) -> float:
    return float(str(row["ours"])) / float(str(row["theirs"]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.folder", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vs", choices=OTHERS, default="onnxruntime", help="what each is timed beside")
    parser.add_argument("--sizes", default="1", metavar="N,...", help="values of every symbol, in turns")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--filter", default="", metavar="RE", help="only models whose names match")
    parser.add_argument("--seconds", type=float, default=4.0, help="for the rounds of a row")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a model")
    options = parser.parse_args()
    # The last processors: what else runs is on the first.
    cpus = sorted(os.sched_getaffinity(0))[-options.threads :]
    rows: list[Row] = []
    for path in sorted(options.folder.glob("*.onnx")):
        if not re.search(options.filter, path.stem):
            continue
        arguments = {
            "path": str(path), "vs": options.vs, "sizes": [int(size) for size in options.sizes.split(",")],
            "threads": options.threads, "seconds": options.seconds, "rounds": options.rounds,
        }  # fmt: skip
        measured = run_isolated("benchmarks.folder.measure", arguments, cpus, options.limit)
        new = [{"model": path.stem, **row} for row in measured]
        for row in new:
            print(row.get("error") or f"{path.stem} {row['size']}: {ratio(row):.2f}", file=sys.stderr, flush=True)
        rows += new
    print(table(rows, options.vs))


if __name__ == "__main__":
    main()
