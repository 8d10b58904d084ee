"""How far a result may be from the expected one: derived from the element type and the number of terms summed.

A sum of n terms in floating point is within n units of rounding of the sum of the magnitudes of its terms, in any
order (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2); what is asked here is twice that.
"""

import ml_dtypes
import numpy as np

# Elementary functions and short chains of arithmetic are within as many units in the last place
# (tests/codegen_cpu/elementary/test_elementary.py measures at most 4 of each function).
UNITS = 4.0


def unit(dtype: np.dtype) -> float:
    """The distance from 1 to the next number of a float or complex type; 0 for every other type."""
    real = np.dtype({"complex64": np.float32, "complex128": np.float64}.get(dtype.name, dtype))
    if real.kind in "biuOUSTM" or "int" in real.name:
        return 0.0
    return float(ml_dtypes.finfo(real).eps)


def smallest(dtype: np.dtype) -> float:
    """The smallest number above 0 of a float or complex type: results below it are rounded by up to all of it."""
    real = np.dtype({"complex64": np.float32, "complex128": np.float64}.get(dtype.name, dtype))
    return float(ml_dtypes.finfo(real).smallest_subnormal)


def error_bound(
    expected: np.ndarray,
    *,
    terms: int = 0,
    magnitude: np.ndarray | float | None = None,
    accumulator: np.dtype | type | None = None,
) -> np.ndarray:
    """The largest difference that each element may have; all 0 for what is exact.

    terms: how many terms the longest sum on the way has; magnitude: the sum of the magnitudes of these terms, the
    largest finite element where it is not known; accumulator: the type in which they are summed, else the result's.
    """
    step = unit(expected.dtype)
    if not step:
        return np.zeros(expected.shape)
    sizes = np.abs(widened(expected))
    sizes = np.where(np.isfinite(sizes), sizes, 0.0)
    summed = sizes.max(initial=0.0) if magnitude is None else np.asarray(magnitude, np.float64)
    sum_step = step if accumulator is None else unit(np.dtype(accumulator))
    bound: np.ndarray = UNITS * step * sizes + terms * sum_step * summed + smallest(expected.dtype)
    return bound


def widened(array: np.ndarray) -> np.ndarray:
    """The elements in a type that holds each of them, and in which NumPy computes."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def outside(actual: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Which elements differ by more than the bound; NaN equals NaN, and an infinity only itself."""
    with np.errstate(all="ignore"):
        wide, wide_expected = widened(actual), widened(expected)
        near = np.abs(wide - wide_expected) <= bound
    both_nan = np.isnan(wide) & np.isnan(wide_expected)
    wrong: np.ndarray = ~(near | both_nan | (wide == wide_expected))
    return wrong
