"""Quantised operators of com.microsoft against ONNX Runtime.

ONNX Runtime multiplies by reciprocals and looks up tables, so that what lies between two integers may round the other
way: where scales are no powers of two, results may differ by 1. Sums and products of tensors of one shape do not.
"""

import numpy as np
import pytest
from onnx import helper

import onnxc
from onnxc.runtime.errors import ModelError
from tests.operators.microsoft.agreement import (
    assert_agrees,
    assert_all_close,
    integers,
    make_model,
    normal,
    run_ours,
    run_theirs,
)
from tests.support.signed_weights import END, LEAST

TYPES = [np.uint8, np.int8]


def quantised(*shape: int, dtype: type = np.uint8, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    return integers(limits.min, limits.max + 1, *shape, dtype=dtype, seed=seed)


def weights(*shape: int, dtype: type) -> np.ndarray:
    """Second operands of products."""
    limits = np.iinfo(dtype)
    least, end = (LEAST, END) if dtype == np.int8 else (limits.min, limits.max + 1)
    return integers(least, end, *shape, dtype=dtype, seed=1)


def f32(value: object) -> np.ndarray:
    return np.array(value, np.float32)


def zero(value: int, dtype: type) -> np.ndarray:
    return np.array(value if dtype == np.int8 else value + 128, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("a", "b"), [((2, 3, 4), (2, 3, 4)), ((2, 1, 4), (3, 1)), ((4,), ()), ((0, 4), (4,))], ids=str)
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_qlinear_add_and_mul(operator: str, a: tuple[int, ...], b: tuple[int, ...], dtype: type) -> None:
    inputs = {
        "a": quantised(*a, dtype=dtype),
        "a_scale": f32(0.25),
        "a_zero": zero(3, dtype),
        "b": quantised(*b, dtype=dtype, seed=1),
        "b_scale": f32(0.5),
        "b_zero": zero(-5, dtype),
        "c_scale": f32(1.0 if operator == "QLinearAdd" else 64.0),
        "c_zero": zero(7, dtype),
    }
    shapes = {"a": [f"a{axis}" for axis in range(len(a))], "b": [f"b{axis}" for axis in range(len(b))]}
    assert_agrees(operator, inputs, shapes=shapes)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("seed", range(4))
def test_all_pairs_of_bytes_are_added_and_multiplied_alike(operator: str, dtype: type, seed: int) -> None:
    random, limits = np.random.default_rng(seed), np.iinfo(dtype)
    a_scale, b_scale, wider = random.uniform(0.001, 0.2), random.uniform(0.001, 0.2), random.uniform(0.3, 1.2)
    c_scale = (a_scale + b_scale) * wider if operator == "QLinearAdd" else a_scale * b_scale * wider * 200
    every = np.arange(limits.min, limits.max + 1).astype(dtype)
    a, b = np.meshgrid(every, every)
    zeros = random.integers(limits.min, limits.max + 1, 3).astype(dtype)
    inputs = {
        "a": a, "a_scale": f32(a_scale), "a_zero": np.array(zeros[0]),
        "b": b, "b_scale": f32(b_scale), "b_zero": np.array(zeros[1]),
        "c_scale": f32(c_scale), "c_zero": np.array(zeros[2]),
    }  # fmt: skip
    model = make_model(operator, inputs)
    (theirs,), (ours,) = run_theirs(model, inputs), run_ours(model, inputs)
    np.testing.assert_array_equal(ours, theirs)
    (compiled,) = onnxc.compile(model).run(None, inputs)
    np.testing.assert_array_equal(compiled, theirs)


def test_qlinear_add_without_zero_points() -> None:
    a, b = quantised(5), quantised(5, seed=1)
    inputs = {"a": a, "a_scale": f32(0.5), "a_zero": None, "b": b, "b_scale": f32(0.5), "b_zero": None}
    (y,) = run_ours(make_model("QLinearAdd", inputs | {"c_scale": f32(1)}), inputs | {"c_scale": f32(1)})
    np.testing.assert_array_equal(y, np.rint((a.astype(np.float32) + b) / 2).astype(np.uint8))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", ["QLinearLeakyRelu", "QLinearSigmoid"])
def test_qlinear_activations(operator: str, dtype: type) -> None:
    inputs = {
        "x": quantised(3, 50, dtype=dtype),
        "x_scale": f32(0.03),
        "x_zero": zero(4, dtype),
        "y_scale": f32(0.02 if operator == "QLinearLeakyRelu" else 1 / 256),
        "y_zero": zero(-20, dtype),
    }
    options = {"alpha": 0.3} if operator == "QLinearLeakyRelu" else {}
    constants = [name for name in inputs if name != "x"]
    assert_agrees(operator, inputs, shapes={"x": ["n", "m"]}, constants=constants, steps=1, **options)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (11, 1), (12, 2)])
def test_qlinear_softmax(opset: int, axis: int, dtype: type) -> None:
    inputs = {
        "x": quantised(2, 3, 4, dtype=dtype),
        "x_scale": f32(0.05),
        "x_zero": zero(4, dtype),
        "y_scale": f32(1 / 256),
        "y_zero": zero(-128, dtype),
    }
    constants = [name for name in inputs if name != "x"]
    model = make_model("QLinearSoftmax", inputs, constants=constants, axis=axis)
    model.graph.node[0].attribute.append(helper.make_attribute("opset", opset))
    assert_all_close(run_ours(model, inputs), run_theirs(model, inputs), steps=1)


@pytest.mark.parametrize("dtype", TYPES)
def test_qlinear_where(dtype: type) -> None:
    inputs = {
        "condition": integers(0, 2, 3, 1, dtype=np.bool_),
        "x": quantised(3, 4, dtype=dtype),
        "x_scale": f32(0.5),
        "x_zero": zero(3, dtype),
        "other": quantised(4, dtype=dtype, seed=1),
        "y_scale": f32(0.25),
        "y_zero": zero(-3, dtype),
        "z_scale": f32(0.5),
        "z_zero": zero(1, dtype),
    }
    constants = [name for name in inputs if "_" in name]
    assert_agrees("QLinearWhere", inputs, shapes={"x": ["n", 4]}, constants=constants)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_qlinear_concat(axis: int, dtype: type) -> None:
    first, second = [2, 3], [2, 3]
    second[axis] = 4
    inputs = {
        "y_scale": f32(0.5),
        "y_zero": zero(2, dtype),
        "a": quantised(*first, dtype=dtype),
        "a_scale": f32(0.25),
        "a_zero": zero(3, dtype),
        "b": quantised(*second, dtype=dtype, seed=1),
        "b_scale": f32(1),
        "b_zero": zero(-3, dtype),
    }
    assert_agrees("QLinearConcat", inputs, constants=[name for name in inputs if "_" in name], axis=axis)


def test_a_part_without_a_scale_is_refused() -> None:
    inputs = {"y_scale": f32(0.5), "y_zero": zero(2, np.int8), "a": quantised(2, dtype=np.int8)}
    with pytest.raises(ModelError, match="input-count"):
        run_ours(make_model("QLinearConcat", inputs, axis=0), inputs)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_last", [0, 1])
@pytest.mark.parametrize("operator", ["QLinearAveragePool", "QLinearGlobalAveragePool"])
def test_qlinear_pools(operator: str, is_last: int, dtype: type) -> None:
    inputs = {
        "x": quantised(2, *((6, 5, 3) if is_last else (3, 6, 5)), dtype=dtype),
        "x_scale": f32(0.1),
        "x_zero": zero(3, dtype),
        "y_scale": f32(0.05),
        "y_zero": zero(5, dtype),
    }
    options: dict[str, object] = {"channels_last": is_last}
    if operator == "QLinearAveragePool":
        options |= {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1], "count_include_pad": 1}
    constants = [name for name in inputs if name != "x"]
    shapes = {"x": ["n", "h", "w", 3] if is_last else ["n", 3, "h", "w"]}
    assert_agrees(operator, inputs, shapes=shapes, constants=constants, steps=1, **options)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_last", [0, 1])
def test_qlinear_conv(is_last: int, dtype: type) -> None:
    inputs = {
        "x": quantised(1, *((6, 5, 4) if is_last else (4, 6, 5)), dtype=dtype),
        "x_scale": f32(0.125),
        "x_zero": zero(3, dtype),
        "w": weights(6, 2, 3, 3, dtype=np.int8),
        "w_scale": f32([0.5, 1, 2, 1, 0.5, 0.25]),
        "w_zero": np.zeros(6, np.int8),
        "y_scale": f32(64),
        "y_zero": zero(5, dtype),
        "b": integers(-100, 100, 6, dtype=np.int32),
    }
    constants = [name for name in inputs if name != "x"]
    options = {"channels_last": is_last, "group": 2, "pads": [1, 1, 1, 1]}
    assert_agrees("QLinearConv", inputs, constants=constants, **options)


@pytest.mark.parametrize("b_is_signed", [False, True])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("has_output_scale", [False, True])
@pytest.mark.parametrize("transposed", [0, 1])
def test_qgemm(transposed: int, has_output_scale: bool, per_column: bool, b_is_signed: bool) -> None:
    b_type = np.int8 if b_is_signed else np.uint8
    inputs = {
        "a": quantised(3, 8),
        "a_scale": f32(0.125),
        "a_zero": zero(-28, np.uint8),
        "b": weights(*((5, 8) if transposed else (8, 5)), dtype=b_type),
        "b_scale": f32([0.5, 1, 2, 1, 0.5]) if per_column else f32(0.5),
        "b_zero": np.zeros(5, b_type) if per_column else np.array(3, b_type),
        "c": integers(-1000, 1000, 5, dtype=np.int32),
    }
    if has_output_scale:
        inputs |= {"y_scale": f32(32), "y_zero": zero(-8, np.uint8)}
    shapes = {"a": ["n", 8]}
    assert_agrees("QGemm", inputs, shapes=shapes, transB=transposed, alpha=0.5 if has_output_scale else 1.0)


@pytest.mark.parametrize("left_out", ["y_scale", "y_zero"])
def test_the_zero_point_decides_what_a_qgemm_gives(left_out: str) -> None:
    inputs = {
        "a": quantised(3, 8),
        "a_scale": f32(0.125),
        "a_zero": zero(-28, np.uint8),
        "b": weights(8, 5, dtype=np.int8),
        "b_scale": f32(0.5),
        "b_zero": zero(0, np.int8),
        "c": None,
        "y_scale": f32(32),
        "y_zero": zero(-8, np.uint8),
    }
    inputs[left_out] = None
    if left_out == "y_zero":
        del inputs["y_zero"]
    (expected,) = assert_agrees("QGemm", inputs, shapes={"a": ["n", 8]})
    assert expected.dtype == (np.uint8 if left_out == "y_scale" else np.float32)


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("b_type", TYPES)
def test_matmul_integer_to_float(b_type: type, has_bias: bool, per_column: bool) -> None:
    inputs = {
        "a": quantised(2, 3, 8),
        "b": weights(8, 5, dtype=b_type),
        "a_scale": f32(0.01),
        "b_scale": f32([0.5, 1, 2, 1, 0.5]) if per_column else f32(0.5),
        "a_zero": zero(-28, np.uint8),
        "b_zero": quantised(5, dtype=b_type, seed=2) if per_column else np.array(3, b_type),
        "bias": normal(5) if has_bias else None,
    }
    assert_agrees("MatMulIntegerToFloat", inputs, shapes={"a": ["n", "m", 8]})


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_dynamic_quantize_matmul(has_bias: bool, per_column: bool) -> None:
    inputs = {
        "a": normal(2, 3, 8),
        "b": weights(8, 5, dtype=np.int8),
        "b_scale": f32([0.5, 1, 2, 1, 0.5]) if per_column else f32(0.5),
        "b_zero": np.zeros(5, np.int8) if per_column else zero(3, np.int8),
        "bias": normal(5) if has_bias else None,
    }
    assert_agrees("DynamicQuantizeMatMul", inputs, shapes={"a": ["n", "m", 8]})


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantize_and_dequantize_linear(axis: int | None, dtype: type) -> None:
    count = 1 if axis is None else (3, 4)[axis]
    scale, shift = f32([0.5, 0.25, 1, 2][:count]), integers(0, 9, count, dtype=dtype)
    if axis is None:
        scale, shift = scale.reshape(()), shift.reshape(())
    options = {} if axis is None else {"axis": axis}
    inputs = {"x": normal(3, 4) * np.float32(20), "scale": scale, "zero": shift}
    assert_agrees("QuantizeLinear", inputs, shapes={"x": ["n", "m"]}, **options)
    inputs["x"] = quantised(3, 4, dtype=dtype)
    assert_agrees("DequantizeLinear", inputs, shapes={"x": ["n", "m"]}, **options)


def test_integer_products_and_sums() -> None:
    a, b = integers(-99, 99, 3, 4, dtype=np.int16), integers(-99, 99, 4, 5, dtype=np.int16, seed=1)
    inputs: dict[str, np.ndarray | None] = {"a": a, "b": b}
    (y,) = run_ours(make_model("MatMulInteger16", inputs), inputs)
    np.testing.assert_array_equal(y, a.astype(np.int32) @ b.astype(np.int32))
    inputs = {
        "a": quantised(3, 4),
        "a_zero": np.array(7, np.uint8),
        "b": quantised(4, seed=1),
        "b_zero": np.array(9, np.uint8),
    }
    (y,) = run_ours(make_model("MulInteger", inputs), inputs)
    np.testing.assert_array_equal(y, (inputs["a"].astype(np.int32) - 7) * (inputs["b"].astype(np.int32) - 9))
    inputs = {"a": quantised(3, 4, dtype=np.int8)}
    (y,) = run_ours(make_model("ReduceSumInteger", inputs, axes=[1], keepdims=0), inputs)
    np.testing.assert_array_equal(y, inputs["a"].astype(np.int32).sum(1))
