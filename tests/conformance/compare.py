"""What keeps outputs from being the expected ones: types, shapes and integers exactly, floats within bounds."""

from collections.abc import Sequence

import numpy as np

# Two units in the last place of bfloat16, as the official runner allows.
BFLOAT16_RTOL = 2.0**-6


def difference(expected: Sequence[object], actual: object, rtol: float, atol: float) -> str | None:
    """The first difference between two lists of values, or None."""
    return value_difference(list(expected), as_plain(actual), "outputs", rtol, atol)


def value_difference(expected: object, actual: object, where: str, rtol: float, atol: float) -> str | None:
    if expected is None or actual is None:
        return None if expected is actual else f"{where}: expected {describe(expected)}, got {describe(actual)}"
    if isinstance(expected, list):
        return list_difference(expected, actual, where, rtol, atol)
    if isinstance(actual, list):
        return f"{where}: expected {describe(expected)}, got a sequence of {len(actual)}"
    return array_difference(np.asarray(expected), np.asarray(actual), where, rtol, atol)


def list_difference(expected: list[object], actual: object, where: str, rtol: float, atol: float) -> str | None:
    if not isinstance(actual, list):
        return f"{where}: expected a sequence of {len(expected)}, got {describe(actual)}"
    if len(expected) != len(actual):
        return f"{where}: expected {len(expected)} values, got {len(actual)}"
    pairs = enumerate(zip(expected, actual, strict=True))
    found = (value_difference(e, a, f"{where}[{i}]", rtol, atol) for i, (e, a) in pairs)
    return next((text for text in found if text is not None), None)


def array_difference(expected: np.ndarray, actual: np.ndarray, where: str, rtol: float, atol: float) -> str | None:
    if is_text(expected) != is_text(actual) or (not is_text(expected) and expected.dtype != actual.dtype):
        return f"{where}: expected {expected.dtype}, got {actual.dtype}"
    if expected.shape != actual.shape:
        return f"{where}: expected shape {expected.shape}, got {actual.shape}"
    if is_text(expected) or expected.dtype.kind in "biu":
        wrong = np.asarray(expected != actual)
    elif expected.dtype.kind in "fc":
        wrong = ~np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    else:
        # The small integers and floats of ml_dtypes: float64 holds all of them exactly.
        rtol = max(rtol, BFLOAT16_RTOL) if expected.dtype.name == "bfloat16" else rtol
        wide, wide_actual = expected.astype(np.float64), actual.astype(np.float64)
        rtol, atol = (0.0, 0.0) if "int" in expected.dtype.name else (rtol, atol)
        wrong = ~np.isclose(wide_actual, wide, rtol=rtol, atol=atol, equal_nan=True)
    return describe_wrong(expected, actual, wrong, where) if wrong.any() else None


def draw_difference(expected: Sequence[object], actual: object) -> str | None:
    """Like `difference` where a random draw decides: types, shapes, finite values, only 0 and 1 where that was all."""
    values = as_plain(actual)
    if not isinstance(values, list) or len(values) != len(expected):
        return f"outputs: expected {len(expected)} values, got {describe(values)}"
    for i, (e, a) in enumerate(zip(map(np.asarray, expected), map(np.asarray, values), strict=True)):
        if (e.dtype, e.shape) != (a.dtype, a.shape):
            return f"outputs[{i}]: expected {describe(e)}, got {describe(a)}"
        if not np.isfinite(a.astype(np.float64)).all():
            return f"outputs[{i}]: not finite"
        if np.isin(e.astype(np.float64), (0, 1)).all() and not np.isin(a.astype(np.float64), (0, 1)).all():
            return f"outputs[{i}]: a value is neither 0 nor 1"
    return None


def as_plain(value: object) -> object:
    """Lists for every kind of sequence."""
    return [as_plain(element) for element in value] if isinstance(value, (list, tuple)) else value


def is_text(array: np.ndarray) -> bool:
    return array.dtype.kind in "OUST"


def describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return f"a sequence of {len(value)}" if isinstance(value, list) else type(value).__name__


def describe_wrong(expected: np.ndarray, actual: np.ndarray, wrong: np.ndarray, where: str) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = f"{int(wrong.sum())} of {wrong.size} differ"
    return f"{where}: {count}, first at {at}: expected {expected[at]}, got {actual[at]}"
