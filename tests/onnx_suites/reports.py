"""What became of the tests of a suite: agreements and disagreements, and the page that tells of them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.onnx_suites.reasons import REASONS

__all__ = ["Verdict", "page", "verdicts"]

Status = Literal["agrees", "tells more", "other words", "disagrees", "not comparable"]

COLUMNS: Mapping[Status, str] = {
    "agrees": "agree",
    "tells more": "agree, ours tells more",
    "other words": "agree, in other words",
    "disagrees": "disagree",
    "not comparable": "not comparable",
}
OTHER_WORDS = "Regex pattern did not match"


@dataclass(frozen=True)
class Verdict:
    """One test; `reason` is empty for an agreement, and for a disagreement that nothing explains."""

    suite: str
    case: str
    status: Status
    detail: str = ""

    @property
    def reason(self) -> str:
        found = (reason for suite, pattern, reason in REASONS if suite == self.suite and self._matches(pattern))
        return next(found, "") if self.status == "disagrees" else ""

    def _matches(self, pattern: str) -> bool:
        return re.search(pattern, f"{self.case} | {self.detail}", re.DOTALL) is not None


def verdicts(
    suite: str, ours: Mapping[str, Mapping[str, str]], theirs: Mapping[str, Mapping[str, str]]
) -> tuple[Verdict, ...]:
    """The verdict on each test; those that onnx itself skips or fails are not comparable."""
    return tuple(_verdict(suite, case, found, theirs.get(case)) for case, found in sorted(ours.items()))


def _verdict(suite: str, case: str, found: Mapping[str, str], theirs: Mapping[str, str] | None) -> Verdict:
    name = case.partition("::")[2]
    if theirs is None or theirs["outcome"] != "passed":
        return Verdict(suite, name, "not comparable", found["detail"])
    if found["outcome"] == "passed":
        return Verdict(suite, name, "tells more" if found["detail"] else "agrees")
    status: Status = "other words" if OTHER_WORDS in found["detail"] else "disagrees"
    return Verdict(suite, name, status, found["detail"])


def page(found: Sequence[Verdict], version: str) -> str:
    """The page of results, in Markdown."""
    head = [
        "# The tests of the onnx project, with our functions in the place of onnx's",
        "",
        f"Written by `python -m tests.onnx_suites --source DIR`, with onnx {version}. A test that onnx itself skips or",
        "fails is not comparable; errors in other words than a test asks for are told apart.",
        "",
        f"| suite | tests | {' | '.join(COLUMNS.values())} |",
        f"|---|{'---:|' * (len(COLUMNS) + 1)}",
    ]
    return "\n".join([*head, *_rows(found), "", "## Disagreements", "", *_reasons(found)]) + "\n"


def _rows(found: Sequence[Verdict]) -> Iterable[str]:
    suites = [*dict.fromkeys(verdict.suite for verdict in found)]
    for suite in (*suites, "all"):
        own = Counter(verdict.status for verdict in found if suite in (verdict.suite, "all"))
        yield f"| {suite} | {sum(own.values())} | {' | '.join(str(own[status]) for status in COLUMNS)} |"


def _reasons(found: Sequence[Verdict]) -> Iterable[str]:
    """The cases of each reason, most first."""
    cases: dict[tuple[str, str], list[str]] = defaultdict(list)
    for verdict in found:
        if verdict.status == "disagrees":
            cases[verdict.suite, verdict.reason or "**not explained**"].append(verdict.case.rpartition("::")[2])
    for (suite, reason), names in sorted(cases.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1])):
        yield f"* {suite}, {len(names)}: {reason}: {', '.join(f'`{name}`' for name in names)}"
