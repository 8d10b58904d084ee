"""Gathers, scatters and orderings by the interpreter: equal indices, indices outside, ties, NaN, empty axes."""

from collections.abc import Callable

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


@pytest.mark.parametrize(
    ("kind", "dtype"), [(kind, F32) for kind in ("set", "add", "mul", "min", "max")] + [("add", BF16), ("add", I8)]
)
def test_many_updates_meet_their_rows_in_order(kind: str, dtype: DType) -> None:
    """To the last bit: of updates of one element the order shows in the sum, in bf16 also that none is rounded."""
    device = Device(make([f"{dtype}[50, 3]", "i64[200, 1]", f"{dtype}[200, 3]"], _scatter(kind)))
    assert len(device.code(0).steps) == (3 if kind == "set" else 6)
    data, updates = sample(dtype, 50, 3), sample(dtype, 200, 3, seed=1)
    updates[3, 1] = 0
    if dtype.is_float:
        updates[7, 0], updates[8, 0], updates[9, 0] = np.nan, -np.inf, -0.0
    indices = np.random.default_rng(5).integers(1, 50, (200, 1))
    indices[90:150] = 7
    device.check(data, indices, updates)


def _scatter(kind: str) -> Callable[..., Value]:
    return lambda ir, x, i, u: ir.scatter_nd(x, i, u, kind)


@pytest.mark.parametrize("kind", ["set", "add"])
def test_calls_with_few_and_with_many_updates(kind: str) -> None:
    device = Device(make(["f32[N, M, 2]", "i64[U, 2]", "f32[U, 2]"], _scatter(kind)))
    for updates in (65,) if kind == "add" else (0, 1, 64, 65, 1030):
        indices = np.random.default_rng(5).integers(0, 20, (updates, 2))
        device.check(sample(F32, 20, 21, 2), indices, sample(F32, updates, 2))
    device(sample(F32, 5, 20, 2), np.full((70, 2), 5), sample(F32, 70, 2))
    assert device.status[0] == 1
    device.check(sample(F32, 0, 3, 2), np.zeros((70, 2), np.int64), sample(F32, 70, 2), reports=True)


@pytest.mark.parametrize("kind", ["set", "add"])
@pytest.mark.parametrize(("axis", "shape"), [(0, (70, 3)), (1, (3, 70))])
def test_many_updates_along_an_axis(axis: int, shape: tuple[int, int], kind: str) -> None:
    types = ["f32[4, 100]", "i64[3, 70]", "f32[3, 70]"] if axis else ["f32[100, 4]", "i64[70, 3]", "f32[70, 3]"]
    device = Device(make(types, lambda ir, x, i, u: ir.scatter_along(x, i, u, axis, kind)))
    assert len(device.code(0).steps) > 1
    indices = np.random.default_rng(3).integers(0, 100, shape)
    device.check(sample(F32, *((4, 100) if axis else (100, 4))), indices, sample(F32, *shape))


@pytest.mark.parametrize("kind", ["set", "add"])
def test_many_updates_of_one_element(kind: str) -> None:
    for depth in (0, 1):
        device = Device(make(["f32[1]", f"i64[70, {depth}]", f"f32[70{', 1' if not depth else ''}]"], _scatter(kind)))
        updates = sample(F32, 70, 1) if not depth else sample(F32, 70)
        device.check(sample(F32, 1), np.zeros((70, depth), np.int64), updates)


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
