"""Times each case of the operator sweep with onnxc and with ONNX Runtime, in turns, and compares the outputs.

    python -m benchmarks.operators [--only REGEX] [--limit N] [--rounds N] [--out FILE] [--resume] [--table FILE]
    python -m benchmarks.operators --list

One thread each, pinned, by the time of that thread. Cases run in batches, each in a process of its own with a limit of
time: one that crashes or hangs is a row. Rows are lines of JSON in --out; --resume keeps those that are there.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.isolation import Row, run_isolated
from benchmarks.operators.case import OperatorCase
from benchmarks.operators.suites import all_cases
from benchmarks.operators.table import markdown, summary

BATCH = 48
"""Cases in a process: starting one, and compiling for the first time in it, takes as long as five cases."""

START_S, LIMIT_S = 20.0, 6.0
"""What a batch may take: to start, and for each case on average."""


def main() -> None:
    options = parse_options()
    cases = [case for case in all_cases() if re.search(options.only, case.name)][: options.limit]
    if options.list:
        print("\n".join(case.name for case in cases))
        return
    rows = measure_all(cases, kept_rows(options), options)
    print(summary(rows))
    if options.table:
        options.table.write_text(markdown(rows))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose names match somewhere")
    parser.add_argument("--limit", type=int, metavar="N", help="the first so many of them")
    parser.add_argument(
        "--rounds", type=int, default=9, metavar="N", help="timed rounds of each (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("operators.jsonl"), metavar="FILE", help="default: %(default)s"
    )
    parser.add_argument("--resume", action="store_true", help="keep the rows of --out, and measure what is missing")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the rows as markdown, the worst first")
    parser.add_argument("--cpus", type=cpu_list, default=sorted(os.sched_getaffinity(0)), metavar="N,...")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    return parser.parse_args()


def cpu_list(text: str) -> list[int]:
    return [int(cpu) for cpu in text.split(",")]


def kept_rows(options: argparse.Namespace) -> dict[str, Row]:
    """The rows of a run before, by case; without --resume the file begins anew."""
    if options.resume and options.out.exists():
        rows = [json.loads(line) for line in options.out.read_text().splitlines()]
        return {str(row["case"]): row for row in rows}
    options.out.write_text("")
    return {}


def measure_all(cases: Sequence[OperatorCase], kept: dict[str, Row], options: argparse.Namespace) -> list[Row]:
    """The rows of all cases; as many batches at once as there are processors, each on one."""
    missing = [case for case in cases if case.name not in kept]
    batches = [missing[start : start + BATCH] for start in range(0, len(missing), BATCH)]
    free, rows, started = list(options.cpus), dict(kept), time.monotonic()

    def run(batch: Sequence[OperatorCase]) -> list[Row]:
        cpu = free.pop()
        try:
            return list(measure_batch(batch, options.rounds, cpu))
        finally:
            free.append(cpu)

    with ThreadPoolExecutor(len(options.cpus)) as pool, options.out.open("a") as out:
        for done in as_completed([pool.submit(run, batch) for batch in batches]):
            for row in done.result():
                rows[str(row["case"])] = row
                out.write(json.dumps(row) + "\n")
            out.flush()
            print(f"\r{len(rows)} of {len(cases)}, {time.monotonic() - started:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    return [rows[case.name] for case in cases]


def measure_batch(batch: Sequence[OperatorCase], rounds: int, cpu: int) -> Iterator[Row]:
    """A row for each case: what ends the process is the row of the case that ran, and the rest runs in another."""
    waiting = {case.name: case for case in batch}
    while waiting:
        asked = {"cases": "\n".join(waiting), "rounds": rounds}
        rows = run_isolated("benchmarks.operators.measure", asked, [cpu], START_S + LIMIT_S * len(waiting))
        for row in rows or [{"error": "no row"}]:
            case = waiting.pop(str(row["case"])) if "case" in row else waiting.pop(next(iter(waiting)))
            yield {"case": case.name, "operator": case.operator, "form": case.form, **row}


if __name__ == "__main__":
    main()
