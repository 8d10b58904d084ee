"""Comparing arrays: the element type and the shape always count."""

import numpy as np

from tests.support.tolerance import error_bound, outside, unit, widened


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal element types, shapes and elements; NaN equals NaN, and -0.0 is not 0.0."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(actual, expected)
    if expected.dtype.kind == "f":
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(actual)[zeros], np.signbit(expected)[zeros])


def assert_close(
    actual: np.ndarray,
    expected: np.ndarray,
    *,
    terms: int = 0,
    magnitude: np.ndarray | float | None = None,
    accumulator: np.dtype | type | None = None,
) -> None:
    """Equal element types and shapes; elements within the bound that follows from type and sums (`error_bound`)."""
    bound = error_bound(expected, terms=terms, magnitude=magnitude, accumulator=accumulator)
    _assert_within_bound(actual, expected, bound)


def assert_within(
    actual: np.ndarray, expected: np.ndarray, *, why: str, relative: float = 0.0, absolute: float = 0.0
) -> None:
    """As `assert_close`, within a bound that is not one of rounding: `why` says where it is from."""
    finite = np.where(np.isfinite(widened(expected)), np.abs(widened(expected)), 0.0)
    _assert_within_bound(actual, expected, relative * finite + absolute, why)


def _assert_within_bound(actual: np.ndarray, expected: np.ndarray, bound: np.ndarray, why: str = "rounding") -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if not unit(expected.dtype):
        np.testing.assert_array_equal(actual, expected)
        return
    wrong = outside(actual, expected, bound)
    if wrong.any():
        at = tuple(int(index) for index in np.argwhere(wrong)[0])
        told = f"expected {expected[at]}, got {actual[at]}, within {bound[at]:.3g} ({why})"
        raise AssertionError(f"{wrong.sum()} of {wrong.size} elements differ, first at {at}: {told}")


def relative_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, as a part of the largest magnitude expected; NaN or infinity if those are misplaced."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return np.inf
    if not expected.size:
        return 0.0
    wide, wide_expected = actual.astype(np.float64), expected.astype(np.float64)
    scale = np.abs(wide_expected).max()
    difference = np.abs(wide - wide_expected).max()
    return float(difference / scale) if scale else float(difference)


def assert_near(actual: np.ndarray, expected: np.ndarray, *, bound: float = 1e-4) -> None:
    """Equal element types and shapes; the largest difference at most `bound` of the largest magnitude."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    found = relative_difference(actual, expected)
    assert found <= bound, f"the largest difference is {found:.2e} of the largest magnitude"
