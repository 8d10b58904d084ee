"""The command: runs the official cases over several processes and prints the score of each kind."""

import argparse
import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue

from tests.conformance.cases import KINDS
from tests.conformance.gaps import complaints, read_gaps, write_gaps
from tests.conformance.worker import STATUSES, Outcome, Worker


def run_cases(names: Sequence[str], workers: Sequence[Worker]) -> tuple[Outcome, ...]:
    """The outcomes in the order of the names; the workers take cases as they come free."""
    waiting: SimpleQueue[str] = SimpleQueue()
    for name in names:
        waiting.put(name)
    outcomes: dict[str, Outcome] = {}

    def drain(worker: Worker) -> None:
        while True:
            try:
                name = waiting.get_nowait()
            except Empty:
                return
            outcomes[name] = worker.run(name)
            show_progress(len(outcomes), len(names))

    threads = [threading.Thread(target=drain, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tuple(outcomes[name] for name in names)


def show_progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{total}", end="" if done < total else "\n", file=sys.stderr, flush=True)


def score_table(outcomes: Sequence[Outcome]) -> str:
    counts = Counter((outcome.kind, outcome.status) for outcome in outcomes)
    rows = [("kind", "cases", *STATUSES)]
    for kind in (*KINDS, "all"):
        kinds = KINDS if kind == "all" else (kind,)
        row = [sum(counts[k, status] for k in kinds) for status in STATUSES]
        rows.append((kind, str(sum(row)), *map(str, row)))
    return "\n".join(f"{row[0]:18}" + "".join(f"{cell:>13}" for cell in row[1:]) for row in rows)


def as_json(outcomes: Sequence[Outcome]) -> str:
    kinds = {kind: Counter(o.status for o in outcomes if o.kind == kind) for kind in KINDS}
    return json.dumps({"kinds": kinds, "cases": [asdict(outcome) for outcome in outcomes]}, indent=1) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: %(default)s)")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only cases whose name matches")
    parser.add_argument(
        "--limit", type=float, default=60.0, metavar="S", help="seconds a case may take (default: %(default)s)"
    )
    parser.add_argument("--backend", default="onnxc.backend", metavar="MODULE", help="whose prepare() to test")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome of each case")
    parser.add_argument("--write-gaps", action="store_true", help="rewrite known_gaps.txt (without --filter)")
    parser.add_argument("--verbose", action="store_true", help="print each case that does not pass")
    options = parser.parse_args()
    if options.write_gaps and options.filter:
        parser.error("--write-gaps needs all cases: leave out --filter")
    started = time.perf_counter()
    workers = [Worker(options.backend, options.limit) for _ in range(options.jobs)]
    names = [name for name in workers[0].kinds if re.search(options.filter, name)]
    outcomes = run_cases(names, workers)
    for worker in workers:
        worker.connection.send(None)
        worker.stop()
    if options.verbose:
        print("\n".join(f"{o.name}: {o.status}: {o.reason}" for o in outcomes if o.status != "passed"))
    print(score_table(outcomes))
    print(f"{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(as_json(outcomes))
    if options.write_gaps:
        write_gaps(outcomes)
        return 0
    wrong = complaints(outcomes, read_gaps())
    print("\n".join(wrong) if wrong else "as known_gaps.txt says")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
