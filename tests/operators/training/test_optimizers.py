"""Adagrad, Adam and Momentum against the formulas of their texts."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from tests.operators.host_models import TARGETS, run_ml
from tests.support.arrays import assert_close

DOMAIN = "ai.onnx.preview.training"
RANDOM = np.random.default_rng(0)
RATE = 0.1

Step = Callable[[int, np.ndarray, np.ndarray, Sequence[np.ndarray]], tuple[np.ndarray, ...]]


def adagrad(t: int, x: np.ndarray, g: np.ndarray, states: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    rate, g = RATE / (1 + t * 0.25), 0.5 * x + g
    h = states[0] + g * g
    return x - rate * g / (np.sqrt(h) + 1e-3), h


def adam(t: int, x: np.ndarray, g: np.ndarray, states: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    g = 0.5 * x + g
    v, h = 0.75 * states[0] + 0.25 * g, 0.5 * states[1] + 0.5 * g * g
    rate = RATE * np.sqrt(1 - 0.5**t) / (1 - 0.75**t) if t else RATE
    return (1 - 0.125) * (x - rate * v / (np.sqrt(h) + 1e-3)), v, h


def momentum(t: int, x: np.ndarray, g: np.ndarray, states: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    g = 0.5 * x + g
    v = 0.75 * states[0] + (0.25 if t else 1) * g
    return x - RATE * v, v


def nesterov(t: int, x: np.ndarray, g: np.ndarray, states: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    _, v = momentum(t, x, g, states)
    return x - RATE * (0.5 * x + g + 0.75 * v), v


CASES: dict[str, tuple[str, int, Step, dict[str, object]]] = {
    "adagrad": ("Adagrad", 1, adagrad, {"decay_factor": 0.25, "epsilon": 1e-3, "norm_coefficient": 0.5}),
    "adam": ("Adam", 2, adam, {
        "alpha": 0.75, "beta": 0.5, "epsilon": 1e-3, "norm_coefficient": 0.5, "norm_coefficient_post": 0.125,
    }),
    "momentum": ("Momentum", 1, momentum, {"alpha": 0.75, "beta": 0.25, "mode": "standard", "norm_coefficient": 0.5}),
    "nesterov": ("Momentum", 1, nesterov, {"alpha": 0.75, "beta": 0.25, "mode": "nesterov", "norm_coefficient": 0.5}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("t", [0, 1, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_step_of_two_tensors(case: str, target: str, t: int, dtype: type[np.generic]) -> None:
    operator, states, step, attributes = CASES[case]
    shapes = [(2, 3), (4,)]
    columns = [[np.abs(RANDOM.standard_normal(shape)).astype(dtype) for shape in shapes] for _ in range(2 + states)]
    inputs = {"R": np.array(RATE, dtype), "T": np.array(t)}
    inputs |= {f"v{place}": value for place, value in enumerate(value for column in columns for value in column)}
    results = run_ml(
        operator, inputs, domain=DOMAIN, outputs=2 * (1 + states), symbolic=True, target=target, **attributes
    )
    steps = [step(t, x.astype(np.float64), g, s) for x, g, *s in zip(*columns, strict=True)]
    expected = [value.astype(dtype) for column in zip(*steps, strict=True) for value in column]
    for found, value in zip(results, expected, strict=True):
        # Attributes are f32 in every type.
        assert_close(found, value, terms=4, accumulator=np.float32)


def test_the_number_of_tensors_must_fit() -> None:
    inputs = {"R": np.array(RATE), "T": np.array(0), "x": np.ones(2), "g": np.ones(2)}
    with pytest.raises(DiagnosedModelError, match="2 tensors are not 3 of each kind"):
        run_ml("Adagrad", inputs, domain=DOMAIN, outputs=2)
