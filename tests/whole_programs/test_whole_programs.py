"""Drawn programs: the same each time, of every piece, and computed as ONNX Runtime or onnx's reference compute them."""

from collections import Counter

import numpy as np
import pytest

from tests.whole_programs.judge import WRONG, disagreement, judge
from tests.whole_programs.pieces import MANNERS
from tests.whole_programs.program import OPSETS, program

# Two programs of each manner take about 6 s of a processor; the command judges more.
BRIEF = 2 * len(MANNERS)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(BRIEF))
def test_engines_agree_on_a_program(number: int) -> None:
    verdict = judge(program(number, seed=3))
    assert verdict.status not in WRONG, verdict.reason


def test_the_same_number_gives_the_same_program() -> None:
    first, again, other = program(5), program(5), program(5, seed=1)
    assert first.model.SerializeToString(deterministic=True) == again.model.SerializeToString(deterministic=True)
    for call, repeated in zip(first.calls, again.calls, strict=True):
        assert all(np.array_equal(call[name], repeated[name]) for name in call)
    assert first.model != other.model


def test_programs_are_of_all_pieces_and_opsets() -> None:
    seen: Counter[str] = Counter()
    for number in range(30 * len(MANNERS)):
        drawn = program(number)
        seen.update(drawn.pieces)
        seen[f"opset {drawn.model.opset_import[0].version}"] += 1
    names = {piece.name for manner in MANNERS for piece in manner} | {f"opset {opset}" for opset in OPSETS}
    assert names <= seen.keys()


def test_calls_of_a_program_are_of_no_one_and_more_elements() -> None:
    assert [call["x"].size for call in program(0).calls] == [3, 0, 1, 5, 1, 8]


def test_the_sizes_of_empty_tensors_are_not_compared() -> None:
    assert disagreement(np.zeros((0, 2), np.float32), np.zeros((0, 0), np.float32)) is None
    assert disagreement(np.zeros((0, 2), np.float32), np.zeros((1, 2), np.float32)) is not None
