"""The operators of ai.onnx.ml that prepare features, against NumPy."""

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.runtime.errors import InputError
from tests.operators.host_models import TARGETS, run_ml, texts
from tests.support.arrays import assert_close, assert_same

TYPES = [np.float32, np.float64, np.int64, np.int32]
X = np.array([[1, -2, 3], [0, 5, -6]])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("threshold", [0.0, 0.5, -2.0, -2.5, 3e9, -3e9])
def test_binarizer(dtype: type[np.generic], threshold: float) -> None:
    x = X.astype(dtype)
    assert_same(*run_ml("Binarizer", {"X": x}, threshold=threshold), (x > threshold).astype(dtype))


def test_binarizer_takes_nan_for_0() -> None:
    assert_same(*run_ml("Binarizer", {"X": np.array([np.nan, np.inf], np.float32)}), np.array([0, 1], np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("offset", "scale"), [([0.5], [2.0]), ([0.5, 1.0, -1.0], [2.0, 0.0, 3.0])])
def test_scaler(target: str, dtype: type[np.generic], offset: list[float], scale: list[float]) -> None:
    (y,) = run_ml("Scaler", {"X": X.astype(dtype)}, symbolic=True, target=target, offset=offset, scale=scale)
    assert_same(y, ((X - np.array(offset)) * np.array(scale)).astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rank", [1, 2])
def test_normalizer(target: str, dtype: type[np.generic], rank: int) -> None:
    x = X.astype(dtype) if rank == 2 else X[0].astype(dtype)
    wide = x.astype(np.float64)
    divisors = {"MAX": wide.max(-1), "L1": np.abs(wide).sum(-1), "L2": np.sqrt((wide**2).sum(-1))}
    for norm, divisor in divisors.items():
        (y,) = run_ml("Normalizer", {"X": x}, symbolic=True, target=target, norm=norm)
        assert_close(y, (wide / divisor[..., np.newaxis]).astype(np.float32))


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_a_row_of_zeros_stays(norm: str) -> None:
    x = np.zeros((2, 3), np.float32)
    assert_same(*run_ml("Normalizer", {"X": x}, norm=norm), x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("x", "places", "expected"),
    [
        (X, np.array([[2, 0]]), X[:, [2, 0]]),
        (X[0], np.array([1]), X[np.newaxis, 0, 1:2]),
        (texts("a", "b"), np.array([1, 1, 0]), texts("b", "b", "a")[np.newaxis]),
        (X.reshape(2, 3, 1), np.array([[0], [0]]), X.reshape(2, 3, 1)[..., [0, 0]]),
        (X, np.zeros((0,), np.int64), X[:, :0]),
        (X, np.array([-1, 0, -X.shape[1]]), X[:, [-1, 0, 0]]),
    ],
)
def test_array_feature_extractor(target: str, x: np.ndarray, places: np.ndarray, expected: np.ndarray) -> None:
    assert_same(*run_ml("ArrayFeatureExtractor", {"X": x, "Y": places}, target=target), expected)


@pytest.mark.parametrize("values", [[7.0], [7.0, 8.0, 9.0]])
@pytest.mark.parametrize("missing", [np.nan, 5.0])
def test_imputer_of_floats(values: list[float], missing: float) -> None:
    x = np.array([[1, np.nan, 5], [5, 2, np.nan]], np.float32)
    (y,) = run_ml("Imputer", {"X": x}, imputed_value_floats=values, replaced_value_float=missing)
    is_missing = np.isnan(x) if np.isnan(missing) else x == missing
    assert_same(y, np.where(is_missing, np.array(values, np.float32), x))


def test_imputer_of_integers() -> None:
    x = np.array([[1, 0], [0, 2]], np.int32)
    (y,) = run_ml("Imputer", {"X": x}, imputed_value_int64s=[4, 5], replaced_value_int64=0)
    assert_same(y, np.array([[1, 5], [4, 2]], np.int32))


@pytest.mark.parametrize("target", TARGETS)
def test_one_hot_encoder(target: str) -> None:
    (y,) = run_ml("OneHotEncoder", {"X": X.astype(np.float32) + 0.25}, target=target, cats_int64s=[3, 0, -1])
    expected = (np.trunc(X + 0.25)[..., np.newaxis] == np.array([3, 0, -1])).astype(np.float32)
    assert_same(y, expected)
    (y,) = run_ml("OneHotEncoder", {"X": texts("b", "?")}, target=target, cats_strings=["a", "b"])
    assert_same(y, np.array([[0, 1], [0, 0]], np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_one_hot_encoder_may_demand_a_category(target: str) -> None:
    options = {"cats_int64s": [1, 2], "zeros": 0}
    (y,) = run_ml("OneHotEncoder", {"X": np.array([2, 1])}, target=target, **options)
    assert_same(y, np.array([[0, 1], [1, 0]], np.float32))
    with pytest.raises(InputError, match="an element is no category"):
        run_ml("OneHotEncoder", {"X": np.array([2, 3])}, target=target, **options)


def test_feature_vectorizer_cuts_and_fills() -> None:
    a, b = X.astype(np.float32), X[:, :1].astype(np.float32)
    (y,) = run_ml("FeatureVectorizer", {"A": a, "B": b}, inputdimensions=[2, 3])
    assert_same(y, np.concatenate([a[:, :2], b, np.zeros((2, 2), np.float32)], 1))
    (y,) = run_ml("FeatureVectorizer", {"A": X[0], "B": X[1]}, inputdimensions=[3, 3])
    assert_same(y, X.reshape(1, 6).astype(np.float32))


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Scaler", {"offset": [1.0, 2.0], "scale": [1.0, 2.0]}),
        ("Imputer", {"imputed_value_int64s": [1, 2]}),
        ("Imputer", {"imputed_value_floats": [1.0]}),
        ("OneHotEncoder", {"cats_strings": ["a"]}),
        ("Normalizer", {"norm": "L3"}),
    ],
)
def test_what_does_not_fit_is_refused(operator: str, attributes: dict[str, object]) -> None:
    with pytest.raises(DiagnosedModelError):
        run_ml(operator, {"X": X}, **attributes)
