"""What arrays are compared by: bounds that follow from the type and the sums, and what is outside of them."""

import ml_dtypes
import numpy as np
import pytest

from tests.support.arrays import assert_close, assert_within
from tests.support.tolerance import error_bound, unit

F32 = 2.0**-23


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.float64, 2.0**-52),
        (np.float32, F32),
        (np.float16, 2.0**-10),
        (ml_dtypes.bfloat16, 2.0**-7),
        (ml_dtypes.float8_e4m3fn, 2.0**-3),
        (np.complex64, F32),
        (np.int32, 0.0),
        (ml_dtypes.int4, 0.0),
        (np.bool_, 0.0),
        (object, 0.0),
    ],
)
def test_the_unit_of_a_type_is_that_of_its_floats(dtype: type, expected: float) -> None:
    assert unit(np.dtype(dtype)) == expected


def test_a_bound_is_4_units_of_each_element_and_one_of_the_largest_for_each_term() -> None:
    x = np.array([0, 2, -8, np.inf, np.nan], np.float32)
    np.testing.assert_allclose(error_bound(x), np.array([0, 8, 32, 0, 0]) * F32, atol=1e-44)
    np.testing.assert_allclose(error_bound(x, terms=3), np.array([24, 32, 56, 24, 24]) * F32, atol=1e-44)
    np.testing.assert_allclose(error_bound(x, terms=3, magnitude=1), np.array([3, 11, 35, 3, 3]) * F32, atol=1e-44)
    halves = error_bound(x, terms=1, magnitude=1, accumulator=np.float16)
    np.testing.assert_allclose(halves, np.array([0, 8, 32, 0, 0]) * F32 + 2.0**-10, atol=1e-44)


def test_what_is_exact_has_no_bound() -> None:
    assert not error_bound(np.array([5, -7]), terms=100).any()
    with pytest.raises(AssertionError, match="1 / 2"):
        assert_close(np.array([5, 7]), np.array([5, 6]), terms=100)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38])
def test_odd_values_are_themselves(value: float) -> None:
    x = np.array([value], np.float32)
    assert_close(x, x)
    assert_within(x, x, why="nothing")


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.float32([1 + 5 * F32]), np.float32([1])),
        (np.float32([1e-6]), np.float32([0])),
        (np.float32([np.inf]), np.float32([3e38])),
        (np.float32([np.inf]), np.float32([-np.inf])),
        (np.float32([np.nan]), np.float32([1])),
        (np.float32([1]), np.float32([np.nan])),
        (np.float32([1]), np.float64([1])),
        (np.float32([1]), np.float32([[1]])),
        (np.complex64([1 + 1e-5j]), np.complex64([1])),
    ],
)
def test_what_is_outside_is_told(actual: np.ndarray, expected: np.ndarray) -> None:
    with pytest.raises(AssertionError):
        assert_close(actual, expected)


def test_a_bound_that_is_none_of_rounding_says_where_it_is_from() -> None:
    with pytest.raises(AssertionError, match=r"within 0\.5 \(half a step\)"):
        assert_within(np.float32([2]), np.float32([1]), absolute=0.5, why="half a step")
