"""Pointwise kernels: every primitive in every native element type, at the ends of the type; casts between all."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.elementary import ELEMENTARY
from onnxc.compiler.codegen_cpu.plan_target import is_native
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import bcast
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, U8, U16, U32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.primitives.pointwise import BINARY, COMPARE, UNARY
from onnxc.compiler.planning.schedules import Threads
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import (
    EVERY_TARGET,
    FLOATS,
    INTEGERS,
    NATIVE,
    Native,
    assert_near,
    make,
    native_names,
    odd_values,
    precision,
    sample,
)
from tests.support.arrays import assert_within
from tests.support.tolerance import UNITS, unit


def _check_each(native: Native, names: list[str], arrays: list[np.ndarray], dtype: DType) -> None:
    """Every result for itself: arithmetic to the bit, elementary functions as near as the type allows."""
    expected = native.interpreted(*arrays)
    for name, found, wanted in zip(names, native(*arrays), expected, strict=True):
        if name in ELEMENTARY and dtype.is_float:
            why = f"{name} of {dtype}; subnormal numbers may be 0"
            assert_within(found, wanted, relative=UNITS * unit(wanted.dtype), absolute=1e-37, why=why)
        else:
            assert_near(found, wanted)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_unary_primitives(dtype: DType, target: Target) -> None:
    names = native_names(dtype, tuple(UNARY), 1, is_native)
    native = Native(make([f"{dtype}[37]"], lambda ir, x: [ir.unary(name, x) for name in names]), target)
    _check_each(native, names, [np.resize(odd_values(dtype), 37)], dtype)
    _check_each(native, names, [sample(dtype, 37)], dtype)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("name", [name for name in (*UNARY, *BINARY) if PRIMITIVES[name].exact])
def test_what_is_not_rounded_has_no_more_bits(name: str, dtype: DType) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    count, types = (1, [f"{dtype}[65536]"]) if name in UNARY else (2, [f"{dtype}[65536]"] * 2)
    native = Native(make(types, lambda ir, *x: ir.cast(getattr(ir, name)(*x), F32)))
    arrays = [every, np.random.default_rng(0).permutation(every)][:count]
    with np.errstate(all="ignore"):
        (expected,), (found,) = native.interpreted(*arrays), native(*arrays)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("length", [*range(1, 36), 63, 64, 65, "N"], ids=str)
def test_rows_of_any_length(length: int | str, target: Target) -> None:
    """Some vectors together, then one by one, then a part of one; what lies behind a row is not written."""

    def all_but_one(ir: Builder, x: Value) -> Value:
        return ir.neg(ir.slice(x, [0, 0], [3, x.shape[1] - 1]))

    given = length if isinstance(length, str) else length + 1
    native = Native(make([f"f32[3, {given}]"], all_but_one), target)
    (kernel,) = native.plan.kernels
    workers = kernel.schedule.workers
    assert isinstance(workers, Threads)
    assert workers.together > 1
    for columns in range(1, 70) if isinstance(length, str) else [length + 1]:
        x = np.arange(3 * columns, dtype=np.float32).reshape(3, columns)
        np.testing.assert_array_equal(native(x)[0], -x[:, :-1])


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F16, F32], ids=str)
def test_what_is_the_same_along_rows(dtype: DType, target: Target) -> None:
    def rows(ir: Builder, x: Value, scale: Value, shift: Value, lone: Value) -> list[Value]:
        repeated = ir.broadcast(ir.exp(ir.neg(scale)), [0], x.shape)
        columns, everywhere = ir.broadcast(shift, [1], x.shape), ir.broadcast(lone, [], x.shape)
        wide = ir.broadcast(scale, [0], x.shape)
        outer = ir.broadcast(ir.mul(scale, scale), [0], x.shape)
        return [
            ir.add(ir.mul(x, repeated), columns),
            ir.mul(ir.sub(wide, everywhere), ir.abs(wide)),
            ir.add(outer, columns),
            ir.select(ir.less(x, everywhere), wide, outer),
        ]

    types = [f"{dtype}[N, M]", f"{dtype}[N]", f"{dtype}[M]", f"{dtype}[]"]
    native = Native(make(types, rows), target)
    for n, m in ((0, 3), (3, 0), (1, 1), (5, 1), (3, 8), (4, 17), (2, 100)):
        arrays = [sample(dtype, n, m), sample(dtype, n, seed=1), sample(dtype, m, seed=2), sample(dtype, seed=3)]
        for found, wanted in zip(native(*arrays), native.interpreted(*arrays), strict=True):
            assert_near(found, wanted, 4 * precision(dtype))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_binary_primitives(dtype: DType, target: Target) -> None:
    names = native_names(dtype, tuple(BINARY) + tuple(COMPARE), 2, is_native)
    odd = odd_values(dtype)
    types = [f"{dtype}[{odd.size}, {odd.size}]"] * 2
    native = Native(make(types, lambda ir, x, y: [ir.binary(name, x, y) for name in names]), target)
    pairs = np.meshgrid(odd, odd, indexing="ij")
    _check_each(native, names, [np.ascontiguousarray(pair) for pair in pairs], dtype)
    _check_each(native, names, [sample(dtype, odd.size, odd.size, seed=seed) for seed in (1, 2)], dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_sign_of_zero_is_kept(dtype: DType) -> None:
    unary, binary = ("neg", "abs", "floor", "ceil", "round", "sqrt"), ("add", "sub", "mul", "div")

    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        return [*(ir.unary(name, x) for name in unary), *(ir.binary(name, x, y) for name in binary), ir.cast(x, F32)]

    native = Native(make([f"{dtype}[N]"] * 2, build))
    x, y = (np.ascontiguousarray(part).ravel() for part in np.meshgrid([0.0, -0.0, 1.0, -1.0], [0.0, -0.0, 2.0]))
    arrays = (x.astype(dtype.numpy), y.astype(dtype.numpy))
    for found, wanted in zip(native(*arrays), native.interpreted(*arrays), strict=True):
        known = ~np.isnan(wanted.astype(np.float32))
        np.testing.assert_array_equal(np.signbit(found.astype(np.float32))[known], np.signbit(wanted)[known])


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("source", NATIVE, ids=str)
def test_casts_to_every_type(source: DType, target: Target) -> None:
    native = Native(make([f"{source}[N]"], lambda ir, x: [ir.cast(x, dtype) for dtype in NATIVE]), target)
    halves = np.arange(-40, 40) / 2
    edges = (halves if source.is_signed or source.is_float else np.abs(halves)).astype(source.numpy)
    for array in (odd_values(source), sample(source, 40), sample(source, 0), sample(source, 1), edges):
        native.check(array)


@pytest.mark.parametrize("source", NATIVE, ids=str)
def test_the_bits_of_an_element_as_another_type(source: DType) -> None:
    widths = [dtype for dtype in NATIVE if dtype.bits == source.bits]
    native = Native(make([f"{source}[N]"], lambda ir, x: [ir.bitcast(x, dtype) for dtype in widths]))
    x = odd_values(source)
    for found, dtype in zip(native(x), widths, strict=True):
        # A NaN of 16 bits becomes the quiet one.
        assert_near(found, x.view(dtype.numpy))


@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_a_choice_between_elements(dtype: DType) -> None:
    native = Native(make(["bool[N]", f"{dtype}[N]", f"{dtype}[N]"], lambda ir, c, x, y: ir.select(c, x, y)))
    x = np.resize(odd_values(dtype), 37)
    native.check(sample(BOOL, 37), x, x[::-1].copy())


@pytest.mark.parametrize("length", [0, 1, 2, 15, 16, 17, 33, 64, 8191, 8193, 20000])
def test_rows_of_every_length(length: int) -> None:
    native = _three_rows()
    x = sample(F32, 3, length)
    native.check(x, x * 2)


@cache
def _three_rows() -> Native:
    return Native(make(["f32[3, N]", "f32[3, N]"], lambda ir, x, y: ir.max(ir.sub(x, y), ir.mul(x, 0.5))))


def test_a_number_is_a_tensor_without_axes() -> None:
    native = Native(make(["f32[]", "f32[N]"], lambda ir, a, x: [ir.add(a, 1.0), ir.mul(x, a)]))
    native.check(np.array(3.0, np.float32), sample(F32, 5))


def test_rounding_comes_after_every_step_in_16_bits() -> None:
    """(x + y) - x in one kernel is what it is in two."""
    for dtype in (F16, BF16):
        native = Native(make([f"{dtype}[N]"] * 2, lambda ir, x, y: ir.sub(ir.add(x, y), x)))
        assert native.kernels() == ["pointwise"]
        native.check(sample(dtype, 40), (sample(dtype, 40, seed=1).astype(np.float32) / 512).astype(dtype.numpy))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gelu_is_computed_within_a_pointwise_kernel(dtype: DType, approximate: str) -> None:
    native = Native(make([f"{dtype}[N]"], lambda ir, x: ir.gelu(ir.add(x, 1.0), approximate)))
    assert native.kernels() == ["pointwise"]
    native.check(sample(dtype, 50), bound=4 * precision(dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_to_the_power_of_integers(dtype: DType) -> None:
    """Exponents of no bit, of few, of all, and below 0, beside each other and alone."""
    ends = np.iinfo(dtype.numpy)
    exponents = [0, 1, 2, 3, dtype.bits - 1, ends.max, ends.min, -1, -2] if dtype.is_signed else [0, 1, 2, 7, ends.max]
    bases = np.array([0, 1, 2, 3, 5, ends.max, ends.min, *([-1, -2] if dtype.is_signed else [])], dtype.numpy)
    both = Native(make([f"{dtype}[N, M]"] * 2, lambda ir, x, y: ir.pow(x, y)))
    alone = Native(make([f"{dtype}[N]", f"{dtype}[]"], lambda ir, x, y: ir.pow(x, ir.broadcast_to(y, x.shape))))
    grid = np.broadcast_arrays(bases[:, None], np.array(exponents, dtype.numpy))
    both.check(*map(np.ascontiguousarray, grid))
    for exponent in exponents:
        alone.check(bases, np.array(exponent, dtype.numpy))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [I8, U8, I16, U16, I32, U32], ids=str)
def test_integers_are_divided_exactly(dtype: DType, target: Target) -> None:
    """Quotients around integers, where a float that is rounded would be one of them."""
    limits = np.iinfo(dtype.numpy)
    random = np.random.default_rng(7)
    divisors = random.integers(1, limits.max, 4000, dtype=dtype.numpy, endpoint=True)
    quotients = random.integers(0, limits.max // divisors, endpoint=True)
    products = (divisors * quotients).astype(dtype.numpy)
    dividends = np.concatenate([products, products - 1, products + 1, np.full_like(products, limits.min)])
    native = Native(make([f"{dtype}[N]"] * 2, lambda ir, a, b: [ir.div(a, b), ir.rem(a, b)]), target)
    native.check(dividends, np.tile(divisors, 4))
    if dtype.is_signed:
        native.check(dividends, -np.tile(divisors, 4))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F16, F32, F64], ids=str)
def test_floats_around_the_ends_of_integers_become_integers(dtype: DType, target: Target) -> None:
    ends = [bound for integer in INTEGERS for bound in (np.iinfo(integer.numpy).min, np.iinfo(integer.numpy).max)]
    with np.errstate(over="ignore"):
        exact = np.array([float(end) for end in ends]).astype(dtype.numpy)
        infinity, half = (np.full_like(exact, number) for number in (np.inf, 0.5))
        near = [np.nextafter(exact, direction) for direction in (-infinity, infinity)]
    x = np.concatenate([exact, *near, exact + half, exact - half, odd_values(dtype)])
    native = Native(make([f"{dtype}[N]"], lambda ir, x: [ir.cast(x, integer) for integer in INTEGERS]), target)
    native.check(x)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_floats_about_2_to_the_51_become_integers(dtype: DType, target: Target) -> None:
    """Below it all lanes are converted at once; also beside lanes that are small."""
    ends = np.array([2.0**51, -(2.0**51)], dtype.numpy)
    near = np.concatenate([ends, np.nextafter(ends, 0), np.nextafter(ends, 2 * ends), ends / 2, -0.5 * ends])
    small = np.array([-0.0, -0.5, 0.5, 1.5, -1.5, -2.9, 3.0], dtype.numpy)
    mixed = np.stack([np.resize(small, near.size), near], axis=1).reshape(-1)
    native = Native(make([f"{dtype}[N]"], lambda ir, x: [ir.cast(x, integer) for integer in INTEGERS]), target)
    native.check(np.concatenate([np.resize(small, 16), np.repeat(near, 8), mixed]))


NUMBERS_AND_TIES = np.concatenate(
    [np.arange(-300, 300) / 2, np.arange(-40, 40) / 2 + 32767, np.arange(-70000, 70000, 977)]
)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("integer", [I8, U8, I16, U16, I32], ids=str)
def test_rounded_floats_within_bounds_become_integers(integer: DType, target: Target) -> None:
    """As quantizations write them, and with other bounds, shifts, and results for NaN."""
    least, greatest = np.iinfo(integer.numpy).min, np.iinfo(integer.numpy).max

    def number(ir: Builder, x: Value, limit: float) -> Value:
        bound = ir.broadcast_to(ir.constant(np.array(limit, np.float32)), x.shape)
        return ir.select(ir.less(bound, x), x, bound)

    def build(ir: Builder, x: Value) -> list[Value]:
        y = ir.round(x)
        odd, even = ir.add(y, 3.0), ir.add(y, 128.0)
        floats = [
            y,
            odd,
            ir.add(y, 70000.0),
            ir.add(y, 0.5),
            ir.min(ir.max(odd, float(least)), float(greatest)),
            ir.min(number(ir, even, float(least)), float(greatest)),
            number(ir, ir.min(even, 90.0), 7.0),
            ir.max(number(ir, y, 2.0), 5.0),
            number(ir, ir.max(y, 5.0), 2.0),
            ir.min(ir.max(y, 3.0), 100.0),
            ir.min(ir.max(y, 50.0), 20.0),
            ir.max(ir.min(y, 6.5), 1.5),
            ir.min(ir.max(x, float(least)), float(greatest)),
            ir.max(ir.min(ir.mul(x, 0.75), 90.0), -3.0),
            number(ir, ir.min(ir.add(y, x), 90.0), 7.0),
        ]
        return [ir.cast(value, integer) for value in floats]

    native = Native(make(["f32[N]"], build), target)
    native.check(np.concatenate([NUMBERS_AND_TIES, odd_values(F32)]).astype(np.float32))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_floats_of_every_magnitude_become_integers(dtype: DType, target: Target) -> None:
    random = np.random.default_rng(0)
    x = (random.uniform(-1, 1, 66 * 61) * np.exp2(np.repeat(np.arange(66), 61))).astype(dtype.numpy)
    native = Native(make([f"{dtype}[N]"], lambda ir, x: [ir.cast(x, integer) for integer in INTEGERS]), target)
    native.check(x)


def test_sizes_that_are_broadcast_together_may_be_equal_or_one() -> None:
    """Of two axes with sizes of two operands, all that calls may make of them."""

    def add(ir: Builder, x: Value, y: Value) -> Value:
        shape = tuple(bcast(a, b) for a, b in zip(x.shape, y.shape, strict=True))
        return ir.add(ir.exp(ir.broadcast(x, (0, 1, 2), shape)), ir.broadcast(y, (0, 1, 2), shape))

    native = Native(make(["f32[N, 3, W]", "f32[M, 3, V]"], add))
    assert len(native.plan.kernels) > 1
    for n, m in product((0, 1, 5), repeat=2):
        for w, v in product((0, 1, 37), repeat=2):
            if all(a == b or 1 in (a, b) for a, b in ((n, m), (w, v))):
                x = sample(F32, n, 3, w)
                x[..., :1] = np.nan
                native.check(x, sample(F32, m, 3, v, seed=1), bound=precision(F32))


@pytest.mark.parametrize("columns", [2, 3, 4, 8])
@pytest.mark.parametrize("dtype", [F32, F16, I32], ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_short_rows_backwards(columns: int, dtype: DType, target: Target) -> None:
    """As pairs that are turned by an angle: each row is read where it lies, beside what is read forwards."""

    def build(ir: Builder, x: Value, y: Value) -> Value:
        return ir.add(ir.mul(ir.reverse(x, 1), ir.broadcast(y, (1,), x.shape)), x)

    native = Native(make([f"{dtype}[N, {columns}]", f"{dtype}[{columns}]"], build), target)
    for rows in (0, 1, 2, 7, 16, 33):
        native.check(sample(dtype, rows, columns), sample(dtype, columns, seed=1), bound=precision(dtype))
