"""Scans and concatenations by the interpreter."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F32, I8, I64, DType
from onnxc.compiler.ir.module import Value
from tests.codegen_gpu.support import Device, make, precision, sample


@pytest.mark.parametrize("dtype", [F32, BF16, I64, I8], ids=str)
def test_scans(dtype: DType) -> None:
    kinds = ("sum", "prod", "max", "min") if dtype in (F32, I8) else ("sum",)

    def build(ir: Builder, x: Value) -> list[Value]:
        return [
            ir.scan_axis(x, kind, axis, exclusive, reverse)
            for kind in kinds
            for axis in (0, 1)
            for exclusive in (False, True)
            for reverse in (False, True)
        ]

    for types in ([f"{dtype}[N, M]"], [f"{dtype}[3, 7]"]):
        device = Device(make(types, build))
        device.check(sample(dtype, 3, 7), bound=4 * precision(dtype))
    device = Device(make([f"{dtype}[N, M]"], lambda ir, x: ir.scan_axis(x, "sum", 1, False, False)))
    for shape in [(0, 3), (3, 0), (2, 1100)]:
        device.check(sample(dtype, *shape), bound=8 * precision(dtype))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_counted_is_compared_where_it_is_scanned(exclusive: bool, reverse: bool) -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.scan_axis(ir.cast(ir.less(0.0, x), I64), "sum", 0, exclusive, reverse)

    device = Device(make(["f32[N]"], build))
    assert {kernel.kind for kernel in device.plan.kernels} == {"scan"}
    # None, one, some in a tile, more than a tile, and lines that programs share.
    for size in (0, 1, 7, 1100, 70000):
        device.check(sample(F32, size))


def test_a_long_chain_before_a_scan_is_computed_once() -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.scan_axis(ir.mul(ir.exp(x), ir.exp(ir.neg(x))), "sum", 0, False, False)

    device = Device(make(["f32[N]"], build))
    assert {kernel.kind for kernel in device.plan.kernels} == {"pointwise", "scan"}
    for size in (0, 1, 1100):
        device.check(sample(F32, size), bound=1e-4)


def test_nan_stays_in_scans() -> None:
    device = Device(make(["f32[9]"], lambda ir, x: ir.scan_axis(x, "max", 0, False, False)))
    x = sample(F32, 9)
    x[4] = np.nan
    device.check(x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concatenations(axis: int) -> None:
    def build(ir: Builder, x: Value, y: Value, z: Value) -> Value:
        return ir.concatenate([x, ir.mul(y, 2.0), z], axis)

    def shape(size: int | str) -> str:
        return "f32[" + ", ".join(str(size) if place == axis else "3" for place in range(3)) + "]"

    device = Device(make([shape("N"), shape("M"), shape(2)], build))
    for n, m in [(1, 4), (0, 3), (5, 0), (40, 300)]:
        sizes = [tuple(size if place == axis else 3 for place in range(3)) for size in (n, m, 2)]
        device.check(*(sample(F32, *size) for size in sizes))
    fixed = Device(make([shape(1), shape(4), shape(2)], build))
    fixed.check(*(sample(F32, *(size if place == axis else 3 for place in range(3))) for size in (1, 4, 2)))
