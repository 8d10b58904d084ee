"""ZipMap, CastMap and DictVectorizer: between tensors and maps."""

import json

import numpy as np
import pytest

import onnxc
from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.runtime.errors import InputError
from onnxc.runtime.host.functions import FUNCTIONS
from onnxc.runtime.values import own_values
from tests.operators.host_models import TARGETS, run_ml, texts
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

X = np.array([[0.25, 0.75], [1, 0]], np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("keys", [[4, 5], ["a", "b"]])
def test_zip_map(target: str, keys: list[int] | list[str]) -> None:
    name = "classlabels_strings" if isinstance(keys[0], str) else "classlabels_int64s"
    (y,) = run_ml("ZipMap", {"X": X}, symbolic=True, target=target, **{name: keys})
    assert y == tuple(dict(zip(keys, row, strict=True)) for row in X.tolist())
    assert isinstance(y, tuple)
    assert {type(value) for row in y for value in row.values()} == {float}
    assert json.loads(json.dumps(y)) == [{str(key): value for key, value in row.items()} for row in y]
    assert run_ml("ZipMap", {"X": X[0]}, target=target, **{name: keys})[0] == y[:1]


def test_zip_map_of_no_rows() -> None:
    assert run_ml("ZipMap", {"X": X[:0]}, classlabels_int64s=[4, 5]) == ((),)


def test_zip_map_of_no_columns() -> None:
    assert FUNCTIONS["zip_map"]([X[:, :0], np.zeros(0, np.int64)], {}) == (({}, {}),)


@pytest.mark.parametrize("keys", [[4], [4, 5, 6]])
def test_zip_map_needs_a_key_for_each_column(keys: list[int]) -> None:
    with pytest.raises(DiagnosedModelError, match="differ in number"):
        run_ml("ZipMap", {"X": X}, classlabels_int64s=keys)


FLOATS = {7: -2.75, 0: 1.5, 1: 0.5}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("x", "attributes", "expected"),
    [
        (FLOATS, {}, np.array([[1.5, 0.5, -2.75]], np.float32)),
        (FLOATS, {"cast_to": "TO_INT64"}, np.array([[1, 0, -2]])),
        (FLOATS, {"cast_to": "TO_STRING"}, texts("1.500000", "0.500000", "-2.750000")[np.newaxis]),
        (FLOATS, {"map_form": "SPARSE", "max_map": 3}, np.array([[1.5, 0.5, 0]], np.float32)),
        ({1: "4", 0: "1.5"}, {}, np.array([[1.5, 4]], np.float32)),
        ({1: "4", 0: "1.5"}, {"cast_to": "TO_INT64"}, np.array([[1, 4]])),
        ({1: "b", 0: "a"}, {"cast_to": "TO_STRING"}, texts("a", "b")[np.newaxis]),
    ],
)
def test_cast_map(target: str, x: dict[int, object], attributes: dict[str, object], expected: np.ndarray) -> None:
    x = {key: np.float32(value) if isinstance(value, float) else value for key, value in x.items()}
    assert_same(*run_ml("CastMap", {"X": x}, target=target, **attributes), expected)


def test_cast_map_refuses_what_it_cannot_place_or_read() -> None:
    with pytest.raises(InputError, match="key -1 of a sparse map is negative"):
        run_ml("CastMap", {"X": {-1: np.float32(1)}}, map_form="SPARSE", max_map=3)
    with pytest.raises(InputError, match="no number"):
        run_ml("CastMap", {"X": {0: "one"}})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("x", "vocabulary", "expected"),
    [
        ({"a": np.float32(4), "c": np.float32(8)}, ["a", "c", "b", "z"], np.array([[4, 8, 0, 0]], np.float32)),
        ({3: np.float64(4), 9: np.float64(1)}, [5, 3], np.array([[0, 4]], np.float64)),
        ({"a": np.int64(4)}, ["b", "a"], np.array([[0, 4]])),
        ({3: "x"}, [3, 4], texts("x", "")[np.newaxis]),
    ],
)
def test_dict_vectorizer(target: str, x: dict[object, object], vocabulary: list[object], expected: np.ndarray) -> None:
    name = "string_vocabulary" if isinstance(vocabulary[0], str) else "int64_vocabulary"
    assert_same(*run_ml("DictVectorizer", {"X": x}, target=target, **{name: vocabulary}), expected)


def test_dict_vectorizer_needs_a_vocabulary_of_its_keys() -> None:
    with pytest.raises(DiagnosedModelError, match="of the other kind"):
        run_ml("DictVectorizer", {"X": {3: np.float32(1)}}, string_vocabulary=["a"])


@pytest.mark.parametrize("count", [1, 64, 65, 300])
def test_zip_map_of_any_number_of_columns(count: int) -> None:
    keys = np.array([f'it\'s "{index}"\n{{}}\\' for index in range(count)], object)
    x = np.arange(2 * count, dtype=np.float32).reshape(2, count)
    (maps,) = FUNCTIONS["zip_map"]([x, keys], {})
    assert maps == tuple({key: row[index] for index, key in enumerate(keys)} for row in x)
    assert {type(value) for value in maps[1].values()} == {float}


@pytest.mark.parametrize("count", [3, 70])
def test_the_last_of_equal_keys_counts(count: int) -> None:
    x = np.arange(count, dtype=np.float32)[None]
    (maps,) = FUNCTIONS["zip_map"]([x, np.zeros(count, np.int64)], {})
    assert maps == ({0: count - 1},)


def test_maps_that_go_out_twice_share_nothing() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>
    g (float[N, 2] x) => (seq(map(int64, float)) a, seq(map(int64, float)) b) {
        a = ai.onnx.ml.ZipMap <classlabels_int64s = [1, 2]> (x)
        b = ai.onnx.ml.ZipMap <classlabels_int64s = [1, 2]> (x)
    }"""
    made = FUNCTIONS["zip_map"]([np.ones((2, 2), np.float32), np.array([1, 2])], {})
    for first, second in (onnxc.compile(model_from_text(text))(np.ones((2, 2), np.float32)), own_values(made * 2, ())):
        assert (type(first), type(second)) == (tuple, tuple)
        first[0][1] = 7
        assert first == ({1: 7, 2: 1}, {1: 1, 2: 1})
        assert second == ({1: 1, 2: 1},) * 2
    assert own_values(made, made)[0] is not made[0]
    assert own_values(made, made)[0][1] is not made[0][1]
