"""The command: judges many cases and prints the disagreements.

`python -m tests.differential --count 20000 --seed 7 --jobs 2 --filter Resize` runs long; `--case NAME` runs one case.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.differential.case import Pair, drawable, schemas
from tests.differential.judge import Outcome
from tests.differential.worker import Key, judge_all


def keys_of(pairs: list[Pair], count: int, seed: int) -> list[Key]:
    """`count` cases, spread evenly over the pairs."""
    return [(pair, number, seed) for number in range(-(-count // len(pairs))) for pair in pairs][:count]


def full_name(pair: Pair) -> str:
    return f"{pair[0] or 'ai.onnx'}.{pair[1]}-{pair[2]}"


def key_of(name: str) -> Key:
    """The key of a case's name."""
    found = re.fullmatch(r"(.*)\.(\w+)-(\d+)#(\d+)@(\d+)", name)
    assert found, name
    domain, operator, since, number, seed = found.groups()
    return ("" if domain == "ai.onnx" else domain, operator, int(since)), int(number), int(seed)


def disagreeing(path: Path) -> list[str]:
    """The names of the cases that disagree in a written run."""
    return [outcome["name"] for outcome in json.loads(path.read_text()) if outcome["differences"]]


def progress(done: int, total: int, started: float) -> None:
    if done % 200 == 0 or done == total:
        print(f"{done}/{total} {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)


def summary(outcomes: list[Outcome]) -> str:
    counts = Counter((engine, status) for outcome in outcomes for engine, status in outcome.statuses.items())
    lines = [f"{engine}: {status} {number}" for (engine, status), number in sorted(counts.items())]
    pairs = {outcome.name.split("#")[0] for outcome in outcomes}
    differ = sum(1 for outcome in outcomes if outcome.differences)
    settled = sum(1 for outcome in outcomes if outcome.adjudicated)
    lines.append(f"{len(outcomes)} cases, {len(pairs)} of {len(schemas())} pairs")
    return "\n".join([*lines, f"{settled} adjudicated disagreements, {differ} that are not"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5300, metavar="N", help="cases (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="processes (default: %(default)s)")
    parser.add_argument(
        "--filter", default="", metavar="RE", help="only operators such as ai.onnx.Resize-13 that match"
    )
    parser.add_argument("--case", default="", metavar="NAME", help="only this case, as disagreements name it")
    parser.add_argument("--again", type=Path, metavar="FILE", help="only the cases that disagree in what --json wrote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome")
    options = parser.parse_args()
    pairs = [pair for pair in drawable() if re.search(options.filter, full_name(pair))]
    keys = keys_of(pairs, options.count, options.seed)
    if options.case or options.again:
        keys = [key_of(name) for name in ([options.case] if options.case else disagreeing(options.again))]
    started = time.perf_counter()
    outcomes = judge_all(keys, options.jobs, lambda done, _: progress(done, len(keys), started))
    for outcome in outcomes:
        if outcome.differences or options.case:
            print(outcome.description)
            texts = {**outcome.messages, **outcome.differences} if options.case else outcome.differences
            for engine, text in texts.items():
                print(f"    {engine}: {text}")
    print(summary(outcomes))
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return 1 if any(outcome.differences for outcome in outcomes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
