"""The command: tries mutated models over several processes, prints the counts and every model that does harm."""

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count as counting
from pathlib import Path

from tests.fuzz.mutate import mutated
from tests.fuzz.worker import LIMIT_S, STATUSES, WRONG, Outcome, Worker


def try_models(first: int, count: int, workers: Sequence[Worker]) -> tuple[Outcome, ...]:
    """The outcomes of models `first` to `first + count`, in order; what does harm is printed at once."""
    numbers = iter(range(first, first + count))
    lock = threading.Lock()
    outcomes: list[Outcome] = []
    done = counting(1)

    def drain(worker: Worker) -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            outcome = worker.run(number)
            with lock:
                outcomes.append(outcome)
                show(outcome, next(done), count)

    threads = [threading.Thread(target=drain, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tuple(sorted(outcomes, key=lambda outcome: outcome.number))


def show(outcome: Outcome, done: int, count: int) -> None:
    if outcome.status in WRONG:
        print(f"{outcome.number}: {outcome.status} after {outcome.seconds:.1f} s: {outcome.reason}", flush=True)
    if sys.stderr.isatty():
        print(f"\r{done}/{count}", end="" if done < count else "\n", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="models (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="the number of the first (default: 0)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another run (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="processes (default: %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write every model that does harm into this folder")
    options = parser.parse_args()
    started = time.perf_counter()
    workers = [Worker(options.seed) for _ in range(options.jobs)]
    outcomes = try_models(options.first, options.count, workers)
    for worker in workers:
        worker.connection.send(None)
        worker.stop()
    wrong = [outcome for outcome in outcomes if outcome.status in WRONG]
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        for outcome in wrong:
            name = f"{options.seed}_{outcome.number}_{outcome.status}.onnx"
            (options.keep / name).write_bytes(mutated(outcome.number, options.seed))
    counts = Counter(outcome.status for outcome in outcomes)
    print(", ".join(f"{counts[status]} {status}" for status in STATUSES))
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)[:3]:
        print(f"slow: {outcome.number} after {outcome.seconds:.1f} s of {LIMIT_S:.0f} s")
    untried = options.count - len(outcomes)
    print(
        f"{len(outcomes)} models in {time.perf_counter() - started:.0f} s" + (f", {untried} not tried" * bool(untried))
    )
    return 1 if wrong or untried else 0


if __name__ == "__main__":
    raise SystemExit(main())
