"""LinearRegressor and LinearClassifier, and the transforms of scores, against NumPy."""

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from tests.operators.host_models import TARGETS, run_ml, texts
from tests.support.arrays import assert_close, assert_same

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 3)).astype(np.float32)
W = RANDOM.standard_normal((3, 3)).astype(np.float32)
BIAS = np.array([0.5, -0.5, 0.25], np.float32)
SCORES = X @ W.T + BIAS


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def probit(x: np.ndarray) -> np.ndarray:
    """sqrt(2) erfinv(2 x - 1), by Winitzki's approximation."""
    z, a = 2 * x - 1, 0.147
    log = np.log((1 - z) * (1 + z))
    half = 2 / (np.pi * a) + log / 2
    return np.sign(z) * np.sqrt(2) * np.sqrt(np.sqrt(half**2 - log / a) - half)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("targets", [1, 3])
def test_regressor(target: str, dtype: type[np.generic], targets: int) -> None:
    x = (X * 4).astype(dtype)
    attributes = {"coefficients": W[:targets].ravel().tolist(), "intercepts": BIAS[:targets].tolist()}
    (y,) = run_ml("LinearRegressor", {"X": x}, symbolic=True, target=target, targets=targets, **attributes)
    assert_close(y, (x.astype(np.float64) @ W[:targets].T + BIAS[:targets]).astype(np.float32))


def test_intercepts_may_be_absent_and_a_vector_is_one_row() -> None:
    assert_close(*run_ml("LinearRegressor", {"X": X[0]}, coefficients=W[0].tolist()), (X[:1] @ W[0])[:, np.newaxis])


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("NONE", SCORES),
        ("SOFTMAX", softmax(SCORES)),
        ("LOGISTIC", 1 / (1 + np.exp(-SCORES))),
        ("SOFTMAX_ZERO", softmax(SCORES)),
    ],
)
@pytest.mark.parametrize("labels", [[4, 5, 6], ["a", "b", "c"]])
def test_classifier(transform: str, expected: np.ndarray, labels: list[int] | list[str]) -> None:
    key = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_ints"
    attributes = {"coefficients": W.ravel().tolist(), "intercepts": BIAS.tolist(), key: labels}
    y, z = run_ml("LinearClassifier", {"X": X}, outputs=2, post_transform=transform, **attributes)
    assert_same(y, np.array(labels, object if key.endswith("strings") else np.int64)[SCORES.argmax(1)])
    assert_close(z, expected.astype(np.float32))


def test_softmax_leaves_zeros() -> None:
    x = np.array([[1], [0]], np.float32)
    (y,) = run_ml("LinearRegressor", {"X": x}, coefficients=[1.0, 0.0, 2.0], targets=3, post_transform="SOFTMAX_ZERO")
    powers = np.exp([-1, -np.inf, 0])
    assert_close(y, np.array([powers / powers.sum(), [0.5] * 3], np.float32))


def test_probit() -> None:
    x = np.array([[0.1], [0.5], [0.9]], np.float32)
    (y,) = run_ml("LinearRegressor", {"X": x}, coefficients=[1.0], post_transform="PROBIT")
    assert_close(y, probit(x).astype(np.float32), terms=4)


def test_coefficients_behind_those_of_all_rows_are_not_looked_at() -> None:
    x = np.array([[1, 2], [-3, 4]], np.float32)
    (y,) = run_ml("LinearRegressor", {"X": x}, coefficients=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], targets=2)
    assert_same(y, x @ np.array([[1, 3], [2, 4]], np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_one_row_of_coefficients_scores_the_second_of_two_classes(target: str) -> None:
    x = np.array([[0.25], [-0.5], [0]], np.float32)
    attributes = {"coefficients": [1.0], "intercepts": [0.0], "classlabels_strings": ["no", "yes"]}
    y, z = run_ml("LinearClassifier", {"X": x}, outputs=2, target=target, **attributes)
    assert_same(y, texts("yes", "no", "no"))
    assert_same(z, np.concatenate([1 - x, x], 1))
    _, z = run_ml("LinearClassifier", {"X": x}, outputs=2, target=target, post_transform="LOGISTIC", **attributes)
    chance = 1 / (1 + np.exp(-x))
    assert_close(z, np.concatenate([1 - chance, chance], 1))


@pytest.mark.parametrize(
    "attributes",
    [
        {"coefficients": [1.0] * 4, "classlabels_ints": [1, 2]},
        {"coefficients": [1.0] * 3, "intercepts": [0.0, 1.0], "classlabels_ints": [1, 2]},
        {"coefficients": [1.0] * 6, "intercepts": [0.0, 1.0], "classlabels_ints": [1, 2, 3]},
    ],
)
def test_what_does_not_fit_is_refused(attributes: dict[str, object]) -> None:
    with pytest.raises(DiagnosedModelError):
        run_ml("LinearClassifier", {"X": X}, outputs=2, **attributes)


@pytest.mark.parametrize(
    ("rows", "labels"),
    [(1, {}), (2, {}), (1, {"classlabels_ints": [1, 2, 3]}), (1, {"classlabels_strings": ["a", "b", "c"]})],
)
def test_a_classifier_has_labels_for_its_scores(rows: int, labels: dict[str, object]) -> None:
    coefficients = [1.0] * (rows * X.shape[1])
    with pytest.raises(DiagnosedModelError, match="class-labels"):
        run_ml("LinearClassifier", {"X": X}, outputs=2, coefficients=coefficients, intercepts=[0.0] * rows, **labels)
