"""Split and Concat: a tensor in parts, and parts as one tensor."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from tests.operators.tensor_operators import WAYS, i64, run_operator
from tests.support.arrays import assert_same


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("lengths", [(2, 3), (0, 5), (5, 0), (1, 1, 3)])
def test_split_takes_the_lengths_given(way: str, axis: int, lengths: tuple[int, ...]) -> None:
    x = np.arange(10, dtype=np.int64).reshape(2, 5)
    parts = run_operator(
        "Split",
        {"input": x, "split": i64(*lengths)},
        opset=18,
        way=way,
        parameters=["split"],
        outputs=len(lengths),
        axis=axis,
    )
    for part, expected in zip(parts, np.split(x, np.cumsum(lengths)[:-1], 1), strict=True):
        assert_same(part, expected)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize(
    ("size", "count", "lengths"),
    [(6, 3, (2, 2, 2)), (7, 3, (3, 3, 1)), (4, 3, (2, 2, 0)), (2, 4, (1, 1, 0, 0)), (0, 2, (0, 0)), (1, 1, (1,))],
)
def test_the_last_parts_are_smaller_where_the_size_is_no_multiple(
    way: str, size: int, count: int, lengths: tuple[int, ...]
) -> None:
    x = np.arange(size, dtype=np.float32)
    parts = run_operator("Split", {"input": x}, opset=18, way=way, outputs=count, num_outputs=count)
    for part, expected in zip(parts, np.split(x, np.cumsum(lengths)[:-1]), strict=True):
        assert_same(part, expected)


@pytest.mark.parametrize("opset", [1, 2, 11, 13])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_parts_are_equal_by_default(opset: int, way: str) -> None:
    x = np.arange(6, dtype=np.float32)
    first, second = run_operator("Split", {"input": x}, opset=opset, way=way, outputs=2)
    assert_same(first, x[:3])
    assert_same(second, x[3:])


@pytest.mark.parametrize("opset", [1, 2, 11])
def test_split_was_an_attribute(opset: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    first, second = run_operator("Split", {"input": x}, opset=opset, outputs=2, axis=1, split=[1, 2])
    assert_same(first, x[:, :1])
    assert_same(second, x[:, 1:])


def test_split_1_has_an_input_too() -> None:
    inputs = {"input": np.arange(6, dtype=np.float32), "split": np.array([4, 2], np.float32)}
    first, second = run_operator("Split", inputs, opset=1, outputs=2, axis=0)
    assert (first.shape, second.shape) == ((4,), (2,))


def test_lengths_that_do_not_add_up_are_an_input_error() -> None:
    inputs = {"input": np.arange(6, dtype=np.float32), "split": i64(2, 3)}
    with pytest.raises(InputError):
        run_operator("Split", inputs, opset=13, way="data", parameters=["split"], outputs=2)


def test_an_odd_size_in_equal_parts_is_an_input_error() -> None:
    with pytest.raises(InputError):
        run_operator("Split", {"input": np.zeros(5, np.float32)}, opset=13, way="symbolic", outputs=2)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_joins_along_an_axis(way: str, axis: int) -> None:
    rows = {-1: (3, 2), 0: (4, 3), 1: (3, 0)}[axis]
    a, b, c = np.ones((3, 3), np.int8), np.zeros(rows, np.int8), np.full((3, 3), 7, np.int8)
    (got,) = run_operator("Concat", {"a": a, "b": b, "c": c}, opset=13, way=way, axis=axis)
    assert_same(got, np.concatenate([a, b, c], axis))


def test_concat_1_joins_along_axis_1_by_default() -> None:
    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    (got,) = run_operator("Concat", {"a": a, "b": a}, opset=1)
    assert_same(got, np.concatenate([a, a], 1))


def test_concat_of_strings() -> None:
    a = np.array(["x", "", "é"], object)
    (got,) = run_operator("Concat", {"a": a, "b": a}, opset=13, axis=0)
    assert got.tolist() == ["x", "", "é", "x", "", "é"]


def test_concat_of_sizes_that_differ_is_an_input_error() -> None:
    with pytest.raises(InputError):
        run_operator("Concat", {"a": np.zeros((2, 3)), "b": np.zeros((2, 4))}, opset=13, way="symbolic", axis=0)


@pytest.mark.parametrize("way", WAYS)
def test_concat_with_a_tensor_of_no_elements(way: str) -> None:
    a, b = np.zeros((2, 0, 3), np.float32), np.ones((2, 1, 3), np.float32)
    (got,) = run_operator("Concat", {"a": a, "b": b}, opset=13, way=way, axis=1)
    assert_same(got, b)


@pytest.mark.parametrize("shape", [(0, 0, 3), (2, 0, 4), (0, 5, 3)])
def test_concat_with_a_tensor_of_no_elements_of_other_sizes_is_an_input_error(shape: tuple[int, ...]) -> None:
    operands = {"a": np.zeros(shape, np.float32), "b": np.ones((2, 1, 3), np.float32)}
    with pytest.raises(InputError, match="of input 1 and of input 0 differ"):
        run_operator("Concat", operands, opset=13, way="symbolic", axis=1)
