"""Inputs that are not given are drawn; their sizes come from the options, from the given inputs, or are 1."""

import click
import ml_dtypes
import numpy as np
import pytest

from onnxc.command_line.random_inputs import complete_inputs
from onnxc.runtime.signature import TensorInfo
from onnxc.runtime.sparse_tensor import SparseTensor
from tests.support.arrays import assert_same

IDS = TensorInfo("ids", np.dtype(np.int64), ("batch", "sequence"), "i64[batch, sequence]")
MASK = TensorInfo("mask", np.dtype(np.bool_), ("batch", "past + sequence"), "bool[batch, past + sequence]")
PAST = TensorInfo("past", np.dtype(np.float32), ("batch", 2, "past"), "f32[batch, 2, past]")


def shapes(
    given: dict[str, object], fixed: dict[str, tuple[int, ...]], sizes: dict[str, int]
) -> dict[str, tuple[int, ...]]:
    made = complete_inputs((IDS, MASK, PAST), given, fixed, sizes, 0)
    return {name: np.shape(value) for name, value in made.items()}


def test_sizes_are_one_by_default() -> None:
    assert shapes({}, {}, {}) == {"ids": (1, 1), "mask": (1, 2), "past": (1, 2, 1)}


def test_sizes_by_option() -> None:
    assert shapes({}, {}, {"batch": 3, "past": 0}) == {"ids": (3, 1), "mask": (3, 1), "past": (3, 2, 0)}


def test_sizes_from_given_inputs_and_shapes() -> None:
    made = shapes({"ids": np.zeros((2, 5), np.int64)}, {"past": (2, 2, 7)}, {})
    assert made == {"ids": (2, 5), "mask": (2, 12), "past": (2, 2, 7)}


def test_optional_inputs_are_left_out() -> None:
    weight = TensorInfo("w", np.dtype(np.float32), (4,), "f32[4]", optional=True)
    assert complete_inputs((weight,), {}, {}, {}, 0) == {}


@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.uint64, np.bool_, np.complex64],
)
def test_every_element_type_can_be_drawn(dtype: type) -> None:
    made = complete_inputs((TensorInfo("x", np.dtype(dtype), (3, 4), "x"),), {}, {}, {}, 0)["x"]
    assert isinstance(made, np.ndarray)
    assert (made.dtype, made.shape) == (np.dtype(dtype), (3, 4))


def test_texts_are_empty() -> None:
    made = complete_inputs((TensorInfo("x", np.dtype(object), (2,), "string[2]"),), {}, {}, {}, 0)["x"]
    assert isinstance(made, np.ndarray)
    assert made.tolist() == ["", ""]


@pytest.mark.parametrize(("rows", "stored"), [(0, []), (1, [0, 2]), (2, [0, 2, 4])])
def test_every_other_element_of_a_sparse_tensor_is_drawn(rows: int, stored: list[int]) -> None:
    info = TensorInfo("x", None, ("N", 3), "sparse(bf16[N, 3])")
    made = complete_inputs((info,), {}, {}, {"N": rows}, 0)["x"]
    assert isinstance(made, SparseTensor)
    assert (made.dtype, made.values.shape, made.shape) == (ml_dtypes.bfloat16, (len(stored),), (rows, 3))
    assert_same(made.indices, np.array(stored, np.int64))


def test_the_seed_decides() -> None:
    one, same, other = (complete_inputs((PAST,), {}, {}, {}, seed)["past"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    "info", [TensorInfo("x", None, None, "sequence(f32[N])"), TensorInfo("x", np.dtype(np.float32), None, "f32[...]")]
)
def test_what_has_no_shape_must_be_given(info: TensorInfo) -> None:
    with pytest.raises(click.UsageError, match="give it with --input x="):
        complete_inputs((info,), {}, {}, {}, 0)
