"""Scatter, ScatterElements, ScatterND, TensorScatter: elements and slices replaced by index."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from tests.operators.tensor_operators import i64, run_operator
from tests.support.arrays import assert_same

WAYS = ("static", "symbolic")
COMBINE = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}
X = np.arange(12, dtype=np.int32).reshape(3, 4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("reduction", COMBINE)
def test_scatter_elements_applies_updates_in_order(way: str, axis: int, reduction: str) -> None:
    indices, updates = np.array([[0, -1, 0], [2, 1, -3]]), np.array([[5, -6, 7], [8, 2, 3]], np.int32)
    expected = X.copy()
    for (i, j), index in np.ndenumerate(indices):
        place = (index, j) if axis == 0 else (i, index)
        expected[place] = COMBINE[reduction](expected[place], updates[i, j])
    inputs = {"data": X, "indices": indices, "updates": updates}
    (got,) = run_operator("ScatterElements", inputs, opset=18, way=way, axis=axis, reduction=reduction)
    assert_same(got, expected)


@pytest.mark.parametrize(("operator", "opset"), [("Scatter", 9), ("ScatterElements", 11)])
def test_scatter_replaces_along_axis_0_by_default(operator: str, opset: int) -> None:
    inputs = {
        "data": np.zeros((3, 2), np.float32),
        "indices": np.array([[2, 0]]),
        "updates": np.ones((1, 2), np.float32),
    }
    (got,) = run_operator(operator, inputs, opset=opset)
    assert_same(got, np.array([[0, 1], [0, 0], [1, 0]], np.float32))


def test_no_updates_change_nothing() -> None:
    inputs = {"data": X, "indices": np.zeros((0, 4), np.int64), "updates": np.zeros((0, 4), np.int32)}
    (got,) = run_operator("ScatterElements", inputs, opset=18, way="symbolic")
    assert_same(got, X)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reduction", COMBINE)
@pytest.mark.parametrize("indices", [[[0], [-1], [0]], [[[1, 0], [2, -1]]], [[2]]])
def test_scatter_nd_replaces_slices_in_order(way: str, reduction: str, indices: list) -> None:
    places = np.array(indices, np.int64)
    updates = np.arange(100, 100 + places[..., 0].size * np.prod(X.shape[places.shape[-1] :]), dtype=np.int32)
    updates = updates.reshape(*places.shape[:-1], *X.shape[places.shape[-1] :])
    expected = X.copy()
    for where in np.ndindex(places.shape[:-1]):
        place = tuple(places[where])
        old, new = np.atleast_1d(expected[place]), np.atleast_1d(updates[where])
        expected[place] = np.array([COMBINE[reduction](*pair) for pair in zip(old, new, strict=True)]).reshape(
            np.shape(expected[place])
        )
    inputs = {"data": X, "indices": places, "updates": updates}
    (got,) = run_operator("ScatterND", inputs, opset=18, way=way, reduction=reduction)
    assert_same(got, expected)


def test_updates_of_another_shape_are_an_input_error() -> None:
    inputs = {"data": X, "indices": np.zeros((1, 4), np.int64), "updates": np.zeros((2, 4), np.int32)}
    with pytest.raises(InputError):
        run_operator("ScatterElements", inputs, opset=18, way="symbolic")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, -2, -1])
def test_tensor_scatter_writes_from_an_index_on(way: str, mode: str, axis: int) -> None:
    cache = np.zeros((2, 4, 4), np.float32)
    update = np.arange(1, 17, dtype=np.float32).reshape((2, 2, 4) if axis in (1, -2) else (2, 4, 2))
    starts = i64(1, 2) if mode == "linear" else i64(3, 6)
    expected = cache.copy()
    for batch, start in enumerate(starts):
        for step in range(2):
            place = (start + step) % 4
            if axis in (1, -2):
                expected[batch, place] = update[batch, step]
            else:
                expected[batch, :, place] = update[batch, :, step]
    inputs = {"past_cache": cache, "update": update, "write_indices": starts}
    (got,) = run_operator("TensorScatter", inputs, opset=24, way=way, axis=axis, mode=mode)
    assert_same(got, expected)


def test_tensor_scatter_writes_from_the_start_by_default() -> None:
    inputs = {"past_cache": np.zeros((1, 3, 1), np.float32), "update": np.ones((1, 2, 1), np.float32)}
    (got,) = run_operator("TensorScatter", inputs, opset=24, way="symbolic")
    assert_same(got, np.array([[[1], [1], [0]]], np.float32))


def test_an_update_longer_than_the_cache_is_an_input_error() -> None:
    inputs = {"past_cache": np.zeros((1, 3, 1), np.float32), "update": np.ones((1, 4, 1), np.float32)}
    with pytest.raises(InputError):
        run_operator("TensorScatter", inputs, opset=24, way="symbolic")
