"""Arithmetic, comparison and logic of two tensors."""

import ml_dtypes
import numpy as np
import pytest

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret
from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same
from tests.support.models import model_from_text


def run(
    operator: str, a: np.ndarray, b: np.ndarray, opset: int, way: str = "static", **attributes: object
) -> np.ndarray:
    (result,) = run_operator(operator, {"a": a, "b": b}, opset=opset, way=way, **attributes)
    return result


def f32(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


# Broadcasting


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((), ()),
        ((), (2,)),
        ((2, 3), ()),
        ((2, 3), (3,)),
        ((1, 3), (2, 1)),
        ((0, 3), (1, 3)),
        ((2, 1), (0,)),
        ((4, 1, 3), (2, 1)),
    ],
)
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_shapes_broadcast(left: tuple[int, ...], right: tuple[int, ...], way: str) -> None:
    a, b = f32(*left), f32(*right)
    assert_same(run("Sub", a, b, 14, way), a - b)


def test_sizes_that_do_not_broadcast_are_an_error() -> None:
    with pytest.raises(ModelError, match="broadcast-mismatch"):
        run("Add", f32(2), f32(3), 14)


def test_symbols_that_do_not_broadcast_are_an_error_of_the_call() -> None:
    with pytest.raises(InputError, match="must be equal or 1"):
        run("Add", f32(2), f32(3), 14, "symbolic")


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("shape", "axis", "aligned"),
    [
        ((5,), None, (5,)),
        ((4, 5), None, (4, 5)),
        ((3, 4), 1, (3, 4, 1)),
        ((2,), 0, (2, 1, 1, 1)),
        ((1, 1), None, ()),
        ((), None, ()),
    ],
)
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_old_broadcasting_aligns_at_an_axis(
    opset: int, shape: tuple[int, ...], axis: int | None, aligned: tuple[int, ...], way: str
) -> None:
    a, b = f32(2, 3, 4, 5), f32(*shape)
    attributes = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
    assert_same(run("Mul", a, b, opset, way, **attributes), a * b.reshape(aligned))


@pytest.mark.parametrize(
    ("shape", "attributes", "code"),
    [((3,), {}, "shapes-differ"), ((2, 2), {}, "shapes-differ"), ((4,), {"broadcast": 1}, "broadcast-mismatch"),
     ((3, 1), {"broadcast": 1, "axis": 1}, "broadcast-mismatch"),
     ((3,), {"broadcast": 1, "axis": 2}, "axis-out-of-range")],
)  # fmt: skip
def test_old_broadcasting_refuses(shape: tuple[int, ...], attributes: dict[str, int], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run("Add", f32(2, 3), f32(*shape), 6, **attributes)


# Arithmetic


def test_integer_division_truncates_and_is_total() -> None:
    a = np.array([7, -7, 7, -7, 5, -128], np.int8)
    b = np.array([2, 2, -2, -2, 0, -1], np.int8)
    assert_same(run("Div", a, b, 14), np.array([3, -3, -3, 3, 0, -128], np.int8))


@pytest.mark.parametrize(
    ("base", "exponent", "opset"),
    [
        (np.float32([2, -2, 0.5, 0]), np.float32([3, 3, -1, 0]), 7),
        (np.float32([2, 3]), np.int64([-1, 4]), 12),
        (np.int32([2, -3, 7]), np.float32([3, 2, 0.5]), 13),
        (np.int64([2, -3]), np.int32([40, 3]), 15),
        (np.int32([3, -1]), np.int64([4, 5]), 15),
        (np.float16([2, 3]), np.float32([10, 2]), 15),
        (np.float64([1.5]), np.uint8([3]), 15),
        (np.array([2, 3], ml_dtypes.bfloat16), np.float16([2, 3]), 15),
    ],
)
def test_power_has_the_type_of_the_base(base: np.ndarray, exponent: np.ndarray, opset: int) -> None:
    expected = np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(base.dtype)
    actual = run("Pow", base, exponent, opset)
    assert actual.dtype == base.dtype
    assert_close(actual.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_modulo_of_integers_has_the_sign_of_the_divisor(dtype: type[np.generic]) -> None:
    a, b = (grid.ravel().astype(dtype) for grid in np.meshgrid([-7, -4, -1, 0, 1, 4, 100], [-4, -3, 3, 4, 120]))
    assert_same(run("Mod", a, b, 13), np.mod(a, b))
    assert_same(run("Mod", a, b, 13, fmod=1), np.fmod(a, b))


def test_modulo_of_sizes_is_a_size() -> None:
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[N, 3] x) => (int64[2] y) <int64[2] d = {4, 2}> {
      s = Shape(x)
      y = Mod(s, d)
    }"""
    module = lower_model(check_model(read_model(model_from_text(text))))
    assert [op.name for op in module.main.body.ops if op.operands] == []
    assert_same(*interpret(module, {"x": np.zeros((7, 3), np.float32)}), np.int64([3, 1]))


def test_modulo_of_unsigned_integers() -> None:
    a, b = np.uint8([7, 250, 0]), np.uint8([3, 7, 5])
    assert_same(run("Mod", a, b, 10), np.mod(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_modulo_of_floats(dtype: type[np.generic]) -> None:
    values = [0.0, -0.0, 1.5, -1.5, 7, -7, np.inf, -np.inf, np.nan]
    a, b = (grid.ravel().astype(dtype) for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected, truncated = np.mod(a, b), np.fmod(a, b)
    # Source: the table of ONNX Mod-28; NumPy says the same but for a finite dividend and an infinite divisor.
    infinite = np.isinf(b) & np.isfinite(a) & (a != 0)
    expected = np.where(infinite, np.where((a < 0) == (b < 0), a, b), expected)
    assert_same(run("Mod", a, b, 28), expected)
    assert_same(run("Mod", a, b, 13, fmod=1), truncated)


def test_modulo_of_floats_needed_fmod_before() -> None:
    with pytest.raises(ModelError, match="fmod-of-floats"):
        run("Mod", f32(2), f32(2), 13)


def test_fmod_is_a_flag() -> None:
    with pytest.raises(ModelError, match="attribute-range"):
        run("Mod", f32(2), f32(2), 13, fmod=2)


@pytest.mark.parametrize(("direction", "expected"), [("LEFT", [-2, 0, 0, 0, 6]), ("RIGHT", [-1, -1, 0, -1, 1])])
def test_shifts_beyond_the_width_leave_the_sign(direction: str, expected: list[int]) -> None:
    x, amount = np.int8([-1, -1, 5, -100, 3]), np.int8([1, 8, 8, -1, 1])
    assert_same(run("BitShift", x, amount, 28, direction=direction), np.int8(expected))


def test_shifts_of_unsigned_integers() -> None:
    x, amount = np.uint16([1, 0x8000, 7]), np.uint16([15, 15, 1])
    assert_same(run("BitShift", x, amount, 11, direction="RIGHT"), np.uint16([0, 1, 3]))
    assert_same(run("BitShift", x, amount, 11, direction="LEFT"), np.uint16([0x8000, 0, 14]))


def test_the_direction_of_a_shift_is_checked() -> None:
    with pytest.raises(ModelError, match="attribute-value"):
        run("BitShift", np.uint8([1]), np.uint8([1]), 11, direction="UP")


# Comparison and logic

PAIRS = np.array([[0.0, -0.0], [1, 2], [2, 1], [np.nan, np.nan], [np.inf, np.inf], [-np.inf, np.inf]], np.float32)


@pytest.mark.parametrize(
    ("operator", "opset", "function"),
    [("Equal", 13, np.equal), ("Less", 13, np.less), ("Greater", 13, np.greater),
     ("LessOrEqual", 16, np.less_equal), ("GreaterOrEqual", 16, np.greater_equal)],
)  # fmt: skip
def test_nan_compares_with_nothing(operator: str, opset: int, function: np.ufunc) -> None:
    a, b = PAIRS.T
    assert_same(run(operator, a.copy(), b.copy(), opset), function(a, b))


@pytest.mark.parametrize(
    ("operator", "function"), [("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)]
)
@pytest.mark.parametrize("opset", [1, 7])
def test_logic(operator: str, function: np.ufunc, opset: int) -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert_same(run(operator, a, b, opset), function(a, b))


@pytest.mark.parametrize(
    ("operator", "function"),
    [("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)],
)
def test_bitwise(operator: str, function: np.ufunc) -> None:
    a, b = np.int32([[-1, 12], [0, 7]]), np.int32([10, 3])
    assert_same(run(operator, a, b, 18), function(a, b))


# PRelu


@pytest.mark.parametrize("opset", [1, 6, 7, 16])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_prelu_takes_one_slope(opset: int, way: str) -> None:
    x = np.array([[[-2.0, 0.0], [3.0, np.nan]]], np.float32)
    (actual,) = run_operator("PRelu", {"x": x, "slope": np.float32([0.5])}, opset=opset, way=way)
    assert_same(actual, np.array([[[-1.0, 0.0], [3.0, np.nan]]], np.float32))


def test_old_prelu_has_slopes_per_channel() -> None:
    x = np.full((1, 2, 2), -1, np.float32)
    (actual,) = run_operator("PRelu", {"x": x, "slope": np.float32([2, 3])}, opset=6)
    assert_same(actual, np.array([[[-2, -2], [-3, -3]]], np.float32))


def test_prelu_does_not_enlarge_its_input() -> None:
    with pytest.raises(ModelError, match="broadcast-mismatch"):
        run_operator("PRelu", {"x": f32(1, 3), "slope": f32(2, 1)}, opset=16)
    with pytest.raises(ModelError, match="broadcast-mismatch"):
        run_operator("PRelu", {"x": f32(3), "slope": f32(1, 3)}, opset=16)
    with pytest.raises(InputError, match="broadcast"):
        run_operator("PRelu", {"x": f32(1, 3), "slope": f32(2, 1)}, opset=16, way="symbolic")
