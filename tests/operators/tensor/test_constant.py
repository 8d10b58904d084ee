"""Shape, Size, Constant, ConstantOfShape, Range, EyeLike, Trilu, CumSum, CumProd: tensors made from little."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import WAYS, i64, lower_operator, run_operator
from tests.support.arrays import assert_same


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize(
    ("attributes", "part"),
    [
        ({}, slice(None)),
        ({"start": 1}, slice(1, None)),
        ({"end": -1}, slice(None, -1)),
        ({"start": -2, "end": 2}, slice(-2, 2)),
        ({"start": 2, "end": 1}, slice(0, 0)),
        ({"start": -9, "end": 9}, slice(None)),
    ],
)
def test_shape_may_be_a_part_of_it(way: str, attributes: dict[str, int], part: slice) -> None:
    (got,) = run_operator("Shape", {"data": np.zeros((2, 0, 4), bool)}, opset=15, way=way, **attributes)
    assert_same(got, i64(2, 0, 4)[part])


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_size_counts_the_elements(way: str, shape: tuple[int, ...]) -> None:
    (got,) = run_operator("Size", {"data": np.zeros(shape)}, opset=13, way=way)
    assert_same(got, np.array(np.prod(shape, dtype=np.int64)))


def sparse() -> object:
    values = numpy_helper.from_array(np.array([5, 6], np.float32), "values")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(i64(1, 3), "indices"), [2, 2])


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("value", numpy_helper.from_array(np.zeros((0, 2), np.int8), ""), np.zeros((0, 2), np.int8)),
        ("value_float", 0.1, np.array(0.1, np.float32)),
        ("value_floats", [1.0, -0.0], np.array([1.0, -0.0], np.float32)),
        ("value_int", -3, np.array(-3)),
        ("value_ints", [4, -5], i64(4, -5)),
        ("sparse_value", sparse(), np.array([[0, 5], [0, 6]], np.float32)),
    ],
)
def test_constant_has_many_forms(attribute: str, value: object, expected: np.ndarray) -> None:
    (got,) = run_operator("Constant", {}, opset=13, **{attribute: value})
    assert_same(got, expected)


@pytest.mark.parametrize("opset", [1, 7, 8])
@pytest.mark.parametrize("value", [i64(2, -1), np.array(True), np.array([], np.int32), np.array(["é"], object)])
def test_constants_of_old_opsets_are_of_any_type(opset: int, value: np.ndarray) -> None:
    (got,) = run_operator("Constant", {}, opset=opset, value=numpy_helper.from_array(value, ""))
    assert_same(got, value)


def test_constant_texts() -> None:
    (got,) = run_operator("Constant", {}, opset=13, value_strings=["é", ""])
    assert (got.tolist(), got.dtype) == (["é", ""], np.dtype(object))
    (got,) = run_operator("Constant", {}, opset=13, value_string="x")
    assert (got.shape, got.item()) == ((), "x")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
@pytest.mark.parametrize("value", [None, np.array([7], np.int8), np.array([True]), np.array([-0.0])])
def test_constant_of_shape(way: str, shape: tuple[int, ...], value: np.ndarray | None) -> None:
    attributes = {} if value is None else {"value": numpy_helper.from_array(value, "")}
    (got,) = run_operator(
        "ConstantOfShape", {"input": i64(*shape)}, opset=20, way=way, parameters=["input"], **attributes
    )
    expected = np.zeros(shape, np.float32) if value is None else np.full(shape, value[0])
    assert_same(got, expected)


def test_a_negative_size_is_an_input_error() -> None:
    with pytest.raises(InputError, match="negative"):
        run_operator("ConstantOfShape", {"input": i64(2, -1)}, opset=20, way="data", parameters=["input"])


@pytest.mark.parametrize("way", ["static", "data"])
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize(
    ("start", "limit", "delta"),
    [
        (0, 5, 1),
        (5, 0, 1),
        (0, 0, 1),
        (1, 10, 3),
        (1, 11, 3),
        (10, 0, -3),
        (9, 0, -3),
        (-3, 4, 2),
        (0, 100, 1),
        (2, 3, 50),
    ],
)
def test_range_counts_up_to_the_limit(way: str, dtype: type, start: int, limit: int, delta: int) -> None:
    inputs = {name: np.array(value, dtype) for name, value in (("start", start), ("limit", limit), ("delta", delta))}
    (got,) = run_operator("Range", inputs, opset=11, way=way, parameters=list(inputs))
    assert_same(got, np.arange(start, limit, delta).astype(dtype))


def test_range_of_fractions_has_the_exact_number_of_elements() -> None:
    inputs = {"start": np.array(0.5, np.float32), "limit": np.array(2, np.float32), "delta": np.array(0.25, np.float32)}
    (got,) = run_operator("Range", inputs, opset=11, way="data", parameters=list(inputs))
    assert_same(got, np.arange(0.5, 2, 0.25, dtype=np.float32))


def test_range_of_16_bit_floats_is_computed_in_f32() -> None:
    inputs = {name: np.array(value, ml_dtypes.bfloat16) for name, value in (("a", 256), ("b", 262), ("c", 1))}
    (got,) = run_operator("Range", inputs, opset=27, parameters=list(inputs))
    assert got.astype(np.float32).tolist() == [256, 256, 258, 260, 260, 260]


def test_a_delta_of_0_is_an_input_error() -> None:
    inputs = {name: np.array(value, np.float32) for name, value in (("start", 0), ("limit", 1), ("delta", 0))}
    with pytest.raises(InputError):
        run_operator("Range", inputs, opset=11, way="data", parameters=list(inputs))


def test_a_range_is_counted_in_floats_only() -> None:
    inputs = {"start": np.float16(0), "limit": np.float16(3), "delta": np.float16(1)}
    with pytest.raises(ModelError, match="stash-type"):
        run_operator("Range", inputs, opset=27, stash_type=TensorProto.INT32)


def test_a_short_range_of_integers_is_known_in_sizes() -> None:
    inputs = {"start": np.array(1), "limit": np.array(9), "delta": np.array(3)}
    module = lower_operator("Range", inputs, opset=11, parameters=list(inputs))
    result = module.main.body.results[0].op
    assert result is not None
    assert result.name == "constant"


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("k", [-(2**63), -1, 0, 2, 2**63 - 1])
@pytest.mark.parametrize("dtype", [None, TensorProto.BOOL, TensorProto.INT8])
@pytest.mark.parametrize("shape", [(3, 4), (0, 2)])
def test_eye_like(way: str, k: int, dtype: int | None, shape: tuple[int, int]) -> None:
    attributes = {} if dtype is None else {"dtype": dtype}
    (got,) = run_operator("EyeLike", {"input": np.zeros(shape, np.float64)}, opset=9, way=way, k=k, **attributes)
    expected = np.float64 if dtype is None else helper.tensor_dtype_to_np_dtype(dtype)
    assert_same(got, np.eye(*shape, max(min(k, 9), -9), dtype=expected))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -9, -1, 0, 1, 9])
@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 2)])
def test_trilu_keeps_one_side_of_a_diagonal(way: str, upper: int, k: int | None, shape: tuple[int, ...]) -> None:
    x = np.arange(1, 1 + np.prod(shape), dtype=np.int32).reshape(shape)
    inputs = {"input": x, "k": None if k is None else np.array(k)}
    (got,) = run_operator("Trilu", inputs, opset=14, way=way, parameters=["k"], upper=upper)
    assert_same(got, (np.triu if upper else np.tril)(x, k or 0))


def test_trilu_leaves_no_nan_behind() -> None:
    (got,) = run_operator("Trilu", {"input": np.full((2, 2), np.nan, np.float32)}, opset=14)
    assert_same(got, np.array([[np.nan, np.nan], [0, np.nan]], np.float32))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("operator", "opset"), [("CumSum", 14), ("CumProd", 26)])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3), (0, 1)])
def test_running_sums_and_products(
    way: str, operator: str, opset: int, axis: int, exclusive: int, reverse: int, shape: tuple[int, ...]
) -> None:
    x = np.arange(2, 2 + np.prod(shape), dtype=np.float32).reshape(shape)
    fold, identity = (np.cumsum, 0) if operator == "CumSum" else (np.cumprod, 1)
    expected = fold(np.flip(x, axis) if reverse else x, axis)
    if exclusive:
        first = np.full_like(np.take(x, range(min(1, shape[axis])), axis), identity)
        expected = np.concatenate([first, np.take(expected, range(max(shape[axis] - 1, 0)), axis)], axis)
    expected = np.flip(expected, axis) if reverse else expected
    inputs = {"x": x, "axis": np.array(axis)}
    (got,) = run_operator(
        operator, inputs, opset=opset, way=way, parameters=["axis"], exclusive=exclusive, reverse=reverse
    )
    assert_same(got, expected)
