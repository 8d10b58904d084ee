"""sort, top_k and non_zero against Python's own stable sort."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxc.runtime.host import MEANINGS

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8, np.bool_, ml_dtypes.uint4]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_in_both_directions(descending: bool, dtype: type[np.generic]) -> None:
    numbers = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 4, (3, 5, 2), np.int8)
    x = numbers.astype(dtype)
    for axis in range(3):
        values, indices = MEANINGS["sort"]([x], {"axis": axis, "descending": descending})
        assert (values.dtype, values.shape) == (x.dtype, x.shape)
        assert (indices.dtype, indices.shape) == (np.dtype(np.int64), x.shape)
        for place in np.ndindex(*np.delete(x.shape, axis)):
            row = np.moveaxis(numbers, axis, -1)[place].tolist()
            order = sorted(range(len(row)), key=lambda i: -row[i] if descending else row[i])
            assert np.moveaxis(indices, axis, -1)[place].tolist() == order
            np.testing.assert_array_equal(np.moveaxis(values, axis, -1)[place], np.moveaxis(x, axis, -1)[place][order])


@pytest.mark.parametrize("shape", [(0,), (1,), (2, 0), (0, 2)], ids=str)
def test_sort_of_odd_shapes(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        values, indices = MEANINGS["sort"]([np.ones(shape)], {"axis": axis, "descending": True})
        assert (values.shape, indices.shape) == (shape, shape)


def test_nan_is_greater_than_every_number() -> None:
    x = np.array([np.nan, np.inf, -np.inf, np.nan, 0.0])
    _, up = MEANINGS["sort"]([x], {"axis": 0, "descending": False})
    _, down = MEANINGS["sort"]([x], {"axis": 0, "descending": True})
    assert (up.tolist(), down.tolist()) == ([2, 4, 1, 0, 3], [0, 3, 1, 4, 2])


def test_the_ends_of_the_integers_sort_in_both_directions() -> None:
    for dtype in (np.int8, np.uint64, np.int64):
        bounds = np.iinfo(dtype)
        x = np.array([0, bounds.max, bounds.min], dtype)
        values, _ = MEANINGS["sort"]([x], {"axis": 0, "descending": True})
        assert values.tolist() == sorted(x.tolist(), reverse=True)


@given(st.lists(st.integers(0, 5), max_size=9), st.data(), st.booleans())
def test_top_k_is_the_head_of_the_sorted(numbers: list[int], data: st.DataObject, largest: bool) -> None:
    k = data.draw(st.integers(0, len(numbers)))
    x = np.array(numbers, np.int32)
    values, indices = MEANINGS["top_k"]([x], {"k": k, "axis": 0, "largest": largest})
    order = sorted(range(len(numbers)), key=lambda i: -numbers[i] if largest else numbers[i])[:k]
    np.testing.assert_array_equal(indices, np.array(order, np.int64), strict=True)
    np.testing.assert_array_equal(values, x[order], strict=True)


def test_top_k_along_an_inner_axis() -> None:
    x = np.array([[3, 1], [1, 4], [3, 5]], np.float16)
    values, indices = MEANINGS["top_k"]([x], {"k": 2, "axis": 0, "largest": True})
    np.testing.assert_array_equal(values, np.array([[3, 5], [3, 4]], np.float16), strict=True)
    np.testing.assert_array_equal(indices, np.array([[0, 2], [2, 1]]), strict=True)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_non_zero_lists_indices_in_row_major_order(dtype: type[np.generic]) -> None:
    x = np.array([[1, 0, 1], [0, 0, 1]], np.int8).astype(dtype)
    (result,) = MEANINGS["non_zero"]([x], {"symbol": "n"})
    np.testing.assert_array_equal(result, np.array([[0, 0, 1], [0, 2, 2]]), strict=True)


@pytest.mark.parametrize(
    ("x", "shape"),
    [(np.array(3.0), (0, 1)), (np.array(0), (0, 0)), (np.zeros((0, 2)), (2, 0)), (np.zeros(3), (1, 0))],
    ids=["scalar", "zero", "empty", "nothing"],
)
def test_non_zero_of_odd_shapes(x: np.ndarray, shape: tuple[int, ...]) -> None:
    (result,) = MEANINGS["non_zero"]([x], {"symbol": "n"})
    np.testing.assert_array_equal(result, np.zeros(shape, np.int64), strict=True)


def test_minus_zero_is_zero_and_nan_is_not() -> None:
    (result,) = MEANINGS["non_zero"]([np.array([-0.0, np.nan, 1e-310])], {"symbol": "n"})
    np.testing.assert_array_equal(result, np.array([[1, 2]]), strict=True)
