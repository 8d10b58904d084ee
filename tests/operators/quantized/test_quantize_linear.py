"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import onnxc
from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same
from tests.support.models import one_node_model, run_ort

ODD = np.float32([[0, -0.0, 0.5, 1.5, 2.5], [-2.5, 1e30, -1e30, np.inf, np.nan]])


def f32(value: object) -> np.ndarray:
    return np.array(value, np.float32)


def quantized(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    limits = ml_dtypes.iinfo(zero.dtype)
    with np.errstate(all="ignore"):
        shifted = np.rint((x / scale).astype(np.float32)) + zero.astype(np.float32)
    clipped = np.clip(np.nan_to_num(shifted, nan=0, posinf=1e9, neginf=-1e9), int(limits.min), int(limits.max))
    return clipped.astype(zero.dtype)


# QuantizeLinear


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23, 24])
@pytest.mark.parametrize("zero", [np.uint8(128), np.int8(-3)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_one_scale_for_all(opset: int, zero: np.generic, way: str) -> None:
    operands = {"x": ODD, "scale": f32(0.5), "zero": np.asarray(zero)}
    expected = quantized(ODD, f32(0.5), np.asarray(zero))
    expected[1, 4] = np.iinfo(zero.dtype).min
    assert_same(*run_operator("QuantizeLinear", operands, opset=opset, way=way), expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, ml_dtypes.uint4, ml_dtypes.int4])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_nan_is_the_least_integer(dtype: type[np.generic], way: str) -> None:
    operands = {"x": f32([np.nan] * 19), "scale": f32(0.5), "zero": np.array(3, dtype)}
    (got,) = run_operator("QuantizeLinear", operands, opset=21, way=way)
    assert_same(got, np.full(19, int(ml_dtypes.iinfo(dtype).min), dtype))


def test_the_default_zero_point_is_an_unsigned_zero() -> None:
    assert_same(
        *run_operator("QuantizeLinear", {"x": f32([300, -1, 1.5]), "scale": f32(1)}, opset=13), np.uint8([255, 0, 2])
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_a_scale_for_each_index_of_an_axis(axis: int, way: str) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    size, shape = x.shape[axis], [1, 1, 1]
    shape[axis] = size
    scale, zero = np.linspace(0.1, 2, size, dtype=np.float32), np.arange(size, dtype=np.int8)
    operands = {"x": x, "scale": scale, "zero": zero}
    expected = quantized(x, scale.reshape(shape), zero.reshape(shape))
    assert_same(*run_operator("QuantizeLinear", operands, opset=13, way=way, axis=axis), expected)


@pytest.mark.parametrize(("size", "block"), [(6, 2), (5, 2), (4, 4), (3, 4)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_a_scale_for_each_block(size: int, block: int, axis: int, way: str) -> None:
    x = np.linspace(-9, 9, 2 * size, dtype=np.float32).reshape((size, 2) if axis == 0 else (2, size))
    blocks = -(-size // block)
    scale = np.linspace(0.1, 1, 2 * blocks, dtype=np.float32).reshape((blocks, 2) if axis == 0 else (2, blocks))
    zero = np.arange(2 * blocks, dtype=np.int8).reshape(scale.shape)
    spread_scale, spread_zero = (np.take(np.repeat(v, block, axis), range(size), axis) for v in (scale, zero))
    operands = {"x": x, "scale": scale, "zero": zero}
    attributes = {"axis": axis, "block_size": block}
    expected = quantized(x, spread_scale, spread_zero)
    assert_same(*run_operator("QuantizeLinear", operands, opset=21, way=way, **attributes), expected)
    (back,) = run_operator("DequantizeLinear", {**operands, "x": expected}, opset=21, way=way, **attributes)
    assert_close(back, (expected.astype(np.float32) - spread_zero) * spread_scale)


@pytest.mark.parametrize("shape", [(4, 6, 3), (0, 6, 3), (2, 0, 5)], ids=str)
@pytest.mark.parametrize("dtype", [np.int16, ml_dtypes.int4])
def test_blocks_of_a_middle_axis(shape: tuple[int, int, int], dtype: type) -> None:
    scales = (shape[0], shape[1] // 3, shape[2])
    scale = (1 + np.arange(np.prod(scales), dtype=np.float32)).reshape(scales)
    zero = (np.arange(scale.size) % 5).reshape(scales).astype(dtype)
    x = np.linspace(-99, 99, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    spread_scale, spread_zero = (np.repeat(v, 3, 1) for v in (scale, zero.astype(np.float32)))
    expected = quantized(x, spread_scale, np.repeat(zero, 3, 1))
    operands, attributes = {"x": x, "scale": scale, "zero": zero}, {"axis": 1, "block_size": 3}
    (actual,) = run_operator("QuantizeLinear", operands, opset=21, **attributes)
    np.testing.assert_array_equal(actual.astype(np.int32), expected.astype(np.int32))
    (back,) = run_operator("DequantizeLinear", {**operands, "x": expected}, opset=21, **attributes)
    assert_close(back, (expected.astype(np.float32) - spread_zero) * spread_scale)


@pytest.mark.parametrize(
    ("operator", "source", "result"),
    [("QuantizeLinear", np.float32, np.uint8), ("DequantizeLinear", np.uint8, np.float32)],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_scales_of_blocks_are_read_where_they_lie(operator: str, source: type, result: type, axis: int) -> None:
    shape, scales = (64, 96), (2, 96) if axis == 0 else (64, 3)
    inputs = {"x": (source, shape), "scale": (np.float32, scales), "zero": (np.uint8, scales)}
    model = one_node_model(operator, inputs, {"y": (result, shape)}, axis=axis, block_size=32)
    exe = onnxc.compile(model, cache=False)
    assert len(exe.report()["launches"]) == 1
    x = np.arange(64 * 96).reshape(shape).astype(source)
    scale = np.linspace(0.5, 4, np.prod(scales), dtype=np.float32).reshape(scales)
    given = {"x": x, "scale": scale, "zero": (np.arange(scale.size) % 7).astype(np.uint8).reshape(scales)}
    assert_same(exe.run(given)["y"], run_ort(model, given)["y"])


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, ml_dtypes.int4, ml_dtypes.uint4])
def test_other_integers_saturate(dtype: type) -> None:
    x, zero = f32([-1e6, -3.5, 0, 3.5, 1e6]), np.array(1, dtype)
    (actual,) = run_operator("QuantizeLinear", {"x": x, "scale": f32(1), "zero": zero}, opset=21)
    assert actual.dtype == zero.dtype
    np.testing.assert_array_equal(actual.astype(np.int32), quantized(x, f32(1), zero).astype(np.int32))


@pytest.mark.parametrize(("saturate", "largest"), [(1, 448.0), (0, np.nan)])
def test_float8_saturates_as_told(saturate: int, largest: float) -> None:
    zero = np.array(0, ml_dtypes.float8_e4m3fn)
    operands = {"x": f32([1, 4000]), "scale": f32(2), "zero": zero}
    (actual,) = run_operator("QuantizeLinear", operands, opset=19, saturate=saturate)
    assert actual.dtype == zero.dtype
    np.testing.assert_array_equal(actual.astype(np.float32), f32([0.5, largest]))


def test_the_type_may_be_an_attribute() -> None:
    operands = {"x": f32([1, 400]), "scale": f32(1)}
    (actual,) = run_operator("QuantizeLinear", operands, opset=21, output_dtype=TensorProto.INT16)
    assert_same(actual, np.int16([1, 400]))
    operands["zero"] = np.array(0, np.int8)
    with pytest.raises(ModelError, match="output-type"):
        run_operator("QuantizeLinear", operands, opset=21, output_dtype=TensorProto.INT16)


def test_the_division_is_as_precise_as_told() -> None:
    # In f16, 2049 is 2048 and a tie that goes to 682 is not; in f32 the quotient of 2049 is another.
    operands = {"x": f32([2049]), "scale": np.array(1, np.float16), "zero": np.array(0, np.int16)}
    assert_same(*run_operator("QuantizeLinear", operands, opset=23), np.int16([2048]))
    (precise,) = run_operator("QuantizeLinear", operands, opset=23, precision=TensorProto.FLOAT)
    assert_same(precise, np.int16([2049]))


@pytest.mark.parametrize(
    ("scale", "attributes", "code"),
    [(np.ones(3), {}, "quantization-axis"), (np.ones((2, 1)), {}, "quantization-granularity"),
     (np.ones(2), {"block_size": 2}, "quantization-granularity"),
     (np.ones((2, 2)), {"block_size": 2}, "quantization-blocks"),
     (np.ones(1), {"precision": TensorProto.STRING}, "division-type"),
     (np.ones(1), {"precision": TensorProto.INT32}, "division-type"),
     (np.ones(2), {"axis": 2}, "axis-out-of-range"), (np.ones(2), {"block_size": -1}, "attribute-range")],
)  # fmt: skip
def test_scales_that_do_not_fit(scale: np.ndarray, attributes: dict[str, int], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run_operator("QuantizeLinear", {"x": np.ones((2, 5), np.float32), "scale": f32(scale)}, opset=23, **attributes)


def test_a_scalar_has_one_scale() -> None:
    with pytest.raises(ModelError, match="quantization-granularity"):
        run_operator("QuantizeLinear", {"x": f32(1), "scale": f32([1, 2])}, opset=13)


def test_scales_that_are_powers_of_two() -> None:
    scale = np.array([4], ml_dtypes.float8_e8m0fnu)
    for x in (f32([10]), np.int32([10])):
        assert_same(*run_operator("QuantizeLinear", {"x": x, "scale": scale}, opset=24), np.uint8([2]))


def test_scales_are_checked_by_the_call() -> None:
    with pytest.raises(InputError, match="does not fit"):
        run_operator("QuantizeLinear", {"x": ODD, "scale": f32([1, 2, 3])}, opset=13, way="symbolic")


# DequantizeLinear


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.int32, ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize("scale", [f32(0.5), np.array(0.5, np.float16), np.array(0.5, ml_dtypes.bfloat16)])
def test_integers_become_floats(dtype: type, scale: np.ndarray) -> None:
    x, zero = np.array([0, 1, 7], dtype), np.array(1, dtype)
    expected = np.array([-0.5, 0, 3], scale.dtype)
    assert_same(*run_operator("DequantizeLinear", {"x": x, "scale": scale, "zero": zero}, opset=21), expected)


@pytest.mark.parametrize("opset", [10, 13, 19])
def test_large_integers_are_exact_before_they_are_floats(opset: int) -> None:
    operands = {"x": np.int32([2**30 + 1]), "scale": f32(1), "zero": np.array(2**30, np.int32)}
    assert_same(*run_operator("DequantizeLinear", operands, opset=opset), f32([1]))


def test_float8_and_an_output_type() -> None:
    operands = {"x": np.array([0.5, -448], ml_dtypes.float8_e4m3fn), "scale": f32(2)}
    assert_same(*run_operator("DequantizeLinear", operands, opset=19), f32([1, -896]))
    (half,) = run_operator("DequantizeLinear", operands, opset=23, output_dtype=TensorProto.FLOAT16)
    assert_same(half, np.float16([1, -896]))


def test_a_scale_that_is_a_power_of_two_needs_an_output_type() -> None:
    operands = {"x": np.int8([3]), "scale": np.array([4], ml_dtypes.float8_e8m0fnu)}
    (actual,) = run_operator("DequantizeLinear", operands, opset=24, output_dtype=TensorProto.FLOAT)
    assert_same(actual, f32([12]))
    with pytest.raises(ModelError, match="output-type"):
        run_operator("DequantizeLinear", operands, opset=24)


# DynamicQuantizeLinear


@pytest.mark.parametrize("values", [[0, 2, -3, -2.5, 1.34, 0.5], [-1, -2.1, -1.3], [1, 2.1, 1.3], [0, 0], [[5]], []])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_the_range_decides_the_scale(values: list[object], way: str) -> None:
    x = f32(values)
    high, low = max(0, x.max(initial=0)), min(0, x.min(initial=0))
    scale = np.float32(1 if high == low else high - low) / np.float32(255)
    zero = np.rint(np.clip(-low / scale, 0, 255)).astype(np.uint8)
    y, y_scale, y_zero = run_operator("DynamicQuantizeLinear", {"x": x}, opset=11, way=way, outputs=3)
    assert_close(y_scale, np.asarray(scale))
    assert_same(y_zero, np.asarray(zero))
    assert_same(y, quantized(x, scale, np.asarray(zero)))


@pytest.mark.parametrize("values", [[0, 0], [-0.0], []])
def test_a_range_of_nothing_counts_as_one(values: list[float]) -> None:
    y, y_scale, y_zero = run_operator("DynamicQuantizeLinear", {"x": f32(values)}, opset=11, outputs=3)
    assert_same(y, np.zeros(len(values), np.uint8))
    assert_same(y_scale, np.asarray(np.float32(1) / np.float32(255)))
    assert_same(y_zero, np.asarray(np.uint8(0)))
