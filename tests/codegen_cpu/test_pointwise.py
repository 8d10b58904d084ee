"""Pointwise kernels: every primitive in every native element type, at the ends of the type; casts between all."""

import numpy as np
import pytest

from compiler.codegen_cpu.elementary import ELEMENTARY
from compiler.codegen_cpu.plan_target import is_native
from compiler.ir.builder import Builder
from compiler.ir.dtypes import BF16, BOOL, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64, DType
from compiler.ir.module import Op, Value
from compiler.ir.primitives.pointwise import BINARY, COMPARE, UNARY
from compiler.ir.types import TensorType
from compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, NATIVE, Native, assert_near, make, odd_values, precision, sample


def _native_names(dtype: DType, names: tuple[str, ...], count: int) -> list[str]:
    """The primitives of `count` operands that have kernels for the element type."""
    builder = Builder()
    parameters = [builder.parameter(f"x{index}", TensorType(dtype, (3,))) for index in range(count)]
    types = {name: dtype if name not in COMPARE else BOOL for name in names}
    ops = {name: Op(name, tuple(parameters), {}, (), (TensorType(types[name], (3,)),)) for name in names}
    return [name for name, op in ops.items() if is_native(op)]


def _check_each(native: Native, names: list[str], arrays: list[np.ndarray], dtype: DType) -> None:
    """Every result for itself: arithmetic to the bit, elementary functions as near as the type allows."""
    expected = native.interpreted(*arrays)
    for name, found, wanted in zip(names, native(*arrays), expected, strict=True):
        is_rounded = name in ELEMENTARY and dtype.is_float and name != "rem"
        try:
            _assert_lanes_near(found, wanted, 4 * precision(dtype) if is_rounded else 0.0)
        except AssertionError as difference:
            raise AssertionError(f"{name} of {dtype}: {difference}") from difference


def _assert_lanes_near(actual: np.ndarray, expected: np.ndarray, bound: float) -> None:
    """As `assert_near`, with each element a result of its own."""
    if bound == 0:
        assert_near(actual, expected)
        return
    for found, wanted in zip(actual.reshape(-1, 1), expected.reshape(-1, 1), strict=True):
        # Beside the subnormal numbers, and what overflows in one way of computing and not in the other.
        if abs(wanted[0]) > 1e-30 and abs(wanted[0]) < 1e30:
            assert_near(found, wanted, bound)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_unary_primitives(dtype: DType, target: Target) -> None:
    names = _native_names(dtype, tuple(UNARY), 1)
    native = Native(make([TensorType(dtype, (37,))], lambda ir, x: [ir.unary(name, x) for name in names]), target)
    odd = odd_values(dtype)
    _check_each(native, names, [np.resize(odd, 37)], dtype)
    _check_each(native, names, [sample(dtype, 37)], dtype)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_binary_primitives(dtype: DType, target: Target) -> None:
    names = _native_names(dtype, tuple(BINARY) + tuple(COMPARE), 2)
    odd = odd_values(dtype)
    type = TensorType(dtype, (odd.size, odd.size))
    native = Native(make([type, type], lambda ir, x, y: [ir.binary(name, x, y) for name in names]), target)
    pairs = np.meshgrid(odd, odd, indexing="ij")
    _check_each(native, names, [np.ascontiguousarray(pair) for pair in pairs], dtype)
    _check_each(native, names, [sample(dtype, odd.size, odd.size, seed=seed) for seed in (1, 2)], dtype)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("source", NATIVE, ids=str)
def test_casts_to_every_type(source: DType, target: Target) -> None:
    native = Native(
        make([TensorType(source, ("N",))] if False else [f"{source}[N]"], lambda ir, x: [ir.cast(x, t) for t in NATIVE]),
        target,
    )
    for array in (odd_values(source), sample(source, 40), sample(source, 0), sample(source, 1)):
        native.check(array)
