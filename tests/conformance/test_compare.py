"""What counts as a difference between expected and actual outputs."""

import ml_dtypes
import numpy as np
import pytest

from tests.conformance.compare import difference, draw_difference

ONE = np.float32(1)


def found(expected: object, actual: object) -> str | None:
    return difference([expected], [actual], rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (np.float32(1), np.array(1.0005, np.float32)),
        (np.array([np.nan, np.inf, -np.inf], np.float32), np.array([np.nan, np.inf, -np.inf], np.float32)),
        (np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64)),
        (np.array(["a", ""], object), np.array(["a", ""], object)),
        (np.array([1, -2], ml_dtypes.int4), np.array([1, -2], ml_dtypes.int4)),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0078125], ml_dtypes.bfloat16)),
        ([ONE, [ONE]], (ONE, (ONE,))),
        ([], []),
        (None, None),
    ],
)
def test_same(expected: object, actual: object) -> None:
    assert found(expected, actual) is None


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        (np.float32(1), np.float64(1), "expected float32, got float64"),
        (np.ones(1, np.float32), np.float32(1), "expected shape (1,), got ()"),
        (
            np.array([1000], np.int64),
            np.array([1001], np.int64),
            "1 of 1 differ, first at (0,): expected 1000, got 1001",
        ),
        (np.array([1, 2], ml_dtypes.int4), np.array([1, 1], ml_dtypes.int4), "1 of 2 differ"),
        (np.float32(1), np.float32(1.01), "1 of 1 differ"),
        (np.array([-np.inf], np.float32), np.array([-3.4e38], np.float32), "1 of 1 differ"),
        (np.array([np.nan], np.float32), np.array([0], np.float32), "1 of 1 differ"),
        (np.array(["a"], object), np.array(["b"], object), "1 of 1 differ"),
        (np.array(["1"], object), np.array([1], np.int64), "expected object, got int64"),
        ([ONE, ONE], [ONE], "expected 2 values, got 1"),
        ([ONE], ONE, "expected a sequence of 1, got float32"),
        (ONE, [ONE], "got a sequence of 1"),
        (None, ONE, "expected NoneType, got float32"),
    ],
)
def test_different(expected: object, actual: object, text: str) -> None:
    reason = found(expected, actual)
    assert reason is not None
    assert text in reason


def test_number_of_outputs_counts() -> None:
    assert difference([ONE], [ONE, ONE], 1e-3, 1e-7) == "outputs: expected 1 values, got 2"


@pytest.mark.parametrize(
    ("actual", "text"),
    [
        (np.array([1, 1], np.float32), None),
        (np.array([0, 0.5], np.float32), "outputs[0]: a value is neither 0 nor 1"),
        (np.array([0, np.nan], np.float32), "outputs[0]: not finite"),
        (np.array([0, 1], np.float64), "outputs[0]: expected float32[2], got float64[2]"),
        (np.array([0], np.float32), "outputs[0]: expected float32[2], got float32[1]"),
    ],
)
def test_a_draw_is_judged_by_type_shape_and_range(actual: np.ndarray, text: str | None) -> None:
    assert draw_difference([np.array([0, 1], np.float32)], [actual]) == text
