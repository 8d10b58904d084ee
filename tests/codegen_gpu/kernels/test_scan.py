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
