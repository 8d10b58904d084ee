"""The command: judges many cases of com.microsoft and prints how many agree, by operator and type.

`python -m tests.differential.microsoft --count 10 --filter Gelu` takes ten cases of each operator that matches.
"""

import argparse
import re
from collections import Counter

from tests.differential.microsoft.draw import RECIPES
from tests.differential.microsoft.judge import Outcome, judge


def rows(outcomes: list[Outcome]) -> list[str]:
    """A line for each operator: its cases by type and status."""
    lines = []
    for operator in sorted({outcome.operator for outcome in outcomes}):
        counts = Counter((o.dtype, o.status) for o in outcomes if o.operator == operator)
        shown = ", ".join(f"{dtype} {status} {count}" for (dtype, status), count in sorted(counts.items()))
        lines.append(f"{operator}: {shown}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential.microsoft", description=__doc__)
    parser.add_argument("--count", type=int, default=8, metavar="N", help="cases of each operator (default: 8)")
    parser.add_argument("--filter", default="", metavar="RE", help="only operators that match")
    parser.add_argument("--target", default="cpu", help="cpu or interpreter (default: cpu)")
    options = parser.parse_args()
    operators = [name for name in sorted(RECIPES) if re.search(options.filter, name)]
    outcomes = [judge(name, number, options.target) for name in operators for number in range(options.count)]
    counts = Counter(outcome.status for outcome in outcomes)
    totals = [f"{count} {status}" for status, count in sorted(counts.items())]
    wrong = [str(outcome) for outcome in outcomes if outcome.status == "differs"]
    print(
        *rows(outcomes), *wrong, f"{len(outcomes)} cases of {len(operators)} operators: {', '.join(totals)}", sep="\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
