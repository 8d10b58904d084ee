"""Softmax, LogSoftmax and Hardmax, along an axis and in the two-dimensional form of old opsets."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def hardmax(x: np.ndarray, axis: int) -> np.ndarray:
    place = np.expand_dims(x.argmax(axis), axis)
    return (np.arange(x.shape[axis]).reshape([-1] + [1] * (x.ndim - 1 - axis % x.ndim)) == place).astype(x.dtype)


FUNCTIONS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "Softmax": softmax,
    "LogSoftmax": lambda x, axis: np.log(softmax(x, axis)),
    "Hardmax": hardmax,
}
X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_along_an_axis(operator: str, axis: int, way: str) -> None:
    (actual,) = run_operator(operator, {"x": X}, opset=13, way=way, axis=axis)
    assert_close(actual, FUNCTIONS[operator](X, axis))


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize(("opset", "axis"), [(1, 0), (1, 1), (1, 2), (11, -3), (11, -2), (11, -1)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_before_opset_13_the_rest_of_the_axes_is_one_row(operator: str, opset: int, axis: int, way: str) -> None:
    rows = X.reshape(int(np.prod(X.shape[: axis % 3])), -1)
    (actual,) = run_operator(operator, {"x": X}, opset=opset, way=way, axis=axis)
    assert_close(actual, FUNCTIONS[operator](rows, 1).reshape(X.shape))


@pytest.mark.parametrize(("opset", "axis"), [(1, 1), (13, 2)])
def test_the_default_axis_changed(opset: int, axis: int) -> None:
    (default,) = run_operator("Softmax", {"x": X}, opset=opset)
    (explicit,) = run_operator("Softmax", {"x": X}, opset=opset, axis=axis)
    assert_same(default, explicit)


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 2), (1, 1)])
def test_empty_and_single(operator: str, shape: tuple[int, ...]) -> None:
    expected = np.zeros(shape, np.float32) if operator == "LogSoftmax" else np.ones(shape, np.float32)
    assert_same(*run_operator(operator, {"x": np.ones(shape, np.float32)}, opset=13), expected)


def test_large_values_do_not_overflow() -> None:
    x = np.float32([[1000, 1000], [-1000, 0], [-np.inf, 0]])
    assert_close(*run_operator("Softmax", {"x": x}, opset=13), np.float32([[0.5, 0.5], [0, 1], [0, 1]]))


def test_hardmax_takes_the_first_of_equals() -> None:
    assert_same(*run_operator("Hardmax", {"x": np.float32([1, 3, 3])}, opset=13), np.float32([0, 1, 0]))


@pytest.mark.parametrize(("shape", "axis"), [((2,), 1), ((2,), -2), ((), 0)])
def test_an_axis_that_is_none_is_an_error(shape: tuple[int, ...], axis: int) -> None:
    with pytest.raises(ModelError, match="axis-out-of-range"):
        run_operator("Softmax", {"x": np.ones(shape, np.float32)}, opset=13, axis=axis)
