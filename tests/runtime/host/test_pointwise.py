"""The pointwise meanings against Python's own arithmetic, element by element, at the ends of every type."""

import math
import operator
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxc.runtime.host import MEANINGS

FLOATS = [np.dtype(t) for t in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)]
TINY_FLOATS = [
    np.dtype(t)
    for t in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float6_e2m3fn,
        ml_dtypes.float6_e3m2fn,
        ml_dtypes.float4_e2m1fn,
    )
]
SIGNED = {
    np.dtype(t): bits
    for t, bits in (
        (np.int64, 64),
        (np.int32, 32),
        (np.int16, 16),
        (np.int8, 8),
        (ml_dtypes.int4, 4),
        (ml_dtypes.int2, 2),
    )
}
UNSIGNED = {
    np.dtype(t): bits
    for t, bits in (
        (np.uint64, 64),
        (np.uint32, 32),
        (np.uint16, 16),
        (np.uint8, 8),
        (ml_dtypes.uint4, 4),
        (ml_dtypes.uint2, 2),
    )
}
INTEGERS = {**SIGNED, **UNSIGNED}


def wrap(value: int, dtype: np.dtype) -> int:
    """The low bits of `value`, read as the integer type `dtype`."""
    bits = INTEGERS[dtype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype in SIGNED and value >> (bits - 1) else value


def samples(dtype: np.dtype) -> list[int]:
    """The ends of an integer type, and what is next to them and to zero."""
    bits = INTEGERS[dtype]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype in SIGNED else (0, (1 << bits) - 1)
    near = {low, low + 1, low // 3, -3, -2, -1, 0, 1, 2, 3, high // 3, high - 1, high}
    return sorted(value for value in near if low <= value <= high)


def integers(values: list[int], dtype: np.dtype) -> np.ndarray:
    wide = {4: np.int8, 2: np.int8}.get(INTEGERS[dtype], dtype)
    return np.array(values, wide).astype(dtype)


def pairs(dtype: np.dtype) -> tuple[list[int], list[int]]:
    grid = [(x, y) for x in samples(dtype) for y in samples(dtype)]
    return [x for x, _ in grid], [y for _, y in grid]


def truncated_quotient(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def dividend_remainder(x: int, y: int) -> int:
    return 0 if y == 0 else x - y * truncated_quotient(x, y)


def integer_power(x: int, n: int) -> int:
    if n >= 0:
        return pow(x, n, 1 << 64)
    return {1: 1, -1: -1 if n % 2 else 1}.get(x, 0)


INTEGER_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": truncated_quotient,
    "rem": dividend_remainder,
    "pow": integer_power,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", INTEGER_ARITHMETIC)
def test_integer_arithmetic_wraps_and_never_fails(name: str, dtype: np.dtype) -> None:
    left, right = pairs(dtype)
    (result,) = MEANINGS[name]([integers(left, dtype), integers(right, dtype)], {})
    expected = [wrap(INTEGER_ARITHMETIC[name](x, y), dtype) for x, y in zip(left, right, strict=True)]
    assert result.dtype == dtype
    assert [int(value) for value in result] == expected


@pytest.mark.parametrize(("exponent", "rounded"), [(2, lambda x: x * x), (-1, lambda x: 1 / x)])
def test_squares_and_reciprocals_of_doubles_are_rounded_once(
    exponent: int, rounded: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = np.random.default_rng(0).standard_normal(4096) * np.exp2(np.arange(4096) % 41 - 20)
    x[:5] = [np.nan, np.inf, -np.inf, -3.0, 1e200]
    (result,) = MEANINGS["pow"]([x, np.full_like(x, exponent)], {})
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result.view(np.int64), rounded(x).view(np.int64))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_beyond_the_width_push_everything_out(dtype: np.dtype) -> None:
    left, right = pairs(dtype)
    operands = [integers(left, dtype), integers(right, dtype)]
    bits = INTEGERS[dtype]
    (up,) = MEANINGS["shift_left"](operands, {})
    (down,) = MEANINGS["shift_right"](operands, {})
    for x, n, above, below in zip(left, right, up, down, strict=True):
        inside = 0 <= n < bits
        assert int(above) == (wrap(x << n, dtype) if inside else 0), (x, n)
        assert int(below) == (x >> n if inside else -1 if x < 0 else 0), (x, n)
    assert (up.dtype, down.dtype) == (dtype, dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("neg", operator.neg),
        ("abs", abs),
        ("sign", lambda x: (x > 0) - (x < 0)),
        ("not", operator.invert),
        ("floor", int),
        ("ceil", int),
        ("round", int),
    ],
)
def test_integer_unary_wraps(name: str, function: Callable[[int], int], dtype: np.dtype) -> None:
    x = integers(samples(dtype), dtype)
    (result,) = MEANINGS[name]([x], {})
    assert result.dtype == dtype
    assert not np.shares_memory(result, x)
    assert [int(value) for value in result] == [wrap(function(value), dtype) for value in samples(dtype)]


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 31), (1 << 31) - 1))
def test_quotient_times_divisor_plus_remainder_is_the_dividend(x: int, y: int) -> None:
    operands = [np.array(x, np.int32), np.array(y, np.int32)]
    (quotient,) = MEANINGS["div"](operands, {})
    (remainder,) = MEANINGS["rem"](operands, {})
    assert wrap(int(quotient) * y + int(remainder), np.dtype(np.int32)) == (x if y else 0)
    assert abs(int(remainder)) < max(abs(y), 1)
    assert int(remainder) * x >= 0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_division_follows_ieee(dtype: np.dtype) -> None:
    x = np.array([1, -1, 0, np.inf, 1, np.nan, -0.0]).astype(dtype)
    y = np.array([0, 0, 0, np.inf, -np.inf, 1, 1]).astype(dtype)
    (quotient,) = MEANINGS["div"]([x, y], {})
    (remainder,) = MEANINGS["rem"]([x, y], {})
    assert (quotient.dtype, remainder.dtype) == (dtype, dtype)
    np.testing.assert_array_equal(quotient.astype(np.float64), [np.inf, -np.inf, np.nan, np.nan, -0.0, np.nan, -0.0])
    np.testing.assert_array_equal(remainder.astype(np.float64), [np.nan, np.nan, np.nan, np.nan, 1, np.nan, -0.0])
    assert np.signbit(quotient.astype(np.float64))[[4, 6]].all()
    assert np.signbit(remainder.astype(np.float64))[6]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("name", "kept"), [("min", -1.0), ("max", 2.0)])
def test_nan_propagates_through_min_and_max(name: str, kept: float, dtype: np.dtype) -> None:
    x, y = np.array([np.nan, 1, -1]).astype(dtype), np.array([1, np.nan, 2]).astype(dtype)
    (result,) = MEANINGS[name]([x, y], {})
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype(np.float64), [np.nan, np.nan, kept])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_round_is_half_to_even(dtype: np.dtype) -> None:
    (result,) = MEANINGS["round"]([np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, np.inf]).astype(dtype)], {})
    np.testing.assert_array_equal(result.astype(np.float64), [-2, -2, -0.0, 0, 2, 2, np.inf])
    assert result.dtype == dtype


def test_narrow_floats_round_once_to_nearest_even() -> None:
    one, quarter_ulp = np.array([1.0], np.float16), np.array([2.0**-11], np.float16)
    (tie,) = MEANINGS["add"]([one, quarter_ulp], {})
    (above,) = MEANINGS["add"]([one, np.array([2.0**-11 + 2.0**-20], np.float16)], {})
    assert (float(tie[0]), float(above[0])) == (1.0, 1.0 + 2.0**-10)
    (overflow,) = MEANINGS["mul"]([np.array([60000.0], np.float16), np.array([2.0], np.float16)], {})
    assert np.isposinf(overflow[0])


ELEMENTARY: dict[str, tuple[Callable[[float], float], tuple[float, float]]] = {
    "sqrt": (math.sqrt, (0, 100)),
    "exp": (math.exp, (-80, 80)),
    "log": (math.log, (1e-30, 1e30)),
    "sin": (math.sin, (-1e5, 1e5)),
    "cos": (math.cos, (-1e5, 1e5)),
    "tan": (math.tan, (-10, 10)),
    "asin": (math.asin, (-1, 1)),
    "acos": (math.acos, (-1, 1)),
    "atan": (math.atan, (-1e3, 1e3)),
    "sinh": (math.sinh, (-80, 80)),
    "cosh": (math.cosh, (-80, 80)),
    "tanh": (math.tanh, (-10, 10)),
    "asinh": (math.asinh, (-1e3, 1e3)),
    "acosh": (math.acosh, (1, 1e3)),
    "atanh": (math.atanh, (-0.999, 0.999)),
    "erf": (math.erf, (-7, 7)),
}


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_of_f32_are_correctly_rounded(name: str) -> None:
    function, (low, high) = ELEMENTARY[name]
    x = np.random.default_rng(7).uniform(low, high, 2000).astype(np.float32).clip(low, high)
    (result,) = MEANINGS[name]([x], {})
    expected = np.array([function(float(value)) for value in x]).astype(np.float32)
    np.testing.assert_array_max_ulp(result, expected, maxulp=1)
    assert (result == expected).mean() > 0.999


def test_erf_of_f64_is_within_two_units_in_the_last_place() -> None:
    x = np.concatenate([np.random.default_rng(3).uniform(-7, 7, 20000), np.geomspace(1e-310, 1, 5000)])
    (result,) = MEANINGS["erf"]([x], {})
    expected = np.array([math.erf(value) for value in x])
    assert (np.abs(result - expected) <= 2 * np.spacing(np.abs(expected))).all()


def test_erf_at_the_ends() -> None:
    (result,) = MEANINGS["erf"]([np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])], {})
    np.testing.assert_array_equal(result, [np.nan, 1, -1, 0, 0])
    assert np.signbit(result[4])


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("sqrt", [-1.0, -0.0, np.inf], [np.nan, -0.0, np.inf]),
        ("log", [-1.0, 0.0, np.inf], [np.nan, -np.inf, np.inf]),
        ("exp", [-np.inf, 1000.0, np.inf], [0.0, np.inf, np.inf]),
        ("asin", [2.0, -2.0, 1.0], [np.nan, np.nan, math.pi / 2]),
        ("acosh", [0.5, 1.0, np.inf], [np.nan, 0.0, np.inf]),
        ("atanh", [1.0, -1.0, 2.0], [np.inf, -np.inf, np.nan]),
        ("sign", [np.nan, -np.inf, -0.0], [np.nan, -1.0, 0.0]),
        ("sin", [np.inf, -np.inf, np.nan], [np.nan, np.nan, np.nan]),
    ],
)
def test_outside_the_domain_of_a_function(name: str, x: list[float], expected: list[float]) -> None:
    (result,) = MEANINGS[name]([np.array(x)], {})
    np.testing.assert_array_equal(result, np.array(expected), strict=True)


def test_float_power_follows_ieee() -> None:
    x, y = np.array([0, 0, -8, np.nan, 1, 2], np.float32), np.array([0, -1, 1 / 3, 0, np.nan, 0.5], np.float32)
    (result,) = MEANINGS["pow"]([x, y], {})
    np.testing.assert_array_equal(result, np.array([1, np.inf, np.nan, 1, 1, 2**0.5], np.float32), strict=True)


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_bool_operations_are_logical(name: str) -> None:
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    truth = {"and": [False, False, False, True], "or": [False, True, True, True], "xor": [False, True, True, False]}
    (result,) = MEANINGS[name]([x, y], {})
    np.testing.assert_array_equal(result, np.array(truth[name]), strict=True)
    (inverse,) = MEANINGS["not"]([x], {})
    np.testing.assert_array_equal(inverse, np.array([True, True, False, False]), strict=True)


def test_comparisons_with_nan_are_false() -> None:
    x, y = np.array([np.nan, np.nan, 1.0, -0.0, np.inf]), np.array([np.nan, 1.0, np.nan, 0.0, np.inf])
    for name, expected in (
        ("equal", [False, False, False, True, True]),
        ("less", [False, False, False, False, False]),
        ("less_equal", [False, False, False, True, True]),
    ):
        for dtype in FLOATS:
            (result,) = MEANINGS[name]([x.astype(dtype), y.astype(dtype)], {})
            np.testing.assert_array_equal(result, np.array(expected), strict=True)


def test_strings_compare_and_select() -> None:
    x, y = np.array(["a", "bc"], object), np.array(["a", "b"], object)
    (same,) = MEANINGS["equal"]([x, y], {})
    np.testing.assert_array_equal(same, np.array([True, False]), strict=True)
    (chosen,) = MEANINGS["select"]([np.array([False, True]), x, y], {})
    assert (chosen.dtype, list(chosen)) == (np.dtype(object), ["a", "bc"])


@pytest.mark.parametrize("dtype", [*FLOATS, *TINY_FLOATS, *INTEGERS], ids=str)
def test_select_keeps_the_type_and_the_bits(dtype: np.dtype) -> None:
    x, y = np.arange(4, dtype=np.int8).astype(dtype), np.ones(4, np.int8).astype(dtype)
    (result,) = MEANINGS["select"]([np.array([True, False, True, False]), x, y], {})
    assert result.dtype == dtype
    assert result.tobytes() == x[:1].tobytes() + y[1:2].tobytes() + x[2:3].tobytes() + y[3:].tobytes()


UNARY = [*ELEMENTARY, "neg", "abs", "sign", "floor", "ceil", "round"]
BINARY = ["add", "sub", "mul", "div", "rem", "pow", "min", "max"]


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, *TINY_FLOATS], ids=str)
def test_every_function_keeps_type_and_shape(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, dtype)
    for name in UNARY:
        (result,) = MEANINGS[name]([x], {})
        assert (type(result), result.dtype, result.shape) == (np.ndarray, dtype, shape), name
    for name in BINARY:
        (result,) = MEANINGS[name]([x, x], {})
        assert (type(result), result.dtype, result.shape) == (np.ndarray, dtype, shape), name
    (compared,) = MEANINGS["less"]([x, x], {})
    assert (type(compared), compared.dtype, compared.shape) == (np.ndarray, np.dtype(np.bool_), shape)


@pytest.mark.parametrize("dtype", TINY_FLOATS, ids=str)
def test_every_bit_pattern_of_the_small_floats_is_computed_without_a_warning(dtype: np.dtype) -> None:
    x = np.arange(256, dtype=np.uint8).view(dtype)
    for name in UNARY:
        assert MEANINGS[name]([x], {})[0].dtype == dtype
    for name in BINARY:
        assert MEANINGS[name]([x, x[::-1]], {})[0].dtype == dtype
