"""Reductions by the interpreter: every set of axes, rows that fit a tile and rows that do not, normalisations."""

from itertools import combinations

import numpy as np
import pytest

from compiler.ir.builder import Builder
from compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from compiler.ir.module import Value
from tests.codegen_gpu.support import Device, make, odd_values, precision, sample

SHAPES = [(2, 3, 5), (0, 2, 3), (2, 3, 0), (1, 70, 2)]
AXES = [axes for count in (1, 2, 3) for axes in combinations(range(3), count)]


def _kinds(dtype: DType) -> tuple[str, ...]:
    if dtype.is_bool:
        return ("and", "or")
    # The interpreter takes products number by number.
    return ("sum", "prod", "min", "max") if dtype in (F32, I8) else ("sum", "max")


@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64, I64, I32, I8, U8, BOOL], ids=str)
def test_folds_over_every_set_of_axes(dtype: DType) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.reduce(x, kind, axes) for kind in _kinds(dtype) for axes in AXES]

    symbolic = Device(make([f"{dtype}[N, M, K]"], build))
    assert set(symbolic.kernels()) == {"reduction"}
    for shape in SHAPES:
        x = sample(dtype, *shape)
        near_one = x if not dtype.is_float else (1 + x / 16).astype(dtype.numpy)
        symbolic.check(near_one, bound=4 * precision(dtype))
    for shape in [(2, 3, 5), (3, 5, 33), (1, 1, 1)]:
        x = sample(dtype, *shape)
        near_one = x if not dtype.is_float else (1 + x / 16).astype(dtype.numpy)
        Device(make([f"{dtype}[{', '.join(map(str, shape))}]"], build)).check(near_one, bound=4 * precision(dtype))


@pytest.mark.parametrize("dtype", [F32, F16, I8, I64], ids=str)
@pytest.mark.parametrize("sizes", ["N, M", "20, 21"])
def test_folds_at_the_ends_of_a_type(dtype: DType, sizes: str) -> None:
    kinds = ("min", "max") if dtype.is_float else ("min", "max", "sum")

    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.reduce(x, kind, axes) for kind in kinds for axes in ((0,), (1,), (0, 1))]

    Device(make([f"{dtype}[{sizes}]"], build)).check(np.resize(odd_values(dtype), (20, 21)))


@pytest.mark.parametrize("sizes", ["N, M", "5, 40", "5, 9000"])
@pytest.mark.parametrize("last", [False, True])
def test_places_of_extrema(sizes: str, last: bool) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.arg_reduce(x, kind, axis, last) for kind in ("min", "max") for axis in (0, 1)]

    device = Device(make([f"f32[{sizes}]"], build))
    shape = (5, int(sizes.split(", ")[1])) if sizes[0] == "5" else (5, 40)
    x = np.round(sample(F32, *shape) * 2)
    device.check(x)
    x[1, 3], x[1, 30], x[2, :] = np.nan, np.nan, np.inf
    device.check(x)


@pytest.mark.parametrize("shape", ["N, M", "7, 33", "3, 768", "2, 9000"])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_normalisations(shape: str, dtype: DType) -> None:
    def build(ir: Builder, x: Value, scale: Value, bias: Value) -> list[Value]:
        shifted = ir.mul(x, 2.0)
        return [
            ir.softmax(shifted, 1),
            ir.log_softmax(x, 1),
            ir.softmax(x, 0),
            ir.layer_norm(ir.add(x, 1.0), scale, bias, 1, 1e-5),
            ir.gelu(ir.rms_norm(x, scale, 1, 1e-6)),
        ]

    columns = shape.split(", ")[1]
    device = Device(make([f"{dtype}[{shape}]", f"{dtype}[{columns}]", f"{dtype}[{columns}]"], build))
    for rows, width in [(5, 40), (1, 1), (3, 1100)] if columns == "M" else [tuple(map(int, shape.split(", ")))]:
        arrays = sample(dtype, rows, width), sample(dtype, width, seed=1), sample(dtype, width, seed=2)
        device.check(*arrays, bound=4 * precision(dtype))


def test_masked_softmax_of_rows_without_anything() -> None:
    device = Device(make(["f32[N, M]"], lambda ir, x: ir.softmax(x, 1)))
    x = sample(F32, 4, 9)
    x[1] = -np.inf
    x[2, 3] = np.nan
    device.check(x, bound=1e-6)


def test_what_follows_a_fold() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        mean = ir.div(ir.reduce(x, "sum", (1, 2), keepdims=True), 12.0)
        return [ir.sqrt(ir.add(ir.reduce(ir.mul(x, x), "sum", (1, 2)), 1.0)), ir.mul(mean, 3.0), ir.sub(x, mean)]

    Device(make(["f32[N, 3, 4]"], build)).check(sample(F32, 6, 3, 4), bound=1e-6)
    Device(make(["f32[6, 3, 4]"], build)).check(sample(F32, 6, 3, 4), bound=1e-6)
