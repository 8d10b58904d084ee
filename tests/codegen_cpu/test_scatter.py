"""Scatters: every kind, duplicates in order, any number of ranges, and indices that are out of range."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BF16, BOOL, C64, C128, F16, F32, F64, I8, I64, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target
from onnxc.runtime.errors import InputError
from onnxc.runtime.load import make_executable
from tests.codegen_cpu.support import EVERY_TARGET, HOST, Native, assert_near, make, precision, sample

KINDS = ("set", "add", "mul", "min", "max")
N, M, K = (Size.symbol(name) for name in "NMK")

# (shape of the data, shape of the indices)
ALONG = [((2, 3, 5), (2, 3, 5)), ((4, 5, 40), (4, 5, 33)), ((4, 5, 40), (1, 2, 3)), ((1, 1, 1), (1, 1, 1)),
         ((2, 3, 5), (0, 3, 5)), ((2, 3, 5), (2, 3, 0))]  # fmt: skip
ND = [((2, 3, 5), (2, 3)), ((4, 5, 40), (2, 1)), ((1, 1, 1), (1, 1)), ((2, 3, 5), (0, 3)), ((2, 3, 5), (9, 1))]


def _along(dtype: DType, axis: int, target: Target = HOST) -> Native:
    def build(ir: Builder, x: Value, i: Value, u: Value) -> list[Value]:
        onto_zeros = ir.scatter_along(ir.full((N, M, K), 0, dtype), i, u, axis, "add")
        computed = ir.scatter_along(
            ir.max(x, u.dtype.is_bool), ir.wrap_negative(i, x.shape[axis]), ir.min(u, 1), axis, "set"
        )
        return [*(ir.scatter_along(x, i, u, axis, kind) for kind in KINDS), onto_zeros, computed]

    types = [f"{dtype}[N, M, K]", "i64[A, B, C]", f"{dtype}[A, B, C]"]
    return Native(make(types, build), target)


def _indices(limits: tuple[int, ...], *shape: int) -> np.ndarray:
    """Coordinate tuples within the limits, in the last axis."""
    random = np.random.default_rng(shape)
    return np.stack([random.integers(0, limit, shape) for limit in limits], -1)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("axis", range(3))
def test_updates_along_an_axis(axis: int, target: Target) -> None:
    native = _along(F32, axis, target)
    for shape, count in [*ALONG, ((300, 20, 50), (30, 2, 3)), ((30, 20, 50), (30, 20, 50))]:
        indices = _indices((shape[axis],), *count)[..., 0]
        native.check(sample(F32, *shape), indices, sample(F32, *count, seed=1), bound=1e-6)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F64, F16, BF16, I64, I8, U8, BOOL], ids=str)
def test_element_types_along_an_axis(dtype: DType, target: Target) -> None:
    for axis in range(3):
        native = _along(dtype, axis, target)
        for shape, count in ALONG:
            indices = _indices((shape[axis],), *count)[..., 0]
            native.check(sample(dtype, *shape), indices, sample(dtype, *count, seed=1), bound=2 * precision(dtype))


def _nd(dtype: DType, depth: int, target: Target = HOST) -> Native:
    def build(ir: Builder, x: Value, i: Value, u: Value) -> list[Value]:
        onto_zeros = ir.scatter_nd(ir.full((N, M, K), 0, dtype), i, u, "add")
        return [*(ir.scatter_nd(x, i, u, kind) for kind in KINDS), onto_zeros]

    rest = "".join(f", {name}" for name in "NMK"[depth:])
    types = [f"{dtype}[N, M, K]", f"i64[A, B, {depth}]", f"{dtype}[A, B{rest}]"]
    return Native(make(types, build), target)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("depth", range(4))
def test_updates_of_slices_and_elements(depth: int, target: Target) -> None:
    native = _nd(F32, depth, target)
    for shape, count in [*ND, ((300, 20, 50) if depth else (3, 2, 5), (3, 2))]:
        indices = _indices(shape[:depth], *count) if depth else np.zeros((*count, 0), np.int64)
        native.check(sample(F32, *shape), indices, sample(F32, *count, *shape[depth:], seed=1), bound=1e-6)


@pytest.mark.parametrize("dtype", [F64, F16, BF16, I64, I8, U8, BOOL], ids=str)
def test_element_types_of_slices(dtype: DType) -> None:
    for depth in (1, 3):
        native = _nd(dtype, depth)
        for shape, count in ND[:4]:
            updates = sample(dtype, *count, *shape[depth:], seed=1)
            native.check(sample(dtype, *shape), _indices(shape[:depth], *count), updates, bound=2 * precision(dtype))


def test_of_updates_to_one_element_the_last_stays() -> None:
    native = Native(make(["f32[N]", "i64[K, 1]", "f32[K]"], lambda ir, x, i, u: ir.scatter_nd(x, i, u, "set")))
    updates = np.arange(100, dtype=np.float32)
    (found,) = native(np.zeros(3, np.float32), np.ones((100, 1), np.int64), updates)
    assert_near(found, np.array([0, 99, 0], np.float32))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [I64, F32, F16, U8, C64, C128], ids=str)
def test_of_updates_to_one_element_of_a_line_the_last_stays(dtype: DType, target: Target) -> None:
    native = Native(
        make([f"{dtype}[N]", "i64[K]", f"{dtype}[K]"], lambda ir, x, i, u: ir.scatter_along(x, i, u, 0, "set")), target
    )
    indices = np.tile([1, 1, 4, 0, 4], 21)
    (found,) = native(np.zeros(5, dtype.numpy), indices, np.arange(len(indices)).astype(dtype.numpy))
    assert_near(found, np.array([103, 101, 0, 0, 104], dtype.numpy))


def test_an_index_that_is_out_of_range_is_clamped_and_reported() -> None:
    native = Native(make(["f32[N]", "i64[K, 1]", "f32[K]"], lambda ir, x, i, u: ir.scatter_nd(x, i, u, "set")))
    (found,) = native(np.zeros(3, np.float32), np.array([[0], [7], [-1]], np.int64), np.array([1, 2, 3], np.float32))
    assert_near(found, np.array([3, 0, 2], np.float32))
    assert native.status[:4].tolist() in ([1, 0, 7, 3], [1, 0, -1, 3])


@pytest.mark.parametrize("kind", ["set", "add"])
@pytest.mark.parametrize("size", ["N", "0"])
def test_nothing_is_written_into_an_empty_axis(kind: str, size: str) -> None:
    """There is no element that an index could be clamped to; beside the empty result the caller has other values."""

    def along(ir: Builder, x: Value, i: Value, u: Value) -> Value:
        return ir.scatter_along(x, ir.reshape(i, u.shape), u, 0, kind)

    def elements(ir: Builder, x: Value, i: Value, u: Value) -> Value:
        return ir.scatter_nd(x, i, u, kind)

    for build in (along, elements):
        executable = make_executable(Native(make([f"f32[{size}]", "i64[K, 1]", "f32[K]"], build)).artifact)
        around = np.arange(8, dtype=np.float32)
        inputs = {"x0": np.zeros(0, np.float32), "x1": np.zeros((2, 1), np.int64), "x2": np.full(2, 99, np.float32)}
        with pytest.raises(InputError, match="index 0 is outside of an axis of size 0"):
            executable.run(inputs, out={"y0": around[4:4]})
        np.testing.assert_array_equal(around, np.arange(8))


@pytest.mark.parametrize("rows", [0, 4])
@pytest.mark.parametrize(("sizes", "rest"), [("M", (0,)), ("0", (0,)), ("3, M", (3, 0)), ("3, 0", (3, 0))])
def test_no_index_of_slices_without_elements_is_looked_at(sizes: str, rest: tuple[int, ...], rows: int) -> None:
    types = [f"f32[N, {sizes}]", "i64[K, 1]", f"f32[K, {sizes}]"]
    executable = make_executable(Native(make(types, lambda ir, x, i, u: ir.scatter_nd(x, i, u, "set"))).artifact)
    data, updates = np.zeros((rows, *rest), np.float32), np.zeros((2, *rest), np.float32)
    found = executable.run({"x0": data, "x1": np.array([[9], [-9]]), "x2": updates})["y0"]
    assert np.asarray(found).shape == data.shape


def test_rows_of_a_cache_are_written_within_one_kernel() -> None:
    """What TensorScatter and the caches of decoders become: the index is the same along the last axis."""

    def build(ir: Builder, cache: Value, update: Value, start: Value) -> Value:
        places = ir.add(ir.iota(update.shape, 2, I64), ir.broadcast(start, (0,), update.shape))
        return ir.scatter_along(cache, places, update, 2, "set")

    native = Native(make(["f32[B, 4, T, 32]", "f32[B, 4, S, 32]", "i64[B]"], build))
    assert native.kernels() == ["scatter"]
    for batch, length, count in [(2, 9, 3), (1, 1, 1), (3, 5, 0)]:
        starts = np.arange(batch, dtype=np.int64) % (length - count + 1)
        native.check(sample(F32, batch, 4, length, 32), sample(F32, batch, 4, count, 32, seed=1), starts)
