"""Gather, GatherElements, GatherND: elements and slices by index."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from tests.operators.tensor_operators import i64, run_operator
from tests.support.arrays import assert_same

WAYS = ("static", "symbolic")
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axis", [-2, 0, 2])
@pytest.mark.parametrize("indices", [0, [1, -1], [[0, 1], [-2, 1]], np.zeros((0, 2), np.int64)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather_counts_negative_indices_from_the_end(way: str, axis: int, indices: object, dtype: type) -> None:
    picked = np.array(indices, dtype)
    (got,) = run_operator("Gather", {"data": X, "indices": picked}, opset=13, way=way, axis=axis)
    assert_same(got, np.take(X, picked, axis))


def test_gather_of_strings() -> None:
    (got,) = run_operator("Gather", {"data": np.array(["a", "b"], object), "indices": i64(1, 0, 1)}, opset=13)
    assert got.tolist() == ["b", "a", "b"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements_is_take_along_axis(way: str, axis: int) -> None:
    indices = np.array([[[-1, 0, 1, 1]], [[0, -2, 1, 0]]])
    (got,) = run_operator("GatherElements", {"data": X, "indices": indices}, opset=13, way=way, axis=axis)
    places = list(np.ogrid[:2, :1, :4])
    places[axis] = indices
    assert_same(got, X[tuple(places)])


def test_indices_larger_than_the_data_are_an_input_error() -> None:
    inputs = {"data": np.zeros((2, 2)), "indices": np.zeros((3, 2), np.int64)}
    with pytest.raises(InputError):
        run_operator("GatherElements", inputs, opset=13, way="symbolic", axis=1)


@pytest.mark.parametrize(
    ("indices", "batch"),
    [
        ([[0, 1, -1], [1, 2, 0]], 0),
        ([[1], [-2]], 0),
        ([1, -1], 0),
        ([[[0], [2]], [[1], [-1]]], 1),
        ([[0, 1], [2, -1]], 1),
        (np.zeros((2, 3, 0, 1)), 2),
    ],
)
def test_gather_nd_picks_slices_at_coordinates(indices: object, batch: int) -> None:
    places = np.array(indices, np.int64)
    (got,) = run_operator("GatherND", {"data": X, "indices": places}, opset=12, batch_dims=batch)
    expected = np.empty((*places.shape[:-1], *X.shape[batch + places.shape[-1] :]), X.dtype)
    for where in np.ndindex(places.shape[:-1]):
        expected[where] = X[(*where[:batch], *places[where])]
    assert_same(got, expected)


def test_gather_nd_before_12_has_no_batches() -> None:
    (got,) = run_operator("GatherND", {"data": X, "indices": np.array([[1, 2]])}, opset=11)
    assert_same(got, X[1, 2][np.newaxis])


def test_the_batch_may_be_a_symbol_on_one_side() -> None:
    inputs = {"data": X, "indices": np.array([[[1]], [[0]]])}
    (got,) = run_operator("GatherND", inputs, opset=13, way="data", parameters=["indices"], batch_dims=1)
    assert_same(got, np.stack([X[0, 1:2], X[1, 0:1]]))
