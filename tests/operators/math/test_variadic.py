"""Sum, Mean, Max and Min of several tensors."""

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_same

FUNCTIONS: dict[str, Callable[[list[np.ndarray]], np.ndarray]] = {
    "Sum": lambda values: reduce(np.add, values),
    "Mean": lambda values: reduce(np.add, values) / np.float32(len(values)),
    "Max": lambda values: reduce(np.maximum, values),
    "Min": lambda values: reduce(np.minimum, values),
}


def run(operator: str, values: list[np.ndarray], opset: int, way: str = "static") -> np.ndarray:
    (result,) = run_operator(operator, {f"x{i}": value for i, value in enumerate(values)}, opset=opset, way=way)
    return result


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("shapes", [[(3,)], [(2, 3), (3,)], [(), (2, 1), (1, 4)], [(0, 2), (1, 2), (2,)]])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_operands_broadcast(operator: str, shapes: list[tuple[int, ...]], way: str) -> None:
    values = [
        np.asarray(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - i) for i, shape in enumerate(shapes)
    ]
    assert_same(run(operator, values, 13, way), FUNCTIONS[operator](values))


@pytest.mark.parametrize("operator", ["Max", "Min"])
def test_nan_wins(operator: str) -> None:
    values = [np.float32([np.nan, 1, np.inf]), np.float32([0, np.nan, -np.inf])]
    assert_same(run(operator, values, 12), FUNCTIONS[operator](values))


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16])
def test_other_types(dtype: type[np.generic]) -> None:
    assert_same(run("Max", [np.array([1, 9], dtype), np.array([4], dtype)], 12), np.array([4, 9], dtype))


def test_the_mean_of_halves_does_not_overflow() -> None:
    values = [np.float16([60000]), np.float16([60000])]
    assert_same(run("Mean", values, 13), np.float16([60000]))


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("opset", [1, 6])
def test_before_opset_8_all_have_one_shape(operator: str, opset: int) -> None:
    values = [np.float32([[1, 5]]), np.float32([[3, 2]])]
    assert_same(run(operator, values, opset), FUNCTIONS[operator](values))
    with pytest.raises(ModelError, match="shapes-differ"):
        run(operator, [values[0], values[1][0]], opset)
    with pytest.raises(ModelError, match="shapes-differ"):
        run(operator, [values[0], values[1][:, :1]], opset)
