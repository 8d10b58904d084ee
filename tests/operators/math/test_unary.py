"""Operators of one tensor against NumPy, at the values where they differ most."""

from collections.abc import Callable
from math import erf

import numpy as np
import pytest

from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same

ODD = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3e38, -3e38, 1e-40, np.inf, -np.inf, np.nan], np.float32)

FUNCTIONS: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "Abs": (13, np.abs),
    "Acos": (22, np.arccos),
    "Acosh": (22, np.arccosh),
    "Asin": (22, np.arcsin),
    "Asinh": (22, np.arcsinh),
    "Atan": (22, np.arctan),
    "Atanh": (22, np.arctanh),
    "Ceil": (13, np.ceil),
    "Cos": (22, np.cos),
    "Cosh": (22, np.cosh),
    "Erf": (13, np.vectorize(erf, otypes=[np.float64])),
    "Exp": (13, np.exp),
    "Floor": (13, np.floor),
    "Log": (13, np.log),
    "Neg": (13, np.negative),
    "Reciprocal": (13, np.reciprocal),
    "Round": (22, np.rint),
    "Sign": (13, np.sign),
    "Sin": (22, np.sin),
    "Sinh": (22, np.sinh),
    "Sqrt": (13, np.sqrt),
    "Tan": (22, np.tan),
    "Tanh": (13, np.tanh),
}


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_odd_values(operator: str, dtype: type[np.generic]) -> None:
    opset, function = FUNCTIONS[operator]
    with np.errstate(all="ignore"):
        x = ODD.astype(dtype)
        x = np.where(np.abs(x) > 1e30, x.dtype.type(2), x) if operator in ("Cos", "Sin", "Tan") else x
        expected = function(x.astype(np.float64)).astype(dtype)
    (actual,) = run_operator(operator, {"x": x}, opset=opset)
    assert_close(actual, expected)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (2, 3)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_every_shape_stays(shape: tuple[int, ...], way: str) -> None:
    x = np.full(shape, -4, np.float32)
    assert_same(*run_operator("Abs", {"x": x}, opset=13, way=way), np.full(shape, 4, np.float32))


@pytest.mark.parametrize(
    ("operator", "opset", "values", "expected"),
    [
        ("Abs", 13, np.array([-128, -1, 0, 127], np.int8), np.array([-128, 1, 0, 127], np.int8)),
        ("Abs", 13, np.array([0, 255], np.uint8), np.array([0, 255], np.uint8)),
        ("Neg", 13, np.array([-(2**63), 1], np.int64), np.array([-(2**63), -1], np.int64)),
        ("Sign", 13, np.array([-7, 0, 7], np.int32), np.array([-1, 0, 1], np.int32)),
        ("Sign", 13, np.array([0, 7], np.uint16), np.array([0, 1], np.uint16)),
        ("Not", 1, np.array([True, False]), np.array([False, True])),
        ("BitwiseNot", 18, np.array([0, -1, 5], np.int16), np.array([-1, 0, -6], np.int16)),
        ("BitwiseNot", 18, np.array([0, 5], np.uint8), np.array([255, 250], np.uint8)),
    ],
)
def test_integers(operator: str, opset: int, values: np.ndarray, expected: np.ndarray) -> None:
    assert_same(*run_operator(operator, {"x": values}, opset=opset), expected)


@pytest.mark.parametrize("opset", [1, 6, 13])
def test_versions_agree(opset: int) -> None:
    x = np.array([[1.0, 4.0]], np.float32)
    assert_same(*run_operator("Sqrt", {"x": x}, opset=opset), np.array([[1.0, 2.0]], np.float32))


@pytest.mark.parametrize("opset", [9, 13, 20])
def test_nan_is_found(opset: int) -> None:
    assert_same(*run_operator("IsNaN", {"x": ODD}, opset=opset), np.isnan(ODD))


@pytest.mark.parametrize(("positive", "negative"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_infinities_are_found_by_sign(positive: int, negative: int) -> None:
    expected = np.isposinf(ODD) & bool(positive) | np.isneginf(ODD) & bool(negative)
    actual = run_operator("IsInf", {"x": ODD}, opset=10, detect_positive=positive, detect_negative=negative)
    assert_same(*actual, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_erf_of_integers_is_cut_off(dtype: type) -> None:
    ends = np.iinfo(dtype)
    (actual,) = run_operator("Erf", {"x": np.array([ends.min, 0, 2, 5, 6, ends.max], dtype)}, opset=9)
    assert_same(actual, np.array([-1 if ends.min else 0, 0, 0, 0, 1, 1], dtype))
