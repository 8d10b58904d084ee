"""Times each case of the operator sweep with onnxc and with ONNX Runtime, in turns, and compares the outputs.

    python -m benchmarks.operators [--only REGEX] [--limit N] [--rounds N] [--out FILE] [--resume] [--table FILE]
    python -m benchmarks.operators --list

One thread each, pinned, by the time of that thread. Cases run in batches, each in a process of its own with a limit of
time: one that crashes or hangs is a row. Cases that look slow run in two more processes, and their middle row counts.
Rows are lines of JSON in --out; --resume keeps those that are there.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.isolation import Row, run_isolated
from benchmarks.operators.case import OperatorCase
from benchmarks.operators.suites import all_cases
from benchmarks.operators.table import figure, markdown, summary

BATCH = 48
"""Cases in a process: starting one, and compiling for the first time in it, takes as long as five cases."""

SLOW_RATIO, SLOW_RUNS = 1.15, 3
"""Cases below are measured so often in all. In which pages of memory arrays lie is one for a process: transposes of
f32[16, 197, 384] took 1.6 ms in one and 3.7 ms in others, ours or ONNX Runtime's."""

RunOf = tuple[str, int]
"""A case, and which of its runs."""

START_S, LIMIT_S = 20.0, 6.0
"""What a batch may take: to start, and for each case on average."""


def main() -> None:
    options = parse_options()
    cases = [case for case in all_cases() if re.search(options.only, case.name)][: options.limit]
    if options.list:
        print("\n".join(case.name for case in cases))
        return
    rows = measure_settled(cases, options)
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


def measure_settled(cases: Sequence[OperatorCase], options: argparse.Namespace) -> list[Row]:
    """A row for each case: of those that look slow, the middle one of several runs."""
    kept = kept_rows(options)
    rows = measure_all(cases, 0, kept, options)
    slow = [case for case, row in zip(cases, rows, strict=True) if is_slow(row)]
    runs = [rows, *(measure_all(slow, run, kept, options) for run in range(1, SLOW_RUNS))]
    by_name: dict[str, list[Row]] = {}
    for row in (row for run in runs for row in run):
        by_name.setdefault(str(row["case"]), []).append(row)
    return [middle_row(by_name[case.name]) for case in cases]


def is_slow(row: Row) -> bool:
    return "ratio" in row and figure(row, "ratio") < SLOW_RATIO


def middle_row(rows: Sequence[Row]) -> Row:
    """The row with the middle ratio; before all others one of a run that failed, or gave other values."""
    failed = [row for row in rows if not row.get("equal", False)]
    return failed[0] if failed else sorted(rows, key=lambda row: figure(row, "ratio"))[len(rows) // 2]


def kept_rows(options: argparse.Namespace) -> dict[RunOf, Row]:
    """The rows of a call before; without --resume the file begins anew."""
    if options.resume and options.out.exists():
        rows = [json.loads(line) for line in options.out.read_text().splitlines()]
        return {(str(row["case"]), int(row["run"])): row for row in rows}
    options.out.write_text("")
    return {}


def measure_all(
    cases: Sequence[OperatorCase], ordinal: int, kept: Mapping[RunOf, Row], options: argparse.Namespace
) -> list[Row]:
    """The rows of a run of all cases; as many batches at once as there are processors, each on one."""
    rows = {case.name: kept[case.name, ordinal] for case in cases if (case.name, ordinal) in kept}
    missing = [case for case in cases if case.name not in rows]
    batches = [missing[start : start + BATCH] for start in range(0, len(missing), BATCH)]
    free, started = list(options.cpus), time.monotonic()

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
                out.write(json.dumps({**row, "run": ordinal}) + "\n")
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
