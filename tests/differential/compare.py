"""What keeps two answers from being the same: types, shapes, integers and texts exactly, floats within ulps."""

import numpy as np

# The relative difference that each type of float may have.
TOLERANCES = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 4e-3,
    "bfloat16": 2.0**-6,
}


def difference(
    expected: object, actual: object, *, accumulates: bool, least: float = 0.0, where: str = "outputs"
) -> str | None:
    """The first difference between two answers, or None.

    accumulates: errors are those of the largest element. least: the relative tolerance there is at least.
    """
    if isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            return f"{where}: expected {describe(expected)}, got {describe(actual)}"
        found = (
            difference(e, a, accumulates=accumulates, least=least, where=f"{where}[{i}]")
            for i, (e, a) in enumerate(zip(expected, actual, strict=True))
        )
        return next((text for text in found if text), None)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or set(expected) != set(actual):
            return f"{where}: expected {describe(expected)}, got {describe(actual)}"
        values = [np.array([float(side[key]) for key in expected]) for side in (expected, actual)]
        same = np.allclose(values[0], values[1], rtol=1e-5, equal_nan=True)
        return None if same else f"{where}: expected {expected}, got {actual}"
    if expected is None or actual is None:
        return None if expected is actual else f"{where}: expected {describe(expected)}, got {describe(actual)}"
    if isinstance(actual, (list, tuple, dict)):
        return f"{where}: expected {describe(expected)}, got {describe(actual)}"
    return array_difference(np.asarray(expected), np.asarray(actual), accumulates, least, where)


def array_difference(
    expected: np.ndarray, actual: np.ndarray, accumulates: bool, least: float, where: str
) -> str | None:
    if is_text(expected) != is_text(actual) or (not is_text(expected) and expected.dtype != actual.dtype):
        return f"{where}: expected {expected.dtype}, got {actual.dtype}"
    if expected.shape != actual.shape:
        return f"{where}: expected shape {expected.shape}, got {actual.shape}"
    if is_text(expected):
        wrong = np.asarray(expected.astype(str) != actual.astype(str))
    elif expected.dtype.kind in "biu" or "int" in expected.dtype.name:
        wrong = np.asarray(expected != actual)
    else:
        wrong = wrong_floats(expected, actual, accumulates, least)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{where}: {int(wrong.sum())} of {wrong.size} differ, first at {at}: expected {expected[at]}, got {actual[at]}"
    )


def wrong_floats(expected: np.ndarray, actual: np.ndarray, accumulates: bool, least: float) -> np.ndarray:
    rtol = TOLERANCES.get(expected.dtype.name, 0.0)
    rtol = max(rtol, least) if rtol else 0.0
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    e, a = expected.astype(wide), actual.astype(wide)
    atol = 1e-7 if rtol else 0.0
    if accumulates and rtol:
        finite = np.abs(e[np.isfinite(e)])
        atol = max(atol, rtol * (float(finite.max()) if finite.size else 0.0))
    if accumulates and rtol and expected.dtype.name == "float64":
        atol = max(atol, 1e-9)
    with np.errstate(all="ignore"):
        return ~np.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)


def drawn_difference(expected: object, actual: object) -> str | None:
    """The difference of answers of which only types and shapes are determined."""
    sides = [[(np.asarray(v).dtype, np.asarray(v).shape) for v in side] for side in (expected, actual)]
    return None if sides[0] == sides[1] else f"expected {sides[0]}, got {sides[1]}"


def is_text(array: np.ndarray) -> bool:
    return array.dtype.kind in "OUST"


def describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}: {', '.join(map(describe, value))}"[:120]
    return f"{type(value).__name__} {value}"[:60]
