"""Clip and Where."""

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError
from tests.operators.tensor_operators import WAYS, run_operator
from tests.support.arrays import assert_same

X = np.float32([-np.inf, -2, -0.0, 0.5, 3, np.inf, np.nan])


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("low", "high"), [(-1, 1), (None, 1), (-1, None), (None, None), (2, 1)])
def test_clip(opset: int, way: str, low: float | None, high: float | None) -> None:
    bounds = {name: None if bound is None else scalar(bound) for name, bound in (("low", low), ("high", high))}
    actual = run_operator("Clip", {"x": X, **bounds}, opset=opset, way=way, parameters=("low", "high"))
    expected = X if low is None else np.maximum(X, np.float32(low))
    assert_same(*actual, expected if high is None else np.minimum(expected, np.float32(high)))


def test_clip_before_opset_11_has_attributes() -> None:
    assert_same(*run_operator("Clip", {"x": X}, opset=1, max=1.0), np.minimum(X, np.float32(1)))
    expected = np.minimum(np.maximum(X, np.float32(-1)), np.float32(1))
    assert_same(*run_operator("Clip", {"x": X}, opset=6, min=-1.0, max=1.0), expected)


def test_clip_without_attributes_in_opset_6_is_to_finite_values() -> None:
    largest = np.finfo(np.float32).max
    assert_same(*run_operator("Clip", {"x": X}, opset=6), np.clip(X, -largest, largest))


def test_clip_of_integers_and_of_no_axes() -> None:
    low, high = np.array(-3, np.int8), np.array(3, np.int8)
    assert_same(
        *run_operator("Clip", {"x": np.int8([-128, 0, 127]), "low": low, "high": high}, opset=12), np.int8([-3, 0, 3])
    )
    assert_same(*run_operator("Clip", {"x": scalar(5), "low": None, "high": scalar(1)}, opset=13), scalar(1))


def test_a_bound_of_clip_is_a_scalar() -> None:
    with pytest.raises(ModelError, match="bound-not-scalar"):
        run_operator("Clip", {"x": X, "low": np.float32([1, 2])}, opset=13)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize(
    "shapes",
    [((), (), ()), ((2,), (), ()), ((2, 1), (3,), ()), ((), (2, 3), (3,)), ((1, 3), (0, 1), ()), ((2, 3),) * 3],
)
def test_where_broadcasts_three_ways(way: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    condition = np.asarray(np.arange(np.prod(shapes[0])).reshape(shapes[0]) % 2 == 0)
    x, y = (
        np.arange(start, start + np.prod(shape), dtype=np.int32).reshape(shape)
        for start, shape in ((1, shapes[1]), (50, shapes[2]))
    )
    actual = run_operator("Where", {"condition": condition, "x": x, "y": y}, opset=16, way=way)
    assert_same(*actual, np.where(condition, x, y))


def test_where_refuses_sizes_that_do_not_fit() -> None:
    operands = {"condition": np.ones(2, bool), "x": np.ones(3, np.float32), "y": np.ones(1, np.float32)}
    with pytest.raises(ModelError, match="broadcast-mismatch"):
        run_operator("Where", operands, opset=9)


@pytest.mark.parametrize("dtype", [np.bool_, np.complex64, np.uint8, np.float16])
def test_where_of_other_types(dtype: type[np.generic]) -> None:
    x, y = np.array([1, 1], dtype), np.array([0, 0], dtype)
    operands = {"condition": np.array([True, False]), "x": x, "y": y}
    assert_same(*run_operator("Where", operands, opset=16), np.array([1, 0], dtype))
