"""Floats and integers of a byte or less: casts of all their patterns to the bit, moved bytes, arithmetic.

The oracle is the meaning; a NaN of one of these types is compared like every other pattern.
"""

import itertools
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.plan_target import is_native
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import (
    BF16,
    F4E2M1,
    F6E2M3,
    F6E3M2,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0,
    F16,
    F32,
    F64,
    I2,
    I4,
    U2,
    U4,
    DType,
    dtype_of,
)
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.pointwise import BINARY, COMPARE, UNARY
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, NATIVE, Native, make, movements, native_names

NARROW_FLOATS = (F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, F6E2M3, F6E3M2, F4E2M1)
NARROW = (*NARROW_FLOATS, I4, U4, I2, U2)

BYTES = np.arange(256, dtype=np.uint8)


def patterns(dtype: DType) -> np.ndarray:
    """Every byte as an element, of which a type narrower than a byte ignores some bits."""
    return BYTES.view(dtype.numpy)


def elements(dtype: DType) -> np.ndarray:
    """Every element once."""
    return patterns(dtype)[: 1 << dtype.bits]


def near_ties(dtype: DType) -> np.ndarray:
    """All numbers of a float type and what is half way between neighbours, with the f32 below and above each."""
    numbers = np.unique(elements(dtype).astype(np.float64))
    numbers = numbers[np.isfinite(numbers)]
    halves = (numbers[1:] + numbers[:-1]) / 2
    exact = np.concatenate([numbers, halves, 1.5 * numbers, 3 * numbers]).astype(np.float32)
    infinity = np.float32(np.inf)
    return np.concatenate([exact, np.nextafter(exact, infinity), np.nextafter(exact, -infinity)])


@cache
def floats() -> np.ndarray:
    """f32 at the ends and at the ties of every narrow type, and random bits, of which many are tiny, huge or NaN."""
    with np.errstate(over="ignore"):
        ties = [near_ties(dtype) for dtype in NARROW_FLOATS]
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 2.0**-126, 3.4e38], np.float32)
    random = np.random.default_rng(0).integers(0, 1 << 32, 20_000, np.uint32).view(np.float32)
    return np.concatenate([*ties, odd, random])


def all_casts(ir: Builder, x: Value, targets: tuple[DType, ...]) -> Iterator[Value]:
    """To each of the types in each way."""
    for dtype in targets:
        modes = ("nearest", "up", "down") if dtype == F8E8M0 else ("nearest",)
        for saturate, mode in itertools.product((True, False) if dtype in NARROW_FLOATS else (True,), modes):
            yield ir.cast(x, dtype, saturate, mode)


def assert_same_bits(native: Native, *arrays: np.ndarray) -> None:
    """One kernel, with the results of the meaning to the bit; a NaN of a wider type is any NaN."""
    assert native.kernels() == ["pointwise"] * len(native.kernels())
    for actual, expected in zip(native(*arrays), native.interpreted(*arrays), strict=True):
        assert actual.dtype == expected.dtype
        if actual.itemsize > 1:
            assert_same_numbers(actual, expected)
        else:
            assert_equal_bytes(actual, expected)


def assert_same_numbers(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal, with the sign of zeros."""
    if dtype_of(expected.dtype).is_float:
        actual, expected = (x.astype(np.float64) for x in (actual, expected))
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(actual)[zeros], np.signbit(expected)[zeros])
    np.testing.assert_array_equal(actual, expected)


def assert_equal_bytes(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(actual.view(np.uint8), expected.view(np.uint8))


# Casts


@pytest.mark.parametrize("source", NARROW, ids=str)
def test_every_byte_is_cast_as_its_meaning_says(source: DType) -> None:
    targets = tuple(dtype for dtype in (*NATIVE, *NARROW) if dtype != source)
    native = Native(make([f"{source}[256]"], lambda ir, x: list(all_casts(ir, x, targets))))
    with np.errstate(all="ignore"):
        assert_same_bits(native, patterns(source))


def test_every_f16_is_cast_to_narrow_types_as_its_meaning_says() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert_same_bits(Native(make(["f16[N]"], lambda ir, x: list(all_casts(ir, x, NARROW)))), halves)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_f32_is_cast_to_narrow_types_as_its_meaning_says(target: Target) -> None:
    assert_same_bits(Native(make(["f32[N]"], lambda ir, x: list(all_casts(ir, x, NARROW))), target), floats())


@pytest.mark.parametrize("source", [dtype for dtype in NATIVE if dtype not in (F32, F16)], ids=str)
def test_the_other_types_are_cast_to_narrow_types_as_their_meaning_says(source: DType) -> None:
    """f64 is reached through f32, integers keep their low bits."""
    native = Native(make([f"{source}[N]"], lambda ir, x: list(all_casts(ir, x, NARROW))))
    powers = 2 ** np.arange(63)
    integers = np.concatenate([np.arange(-300, 300), powers, -powers, powers - 1])
    with np.errstate(all="ignore"):
        assert_same_bits(
            native, floats().astype(source.numpy) if source in (F64, BF16) else integers.astype(source.numpy)
        )


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_constant_within_a_kernel_has_its_bits(dtype: DType) -> None:
    """The least of them but 0, and the first with a sign: -0.0, a NaN or the least integer."""
    sign = 1 << (dtype.bits - 1)

    def build(ir: Builder, x: Value) -> Value:
        first, last = (ir.constant(elements(dtype)[[code]].reshape(())) for code in (1, sign))
        return ir.select(x, ir.broadcast_to(first, x.shape), ir.broadcast_to(last, x.shape))

    (actual,) = Native(make(["bool[N]"], build))(np.array([True, False]))
    assert actual.view(np.uint8).tolist() == [1, sign]


# Movement


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F8E5M2, F6E2M3, I4], ids=str)
def test_movements_keep_every_byte(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value, indices: Value, condition: Value) -> list[Value]:
        moved = movements(ir, x, indices, condition, elements(dtype)[[1]].reshape(()))
        return [*moved, ir.bitcast(x, {8: F8E4M3FN, 6: F6E3M2, 4: F4E2M1}[dtype.bits])]

    native = Native(make([f"{dtype}[16, 16]", "i64[3]", "bool[16, 16]"], build), target)
    assert len(native.artifact.program.body.steps) == 1
    x, indices = patterns(dtype).reshape(16, 16), np.array([5, 0, 15])
    condition = np.arange(256).reshape(16, 16) % 3 == 0
    for actual, expected in zip(native(x, indices, condition), native.interpreted(x, indices, condition), strict=True):
        assert_equal_bytes(actual, expected)


# Arithmetic

EXACT_UNARY = ("neg", "abs", "floor", "ceil", "round", "sqrt", "not")


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_arithmetic_on_all_pairs_is_that_of_the_wider_type(dtype: DType) -> None:
    """Rounded or wrapped after each op; a float power is nearer to the true one than the type can tell."""
    unary = native_names(dtype, [name for name in UNARY if name in EXACT_UNARY], 1, is_native)
    binary = native_names(dtype, (*BINARY, *COMPARE), 2, is_native)
    if dtype == F8E8M0:
        assert not unary + binary
        return

    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        twice = ir.sub(ir.add(x, y), y)
        return [*(ir.unary(name, x) for name in unary), *(ir.binary(name, x, y) for name in binary), twice]

    native = Native(make([f"{dtype}[N]"] * 2, build))
    x, y = (np.ascontiguousarray(side).reshape(-1) for side in np.meshgrid(elements(dtype), elements(dtype)))
    with np.errstate(all="ignore"):
        for actual, expected in zip(native(x, y), native.interpreted(x, y), strict=True):
            wide, wanted = (side.astype(np.float64) for side in (actual, expected))
            assert actual.dtype == expected.dtype
            np.testing.assert_array_equal(wide, wanted)


@pytest.mark.parametrize("dtype", [F8E4M3FN, F4E2M1, I4], ids=str)
def test_scaling_between_casts_is_one_kernel(dtype: DType) -> None:
    def build(ir: Builder, x: Value, scale: Value) -> Value:
        return ir.cast(ir.mul(ir.cast(x, F32), ir.broadcast(scale, (1,), x.shape)), dtype)

    native = Native(make([f"{dtype}[N, 3]", "f32[3]"], build))
    x, scale = np.resize(elements(dtype), (40, 3)), np.array([0.5, 3.0, 1e-3], np.float32)
    assert_same_bits(native, x, scale)
    assert native.kernels() == ["pointwise"]
