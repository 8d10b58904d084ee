"""Whether the engines agree on a program, call by call."""

import warnings
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tests.differential.compare import difference
from tests.whole_programs.engines import Answers, Refusal, ort, ours, reference
from tests.whole_programs.program import Program

# agrees: with ONNX Runtime, or else with onnx's reference, in all calls that these compute.
# alone: neither computes a call, and all of our own engines say the same.
# differs: values; refused: we refuse what ONNX Runtime computes; slow: compiling takes too long.
Status = Literal["agrees", "agrees with reference", "alone", "differs", "refused", "slow", "not itself", "crash"]
STATUSES: tuple[Status, ...] = get_args(Status)
WRONG: tuple[Status, ...] = ("differs", "refused", "slow", "not itself", "crash")

MOST_COMPILE_S = 20.0


@dataclass(frozen=True)
class Verdict:
    """What came of a program; `calls`: how many were compared with another engine."""

    number: int
    status: Status
    reason: str = ""
    calls: int = 0
    compile_s: float = 0.0


# The reference evaluator ignores directions and axes of Scan, stacks scalars of a Loop to columns, and takes an empty
# optional for a full one.
MISTAKEN_IN_REFERENCE = frozenset(("scan", "loop", "optional"))


def judge(program: Program, *, asks_ort: bool = True) -> Verdict:
    """The verdict on a program; ONNX Runtime is not asked where it ended the process before."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        mine = ours(program)
        theirs = ort(program) if asks_ort else Refusal("ended the process")
        if isinstance(mine, Refusal):
            if isinstance(theirs, Refusal):
                return Verdict(program.number, "alone", f"all refuse: {mine.reason} | {theirs.reason}")
            return Verdict(program.number, "refused", f"compile: {mine.reason}")
        if mine.compile_s > MOST_COMPILE_S:
            return Verdict(program.number, "slow", f"{mine.compile_s:.1f} s", compile_s=mine.compile_s)
        for how, others in (("loaded", mine.loaded), ("interpreter", mine.interpreted)):
            status, reason, _ = compared(others, mine.first)
            if status in WRONG:
                return Verdict(program.number, "not itself", f"{how}: {reason}", 0, mine.compile_s)
        verdicts = []
        for label, engine in (("agrees", theirs), ("agrees with reference", None)):
            is_mistaken = engine is None and not MISTAKEN_IN_REFERENCE.isdisjoint(program.pieces)
            answers = engine or (Refusal("is mistaken in such programs") if is_mistaken else reference(program))
            if isinstance(answers, Refusal):
                verdicts.append(("alone", f"{label}: {answers.reason}", 0))
                continue
            verdicts.append(compared(answers, mine.first))
            if verdicts[-1][0] == "differs" and engine is not None:
                # Its optimiser loses outputs of some branches.
                plain = ort(program, is_optimized=False)
                verdicts[-1] = verdicts[-1] if isinstance(plain, Refusal) else compared(plain, mine.first)
            if verdicts[-1][0] == "agrees":
                return Verdict(program.number, label, "", verdicts[-1][2], mine.compile_s)  # type: ignore[arg-type]
    status, reason, calls = verdicts[0] if verdicts[0][0] != "alone" else verdicts[1]
    if status == "alone":
        reason = f"{verdicts[0][1]} | {verdicts[1][1]}"
    return Verdict(program.number, status, reason, calls, mine.compile_s)


def compared(theirs: Answers, mine: Answers) -> tuple[Status, str, int]:
    """Whether we say what they say, why not, and of how many calls."""
    calls, reasons = 0, []
    for ordinal, (expected, actual) in enumerate(zip(theirs, mine, strict=True)):
        if isinstance(expected, Refusal):
            if not isinstance(actual, Refusal):
                reasons.append(f"call {ordinal}: {expected.reason}")
            continue
        if isinstance(actual, Refusal):
            return "refused", f"call {ordinal}: {actual.reason}", calls
        pairs = zip(expected, actual, strict=True)
        wrong = next((text for e, a in pairs if (text := disagreement(e, a))), None)
        if wrong is not None:
            return "differs", f"call {ordinal}: {wrong}", calls
        calls += 1
    return ("agrees", "", calls) if calls else ("alone", "; ".join(reasons[:2]), 0)


def disagreement(expected: object, actual: object) -> str | None:
    """As `difference`. Sizes of an empty tensor are not compared: what a loop without a round stacks has none."""
    both_empty = all(isinstance(value, np.ndarray) and value.size == 0 for value in (expected, actual))
    return None if both_empty else difference(expected, actual, accumulates=True)
