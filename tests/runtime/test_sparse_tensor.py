"""Sparse tensors: their indices, what a call takes for one, and that results share memory with nothing."""

import numpy as np
import pytest

from onnxc.runtime.arrays import describe
from onnxc.runtime.errors import InputError
from onnxc.runtime.host.functions import FUNCTIONS
from onnxc.runtime.host.values import HostValue
from onnxc.runtime.sparse_tensor import SparseIndexError, SparseTensor, linear_indices
from onnxc.runtime.values import import_value, own_values
from tests.support.arrays import assert_same

VALUES = np.array([1.5, -0.0], np.float32)


def places(*indices: object) -> np.ndarray:
    return np.array(indices, np.int64)


def sparse(value: HostValue) -> SparseTensor:
    assert isinstance(value, SparseTensor)
    return value


@pytest.mark.parametrize(
    ("indices", "shape", "expected"),
    [
        (places(0, 5), (2, 3), [0, 5]),
        (places([0, 0], [1, 2]), (2, 3), [0, 5]),
        (places([0], [2]), (3,), [0, 2]),
        (places(0), (), [0]),
        (np.zeros((1, 0), np.int64), (), [0]),
        (places(), (2, 0), []),
        (np.zeros((0, 2), np.int64), (0, 1), []),
        (places((1 << 63) - 2), ((1 << 63) - 1,), [(1 << 63) - 2]),
    ],
)
def test_indices_are_places_or_coordinates(indices: np.ndarray, shape: tuple[int, ...], expected: list[int]) -> None:
    assert_same(linear_indices(indices, len(indices), shape), np.array(expected, np.int64))


@pytest.mark.parametrize(
    ("indices", "shape", "code"),
    [
        (places(1, 0), (3,), "sparse-index-order"),
        (places(1, 1), (3,), "sparse-index-order"),
        (places([0, 2], [0, 1]), (2, 3), "sparse-index-order"),
        (places(0, 3), (3,), "sparse-index-range"),
        (places(-1, 0), (3,), "sparse-index-range"),
        (places([0, 3], [1, 0]), (2, 3), "sparse-index-range"),
        (places(0, 0), (), "sparse-index-order"),
        (places(0, 1), (0, 2), "sparse-index-range"),
        (places([0], [1]), (2, 3), "sparse-indices"),
        (places(0), (3,), "sparse-indices"),
        (places(0, 1), (-3,), "sparse-shape"),
        (places(0, 1), (0, 1 << 62, 4), "sparse-shape"),
    ],
)
def test_indices_that_are_none(indices: np.ndarray, shape: tuple[int, ...], code: str) -> None:
    with pytest.raises(SparseIndexError) as refused:
        linear_indices(indices, 2, shape)
    assert refused.value.code == code


@pytest.mark.parametrize("text", ["sparse(f32[2, 3])", "sparse(f32[N, M])", "sparse(f32[...])"])
def test_a_sparse_tensor_is_taken_as_it_is(text: str) -> None:
    taken = sparse(import_value(SparseTensor(VALUES, places(0, 4), (2, 3)), text, "it"))
    assert taken.values is VALUES
    assert_same(taken.indices, places(0, 4))
    assert (taken.dtype, taken.shape) == (np.float32, (2, 3))


def test_lists_and_other_integers_become_what_is_expected() -> None:
    given = SparseTensor([1, 2], [0, 2], [np.int32(3)])  # type: ignore[arg-type]
    taken = sparse(import_value(given, "sparse(f64[3])", "it"))
    assert_same(taken.values, np.array([1, 2], np.float64))
    assert_same(taken.indices, places(0, 2))
    assert taken.shape == (3,)


def test_texts_may_be_sparse() -> None:
    taken = sparse(import_value(SparseTensor(np.array(["a"]), places(1), (2,)), "sparse(string[2])", "it"))
    assert_same(taken.values, np.array(["a"], object))


@pytest.mark.parametrize("text", ["sequence(sparse(f32[2, ?any]))", "sequence(sparse(f32[...]))"])
def test_elements_of_a_sequence_may_be_sparse(text: str) -> None:
    taken = import_value([SparseTensor(VALUES, places(0, 4), (2, 3))], text, "it")
    assert isinstance(taken, tuple)
    assert sparse(taken[0]).shape == (2, 3)


ROW = SparseTensor(VALUES, places(0, 1), (3,))


@pytest.mark.parametrize(
    ("value", "text", "code", "message"),
    [
        (np.ones(3, np.float32), "sparse(f32[3])", "input-type", r"it is f32\[3\], expected sparse"),
        (ROW, "sparse(f64[3])", "input-dtype", r"it.values is f32\[2\], expected f64\[NNZ\]"),
        (
            SparseTensor(VALUES, np.array([0, 1], np.int32), (3,)),
            "sparse(f32[3])",
            "input-dtype",
            r"it.indices is i32\[2\], expected i64",
        ),
        (
            SparseTensor(VALUES.reshape(2, 1), places(0, 1), (3,)),
            "sparse(f32[3])",
            "sparse-values",
            r"it.values is f32\[2, 1\]",
        ),
        (SparseTensor(VALUES, places(0, 1), (2.5,)), "sparse(f32[3])", "sparse-shape", r"it.shape is \(2.5,\)"),
        (SparseTensor(VALUES, places(0, 1), None), "sparse(f32[3])", "sparse-shape", "it.shape is None"),
        (SparseTensor(VALUES, places(1, 0), (3,)), "sparse(f32[3])", "sparse-index-order", "it is no sparse tensor"),
        (SparseTensor(VALUES, places(1, 3), (3,)), "sparse(f32[3])", "sparse-index-range", "index 3 is outside"),
        ([ROW], "sequence(sparse(f32[2]))", "input-shape", r"it\[0\] is sparse\(f32\[3\]\), expected sparse"),
        ([ROW], "sequence(sparse(f32[?any, 3]))", "input-rank", r"it\[0\] is sparse\(f32\[3\]\), expected sparse"),
    ],
)
def test_what_is_no_sparse_tensor_of_the_type_is_refused(value: object, text: str, code: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        import_value(value, text, "it")
    assert refused.value.code == code


def test_a_sparse_tensor_without_arrays_can_be_described() -> None:
    assert describe(SparseTensor([1.0], [0], (2,))) == "a SparseTensor"  # type: ignore[arg-type]


def test_a_result_shares_no_memory() -> None:
    alone, (inside,) = own_values([ROW, (ROW,)], [ROW])  # type: ignore[misc]
    for result in (alone, inside):
        assert_same(sparse(result).values, VALUES)
        assert not np.shares_memory(sparse(result).values, VALUES)
        assert not np.shares_memory(sparse(result).indices, ROW.indices)


@pytest.mark.parametrize(
    ("dense", "values", "indices"),
    [
        (np.array([[0, 2], [-0.0, np.nan]], np.float32), np.array([2, -0.0, np.nan], np.float32), [1, 2, 3]),
        (np.array(5, np.int64), np.array([5], np.int64), [0]),
        (np.zeros((0, 3), np.int8), np.zeros(0, np.int8), []),
        (np.array([0, 1j], np.complex128), np.array([1j], np.complex128), [1]),
        (np.array(["", "a"], object), np.array(["a"], object), [1]),
    ],
)
def test_what_is_not_zero_is_stored(dense: np.ndarray, values: np.ndarray, indices: list[int]) -> None:
    (made,) = FUNCTIONS["sparse_from_dense"]([dense], {})
    assert_same(sparse(made).values, values)
    assert_same(sparse(made).indices, np.array(indices, np.int64))
    assert sparse(made).shape == dense.shape
