"""Gather and scatter against one assignment for each index."""

from collections.abc import Callable
from typing import SupportsInt

import ml_dtypes
import numpy as np
import pytest

from onnxc.runtime.host import MEANINGS

APPLY: dict[str, Callable[[float, float], float]] = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": min,
    "max": max,
}
TYPES = [np.int64, np.float32, np.float16, ml_dtypes.bfloat16, np.int8, ml_dtypes.int4]


def clamp(index: SupportsInt, size: int) -> int:
    return min(max(int(index), 0), size - 1)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: type[np.generic] = np.int64) -> np.ndarray:
    return rng.integers(0, 3, shape, np.int8).astype(dtype)


@pytest.mark.parametrize("indices_shape", [(), (0,), (1,), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_gather_takes_slices_and_clamps(dtype: type[np.generic], indices_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    data, indices = numbers(rng, (3, 4, 2), dtype), rng.integers(-2, 6, indices_shape)
    for axis in range(3):
        (result,) = MEANINGS["gather"]([data, indices], {"axis": axis})
        assert (type(result), result.dtype) == (np.ndarray, data.dtype)
        assert result.shape == data.shape[:axis] + indices_shape + data.shape[axis + 1 :]
        for place in np.ndindex(*result.shape):
            at = indices[place[axis : axis + indices.ndim]]
            source = (*place[:axis], clamp(at, data.shape[axis]), *place[axis + indices.ndim :])
            assert result[place] == data[source]


def test_gather_from_an_empty_axis_gives_zeros() -> None:
    (result,) = MEANINGS["gather"]([np.zeros((0, 2), np.float32), np.array([0, 5])], {"axis": 0})
    np.testing.assert_array_equal(result, np.zeros((2, 2), np.float32), strict=True)
    (along,) = MEANINGS["gather_along"]([np.zeros((0, 2), np.float32), np.array([[0, 5]])], {"axis": 0})
    np.testing.assert_array_equal(along, np.zeros((1, 2), np.float32), strict=True)
    (points,) = MEANINGS["gather_nd"]([np.zeros((0, 2), np.float32), np.array([[0], [1]])], {"batch_dims": 0})
    np.testing.assert_array_equal(points, np.zeros((2, 2), np.float32), strict=True)


def test_gather_of_strings() -> None:
    (result,) = MEANINGS["gather"]([np.array(["a", "b"], object), np.array(1)], {"axis": 0})
    assert (result.dtype, result.shape, str(result[()])) == (np.dtype(object), (), "b")


@pytest.mark.parametrize("indices_shape", [(3, 4, 2), (2, 3, 1), (5, 1, 2), (0, 4, 2)], ids=str)
def test_gather_along_replaces_one_index(indices_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    data = numbers(rng, (5, 4, 2))
    for axis in range(3):
        indices = rng.integers(-1, 7, indices_shape)
        (result,) = MEANINGS["gather_along"]([data, indices], {"axis": axis})
        assert (result.dtype, result.shape) == (data.dtype, indices_shape)
        for place in np.ndindex(*indices_shape):
            source = (*place[:axis], clamp(indices[place], data.shape[axis]), *place[axis + 1 :])
            assert result[place] == data[source]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("kind", APPLY)
def test_scatter_along_applies_updates_in_order(kind: str, dtype: type[np.generic]) -> None:
    rng = np.random.default_rng(2)
    for axis in range(2):
        data, updates = numbers(rng, (4, 3), dtype), numbers(rng, (3, 2), dtype)
        indices = rng.integers(-1, 6, (3, 2))
        expected = [[int(value) for value in row] for row in data]
        for i, j in np.ndindex(3, 2):
            row, column = (clamp(indices[i, j], 4), j) if axis == 0 else (i, clamp(indices[i, j], 3))
            expected[row][column] = int(APPLY[kind](expected[row][column], int(updates[i, j])))
        before = data.copy()
        (result,) = MEANINGS["scatter_along"]([data, indices, updates], {"axis": axis, "kind": kind})
        np.testing.assert_array_equal(result, np.array(expected).astype(dtype), strict=True)
        np.testing.assert_array_equal(data, before)
        assert not np.shares_memory(result, data)


@pytest.mark.parametrize(
    ("data_shape", "indices_shape", "batch_dims"),
    [
        ((3, 4, 2), (5, 1), 0),
        ((3, 4, 2), (2, 2, 3), 0),
        ((3, 4, 2), (3, 2), 1),
        ((3, 4, 2), (3, 4, 2, 1), 2),
        ((3, 4, 2), (0, 2), 0),
        ((3,), (1,), 0),
        ((3, 2), (2, 0), 0),
        ((), (2, 0), 0),
        ((2, 3), (2, 0), 1),
    ],
    ids=str,
)
def test_gather_nd_takes_the_slice_each_row_names(
    data_shape: tuple[int, ...], indices_shape: tuple[int, ...], batch_dims: int
) -> None:
    rng = np.random.default_rng(3)
    data, indices = numbers(rng, data_shape), rng.integers(-1, 6, indices_shape)
    (result,) = MEANINGS["gather_nd"]([data, indices], {"batch_dims": batch_dims})
    depth = indices_shape[-1]
    assert (type(result), result.dtype) == (np.ndarray, data.dtype)
    assert result.shape == indices_shape[:-1] + data_shape[batch_dims + depth :]
    for place in np.ndindex(*indices_shape[:-1]):
        sizes = data_shape[batch_dims : batch_dims + depth]
        row = tuple(clamp(i, size) for i, size in zip(indices[place], sizes, strict=True))
        np.testing.assert_array_equal(result[place], data[place[:batch_dims] + row])


@pytest.mark.parametrize(
    ("data_shape", "indices_shape"),
    [((4, 3), (6, 1)), ((4, 3), (2, 3, 2)), ((4,), (0, 1)), ((4, 3), (2, 0)), ((), (3, 0)), ((4,), (1,))],
    ids=str,
)
@pytest.mark.parametrize("kind", APPLY)
def test_scatter_nd_applies_updates_in_order(
    kind: str, data_shape: tuple[int, ...], indices_shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(4)
    depth = indices_shape[-1]
    data, indices = numbers(rng, data_shape), rng.integers(-1, 6, indices_shape)
    updates = numbers(rng, indices_shape[:-1] + data_shape[depth:])
    expected = data.copy()
    for place in np.ndindex(*indices_shape[:-1]):
        row = tuple(clamp(i, size) for i, size in zip(indices[place], data_shape[:depth], strict=True))
        for inner in np.ndindex(*data_shape[depth:]):
            expected[row + inner] = APPLY[kind](int(expected[row + inner]), int(updates[place + inner]))
    (result,) = MEANINGS["scatter_nd"]([data, indices, updates], {"kind": kind})
    np.testing.assert_array_equal(result, expected, strict=True)
    assert not np.shares_memory(result, data)


def test_scatter_into_nothing_gives_nothing() -> None:
    data = np.zeros((0, 2), np.float32)
    (along,) = MEANINGS["scatter_along"]([data, np.array([[1, 2]]), np.ones((1, 2), "f4")], {"axis": 0, "kind": "add"})
    (points,) = MEANINGS["scatter_nd"]([data, np.array([[3]]), np.ones((1, 2), np.float32)], {"kind": "set"})
    for result in (along, points):
        np.testing.assert_array_equal(result, data, strict=True)


def test_float16_updates_are_rounded_once_after_all() -> None:
    data, updates = np.array([2048.0], np.float16), np.ones(4, np.float16)
    (result,) = MEANINGS["scatter_nd"]([data, np.zeros((4, 1), np.int64), updates], {"kind": "add"})
    np.testing.assert_array_equal(result, np.array([2052.0], np.float16), strict=True)


def test_nan_updates_propagate_through_max() -> None:
    operands = [np.array([1.0, 2.0]), np.array([[0]]), np.array([np.nan])]
    (result,) = MEANINGS["scatter_nd"](operands, {"kind": "max"})
    np.testing.assert_array_equal(result, [np.nan, 2.0])
