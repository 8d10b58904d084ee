"""The Reduce operators and ArgMax, ArgMin."""

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import WAYS, lower_operator, run_operator
from tests.support.arrays import assert_close, assert_same

Function = Callable[[np.ndarray, tuple[int, ...]], np.ndarray]


def log_sum_exp(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.logaddexp.reduce(x, axis=axes, keepdims=True)


# operator: the last version with an attribute axes, the function in f64 with the axes kept
FUNCTIONS: dict[str, tuple[int, Function]] = {
    "ReduceSum": (11, lambda x, axes: x.sum(axes, keepdims=True)),
    "ReduceMean": (13, lambda x, axes: x.mean(axes, keepdims=True)),
    "ReduceMax": (13, lambda x, axes: x.max(axes, keepdims=True, initial=-np.inf)),
    "ReduceMin": (13, lambda x, axes: x.min(axes, keepdims=True, initial=np.inf)),
    "ReduceProd": (13, lambda x, axes: x.prod(axes, keepdims=True)),
    "ReduceL1": (13, lambda x, axes: np.abs(x).sum(axes, keepdims=True)),
    "ReduceL2": (13, lambda x, axes: np.sqrt((x * x).sum(axes, keepdims=True))),
    "ReduceSumSquare": (13, lambda x, axes: (x * x).sum(axes, keepdims=True)),
    "ReduceLogSum": (13, lambda x, axes: np.log(x.sum(axes, keepdims=True))),
    "ReduceLogSumExp": (13, log_sum_exp),
}
X = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 4)).astype(np.float32)


def reference(operator: str, x: np.ndarray, axes: Sequence[int], keepdims: bool) -> np.ndarray:
    positive = tuple(axis % x.ndim for axis in axes)
    with np.errstate(all="ignore"):
        kept = FUNCTIONS[operator][1](x.astype(np.float64), positive)
    shape = [size for axis, size in enumerate(kept.shape) if keepdims or axis not in positive]
    return kept.reshape(shape).astype(x.dtype)


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("axes", [(0,), (-1,), (2, 0), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_axes_as_an_attribute(operator: str, axes: tuple[int, ...], keepdims: int, way: str) -> None:
    opset = FUNCTIONS[operator][0]
    (actual,) = run_operator(operator, {"x": X}, opset=opset, way=way, axes=axes, keepdims=keepdims)
    assert_close(actual, reference(operator, X, axes, bool(keepdims)))


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("axes", [(1,), (-1, 0), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_axes_as_an_input(operator: str, axes: tuple[int, ...], keepdims: int, way: str) -> None:
    operands = {"x": X, "axes": np.array(axes, np.int64)}
    (actual,) = run_operator(operator, operands, opset=18, way=way, parameters=("axes",), keepdims=keepdims)
    assert_close(actual, reference(operator, X, axes, bool(keepdims)))


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("axes", [None, ()])
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_no_axes_are_all_or_none(operator: str, axes: tuple[int, ...] | None, noop: int, way: str) -> None:
    operands = {"x": X, "axes": None if axes is None else np.array(axes, np.int64)}
    (actual,) = run_operator(operator, operands, opset=18, way=way, parameters=("axes",), noop_with_empty_axes=noop)
    assert_close(actual, reference(operator, X, () if noop else (0, 1, 2), keepdims=True))


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("shape", [(2, 0, 3), (0,)])
@pytest.mark.parametrize("way", WAYS)
def test_a_fold_of_nothing(operator: str, shape: tuple[int, ...], way: str) -> None:
    x, axis = np.zeros(shape, np.float32), len(shape) // 2
    operands = {"x": x, "axes": np.array([axis], np.int64)}
    (actual,) = run_operator(operator, operands, opset=18, way=way, parameters=("axes",))
    if operator == "ReduceMean":
        assert actual.shape == reference("ReduceSum", x, [axis], keepdims=True).shape
        assert np.isnan(actual).all()
    else:
        assert_same(actual, reference(operator, x, [axis], keepdims=True))


@pytest.mark.parametrize("operator", FUNCTIONS)
def test_a_scalar_is_folded_over_no_axes(operator: str) -> None:
    (actual,) = run_operator(operator, {"x": np.array(2, np.float32)}, opset=18)
    assert_close(actual, reference(operator, np.array(2, np.float32), (), keepdims=True))


def test_halves_are_summed_in_single_precision() -> None:
    x = np.full(4000, 30, np.float16)
    assert_same(*run_operator("ReduceMean", {"x": x}, opset=18, keepdims=0), np.array(30, np.float16))
    x = np.full(300, 1, ml_dtypes.bfloat16)
    assert_same(*run_operator("ReduceSum", {"x": x}, opset=13, keepdims=0), np.array(300, ml_dtypes.bfloat16))


def test_integers() -> None:
    x = np.int32([[3, -4], [7, 2**31 - 1]])
    assert_same(*run_operator("ReduceMean", {"x": x}, opset=18, keepdims=0), np.array((2**31 + 5) // 4, np.int32))
    assert_same(*run_operator("ReduceL2", {"x": x[:1]}, opset=18, keepdims=0), np.array(5, np.int32))
    assert_same(*run_operator("ReduceL1", {"x": x[:1]}, opset=18, keepdims=0), np.array(7, np.int32))
    assert_same(*run_operator("ReduceMax", {"x": np.int8([])}, opset=18, keepdims=0), np.array(-128, np.int8))


@pytest.mark.parametrize("way", WAYS)
def test_bools_have_a_maximum_and_a_minimum(way: str) -> None:
    operands = {"x": np.array([[True, False], [True, True]]), "axes": np.int64([1])}
    maximum = run_operator("ReduceMax", operands, opset=20, way=way, parameters=("axes",), keepdims=0)
    minimum = run_operator("ReduceMin", operands, opset=20, way=way, parameters=("axes",), keepdims=0)
    assert_same(*maximum, np.array([True, True]))
    assert_same(*minimum, np.array([False, True]))


def test_log_sum_exp_of_extremes() -> None:
    x = np.float32([[1000, 1000], [-np.inf, -np.inf], [np.inf, 0], [np.nan, 0]])
    (actual,) = run_operator(
        "ReduceLogSumExp", {"x": x, "axes": np.int64([1])}, opset=18, parameters=("axes",), keepdims=0
    )
    assert_close(actual, np.float32([1000 + np.log(2), -np.inf, np.inf, np.nan]))


@pytest.mark.parametrize(
    ("axes", "code"), [([3], "axis-out-of-range"), ([-4], "axis-out-of-range"), ([0, -3], "repeated-axis")]
)
def test_wrong_axes_are_an_error(axes: list[int], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run_operator("ReduceMax", {"x": X}, opset=13, axes=axes)
    with pytest.raises(InputError, match="the axes repeat"):
        run_operator("ReduceMax", {"x": X, "axes": np.int64(axes)}, opset=18, way="data", parameters=("axes",))


def test_axes_are_a_vector_no_longer_than_the_shape() -> None:
    with pytest.raises(ModelError, match="axes-not-a-vector"):
        run_operator("ReduceSum", {"x": X, "axes": np.array(1, np.int64)}, opset=13)
    arrays = {"x": X, "axes": np.int64([0, 1, 2, 0])}
    with pytest.raises(ModelError, match="axes has 4 elements"):
        lower_operator("ReduceSum", arrays, opset=13, way="data", parameters=("axes",))


@pytest.mark.parametrize("axes", [[], [1], [0, 2]])
@pytest.mark.parametrize("noop", [0, 1])
def test_the_number_of_axes_may_be_data_where_they_are_kept(axes: list[int], noop: int) -> None:
    operands = {"x": X, "axes": np.array(axes, np.int64)}
    (actual,) = run_operator("ReduceMean", operands, opset=18, way="symbolic", noop_with_empty_axes=noop)
    assert_close(actual, reference("ReduceMean", X, axes if axes or noop else (0, 1, 2), keepdims=True))


# ArgMax, ArgMin


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [-2, -1, 0, 1])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_places_of_extremes(operator: str, axis: int, keepdims: int, last: int, way: str) -> None:
    x = np.int32([[2, 1, 2, 1], [0, 5, 5, 0]])
    find = {"ArgMax": np.argmax, "ArgMin": np.argmin}[operator]
    expected = x.shape[axis] - 1 - find(np.flip(x, axis), axis) if last else find(x, axis)
    expected = np.expand_dims(expected, axis) if keepdims else expected
    attributes = {"axis": axis, "keepdims": keepdims, "select_last_index": last}
    assert_same(*run_operator(operator, {"x": x}, opset=13, way=way, **attributes), expected)


@pytest.mark.parametrize("opset", [1, 11])
def test_old_places_are_the_first(opset: int) -> None:
    assert_same(*run_operator("ArgMax", {"x": np.float32([1, 3, 3])}, opset=opset, keepdims=0), np.array(1))


def test_a_place_on_an_axis_that_is_none_is_an_error() -> None:
    with pytest.raises(ModelError, match="axis-out-of-range"):
        run_operator("ArgMax", {"x": np.float32([1])}, opset=13, axis=1)
