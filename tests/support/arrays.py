"""Comparing arrays: the element type and the shape always count."""

import numpy as np


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal element types, shapes and elements; NaN equals NaN, and -0.0 is not 0.0."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(actual, expected)
    if expected.dtype.kind == "f":
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(actual)[zeros], np.signbit(expected)[zeros])


def assert_close(actual: np.ndarray, expected: np.ndarray, *, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Equal element types and shapes; elements within the bounds, NaN and infinities in the same places."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


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
