"""The command `python -m tests.conformance.versions`: official cases in other opsets, and what they compute.

A conversion gives the same values, is refused with a node named, or is flagged: other values, or any other error.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from onnx import ModelProto, TensorProto

import onnxc
from onnxc.runtime.errors import ModelError
from tests.conformance.cases import Case, all_cases, draws_numbers
from tests.conformance.compare import as_plain, difference

TARGETS = (1, 6, 8, 10, 12, 15, 17, 20, 24, 28)
RTOL, ATOL = 1e-5, 1e-6
ROUNDING = {TensorProto.FLOAT16: 2.0**-8, TensorProto.BFLOAT16: 2.0**-5}
"""What a few roundings in these types amount to: a composition rounds after each of its operators."""

Status = Literal["same", "refused", "flagged"]


@dataclass(frozen=True)
class Attempt:
    """One case in one other opset; `detail` is the reason of a refusal, or what is wrong."""

    case: str
    opset: int
    target: int
    status: Status
    detail: str = ""

    @property
    def direction(self) -> str:
        return "up" if self.target > self.opset else "down"


def opset_of(model: ModelProto) -> int | None:
    """The version of ai.onnx that a model imports; None for one without, or one that draws numbers."""
    if draws_numbers(model.graph):
        return None
    return next((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), None)


def run(model: object, inputs: Sequence[object]) -> list[object]:
    """What the interpreter computes."""
    outputs = as_plain(onnxc.compile(model, target="interpreter")(*inputs))  # type: ignore[arg-type]
    return outputs if isinstance(outputs, list) else [outputs]


def attempts(case: Case, targets: Iterable[int]) -> Iterator[Attempt]:
    """The case in each of the targets that is not its own opset."""
    model, data = case.load()
    opset = opset_of(model)
    if opset is None:
        return
    inputs, expected = data[0][0], None
    rtol = max([RTOL, *(ROUNDING.get(info.type.tensor_type.elem_type, 0.0) for info in model.graph.output)])
    for target in targets:
        if target == opset:
            continue
        try:
            converted = onnxc.convert_version(model, target)
        except ModelError as problem:
            status: Status = "refused" if problem.code == "opset-conversion" else "flagged"
            yield Attempt(case.name, opset, target, status, str(problem))
            continue
        expected = run(model, inputs) if expected is None else expected
        wrong = _difference(expected, converted, inputs, rtol)
        yield Attempt(case.name, opset, target, "flagged" if wrong else "same", wrong or "")


def _difference(expected: list[object], converted: object, inputs: Sequence[object], rtol: float) -> str | None:
    """What keeps the converted model from computing the expected values."""
    try:
        return difference(expected, run(converted, inputs), rtol, max(ATOL, rtol * ATOL / RTOL))
    except onnxc.OnnxcError as problem:
        return f"the converted model does not run: {problem}"


def _reason(attempt: Attempt) -> str:
    """What a refusal says of the operator, without the name of the node."""
    line = attempt.detail.splitlines()[0]
    return line.split("opset-conversion", 1)[-1].strip(" :[]")


def table(found: Sequence[Attempt]) -> str:
    rows = [("", "attempts", "same", "refused", "flagged")]
    for direction in ("up", "down", "both"):
        counts = Counter(each.status for each in found if direction in (each.direction, "both"))
        each = [sum(counts.values()), counts["same"], counts["refused"], counts["flagged"]]
        rows.append((direction, *map(str, each)))
    return "\n".join(f"{row[0]:6}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.versions", description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th case")
    parser.add_argument("--targets", type=int, nargs="+", default=list(TARGETS), metavar="OPSET")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only cases whose name has this in it")
    parser.add_argument("--reasons", action="store_true", help="print how often each refusal was given")
    options = parser.parse_args()
    cases = [case for case in all_cases() if case.kind != "real" and options.filter in case.name]
    with np.errstate(all="ignore"):
        found = [attempt for case in cases[:: options.every] for attempt in attempts(case, options.targets)]
    for attempt in found:
        if attempt.status == "flagged":
            print(f"{attempt.case} from {attempt.opset} to {attempt.target}: {attempt.detail}")
    if options.reasons:
        for reason, count in Counter(_reason(each) for each in found if each.status == "refused").most_common():
            print(f"{count:6}  {reason}")
    print(table(found))
    return any(attempt.status == "flagged" for attempt in found)


if __name__ == "__main__":
    sys.exit(main())
