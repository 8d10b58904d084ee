"""Activation functions against their formulas in f64."""

from collections.abc import Callable, Mapping
from math import erf, inf, nan

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same

ODD = np.float32([0.0, -0.0, 1, -1, 0.5, -0.5, 3, -3, 6, -6, 30, -30, 90, -90, inf, -inf, nan])
Formula = Callable[[np.ndarray], np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0)


def selu(x: np.ndarray, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> np.ndarray:
    return gamma * np.where(x > 0, x, alpha * np.exp(x) - alpha)


# operator, opset, attributes, formula in f64
ROWS: list[tuple[str, int, Mapping[str, object], Formula]] = [
    ("Celu", 28, {}, lambda x: np.maximum(0, x) + np.minimum(0, np.exp(x) - 1)),
    ("Celu", 28, {"alpha": 2.0}, lambda x: np.maximum(0, x) + np.minimum(0, 2 * (np.exp(x / 2) - 1))),
    ("Elu", 6, {}, lambda x: np.where(x < 0, np.exp(x) - 1, x)),
    ("Elu", 22, {"alpha": 0.5}, lambda x: np.where(x < 0, 0.5 * (np.exp(x) - 1), x)),
    ("Gelu", 20, {}, lambda x: x / 2 * (1 + np.vectorize(erf)(x / np.sqrt(2)))),
    ("Gelu", 20, {"approximate": "tanh"}, lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    ("HardSigmoid", 1, {}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    ("HardSigmoid", 22, {"alpha": 0.5, "beta": 0.25}, lambda x: np.clip(0.5 * x + 0.25, 0, 1)),
    ("HardSwish", 14, {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("LeakyRelu", 1, {}, lambda x: np.where(x < 0, 0.01 * x, x)),
    ("LeakyRelu", 16, {"alpha": 0.3}, lambda x: np.where(x < 0, 0.3 * x, x)),
    ("Mish", 18, {}, lambda x: x * np.tanh(softplus(x))),
    ("Relu", 14, {}, lambda x: np.maximum(x, 0)),
    ("Selu", 1, {}, lambda x: selu(x, 1.6732, 1.0507)),
    ("Selu", 6, {}, selu),
    ("Selu", 22, {"alpha": 2.0, "gamma": 0.5}, lambda x: selu(x, 2, 0.5)),
    ("Shrink", 9, {"lambd": 1.0, "bias": 0.5}, lambda x: np.where(x < -1, x + 0.5, np.where(x > 1, x - 0.5, 0))),
    ("Sigmoid", 13, {}, sigmoid),
    ("Softplus", 1, {}, softplus),
    ("Softsign", 22, {}, lambda x: x / (1 + np.abs(x))),
    ("Swish", 24, {}, lambda x: x * sigmoid(x)),
    ("Swish", 24, {"alpha": 1.5}, lambda x: x * sigmoid(1.5 * x)),
    ("ThresholdedRelu", 10, {"alpha": 0.75}, lambda x: np.where(x > 0.75, x, 0)),
]


@pytest.mark.parametrize(("operator", "opset", "attributes", "formula"), ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_odd_values(
    operator: str, opset: int, attributes: Mapping[str, object], formula: Formula, dtype: type[np.generic]
) -> None:
    x = ODD.astype(dtype)
    with np.errstate(all="ignore"):
        expected = formula(x.astype(np.float64)).astype(dtype)
    (actual,) = run_operator(operator, {"x": x}, opset=opset, **attributes)
    # Attributes are f32 in every type; what is left of exp(x) - 1 has the error of its terms.
    magnitude = np.abs(np.nan_to_num(expected.astype(np.float64), posinf=0, neginf=0)) + 1
    assert_close(
        actual, expected, terms=2, magnitude=magnitude, accumulator=np.float32 if dtype == np.float64 else dtype
    )


@pytest.mark.parametrize("shape", [(), (0, 2), (1,), (2, 3)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_every_shape_stays(shape: tuple[int, ...], way: str) -> None:
    x = np.full(shape, -1, np.float32)
    assert_same(*run_operator("LeakyRelu", {"x": x}, opset=16, way=way, alpha=0.5), x / 2)


def test_celu_before_opset_28() -> None:
    x = np.float32([-np.inf, -1, 2])
    assert_close(*run_operator("Celu", {"x": x}, opset=12, alpha=2.0), np.float32([-2, 2 * np.exp(-0.5) - 2, 2]))


def test_relu_and_shrink_of_integers() -> None:
    assert_same(*run_operator("Relu", {"x": np.int8([-128, 0, 5])}, opset=14), np.int8([0, 0, 5]))
    x = np.int64([-3, -1, 0, 1, 3])
    assert_same(*run_operator("Shrink", {"x": x}, opset=9, lambd=1.5, bias=1.0), np.int64([-2, 0, 0, 0, 2]))
    assert_same(
        *run_operator("Shrink", {"x": np.uint8([0, 1, 200])}, opset=9, lambd=1.0, bias=1.0), np.uint8([0, 0, 199])
    )


def test_an_unknown_approximation_is_an_error() -> None:
    with pytest.raises(ModelError, match="attribute-value"):
        run_operator("Gelu", {"x": ODD}, opset=20, approximate="sigmoid")


# SwiGLU


@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_swiglu_multiplies_by_the_linear_input(way: str) -> None:
    gate, linear = np.float32([[1, -2, 0.5]]), np.float32([[2, 3, np.inf]])
    expected = gate.astype(np.float64) * sigmoid(2 * gate.astype(np.float64)) * linear
    (actual,) = run_operator("SwiGLU", {"a": gate, "b": linear}, opset=28, way=way, alpha=2.0)
    assert_close(actual, expected.astype(np.float32))


def test_swiglu_does_not_broadcast() -> None:
    with pytest.raises(ModelError, match="shapes-differ"):
        run_operator("SwiGLU", {"a": np.ones((2, 3), np.float32), "b": np.ones((1, 3), np.float32)}, opset=28)
    with pytest.raises(ModelError, match="shapes-differ"):
        run_operator("SwiGLU", {"a": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}, opset=28)


@pytest.mark.parametrize("operator", ["Softplus", "Mish"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_results_keep_their_digits(operator: str, dtype: type) -> None:
    x = np.linspace(-60, -1, 60).astype(dtype)
    (actual,) = run_operator(operator, {"X": x}, opset=22)
    small = np.log1p(np.exp(x.astype(np.longdouble)))
    expected = small if operator == "Softplus" else x * np.tanh(small)
    assert_close(actual, expected.astype(dtype))
