"""LabelEncoder and CategoryMapper, with keys of every type."""

from collections.abc import Sequence
from math import inf, nan

import numpy as np
import pytest
from onnx import numpy_helper

from onnxc.compiler.diagnostics import DiagnosedModelError
from tests.operators.host_models import TARGETS, run_ml, texts
from tests.support.arrays import assert_same


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 31, 32, 33])
def test_integers_among_many_keys(version: int, target: str, symbolic: bool, count: int) -> None:
    keys = (np.random.default_rng(count).permutation(count) * 2 - 7).tolist()
    x = np.arange(-9, 2 * count).reshape(1, -1)
    values = {key: place for place, key in enumerate(keys)}
    expected = np.array([[values.get(element, -5) for element in x[0].tolist()]])
    attributes = {"keys_int64s": keys, "values_int64s": list(range(count)), "default_int64": -5}
    (y,) = run_ml("LabelEncoder", {"X": x}, version=version, symbolic=symbolic, target=target, **attributes)
    assert_same(y, expected)


INTEGER_KEYS = {
    "few": [7, -(1 << 63), (1 << 63) - 1],
    "dense": [*range(-3, 9), 2, 40],
    "dense at the least": [-(1 << 63) + place for place in (0, 5, 1, 1, 9, 2)],
    "dense at the greatest": [(1 << 63) - 1 - place for place in (0, 5, 1, 1, 9, 2)],
    "apart": [(-3) ** place for place in range(12)],
    "many apart": [(-3) ** place for place in range(35)],
}
FLOAT_KEYS = {
    "few": [1.5, nan, -inf, inf],
    "dense": [3.0, -2.0, 0.0, 12.0, nan, 7.0, 7.0],
    "equal and large": [1e30] * 6,
    "apart": [0.5 * place for place in range(9)] + [inf, -inf, -0.0],
    "many apart": [0.5 * place for place in range(-20, 20)] + [inf, nan, -inf],
}


def _looked_up(x: np.ndarray, keys: Sequence[float]) -> np.ndarray:
    """The last place of each element, -1 where it is no key, element by element."""
    same = [[place for place, key in enumerate(keys) if key == each or (each != each and key != key)] for each in x]
    return np.array([max(places, default=-1) for places in same])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("form", INTEGER_KEYS)
def test_integers_of_every_size(form: str, symbolic: bool, target: str) -> None:
    keys = INTEGER_KEYS[form]
    near = [key + step for key in keys for step in (-1, 0, 1) if -(1 << 63) <= key + step < 1 << 63]
    x = np.array([*near, -(1 << 63), (1 << 63) - 1, 0], np.int64)
    given = {"keys_int64s": keys, "values_int64s": list(range(len(keys)))}
    (y,) = run_ml("LabelEncoder", {"X": x}, version=4, symbolic=symbolic, target=target, **given)
    assert_same(y, _looked_up(x.tolist(), keys))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("form", FLOAT_KEYS)
def test_floats_of_every_kind(form: str, symbolic: bool, target: str) -> None:
    keys = FLOAT_KEYS[form]
    near = [np.nextafter(np.float32(key), np.float32(side)) for key in keys for side in (-inf, inf)]
    x = np.array([*keys, *near, 0.25, 1.0, -0.0, 3e38, -1e18, 1e19], np.float32)
    given = {"keys_floats": keys, "values_int64s": list(range(len(keys)))}
    (y,) = run_ml("LabelEncoder", {"X": x}, version=4, symbolic=symbolic, target=target, **given)
    assert_same(y, _looked_up(x, np.array(keys, np.float32)))


@pytest.mark.parametrize("target", TARGETS)
def test_texts_and_numbers(target: str) -> None:
    x = texts("b", "q", "a")
    to_numbers = {"keys_strings": ["a", "b"], "values_floats": [1.0, 2.0]}
    (numbers,) = run_ml("LabelEncoder", {"X": x}, version=2, target=target, **to_numbers)
    assert_same(numbers, np.array([2, -0.0, 1], np.float32))
    to_texts = {"keys_floats": [1.0, 2.0], "values_strings": ["a", "b"], "default_string": "?"}
    assert_same(*run_ml("LabelEncoder", {"X": numbers}, version=2, target=target, **to_texts), texts("b", "?", "a"))


def test_nan_is_a_key_and_the_last_of_equal_keys_counts() -> None:
    x = np.array([nan, 1, -0.0, np.inf], np.float32)
    attributes = {"keys_floats": [1.0, nan, 1.0, 0.0], "values_int64s": [1, 2, 3, 4]}
    assert_same(*run_ml("LabelEncoder", {"X": x}, version=4, **attributes), np.array([2, 3, 4, -1]))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 1)])
def test_shapes_stay(shape: tuple[int, ...]) -> None:
    attributes = {"keys_int64s": [0], "values_strings": ["zero"]}
    (y,) = run_ml("LabelEncoder", {"X": np.zeros(shape, np.int64)}, version=4, **attributes)
    assert_same(y, np.full(shape, "zero", object))


@pytest.mark.parametrize(
    ("values", "default", "expected"),
    [
        (np.array([4, 5], np.int16), np.array([9], np.int16), np.array([4, 9, 5], np.int16)),
        (np.array([4, 5], np.int32), None, np.array([4, -1, 5], np.int32)),
        (np.array([4, 5], np.float64), None, np.array([4, -0.0, 5], np.float64)),
        (texts("x", "y"), None, texts("x", "_Unused", "y")),
    ],
)
def test_tensors_as_attributes(values: np.ndarray, default: np.ndarray | None, expected: np.ndarray) -> None:
    attributes = {"keys_tensor": np.array([1.0, 3.0]), "values_tensor": values, "default_tensor": default}
    given = {name: numpy_helper.from_array(value) for name, value in attributes.items() if value is not None}
    assert_same(*run_ml("LabelEncoder", {"X": np.array([1.0, 2.0, 3.0])}, version=4, **given), expected)


@pytest.mark.parametrize(
    ("values", "default", "expected"),
    [
        (np.array([4, 5]), {"default_int64": 9, "default_float": 2.5}, np.array([4, 9, 5])),
        (np.array([4, 5], np.int16), {"default_int64": -3}, np.array([4, -3, 5], np.int16)),
        (np.array([4, 5], np.float64), {"default_int64": 9, "default_float": 2.5}, np.array([4, 2.5, 5])),
        (texts("x", "y"), {"default_string": "?"}, texts("x", "?", "y")),
        (
            np.array([4, 5]),
            {"default_int64": 9, "default_tensor": numpy_helper.from_array(np.array([7]))},
            np.array([4, 7, 5]),
        ),
    ],
)
def test_the_default_that_matches_a_tensor_of_values(
    values: np.ndarray, default: dict[str, object], expected: np.ndarray
) -> None:
    attributes = {"keys_tensor": np.array([1.0, 3.0]), "values_tensor": values}
    given = {name: numpy_helper.from_array(value) for name, value in attributes.items()}
    assert_same(*run_ml("LabelEncoder", {"X": np.array([1.0, 2.0, 3.0])}, version=4, **given, **default), expected)


def test_places_of_classes() -> None:
    classes = {"classes_strings": ["b", "a"], "default_string": "?", "default_int64": -7}
    assert_same(*run_ml("LabelEncoder", {"X": texts("a", "q", "b")}, **classes), np.array([1, -7, 0]))
    assert_same(*run_ml("LabelEncoder", {"X": np.array([1, 0, 2, -1])}, **classes), texts("a", "b", "?", "?"))


def test_category_mapper() -> None:
    table = {"cats_strings": ["b", "a"], "cats_int64s": [4, 5]}
    assert_same(*run_ml("CategoryMapper", {"X": texts("a", "q")}, **table), np.array([5, -1]))
    assert_same(*run_ml("CategoryMapper", {"X": np.array([4, 7])}, **table), texts("b", "_Unused"))


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"keys_int64s": [1], "values_int64s": [1, 2]}, "1 keys have 2 values"),
        ({"keys_int64s": [1], "keys_floats": [1.0], "values_int64s": [1]}, "2 attributes keys_"),
        ({"keys_int64s": [1]}, "0 attributes values_"),
        ({"keys_floats": [1.0], "values_int64s": [1]}, "X is i64, the keys are f32"),
    ],
)
def test_what_does_not_fit_is_refused(attributes: dict[str, object], reason: str) -> None:
    with pytest.raises(DiagnosedModelError, match=reason):
        run_ml("LabelEncoder", {"X": np.array([1])}, version=4, **attributes)
