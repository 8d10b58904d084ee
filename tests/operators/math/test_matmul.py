"""MatMul, Gemm and the integer products."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same

RANDOM = np.random.default_rng(0)
Shape = tuple[int, ...]


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


# MatMul

SHAPES: list[tuple[Shape, Shape]] = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((1, 2, 3), (6, 3, 1)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 2)),
    ((0, 2, 3), (1, 3, 2)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("opset", [1, 9, 13])
def test_matmul_is_that_of_numpy(left: Shape, right: Shape, way: str, opset: int) -> None:
    a, b = floats(*left), floats(*right)
    (actual,) = run_operator("MatMul", {"a": a, "b": b}, opset=opset, way=way)
    assert_close(actual, np.asarray(np.matmul(a, b)), terms=a.shape[-1])


def test_matmul_of_integers_wraps() -> None:
    a, b = np.int32([[2**30, 1]]), np.int32([[4], [5]])
    assert_same(*run_operator("MatMul", {"a": a, "b": b}, opset=13), np.int32([[5]]))


def test_matmul_of_halves_is_summed_in_single_precision() -> None:
    a = np.ones((1, 3000), np.float16)
    assert_same(*run_operator("MatMul", {"a": a, "b": a.T.copy()}, opset=13), np.float16([[3000]]))


@pytest.mark.parametrize(
    ("left", "right", "code"),
    [((2, 3), (4, 2), "inner-dimensions"), ((), (2, 2), "matmul-rank"), ((2, 1, 2), (3, 2, 1), "broadcast-mismatch")],
)
def test_operands_of_matmul_that_do_not_fit(left: Shape, right: Shape, code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run_operator("MatMul", {"a": floats(*left), "b": floats(*right)}, opset=13)


def test_inner_dimensions_are_checked_by_the_call() -> None:
    with pytest.raises(InputError, match="contracted or shared sizes differ"):
        run_operator("MatMul", {"a": floats(2, 3), "b": floats(4, 2)}, opset=13, way="symbolic")


# Gemm


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize(("transposed_a", "transposed_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("bias", [(), (1,), (4,), (1, 4), (2, 1), (2, 4)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_gemm(opset: int, transposed_a: int, transposed_b: int, bias: Shape, way: str) -> None:
    a, b, c = floats(2, 3), floats(3, 4), floats(*bias)
    operands = {"a": a.T.copy() if transposed_a else a, "b": b.T.copy() if transposed_b else b, "c": c}
    attributes = {"transA": transposed_a, "transB": transposed_b, "alpha": 0.5, "beta": 2.0}
    (actual,) = run_operator("Gemm", operands, opset=opset, way=way, **attributes)
    assert_close(actual, np.float32(0.5) * (a @ b) + np.float32(2) * c)


def test_gemm_without_c() -> None:
    a, b = floats(2, 3), floats(3, 4)
    assert_close(*run_operator("Gemm", {"a": a, "b": b}, opset=11), a @ b)


def test_gemm_does_not_read_c_where_beta_is_0() -> None:
    a, b = floats(1, 2), floats(2, 1)
    operands = {"a": a, "b": b, "c": np.float32([np.nan])}
    assert_close(*run_operator("Gemm", operands, opset=13, beta=0.0), a @ b)


@pytest.mark.parametrize("opset", [1, 6])
def test_gemm_before_opset_7_broadcasts_when_told(opset: int) -> None:
    operands = {"a": floats(2, 3), "b": floats(3, 4), "c": floats(4)}
    expected = operands["a"] @ operands["b"] + 3 * operands["c"]
    assert_close(*run_operator("Gemm", operands, opset=opset, broadcast=1, beta=3.0), expected)
    with pytest.raises(ModelError, match="gemm-bias"):
        run_operator("Gemm", operands, opset=opset)


def test_gemm_of_integers_and_halves() -> None:
    a, b, c = np.int32([[2, 3]]), np.int32([[5], [7]]), np.int32([4])
    assert_same(*run_operator("Gemm", {"a": a, "b": b, "c": c}, opset=13, alpha=2.0), np.int32([[66]]))
    assert_same(*run_operator("Gemm", {"a": a, "b": b, "c": c}, opset=13, alpha=0.5), np.int32([[19]]))
    a = np.ones((1, 3000), ml_dtypes.bfloat16)
    operands = {"a": a, "b": a.T.copy(), "c": np.array([-2900], ml_dtypes.bfloat16)}
    assert_same(*run_operator("Gemm", operands, opset=13), np.array([[3000 - 2896]], ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("shapes", "code"),
    [(((2,), (2, 3), ()), "gemm-rank"), (((2, 3), (4, 2), ()), "inner-dimensions"),
     (((2, 3), (3, 4), (3,)), "gemm-bias"), (((1, 3), (3, 4), (2, 4)), "gemm-bias"),
     (((2, 3), (3, 4), (1, 2, 4)), "gemm-bias")],
)  # fmt: skip
def test_operands_of_gemm_that_do_not_fit(shapes: tuple[Shape, Shape, Shape], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run_operator("Gemm", dict(zip("abc", (floats(*shape) for shape in shapes), strict=True)), opset=13)


def test_c_of_gemm_is_checked_by_the_call() -> None:
    operands = {"a": floats(1, 3), "b": floats(3, 4), "c": floats(2, 4)}
    with pytest.raises(InputError, match="C cannot be broadcast"):
        run_operator("Gemm", operands, opset=13, way="symbolic")


# MatMulInteger and QLinearMatMul

A = RANDOM.integers(0, 256, (3, 5)).astype(np.uint8)
B = RANDOM.integers(-128, 128, (5, 2)).astype(np.int8)


@pytest.mark.parametrize(
    ("a_zero", "b_zero"),
    [(None, None), (np.uint8(3), None), (np.uint8(3), np.int8(-5)), (np.uint8([1, 2, 3]), np.int8([4, -4])),
     (np.uint8([7]), np.int8([9])), (np.uint8([[1], [2], [3]]), np.int8([[4, -4]]))],
)  # fmt: skip
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_matmul_integer(a_zero: np.ndarray | None, b_zero: np.ndarray | None, way: str) -> None:
    left = A.astype(np.int32)
    if a_zero is not None:
        a_zero = np.asarray(a_zero)
        left = left - (a_zero[:, None] if a_zero.ndim == 1 and a_zero.size > 1 else a_zero).astype(np.int32)
    right = B.astype(np.int32) - (0 if b_zero is None else np.asarray(b_zero).astype(np.int32))
    operands = {"a": A, "b": B, "a_zero": a_zero, "b_zero": None if b_zero is None else np.asarray(b_zero)}
    way = "static" if a_zero is not None and a_zero.ndim == 1 else way
    assert_same(*run_operator("MatMulInteger", operands, opset=10, way=way), left @ right)


def test_matmul_integer_of_no_inner_axis_is_zero() -> None:
    operands = {"a": np.zeros((2, 0), np.uint8), "b": np.zeros((0, 3), np.uint8)}
    assert_same(*run_operator("MatMulInteger", operands, opset=10), np.zeros((2, 3), np.int32))


def quantized_operands(y_zero: np.generic) -> Mapping[str, np.ndarray]:
    return {
        "a": A,
        "a_scale": np.array(0.02, np.float32),
        "a_zero": np.array(120, np.uint8),
        "b": B,
        "b_scale": np.float32([0.01, 0.05]),
        "b_zero": np.int8([0, 3]),
        "y_scale": np.array(0.1, np.float32),
        "y_zero": np.asarray(y_zero),
    }


@pytest.mark.parametrize("y_zero", [np.uint8(100), np.int8(-7)])
@pytest.mark.parametrize("opset", [10, 21])
def test_qlinear_matmul_rounds_to_even_before_it_shifts(y_zero: np.generic, opset: int) -> None:
    operands = quantized_operands(y_zero)
    product = (A.astype(np.int32) - 120) @ (B.astype(np.int32) - np.int32([0, 3]))
    scaled = np.rint(product * (np.float32(0.02) * operands["b_scale"] / np.float32(0.1)))
    limits = np.iinfo(y_zero.dtype)
    expected = np.clip(scaled + np.float32(y_zero), limits.min, limits.max).astype(y_zero.dtype)
    assert_same(*run_operator("QLinearMatMul", operands, opset=opset), expected)


def test_qlinear_matmul_of_float8() -> None:
    f8 = ml_dtypes.float8_e4m3fn
    one, zero = np.array(1, np.float32), np.array(0, f8)
    operands = {"a": np.array([[1, 2]], f8), "a_scale": one, "a_zero": zero, "b": np.array([[3], [4]], f8)}
    operands |= {"b_scale": one, "b_zero": zero, "y_scale": np.array(2, np.float32), "y_zero": zero}
    (actual,) = run_operator("QLinearMatMul", operands, opset=21)
    assert actual.dtype == f8
    np.testing.assert_array_equal(actual.astype(np.float32), [[5.5]])
