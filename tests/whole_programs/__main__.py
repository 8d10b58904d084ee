"""The command: judges many programs, prints the counts and every program on which engines do not agree."""

import argparse
import time
from collections import Counter
from pathlib import Path

from tests.whole_programs.judge import STATUSES, WRONG, Verdict
from tests.whole_programs.program import program
from tests.whole_programs.worker import judge_all


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.whole_programs", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, metavar="N", help="programs (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="the number of the first (default: 0)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another run (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="processes (default: %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write every program that is not agreed on")
    parser.add_argument("--all", action="store_true", help="print the programs that nobody else computes too")
    options = parser.parse_args()

    def report(verdict: Verdict) -> None:
        if verdict.status not in WRONG and not (options.all and verdict.status == "alone"):
            return
        print(f"{verdict.number}: {verdict.status}: {verdict.reason}", flush=True)
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            data = program(verdict.number, options.seed).model.SerializeToString()
            (options.keep / f"{options.seed}_{verdict.number}.onnx").write_bytes(data)

    started = time.perf_counter()
    numbers = range(options.first, options.first + options.count)
    verdicts = judge_all(numbers, options.seed, options.jobs, report)
    counts = Counter(verdict.status for verdict in verdicts)
    print(", ".join(f"{counts[status]} {status}" for status in STATUSES))
    calls = sum(verdict.calls for verdict in verdicts)
    slowest = max(verdicts, key=lambda verdict: verdict.compile_s)
    print(f"{len(verdicts)} programs, {calls} calls compared, {time.perf_counter() - started:.0f} s")
    print(f"slowest to compile: {slowest.number}, {slowest.compile_s:.1f} s of processor time")
    return 1 if any(verdict.status in WRONG for verdict in verdicts) else 0


if __name__ == "__main__":
    raise SystemExit(main())
