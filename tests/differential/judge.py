"""The comparison of one case over all engines: which differ from ours, and which could not say."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tests.differential.adjudications import verdict
from tests.differential.case import Case
from tests.differential.compare import TOLERANCES, difference, drawn_difference
from tests.differential.engines import ENGINES, Answer, answer

OURS = ("interpreter", "cpu")


@dataclass(frozen=True)
class Outcome:
    """What came of a case: the status of each engine, and for those that disagree with ours, how.

    adjudicated: the engines that disagree and are wrong, and why.
    """

    name: str
    description: str
    statuses: Mapping[str, str]
    messages: Mapping[str, str]
    differences: Mapping[str, str]
    adjudicated: Mapping[str, str]


def judge(case: Case, engines: tuple[str, ...] = tuple(ENGINES)) -> Outcome:
    """The outcome of computing `case` with each engine and comparing with our interpreter."""
    answers = {engine: answer(case, engine) for engine in engines}
    return compare_answers(case, answers)


def least_tolerance(case: Case) -> float:
    """What the coarsest type allows in which an operator that adds up computes some of its results."""
    if not case.parts.accumulates:
        return 0.0
    given = (getattr(value, "value", value) for value in case.parts.inputs)
    names = [value.dtype.name for value in given if isinstance(value, np.ndarray)]
    return max((TOLERANCES.get(name, 0.0) for name in [*names, case.parts.precision]), default=0.0)


def compare_answers(case: Case, answers: Mapping[str, Answer]) -> Outcome:
    differences, adjudicated = {}, {}
    ours = answers.get("interpreter", Answer("skipped"))
    for engine, theirs in answers.items():
        if theirs.status == "failed":
            differences[engine] = theirs.message
        if engine == "interpreter" or theirs.outputs is None or ours.outputs is None:
            continue
        if case.parts.draws:
            found = drawn_difference(theirs.outputs, ours.outputs)
        else:
            found = difference(
                theirs.outputs, ours.outputs, accumulates=case.parts.accumulates, least=least_tolerance(case)
            )
        if not found:
            continue
        reason = None
        if engine not in OURS:
            reason = verdict(case, engine, ours.outputs, theirs.outputs, least_tolerance(case))
        if reason is None:
            differences[engine] = found
        else:
            adjudicated[engine] = reason
    return Outcome(
        case.name,
        case.describe(),
        {engine: theirs.status for engine, theirs in answers.items()},
        {engine: theirs.message for engine, theirs in answers.items() if theirs.message},
        differences,
        adjudicated,
    )
