"""Indices that are data and out of range, and sizes that are: the interpreter refuses them as native code does."""

import numpy as np
import pytest

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret
from onnxc.runtime.errors import OnnxcError
from tests.frontend.model_texts import model

X = np.arange(12, dtype=np.float32).reshape(4, 3)

GATHER = "g (float[N, 3] x, int64[M] i) => (float[A, B] y) { y = Gather(x, i) }"
ELEMENTS = "g (float[4, 3] x, int64[K, L] i) => (float[A, B] y) { y = GatherElements(x, i) }"
ROWS = "g (float[4, 3] x, int64[K, 2] i) => (float[A] y) { y = GatherND(x, i) }"
BATCHES = "g (float[4, 3] x, int64[4, 1] i) => (float[A] y) { y = GatherND<batch_dims = 1>(x, i) }"
PUT_ROWS = "g (float[4, 3] x, int64[K, 1] i, float[K, 3] u) => (float[A, B] y) { y = ScatterND(x, i, u) }"
PUT = "g (float[4, 3] x, int64[K, 3] i, float[K, 3] u) => (float[A, B] y) { y = ScatterElements(x, i, u) }"
LOSS = "g (float[4, 3] x, int64[4] t) => (float y) { y = NegativeLogLikelihoodLoss(x, t) }"
RESIZE = "g (float[1, 1, H, W] x, float[4] s) => (float[A, B, C, D] y) { y = Resize(x, , s) }"


def outcome(text: str, target: str, *inputs: np.ndarray) -> tuple[str, str] | tuple[int, ...]:
    """The code and the text of the error that a call raises, else the shape of what it gives."""
    try:
        return onnxc.compile(model(text), target)(*inputs).shape
    except OnnxcError as problem:
        return problem.code, str(problem)


@pytest.mark.parametrize(
    ("text", "inputs", "message"),
    [
        (GATHER, (X, np.array([255])), "index 255 is outside of an axis of size 4"),
        (GATHER, (X, np.array([0, -5])), "index -5 is outside of an axis of size 4"),
        (GATHER, (X[:0], np.array([0])), "index 0 is outside of an axis of size 0"),
        (ELEMENTS, (X, np.array([[1, 9, 1]])), "index 9 is outside of an axis of size 4"),
        (ROWS, (X, np.array([[3, 2], [0, 7]])), "index 7 is outside of an axis of size 3"),
        (BATCHES, (X, np.array([[0], [1], [2], [3]])), "index 3 is outside of an axis of size 3"),
        (PUT_ROWS, (X, np.array([[4]]), X[:1]), "index 4 is outside of an axis of size 4"),
        (PUT, (X, np.array([[1, 2, -9]]), X[:1]), "index -9 is outside of an axis of size 4"),
        (LOSS, (X, np.array([0, 255, 1, 2])), "index 255 is outside of an axis of size 3"),
    ],
)
def test_an_index_out_of_range_is_the_same_error_on_every_target(
    text: str, inputs: tuple[np.ndarray, ...], message: str
) -> None:
    native, interpreted = (outcome(text, target, *inputs) for target in ("cpu", "interpreter"))
    assert native == interpreted
    code, text = map(str, native)
    assert code == "index-out-of-range"
    assert text.startswith(f'error[index-out-of-range]: {message}\n  --> graph "main", node 0')


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (GATHER, (X, np.array([], np.int64))),
        (GATHER, (X, np.array([-4, 3]))),
        (ELEMENTS, (X, np.empty((0, 3), np.int64))),
        (PUT, (X, np.empty((0, 3), np.int64), X[:0])),
        (PUT, (X, np.array([[-4, 3, 0]]), X[:1])),
        (BATCHES, (X, np.array([[0], [-1], [-3], [2]]))),
    ],
)
def test_indices_in_range_and_none_at_all_are_taken(text: str, inputs: tuple[np.ndarray, ...]) -> None:
    native, interpreted = (onnxc.compile(model(text), target)(*inputs) for target in ("cpu", "interpreter"))
    np.testing.assert_array_equal(native, interpreted)


def test_a_resize_by_infinity_does_not_fit() -> None:
    x = np.ones((1, 1, 2, 2), np.float32)
    for target in ("cpu", "interpreter"):
        refused = outcome(RESIZE, target, x, np.array([1, 1, np.inf, 1], np.float32))
        assert refused[0] == "out-of-memory", refused


def test_the_meaning_that_folding_uses_clamps() -> None:
    module = lower_model(check_model(read_model(model(GATHER))))
    inputs = {"x": X, "i": np.array([7])}
    np.testing.assert_array_equal(interpret(module, inputs)[0], X[3:])
    with pytest.raises(OnnxcError, match="index 7 is outside of an axis of size 4"):
        interpret(module, inputs, clamp_indices=False)
