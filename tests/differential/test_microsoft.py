"""Drawn models of the operators of com.microsoft: a case of each agrees with ONNX Runtime; `__main__` runs many."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.differential.microsoft.draw import RECIPES, Parts
from tests.differential.microsoft.judge import difference, draw_case, judge

BLOCKED = ("AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput")
PACKED = ("PackedAttention", "PackedMultiHeadAttention", "RemovePadding", "RestorePadding")
WITHOUT_A_RECIPE = {
    **dict.fromkeys(PACKED, "ONNX Runtime has it on CUDA: test_microsoft_packed_tokens.py has a model of its own"),
    "ReduceSumInteger": "ONNX Runtime infers two types for its result, and loads no model of it",
    "GreedySearch": "it runs a graph: tests/operators/microsoft/test_greedy_search.py draws cases",
    **dict.fromkeys((*BLOCKED, "Upsample"), "its filters are in blocks: test_microsoft_blocked_channels.py has cases"),
}
COVERAGE = Path(__file__).parents[2] / "docs" / "coverage.md"


def listed() -> set[str]:
    """The operators that docs/coverage.md names as compiled."""
    text = re.search(r"these are compiled:(.*?)\n\nA model", COVERAGE.read_text(), re.DOTALL)
    assert text is not None
    return set(re.findall(r"\w+", text[1]))


def test_every_operator_is_drawn() -> None:
    assert set(RECIPES) | set(WITHOUT_A_RECIPE) == listed()


@pytest.mark.parametrize("operator", sorted(RECIPES))
def test_cases_agree(operator: str) -> None:
    outcomes = [judge(operator, number, "interpreter") for number in range(3)]
    assert [str(outcome) for outcome in outcomes if outcome.status == "differs"] == []


NATIVE = ("Attention", "FusedConv", "MatMulNBits", "QLinearConv")


@pytest.mark.parametrize("operator", NATIVE)
def test_a_case_agrees_in_native_code(operator: str) -> None:
    outcomes = [judge(operator, number) for number in range(2)]
    assert next(outcome.status for outcome in outcomes if outcome.status != "no kernel") == "agrees"


@pytest.mark.slow
@pytest.mark.parametrize("operator", sorted(RECIPES))
def test_many_cases_agree_in_native_code(operator: str) -> None:
    outcomes = [judge(operator, number) for number in range(10)]
    assert [str(outcome) for outcome in outcomes if outcome.status == "differs"] == []


def test_a_case_is_the_same_each_time() -> None:
    first, second = (draw_case("QGemm", 3)[2].SerializeToString(deterministic=True) for _ in range(2))
    assert first == second != draw_case("QGemm", 4)[2].SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        (np.float32([1, 2]), ""),
        (np.float32([1, 2.001]), "y is off by 0.001"),
        (np.float64([1, 2]), "y is float64"),
        (np.float32([[1, 2]]), "by ONNX Runtime float32[2]"),
        (np.float32([1, np.nan]), "y is off by"),
    ],
    ids=["equal", "off", "type", "shape", "nan"],
)
def test_what_is_a_difference(ours: np.ndarray, wrong: str) -> None:
    text = difference([ours], [np.float32([1, 2])], Parts({}))
    assert wrong in text
    assert bool(text) == bool(wrong)
