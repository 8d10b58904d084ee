"""SVMRegressor and SVMClassifier against scikit-learn, whose LIBSVM they stand for."""

from collections.abc import Mapping

import numpy as np
import pytest
from sklearn.svm import SVC, SVR, OneClassSVM

from onnxc.compiler.diagnostics import DiagnosedModelError
from tests.operators.host_models import TARGETS, run_ml
from tests.support.arrays import assert_close, assert_same, assert_within
from tests.support.models import one_node_model, run_ort

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((40, 3))
NEW = RANDOM.standard_normal((8, 3)).astype(np.float32)
KERNELS = {"linear": "LINEAR", "poly": "POLY", "rbf": "RBF", "sigmoid": "SIGMOID"}


def kernel_attributes(kernel: str) -> dict[str, object]:
    return {"kernel_type": KERNELS[kernel], "kernel_params": [0.5, 0.25, 2.0]}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_regressor(kernel: str, target: str) -> None:
    model = SVR(kernel=kernel, gamma=0.5, coef0=0.25, degree=2).fit(X, X[:, 0] - X[:, 1] ** 2)
    (y,) = run_ml(
        "SVMRegressor",
        {"X": NEW},
        symbolic=True,
        target=target,
        support_vectors=model.support_vectors_.ravel().tolist(),
        n_supports=len(model.support_),
        coefficients=model.dual_coef_.ravel().tolist(),
        rho=model.intercept_.tolist(),
        **kernel_attributes(kernel),
    )
    assert_close(y, model.predict(NEW).astype(np.float32)[:, np.newaxis], terms=8)


def test_one_class() -> None:
    model = OneClassSVM(gamma=0.5).fit(X)
    (y,) = run_ml(
        "SVMRegressor",
        {"X": NEW},
        one_class=1,
        kernel_type="RBF",
        kernel_params=[0.5, 0.0, 0.0],
        support_vectors=model.support_vectors_.ravel().tolist(),
        n_supports=len(model.support_),
        coefficients=model.dual_coef_.ravel().tolist(),
        rho=model.intercept_.tolist(),
    )
    assert_same(y, model.predict(NEW).astype(np.float32)[:, np.newaxis])


@pytest.mark.parametrize("target", TARGETS)
def test_vectors_of_a_linear_kernel_are_one(target: str) -> None:
    vectors, weights = RANDOM.standard_normal((70, 3)), RANDOM.standard_normal(70)
    attributes = {"support_vectors": vectors.ravel().tolist(), "n_supports": 70, "kernel_type": "LINEAR"}
    (y,) = run_ml("SVMRegressor", {"X": NEW}, target=target, coefficients=weights.tolist(), rho=[0.5], **attributes)
    assert_close(y, (NEW @ (weights @ vectors) + 0.5).astype(np.float32)[:, np.newaxis], terms=70)


def test_linear_regressor() -> None:
    (y,) = run_ml("SVMRegressor", {"X": NEW}, coefficients=[1.0, 2.0, 3.0], rho=[0.5])
    assert_close(y, (NEW @ np.array([1, 2, 3], np.float32) + 0.5)[:, np.newaxis])


def classifier(classes: int, kernel: str, *, probability: bool) -> tuple[SVC, Mapping[str, object]]:
    """A trained model, and the attributes that say the same."""
    y = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1, 1, classes + 1)[1:-1])
    model = SVC(kernel=kernel, gamma=0.5, coef0=0.25, degree=2, decision_function_shape="ovo").fit(X, y)
    sign = -1 if classes == 2 else 1
    attributes: dict[str, object] = {
        "support_vectors": model.support_vectors_.ravel().tolist(),
        "vectors_per_class": model.n_support_.tolist(),
        "coefficients": (sign * model.dual_coef_).ravel().tolist(),
        "rho": (sign * model.intercept_).tolist(),
        **kernel_attributes(kernel),
    }
    if probability:
        pairs = classes * (classes - 1) // 2
        attributes |= {"prob_a": [-1.5] * pairs, "prob_b": [0.25] * pairs}
    return model, attributes


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_classifier(kernel: str, classes: int) -> None:
    model, attributes = classifier(classes, kernel, probability=False)
    labels = [10 * c for c in range(classes)]
    y, z = run_ml("SVMClassifier", {"X": NEW}, outputs=2, symbolic=True, classlabels_ints=labels, **attributes)
    assert_same(y, 10 * model.predict(NEW).astype(np.int64))
    scores = model.decision_function(NEW)
    expected = np.stack([scores, -scores], 1) if classes == 2 else scores
    assert_close(z, expected.astype(np.float32), terms=8)


def coupled(pairs: np.ndarray) -> np.ndarray:
    """The probabilities that agree best with those of pairs, r[i, j] for i against j: LIBSVM's system, solved."""
    k = len(pairs)
    q = -pairs.T * pairs
    np.fill_diagonal(q, (pairs**2).sum(0) - np.diag(pairs) ** 2)
    system = np.block([[q, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    return np.linalg.solve(system, np.array([0] * k + [1.0]))[:k]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_probabilities(target: str, classes: int) -> None:
    model, attributes = classifier(classes, "rbf", probability=True)
    labels = list(range(classes))
    _, z = run_ml("SVMClassifier", {"X": NEW}, outputs=2, target=target, classlabels_ints=labels, **attributes)
    scores = model.decision_function(NEW).reshape(len(NEW), -1) * (-1 if classes == 2 else 1)
    chances = 1 / (1 + np.exp(-1.5 * scores + 0.25))
    expected = []
    for row in chances:
        pairs = np.zeros((classes, classes))
        upper = np.triu_indices(classes, 1)
        pairs[upper], pairs.T[upper] = row, 1 - row
        expected.append(coupled(pairs))
    why = "the iteration ends where a step is less than 0.005 / classes, which is before the solution"
    assert_within(z, np.array(expected, np.float32), absolute=0.005, why=why)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_features_that_are_nan_are_those_of_onnx_runtime(target: str, classes: int) -> None:
    _, attributes = classifier(classes, "rbf", probability=True)
    attributes = {**attributes, "classlabels_ints": list(range(classes))}
    x = np.where(np.eye(*NEW.shape, dtype=bool), np.float32(np.nan), NEW)
    y, z = run_ml("SVMClassifier", {"X": x}, outputs=2, target=target, **attributes)
    kinds = {"X": (np.float32, x.shape)}, {"Y": (np.int64, None), "Z": (np.float32, None)}
    expected = run_ort(one_node_model("SVMClassifier", *kinds, opset=1, domain="ai.onnx.ml", **attributes), {"X": x})
    assert_same(y, expected["Y"])
    assert_close(z, expected["Z"], terms=64)
    assert_same(z[:3], np.full((3, classes), 1 / classes, np.float32))


def test_linear_scores() -> None:
    weights = np.arange(9, dtype=np.float32).reshape(3, 3) - 4
    attributes = {"coefficients": weights.ravel().tolist(), "rho": [0.5, 0.0, 0.0]}
    y, z = run_ml("SVMClassifier", {"X": NEW}, outputs=2, classlabels_strings=["a", "b", "c"], **attributes)
    scores = NEW @ weights.T + 0.5
    assert_close(z, scores)
    assert_same(y, np.array(["a", "b", "c"], object)[scores.argmax(1)])


def test_coefficients_that_do_not_fit_are_refused() -> None:
    _, attributes = classifier(3, "rbf", probability=False)
    with pytest.raises(DiagnosedModelError, match="coefficients and 3 values of rho"):
        run_ml(
            "SVMClassifier", {"X": NEW}, outputs=2, classlabels_ints=[1, 2, 3], **{**attributes, "coefficients": [1.0]}
        )
