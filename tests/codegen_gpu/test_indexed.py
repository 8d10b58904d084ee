"""Gathers, scatters and orderings by the interpreter: equal indices, indices outside, ties, NaN, empty axes."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F32, I8, I64, DType
from onnxc.compiler.ir.module import Value
from tests.codegen_gpu.support import Device, make, odd_values, precision, sample


def test_gathers() -> None:
    def build(ir: Builder, x: Value, along: Value, places: Value) -> list[Value]:
        return [ir.gather_along(ir.mul(x, 2.0), along, 1), ir.gather_nd(x, places, 0)]

    device = Device(make(["f32[N, M]", "i64[N, 2]", "i64[4, 2]"], build))
    along, places = np.array([[0, 2], [1, 1], [2, 0]]), np.array([[0, 0], [2, 2], [1, 0], [2, 1]])
    device.check(sample(F32, 3, 3), along, places)
    device(sample(F32, 3, 3), along, places + 2)
    assert device.status[0] == 1


def test_nothing_is_read_of_an_axis_that_is_empty() -> None:
    def build(ir: Builder, x: Value, i: Value, y: Value) -> Value:
        return ir.add(ir.gather(x, i, 0), y)

    arrays = np.zeros((0, 4), np.float32), np.zeros(3, np.int64), sample(F32, 3, 4)
    for sizes in ("0", "M"):
        device = Device(make([f"f32[{sizes}, 4]", "i64[N]", "f32[N, 4]"], build))
        (found,) = device(*arrays)
        np.testing.assert_array_equal(found, arrays[2])
        assert device.status[0] == 1


@pytest.mark.parametrize("kind", ["set", "add", "mul", "min", "max"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatters_along_an_axis(kind: str, axis: int) -> None:
    def build(ir: Builder, x: Value, i: Value, u: Value) -> Value:
        return ir.scatter_along(x, i, u, axis, kind)

    indices = np.random.default_rng(3).integers(0, 3, (3, 5))
    for types in (["f32[N, M]", "i64[K, L]", "f32[K, L]"], ["f32[4, 6]", "i64[3, 5]", "f32[3, 5]"]):
        Device(make(types, build)).check(sample(F32, 4, 6), indices, sample(F32, 3, 5), bound=1e-6)


@pytest.mark.parametrize("dtype", [F32, BF16, I64], ids=str)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatters_of_slices(depth: int, dtype: DType) -> None:
    def build(ir: Builder, x: Value, i: Value, u: Value) -> list[Value]:
        return [ir.scatter_nd(x, i, u, kind) for kind in ("set", "add")]

    rest = "".join(f", {size}" for size in (4, 3, 5)[depth:])
    device = Device(make([f"{dtype}[4, 3, 5]", f"i64[U, {depth}]", f"{dtype}[U{rest}]"], build))
    for count in (0, 1, 6):
        indices = np.random.default_rng(5).integers(0, 3, (count, depth))
        arrays = sample(dtype, 4, 3, 5), indices, sample(dtype, count, *(4, 3, 5)[depth:])
        device.check(*arrays, bound=4 * precision(dtype))
    device(sample(dtype, 4, 3, 5), np.full((1, depth), 7), sample(dtype, 1, *(4, 3, 5)[depth:]))
    assert device.status[0] == 1


@pytest.mark.parametrize("dtype", [F32, I8, BF16], ids=str)
def test_sorts_keep_the_order_of_equals(dtype: DType) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [result for axis in (0, 1) for down in (False, True) for result in ir.sort(x, axis, down)]

    x = np.resize(odd_values(dtype), (7, 40))
    Device(make([f"{dtype}[N, M]"], build)).check(x)
    Device(make([f"{dtype}[7, 40]"], build)).check(x)
    Device(make([f"{dtype}[N, M]"], build)).check(x[:0])


def test_the_greatest_and_the_least() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [result for largest in (True, False) for result in ir.top_k(x, 5, 1, largest)]

    device = Device(make(["f32[N, M]"], build))
    device.check(np.round(sample(F32, 3, 70)))
    values_only = Device(make(["f32[N, 33]"], lambda ir, x: ir.top_k(x, 3, 1, True)[0]))
    values_only.check(sample(F32, 2, 33))
