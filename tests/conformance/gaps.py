"""The list of cases that do not pass yet, one a line with the reason in a word. It may only shrink."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.conformance.worker import Outcome

PATH = Path(__file__).with_name("known_gaps.txt")
HEADER = """\
# Official cases that do not pass yet: name, reason. A listed case that passes fails the tests until its line is gone.
# Written by `python -m tests.conformance --write-gaps`.
"""


def read_gaps(path: Path = PATH) -> Mapping[str, str]:
    """The reason for each listed case."""
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return {words[0]: words[1] for words in lines if words}


def write_gaps(outcomes: Iterable[Outcome], path: Path = PATH) -> None:
    rows = sorted((outcome.name, outcome.status) for outcome in outcomes if outcome.status != "passed")
    path.write_text(HEADER + "".join(f"{name} {status}\n" for name, status in rows))


def complaints(outcomes: Iterable[Outcome], gaps: Mapping[str, str]) -> tuple[str, ...]:
    """One line for each case that does not pass and is not listed, or passes and is listed."""
    lines = []
    for outcome in outcomes:
        if outcome.status == "passed" and outcome.name in gaps:
            lines.append(f"{outcome.name}: passes, so its line in {PATH.name} must go")
        elif outcome.status != "passed" and outcome.name not in gaps:
            lines.append(f"{outcome.name}: {outcome.status}: {outcome.reason}")
    return tuple(lines)
