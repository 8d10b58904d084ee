"""Optionals: absent or present, as inputs, results, in branches and around loops."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from tests.operators.host_models import TARGETS, run_text
from tests.support.arrays import assert_same

X = np.array([1, 2], np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("value", [None, X])
def test_presence_is_told(target: str, value: np.ndarray | None) -> None:
    text = "g (optional(float[N]) o) => (bool y) { y = OptionalHasElement(o) }"
    (y,) = run_text(text, {"o": value}, target)
    assert_same(y, np.array(value is not None))


@pytest.mark.parametrize("target", TARGETS)
def test_an_element_is_taken_out(target: str) -> None:
    text = "g (optional(float[N]) o) => (float[M] y) { x = OptionalGetElement(o) y = Neg(x) }"
    (y,) = run_text(text, {"o": X}, target)
    assert_same(y, -X)
    with pytest.raises(InputError, match="the optional has no element"):
        run_text(text, {"o": None}, target)


@pytest.mark.parametrize("target", TARGETS)
def test_tensors_and_sequences_are_present(target: str) -> None:
    text = """g (float[N] x, seq(float[M]) s) => (bool a, bool b, bool c, float[N] y) {
        a = OptionalHasElement(x)
        b = OptionalHasElement(s)
        c = OptionalHasElement()
        y = OptionalGetElement(x)
    }"""
    a, b, c, y = run_text('<ir_version: 10, opset_import: ["" : 28]>\n' + text, {"x": X, "s": []}, target)
    assert [bool(flag) for flag in (a, b, c)] == [True, True, False]
    assert_same(y, X)


@pytest.mark.parametrize("target", TARGETS)
def test_what_was_made_optional_comes_back(target: str) -> None:
    text = """g (float[N] x) => (float[N] y, optional(float[N]) o) {
        o = Optional(x) z = OptionalGetElement(o) y = Neg(z)
    }"""
    y, o = run_text(text, {"x": X}, target)
    assert_same(y, -X)
    assert_same(o, X)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("value", [None, [X, X]])
def test_a_branch_takes_an_element_only_if_there_is_one(target: str, value: list[np.ndarray] | None) -> None:
    text = """g (optional(seq(float[N])) o) => (int64 n) {
        has = OptionalHasElement(o)
        n = If (has) <
            then_branch = t () => (int64 a) { s = OptionalGetElement(o) a = SequenceLength(s) },
            else_branch = e () => (int64 b) { b = Constant<value = int64 {-1}>() }>
    }"""
    (n,) = run_text(text, {"o": value}, target)
    assert_same(n, np.array(-1 if value is None else 2))


@pytest.mark.parametrize("target", TARGETS)
def test_an_absent_one_is_none(target: str) -> None:
    text = "g () => (optional(float[N]) o) { o = Optional<type = float[N]>() }"
    assert run_text(text, {}, target) == (None,)


def test_an_optional_may_be_left_out_of_a_call() -> None:
    (y,) = run_text("g (optional(float[N]) o) => (bool y) { y = OptionalHasElement(o) }", {})
    assert_same(y, np.array(False))
