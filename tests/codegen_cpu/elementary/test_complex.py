"""Complex numbers: moved bit for bit, cast, and computed with as NumPy does."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, BOOL, C64, C128, F8E4M3FN, F32, F64, I4, I32, U64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, movements
from tests.support.tolerance import UNITS, unit

COMPLEX = (C64, C128)


def numbers(dtype: DType, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Random ones, with zeros, infinities and NaN among the first."""
    random = np.random.default_rng((0, *shape))
    x = (random.standard_normal(shape) + 1j * random.standard_normal(shape)) * scale
    odd = [0, -0.0, 1, 1j, complex(np.inf, -1), complex(2, np.nan), complex(-0.0, 0.5)]
    x.reshape(-1)[: len(odd)] = odd[: x.size]
    return x.astype(dtype.numpy)


def assert_all_native(native: Native) -> None:
    assert len(native.artifact.program.body.steps) == 1


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_movements_keep_every_bit(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value, indices: Value, condition: Value) -> list[Value]:
        return movements(ir, x, indices, condition, np.array(2 - 3j, dtype.numpy))

    native = Native(make([f"{dtype}[7, 21]", "i64[3]", "bool[7, 21]"], build), target)
    assert_all_native(native)
    arrays = numbers(dtype, 7, 21), np.array([5, 0, 6]), np.arange(147).reshape(7, 21) % 3 == 0
    for actual, expected in zip(native(*arrays), native.interpreted(*arrays), strict=True):
        assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_casts_from_complex_take_the_real_part(dtype: DType) -> None:
    """As bool either part counts, and another complex type has both."""
    targets = (F64, F32, BF16, I32, BOOL, F8E4M3FN, I4, *COMPLEX)
    native = Native(make([f"{dtype}[N]"], lambda ir, x: [ir.cast(x, target) for target in targets]))
    assert_all_native(native)
    x = numbers(dtype, 40, scale=3.0)
    with np.errstate(all="ignore"):
        for actual, expected in zip(native(x), native.interpreted(x), strict=True):
            assert actual.dtype == expected.dtype
            np.testing.assert_array_equal(actual.astype(np.complex128), expected.astype(np.complex128))


@pytest.mark.parametrize("source", [F64, F32, BF16, U64, BOOL, F8E4M3FN, I4], ids=str)
def test_casts_to_complex_have_no_imaginary_part(source: DType) -> None:
    native = Native(make([f"{source}[N]"], lambda ir, x: [ir.cast(x, dtype) for dtype in COMPLEX]))
    x = np.arange(40).astype(source.numpy)
    for actual, expected in zip(native(x), native.interpreted(x), strict=True):
        assert actual.tobytes() == expected.tobytes()


def assert_near_numbers(actual: np.ndarray, expected: np.ndarray) -> None:
    """Within the rounding of the magnitude of the number."""
    assert (np.abs(actual - expected) <= UNITS * unit(expected.dtype) * np.abs(expected)).all()


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_arithmetic(dtype: DType) -> None:
    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        return [ir.neg(x), ir.add(x, y), ir.sub(x, y), ir.mul(x, y), ir.div(x, y)]

    native = Native(make([f"{dtype}[N]"] * 2, build))
    assert_all_native(native)
    x, y = numbers(dtype, 80)[7:], numbers(dtype, 80)[::-1][:73]
    y[:4] = [1, 1j, -2, complex(3, 3)]
    for actual, expected in zip(native(x, y), native.interpreted(x, y), strict=True):
        assert_near_numbers(actual, expected)


@pytest.mark.parametrize("scale", [1e30, 1e-30])
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_division_by_extreme_numbers_overflows_nothing(dtype: DType, scale: float) -> None:
    native = Native(make([f"{dtype}[N]"] * 2, lambda ir, x, y: ir.div(x, y)))
    x, y = numbers(dtype, 80, scale=scale)[7:], numbers(dtype, 80, scale=scale)[::-1][:73]
    assert_near_numbers(native(x, y)[0], native.interpreted(x, y)[0])


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_division_by_zero_divides_both_parts(dtype: DType) -> None:
    native = Native(make([f"{dtype}[N]"] * 2, lambda ir, x, y: ir.div(x, y)))
    x, zero = np.array([1 - 2j, 0, -1, 3j], dtype.numpy), np.zeros(4, dtype.numpy)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(native(x, zero)[0], native.interpreted(x, zero)[0])


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_comparisons_are_by_the_real_part_then_by_the_imaginary_one(dtype: DType) -> None:
    names = ("equal", "less", "less_equal")
    native = Native(make([f"{dtype}[N]"] * 2, lambda ir, x, y: [ir.binary(name, x, y) for name in names]))
    assert_all_native(native)
    odd = [1 + 2j, 1 - 2j, 2 + 1j, 0, complex(0.0, -0.0), complex(np.nan, 0), complex(0, np.nan), complex(-np.inf, 1)]
    x, y = (np.ascontiguousarray(side).reshape(-1) for side in np.meshgrid(odd, odd))
    native.check(x.astype(dtype.numpy), y.astype(dtype.numpy))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_updates_are_added(dtype: DType) -> None:
    native = Native(
        make([f"{dtype}[5]", "i64[4]", f"{dtype}[4]"], lambda ir, *given: ir.scatter_along(*given, 0, "add"))
    )
    assert_all_native(native)
    x, indices, updates = np.zeros(5, dtype.numpy), np.array([1, 3, 1, 0]), np.array([1, 1j, 2 - 1j, 4], dtype.numpy)
    assert native(x, indices, updates)[0].tolist() == [4, 3 - 1j, 0, 1j, 0]
