"""HannWindow, HammingWindow, BlackmanWindow and MelWeightMatrix."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same

FORMULAS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "HannWindow": lambda t: 0.5 - 0.5 * np.cos(t),
    "HammingWindow": lambda t: 25 / 46 - 21 / 46 * np.cos(t),
    "BlackmanWindow": lambda t: 0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t),
}


@pytest.mark.parametrize("operator", FORMULAS)
@pytest.mark.parametrize("size", [0, 1, 2, 9, 10])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("way", ["static", "data"])
def test_windows(operator: str, size: int, periodic: int, way: str) -> None:
    steps = size if periodic else max(1, size - 1)
    expected = FORMULAS[operator](2 * np.pi * np.arange(size) / max(steps, 1)).astype(np.float32)
    operands = {"size": np.array(size, np.int64)}
    (actual,) = run_operator(operator, operands, opset=17, way=way, parameters=("size",), periodic=periodic)
    # A sum of at most three cosines, which cancel at the ends.
    assert_close(actual, expected, terms=3, magnitude=1.0)


def test_windows_of_other_types() -> None:
    operands = {"size": np.array(3, np.int32)}
    (actual,) = run_operator("HannWindow", operands, opset=17, periodic=0, output_datatype=TensorProto.INT8)
    assert_same(actual, np.int8([0, 1, 0]))


def mel_weights(bins: int, length: int, rate: int, low: float, high: float) -> np.ndarray:
    """The matrix, one bin and one triangle after the other."""
    mels = np.linspace(0, 1, bins + 3)[:-1] * (2595 * (np.log10(1 + high / 700) - np.log10(1 + low / 700)))
    hertz = 700 * (10 ** ((mels + 2595 * np.log10(1 + low / 700)) / 2595) - 1)
    corners = np.floor((length + 1) * hertz / rate)
    result = np.zeros((length // 2 + 1, bins), np.float32)
    for row, column in np.ndindex(result.shape):
        left, centre, right = corners[column : column + 3]
        if left <= row < centre:
            result[row, column] = (row - left) / (centre - left)
        elif row == centre:
            result[row, column] = 1
        elif centre < row < right:
            result[row, column] = (right - row) / (right - centre)
    return result


@pytest.mark.parametrize(
    ("bins", "length", "rate", "low", "high"),
    [(8, 16, 8192, 0, 4096), (4, 64, 16000, 125, 7600), (10, 9, 8000, 20, 900)],
)
@pytest.mark.parametrize("way", ["static", "data"])
def test_mel_weights_are_triangles(bins: int, length: int, rate: int, low: float, high: float, way: str) -> None:
    names = ("bins", "length", "rate", "low", "high")
    values = [np.array(value, np.int64) for value in (bins, length, rate)] + [
        np.array(v, np.float32) for v in (low, high)
    ]
    operands = dict(zip(names, values, strict=True))
    (actual,) = run_operator("MelWeightMatrix", operands, opset=17, way=way, parameters=names)
    assert_close(actual, mel_weights(bins, length, rate, low, high))


@pytest.mark.parametrize("operator", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("size", [2, 4, 6, 10])
def test_the_middle_of_a_window_of_integers_is_1(operator: str, size: int) -> None:
    (window,) = run_operator(operator, {"size": np.array(size)}, opset=17, output_datatype=TensorProto.INT32)
    assert window[size // 2] == 1
