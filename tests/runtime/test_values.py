"""Sequences, optionals and maps on the way in, and what is made the caller's own on the way out."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from onnxc.runtime.host.values import HostValue
from onnxc.runtime.values import import_value, own_values
from tests.support.arrays import assert_same

X = np.array([1.0, 2.0], np.float32)


def take(value: object, text: str) -> HostValue:
    return import_value(value, text, 'input "x"')


@pytest.mark.parametrize("value", [[X, [3.0]], (X, np.array([3.0], np.float32))])
def test_a_sequence_is_a_tuple(value: object) -> None:
    found = take(value, "sequence(f32[...])")
    assert isinstance(found, tuple)
    for item, expected in zip(found, (X, np.array([3.0], np.float32)), strict=True):
        assert isinstance(item, np.ndarray)
        assert_same(item, expected)
    assert take([], "sequence(f32[...])") == ()


@pytest.mark.parametrize("text", ["sequence(f32[2])", "sequence(f32[?any])", "sequence(f32[...])"])
def test_an_element_has_the_sizes_that_are_told(text: str) -> None:
    found = take([X], text)
    assert isinstance(found, tuple)
    assert [item is X for item in found] == [True]


@pytest.mark.parametrize(
    ("value", "text", "code"),
    [
        ([X, X[:1]], "sequence(f32[2])", "input-shape"),
        ([np.zeros((4, 3), np.float32)], "sequence(f32[?any, 2])", "input-shape"),
        ([X], "sequence(f32[?any, 2])", "input-rank"),
        ([X], "sequence(f32[])", "input-rank"),
        (X, "optional(f32[3])", "input-shape"),
        ({3: X}, "map(i64, f32[3])", "input-shape"),
        ([[X], [X[:0]]], "sequence(sequence(f32[2]))", "input-shape"),
    ],
)
def test_an_element_of_other_sizes_is_refused(value: object, text: str, code: str) -> None:
    with pytest.raises(InputError, match="expected f32") as caught:
        take(value, text)
    assert caught.value.code == code


def test_an_optional_is_none_or_its_value() -> None:
    assert take(None, "optional(sequence(i64[...]))") is None
    assert take(X, "optional(f32[2])") is X
    found = take([1], "optional(sequence(i64[...]))")
    assert isinstance(found, tuple)
    assert len(found) == 1


def test_a_map_has_integers_or_texts_for_keys() -> None:
    found = take({np.int64(3): X, 4: X}, "map(i64, f32[...])")
    assert isinstance(found, dict)
    assert list(found) == [3, 4]
    texts = take({"a": [X]}, "map(string, sequence(f32[...]))")
    assert isinstance(texts, dict)
    assert isinstance(texts["a"], tuple)


@pytest.mark.parametrize(
    ("value", "text", "code", "message"),
    [
        (X, "sequence(f32[...])", "input-type", r'"x" is f32\[2\], expected sequence'),
        ([X, X.astype(np.float64)], "sequence(f32[...])", "input-dtype", r'"x"\[1\] is f64\[2\]'),
        ([None], "sequence(f32[...])", "input-type", r'"x"\[0\] is a NoneType'),
        ([X], "map(i64, f32[...])", "input-type", "is a list, expected map"),
        ({"a": X}, "map(i64, f32[...])", "input-dtype", "has the key 'a'"),
        ({True: X}, "map(i64, f32[...])", "input-dtype", "has the key True"),
        ({1: X}, "map(string, f32[...])", "input-dtype", "has the key 1"),
        ({1: "b"}, "map(i64, f32[...])", "input-dtype", r'"x"\[1\] is a str'),
        ("b", "optional(f32[...])", "input-dtype", "is a str of string, expected f32"),
    ],
)
def test_a_value_of_another_type_is_refused(value: object, text: str, code: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        take(value, text)
    assert refused.value.code == code


def test_results_share_memory_with_nothing() -> None:
    fresh, argument = X.copy(), X.copy()
    results = own_values([fresh, fresh, argument, fresh[::-1], (argument,), {1: argument}, None], [argument])
    assert results[0] is fresh
    flat = [results[1], results[2], results[3]]
    flat += [results[4][0], results[5][1]] if isinstance(results[4], tuple) and isinstance(results[5], dict) else []
    assert len(flat) == 5
    for array in flat:
        assert isinstance(array, np.ndarray)
        assert array.flags.c_contiguous
        assert not np.shares_memory(array, fresh)
        assert not np.shares_memory(array, argument)
    assert results[6] is None


def test_maps_that_are_results_twice_are_two() -> None:
    scalars, arrays = {"a": np.float32(1)}, {"a": np.ones(2)}
    for inside in (scalars, arrays, {"a": (arrays,)}):
        first, second = own_values([(inside,), (inside,)], [inside])
        assert isinstance(first, tuple)
        assert isinstance(second, tuple)
        assert first[0] is not second[0]
        assert first[0] is not inside


def test_arrays_in_maps_are_copied_however_deep() -> None:
    array = np.ones(2)
    ((alone, nested),) = own_values([({"a": array, "b": np.float32(2)}, {"a": {"b": (array,)}})], [])  # type: ignore[misc]
    assert alone["b"] == 2
    assert not np.shares_memory(alone["a"], array)
    assert not np.shares_memory(nested["a"]["b"][0], array)
