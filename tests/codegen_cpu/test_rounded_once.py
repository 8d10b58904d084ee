"""Products and sums that are written in f64 and rounded once in f32: one instruction where there is one."""

from collections.abc import Sequence
from math import inf, nan

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.rounded_once import rounded_once
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make

TYPES = {
    "f32": np.float32, "f16": np.float16, "f64": np.float64, "u8": np.uint8, "i8": np.int8, "i16": np.int16,
    "i32": np.int32,
}  # fmt: skip
ODD = np.array([0.0, -0.0, inf, -inf, nan, 3e38, 1e-45, 1.0], np.float32)


def multiply_add(ir: Builder, x: Value, y: Value, z: Value) -> Value:
    wide = ir.add(ir.mul(ir.cast(x, F64), ir.cast(y, F64)), ir.cast(z, F64))
    return ir.cast(wide, F32)


def expected(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (x.astype(np.float64) * y + z).astype(np.float32)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (70,)])
def test_a_sum_of_a_product_is_rounded_once(target: Target, dtype: str, shape: tuple[int, ...]) -> None:
    sizes = ", ".join(map(str, shape))
    native = Native(make([f"{dtype}[{sizes}]", f"f32[{sizes}]", f"f32[{sizes}]"], multiply_add), target)
    random = np.random.default_rng(5)
    x = np.asarray(random.normal(0, 50, shape)).astype(np.int8).astype(TYPES[dtype])
    y, z = (np.asarray(random.normal(0, 3, shape)).astype(np.float32) for _ in range(2))
    (got,) = native(x, y, z)
    np.testing.assert_array_equal(got, expected(x, y, z), strict=True)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_odd_numbers(target: Target) -> None:
    x, y, z = (each.ravel() for each in np.meshgrid(ODD, ODD, ODD))
    native = Native(make([f"f32[{x.size}]"] * 3, multiply_add), target)
    (got,) = native(x, y, z)
    wanted = expected(x, y, z)
    np.testing.assert_array_equal(got, wanted, strict=True)
    np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


def is_rounded_once(types: Sequence[str], factor: float) -> bool:
    def build(ir: Builder, x: Value, z: Value) -> Value:
        return ir.cast(ir.add(ir.cast(z, F64), ir.mul(ir.cast(x, F64), factor)), F32)

    return rounded_once(make(types, build).main.body.results[0]) is not None


def test_f32_is_to_hold_what_is_multiplied_and_added() -> None:
    assert is_rounded_once(["u8[5]", "f32[5]"], 0.25)
    assert not is_rounded_once(["u8[5]", "f32[5]"], 0.1)
    assert not is_rounded_once(["i32[5]", "f32[5]"], 0.25)
    assert not is_rounded_once(["u8[5]", "f64[5]"], 0.25)
