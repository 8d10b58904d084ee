"""Movement within kernels: transposes, slices, broadcasts, reshapes, padding, concatenation and picked elements."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.emit import kernel_pieces
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, BOOL, C64, C128, F16, F32, F64, I8, I64, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import PointwiseSchedule
from onnxc.compiler.target import Target, parse_target
from tests.codegen_cpu.support import EVERY_TARGET, NATIVE, Native, assert_near, make, sample

N, K, M = Size.symbol("N"), Size.symbol("K"), Size.symbol("M")

# What is built from x: T[N, M, 6].
MOVEMENTS: dict[str, Callable[[Builder, Value], Value]] = {
    "transpose": lambda ir, x: ir.transpose(x, (2, 0, 1)),
    "transpose outer": lambda ir, x: ir.transpose(x, (1, 0, 2)),
    "reverse": lambda ir, x: ir.reverse(x, 2),
    "reverse outer": lambda ir, x: ir.reverse(x, 0),
    "every other": lambda ir, x: ir.slice(x, (0, 0, 1), (N, M, 3), (1, 1, 2)),
    "backwards by two": lambda ir, x: ir.slice(x, (0, 0, 5), (N, M, 3), (1, 1, -2)),
    "transposed slice": lambda ir, x: ir.slice(ir.transpose(x, (2, 1, 0)), (1, 0, 0), (4, M, N), (1, 1, 1)),
    "flat": lambda ir, x: ir.reshape(x, (N * M * 6,)),
    "flat transpose": lambda ir, x: ir.reshape(ir.transpose(x, (2, 0, 1)), (6, N * M)),
    "split axis": lambda ir, x: ir.transpose(ir.reshape(x, (N, M, 2, 3)), (3, 0, 2, 1)),
    "new axes": lambda ir, x: ir.unsqueeze(x, (0, 2)),
    "repeated": lambda ir, x: ir.broadcast(x, (0, 2, 3), (N, 2, M, 6)),
    "repeated last": lambda ir, x: ir.broadcast(x, (0, 1, 2), (N, M, 6, 3)),
    "row repeated": lambda ir, x: ir.broadcast_to(ir.slice(x, (0, 0, 2), (N, M, 1), (1, 1, 1)), (N, M, 6)),
    "padded": lambda ir, x: ir.pad(x, (0, 1, 2), (1, 0, 3), 5.0),
    "padded by sizes": lambda ir, x: ir.pad(x, (M, 0, 0), (0, N, 0), 1.0),
    "padded transpose": lambda ir, x: ir.pad(ir.transpose(x, (2, 1, 0)), (1, 1, 1), (1, 1, 1), -1.0),
    "padded twice": lambda ir, x: ir.pad(ir.pad(x, (0, 0, 1), (0, 0, 0), 2.0), (0, 0, 1), (1, 0, 1), 3.0),
    "repeated and padded": lambda ir, x: ir.pad(
        ir.broadcast_to(ir.slice(x, (0, 0, 0), (N, M, 1), (1, 1, 1)), (N, M, 9)), (2, 1, 1), (2, 1, 1), 0.5
    ),
    "slice of padding": lambda ir, x: ir.slice(ir.pad(x, (1, 0, 4), (0, 0, 4), 7.0), (0, 0, 0), (1, M, 3), (1, 1, 1)),
    "concatenated": lambda ir, x: ir.concatenate([x, x, ir.reverse(x, 0)], 0),
    "concatenated inside": lambda ir, x: ir.concatenate([ir.mul(x, 2.0), x], 1),
    "concatenated last": lambda ir, x: ir.concatenate([x, ir.slice(x, (0, 0, 1), (N, M, 1), (1, 1, 1)), x], 2),
}  # fmt: skip

SHAPES = [(2, 3, 6), (1, 1, 6), (0, 3, 6), (5, 0, 6), (3, 40, 6)]


# What is built from x: T[m, n] whose rows may be long.
PADDED_ROWS: dict[str, Callable[[Builder, Value, Dim, Dim], Value]] = {
    "both ends": lambda ir, x, m, n: ir.pad(x, (1, 2), (0, 3), 5.0),
    "wide ends": lambda ir, x, m, n: ir.pad(x, (0, 40), (1, 70), 5.0),
    "one end": lambda ir, x, m, n: ir.pad(x, (0, 0), (0, 1), 5.0),
    "rows outside": lambda ir, x, m, n: ir.pad(x, (3, 17), (m + 2, 15), 5.0),
    "of what is computed": lambda ir, x, m, n: ir.pad(ir.abs(x), (1, 2), (0, 1), -1.0),
    "by sizes": lambda ir, x, m, n: ir.pad(x, (0, m), (0, n), 5.0),
    "twice": lambda ir, x, m, n: ir.pad(ir.abs(ir.pad(x, (0, 3), (0, 1), -2.0)), (1, 1), (0, 2), 3.0),
    "shifted sums": lambda ir, x, m, n: ir.add(ir.pad(x, (0, 5), (1, 0), 1.0), ir.pad(x, (1, 0), (0, 5), 2.0)),
    "a part": lambda ir, x, m, n: ir.slice(ir.pad(x, (0, 4), (0, 4), 7.0), (0, 2), (m, n + 1), (1, 1)),
    "no inner columns": lambda ir, x, m, n: ir.add(
        ir.pad(x, (0, 0), (0, n), 1.0), ir.abs(ir.pad(x, (0, n), (0, 0), 2.0))
    ),
    "backwards": lambda ir, x, m, n: ir.reverse(ir.pad(x, (0, 1), (0, 2), 4.0), 1),
    "along both axes": lambda ir, x, m, n: _with_its_transpose(
        ir, ir.pad(ir.slice(ir.abs(x), (0, 0), (1, n), (1, 1)), (0, 1), (n + 1, 1), 3.0)
    ),
    "new axis": lambda ir, x, m, n: ir.pad(ir.reshape(x, (m, 1, n)), (1, 0, 2), (0, 1, 1), 6.0),
    "flat": lambda ir, x, m, n: ir.pad(
        ir.reshape(ir.pad(x, (0, 1), (0, 2), 4.0), (m * (n + 3),)), (9,), (8,), 6.0
    ),
}  # fmt: skip


def _with_its_transpose(ir: Builder, x: Value) -> Value:
    """x + x^T of a square x."""
    return ir.add(x, ir.transpose(x, (1, 0)))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, BF16, I8], ids=str)
@pytest.mark.parametrize("length", ["N", "9", "70"])
def test_paddings_along_rows(dtype: DType, target: Target, length: str) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [padding(ir, x, *x.shape) for padding in PADDED_ROWS.values()]

    native = Native(make([f"{dtype}[M, {length}]"], build), target)
    lengths = (0, 1, 2, 7, 8, 31, 33, 100) if length == "N" else (int(length),)
    for shape in [(rows, columns) for rows in (1, 3) for columns in lengths]:
        x = sample(dtype, *shape)
        for name, found, wanted in zip(PADDED_ROWS, native(x), native.interpreted(x), strict=True):
            assert found.tobytes() == wanted.tobytes(), f"{name} of {shape}"
            assert found.shape == wanted.shape, f"{name} of {shape}"


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, BF16, I8, BOOL], ids=str)
def test_movements(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [movement(ir, x) for movement in MOVEMENTS.values()]

    native = Native(make([f"{dtype}[N, M, 6]"], build), target)
    for shape in SHAPES:
        x = sample(dtype, *shape)
        for name, found, wanted in zip(MOVEMENTS, native(x), native.interpreted(x), strict=True):
            assert found.tobytes() == wanted.tobytes(), f"{name} of {shape}"
            assert found.shape == wanted.shape, f"{name} of {shape}"


@pytest.mark.parametrize("name", [name for name in MOVEMENTS if not name.startswith("concatenated")])
def test_a_movement_within_pointwise_ops_is_no_kernel_of_its_own(name: str) -> None:
    native = Native(make(["f32[N, M, 6]"], lambda ir, x: ir.add(ir.neg(MOVEMENTS[name](ir, ir.abs(x))), 1.0)))
    # A reshape that mixes axes reads memory.
    assert len(native.kernels()) == (2 if name in ("flat", "flat transpose", "split axis") else 1)
    for shape in SHAPES:
        native.check(sample(F32, *shape))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 1), (1, 1)), ((1, 1), (3, 20)), ((3, 20), (1, 1)), ((3, 1), (1, 20)), ((1, 20), (3, 1)),
        ((3, 20), (3, 20)),
        ((0, 20), (1, 20)), ((0, 20), (1, 1)), ((3, 0), (1, 1)), ((1, 1), (3, 0)), ((0, 1), (1, 20)), ((0, 1), (1, 0)),
    ],
)  # fmt: skip
def test_a_broadcast_may_be_decided_at_the_call(left: tuple[int, int], right: tuple[int, int]) -> None:
    _undecided().check(sample(F32, *left), sample(F32, *right, seed=1), bound=1e-6)


@cache
def _undecided() -> Native:
    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        return [ir.add(x, y), ir.add(ir.reduce(ir.mul(x, 2.0), "sum", (1,), keepdims=True), y)]

    return Native(make(["f32[N, M]", "f32[A, B]"], build))


def test_iota_and_sizes_are_computed_in_place() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        rows, columns = (ir.iota((N, M), axis, F32) for axis in (0, 1))
        sizes = ir.cast(ir.sizes((N, M, N * M + 1)), F32)
        return [ir.add(ir.mul(x, rows), columns), ir.mul(sizes, 2.0), ir.mul(x, ir.size(M, F32))]

    native = Native(make(["f32[N, M]"], build))
    for shape in [(3, 20), (1, 1), (0, 4), (2, 17)]:
        native.check(sample(F32, *shape))


@pytest.mark.parametrize("dtype", [BF16, I8, BOOL], ids=str)
def test_iota_rounds_and_wraps_as_its_type(dtype: DType) -> None:
    native = Native(make(["bool[N]"], lambda ir, x: ir.iota((N,), 0, dtype)))
    native.check(np.zeros(600, np.bool_))


# Picked elements


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_gathers(target: Target) -> None:
    def build(ir: Builder, data: Value, rows: Value, places: Value) -> list[Value]:
        wrapped = ir.wrap_negative(rows, N)
        pairs = ir.constant(np.array([[0, 1], [0, 0]], np.int64))
        return [
            ir.gather(data, wrapped, 0),
            ir.gather(ir.transpose(data, (1, 0)), wrapped, 1),
            ir.mul(ir.gather(ir.add(data, 1.0), wrapped, 0), 2.0),
            ir.gather(data, ir.constant(np.array([[2, 0], [1, 1]], np.int64)), 1),
            ir.gather(data, ir.constant(np.array(3, np.int64)), 1),
            ir.gather_along(data, places, 1),
            ir.gather_nd(data, pairs),
            ir.reduce(ir.gather(data, wrapped, 0), "sum", (1,)),
        ]

    native = Native(make(["f32[N, 20]", "i64[K]", "i64[N, J]"], build), target)
    for rows, count, picked in [(5, 3, 4), (1, 1, 0), (1, 0, 1), (9, 40, 33)]:
        indices = np.arange(-min(rows, count), count - min(rows, count), dtype=np.int64) % (2 * rows) - rows
        places = np.random.default_rng(0).integers(0, 20, (rows, picked))
        native.check(sample(F32, rows, 20), indices, places, bound=1e-6)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F16, I8, I64], ids=str)
def test_rows_of_several_axes_are_picked_and_joined(dtype: DType, target: Target) -> None:
    """To the bit, and each index is looked at for every row."""

    def build(ir: Builder, x: Value, rows: Value) -> list[Value]:
        moved = ir.transpose(x, (1, 0, 2))
        picked = ir.gather(x, ir.wrap_negative(rows, N), 0)
        return [
            picked,
            ir.gather(x, ir.wrap_negative(rows, M), 1),
            ir.gather(picked, ir.constant(np.array([[1, 0]], np.int64)), 0),
            ir.concatenate([x, ir.slice(x, (1, 0, 0), (1, M, 7)), ir.gather(x, rows, 0)], 0),
            ir.concatenate([x, ir.transpose(moved, (1, 0, 2)), ir.slice(x, (0, 1, 0), (N, 2, 7))], 1),
            ir.concatenate([moved, moved, ir.slice(moved, (0, 0, 1), (M, N, 2))], 2),
        ]

    native = Native(make([f"{dtype}[N, M, 7]", "i64[K]"], build), target)
    for rows, columns in [(2, 3), (5, 40), (3, 1301)]:
        x, indices = signed_sample(dtype, rows, columns, 7), np.array([1, 0, 1], np.int64)
        for found, wanted in zip(native(x, indices), native.interpreted(x, indices), strict=True):
            assert found.tobytes() == wanted.tobytes(), (rows, columns)


@pytest.mark.parametrize("dtype", [F32, BF16, I8, BOOL, I64, C128], ids=str)
def test_long_rows_are_copied(dtype: DType) -> None:
    """Around the length from which memcpy takes them, and at the ends of what there is."""

    def build(ir: Builder, x: Value) -> list[Value]:
        part = ir.slice(x, (1, 1), (N - 1, M - 2))
        return [ir.broadcast(x, (0, 2), (N, 3, M)), ir.reverse(x, 0), part, ir.concatenate([x, ir.reverse(x, 0)], 1)]

    native = Native(make([f"{dtype}[N, M]"], build))
    for bytes_of_row in (64, 4096, 4112, 40000):
        x = signed_sample(dtype, 3, bytes_of_row // dtype.itemsize)
        for found, wanted in zip(native(x), native.interpreted(x), strict=True):
            assert found.tobytes() == wanted.tobytes(), (wanted.shape, bytes_of_row)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16, I8, BOOL, C128], ids=str)
def test_rows_whose_length_only_a_call_knows_end_with_a_vector(dtype: DType, target: Target) -> None:
    """Fewer elements than a vector has, as many, some more; rows of several parts; with the work of several threads."""

    def build(ir: Builder, x: Value) -> list[Value]:
        part = ir.slice(x, (0, 1, 1), (N, K - 1, M - 1), (1, 1, 1))
        return [ir.transpose(x, (1, 0, 2)), part, ir.concatenate([x, part_of_one(ir, x)], 2), ir.mul(part, part)]

    def part_of_one(ir: Builder, x: Value) -> Value:
        return ir.slice(x, (0, 0, 0), (N, K, 1), (1, 1, 1))

    native = Native(make([f"{dtype}[N, K, M]"], build if dtype != BOOL else lambda ir, x: build(ir, x)[:3]), target)
    for n, k, m in [*((3, 5, length) for length in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 60, 65)), (2, 3, 17000)]:
        x = signed_sample(dtype, n, k, m)
        for native.threads in (1, 3):
            for found, wanted in zip(native(x), native.interpreted(x), strict=True):
                assert found.tobytes() == wanted.tobytes(), (wanted.shape, native.threads)


def test_indices_of_an_empty_axis_give_zeros_and_are_reported() -> None:
    native = Native(make(["f32[N, 20]", "i64[K]"], lambda ir, x, i: ir.gather(x, i, 0)))
    assert_near(native(sample(F32, 0, 20), np.zeros(3, np.int64))[0], np.zeros((3, 20), np.float32))
    assert native.status[:4].tolist() == [1, 0, 0, 0]


def test_one_element_is_picked() -> None:
    native = Native(make(["f32[N]", "i64[]"], lambda ir, x, i: [ir.gather(x, i, 0), ir.neg(ir.gather(x, i, 0))]))
    native.check(sample(F32, 5), np.array(3, np.int64))


def test_gather_reads_any_integer_as_an_index() -> None:
    native = Native(make(["bool[5, 3]", "i8[K]"], lambda ir, x, i: ir.gather(x, ir.wrap_negative(i, 5), 0)))
    native.check(sample(BOOL, 5, 3), np.array([-5, 4, 0], np.int8))


def test_a_constant_is_picked_from_the_weights() -> None:
    table = sample(I64, 7, 40)
    native = Native(make(["i64[K]"], lambda ir, i: ir.gather(ir.constant(table), i, 0)))
    native.check(np.array([6, 0, 3], np.int64))


# Around the vectors, squares and tiles of every target and element type.
CROSSED_SHAPES = [(1, 16, 16), (2, 17, 33), (1, 300, 70), (3, 0, 20), (0, 16, 16), (2, 8, 9), (1, 1, 65)]


def schedules(native: Native) -> list[str]:
    return [kernel.scheduled(PointwiseSchedule).algorithm for kernel in native.plan.kernels]


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [*NATIVE, C64, C128], ids=str)
def test_what_crosses_memory_is_turned_in_squares(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.transpose(x, (0, 2, 1)), ir.transpose(x, (2, 1, 0))]

    native = Native(make([f"{dtype}[N, M, K]"], build), target)
    # Columns that may be one have a kernel of their own where what is turned lies further in front.
    assert schedules(native) == (["rows"] * 2 if dtype == C128 else ["squares"] * 3)
    for shape in CROSSED_SHAPES:
        x = signed_sample(dtype, *shape)
        for found, wanted in zip(native(x), native.interpreted(x), strict=True):
            assert found.tobytes() == wanted.tobytes(), shape


def signed_sample(dtype: DType, *shape: int) -> np.ndarray:
    """Numbers that differ from place to place, with a zero that has a sign."""
    x = np.arange(np.prod(shape)).reshape(shape) % 251 * (-1 if dtype.is_float else 1)
    return x.astype(dtype.numpy)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F64, F16, I8], ids=str)
def test_narrow_rows_are_written_from_squares(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        parts = [ir.slice_axis(x, 1, 0, columns) for columns in (8, 9, 16, 35)]
        return [ir.transpose(part, (0, 2, 1)) for part in parts]

    native = Native(make([f"{dtype}[2, 37, N]"], build), target)
    assert schedules(native) == ["squares"] * 4
    for rows in (0, 1, 16, 67):
        x = signed_sample(dtype, 2, 37, rows)
        for found, wanted in zip(native(x), native.interpreted(x), strict=True):
            assert found.tobytes() == wanted.tobytes(), (rows, found.shape)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (2, 3, 5, 1), (1, 2, 30, 40), (3, 0, 2, 2)], ids=str)
def test_elements_are_picked_between_two_transposes(shape: tuple[int, int, int, int], target: Target) -> None:
    images, channels, pixels, picked = shape

    def build(ir: Builder, x: Value, indices: Value) -> Value:
        read = ir.gather_nd(ir.transpose(x, (0, 2, 1)), indices, 1)
        return ir.transpose(read, (0, 2, 1))

    native = Native(make([f"f32[{images}, {channels}, {pixels}]", f"i64[{images}, {picked}, 1]"], build), target)
    x = sample(F32, images, channels, pixels)
    indices = np.random.default_rng(0).integers(0, pixels, (images, picked, 1))
    (found,) = native(x, indices)
    np.testing.assert_array_equal(found, np.take_along_axis(x, indices.reshape(images, 1, picked), 2))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_rows_are_picked_of_pixels_and_turned_behind(target: Target) -> None:
    def build(ir: Builder, x: Value, where: Value) -> Value:
        picked = ir.gather_nd(ir.transpose(x, (0, 2, 3, 1)), where, 1)
        return ir.transpose(ir.abs(picked), (0, 2, 1))

    native = Native(make(["f32[2, 9, H, 11]", "i64[2, N, 2]"], build), target)
    assert schedules(native) == ["squares", "rows", "squares"]
    random = np.random.default_rng(0)
    for height, count in [(1, 1), (5, 40), (3, 0)]:
        native.check(sample(F32, 2, 9, height, 11), random.integers(0, (height, 11), (2, count, 2)))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("shape", ["3, 4, 7, 5", "N, H, W, 5"])
@pytest.mark.parametrize(("count", "kernels"), [(1, 1), (4, 1), (5, 2), (40, 2)])
def test_rows_of_few_channels_are_turned_where_as_many_are_picked(
    count: int, kernels: int, shape: str, target: Target
) -> None:
    def build(ir: Builder, x: Value, where: Value) -> Value:
        return ir.gather(ir.transpose(x, (0, 3, 1, 2)), where, 1)

    native = Native(make([f"u8[{shape}]", f"i64[{count}]"], build), target)
    assert len(native.plan.kernels) == kernels
    native.check(sample(U8, 3, 4, 7, 5), np.random.default_rng(0).integers(0, 5, count))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, I64, I8], ids=str)
def test_what_is_turned_and_reversed_is_written_backwards(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [
            ir.reverse(ir.transpose(x, (0, 2, 1)), 1),
            ir.reverse(ir.transpose(ir.reverse(x, 0), (0, 2, 1)), 1),
            ir.transpose(ir.slice_axis(ir.reverse(x, 2), 2, 0, 3), (0, 2, 1)),
        ]

    native = Native(make([f"{dtype}[2, M, 35]"], build), target)
    assert schedules(native) == ["squares", "squares", "rows"]
    for columns in (0, 1, 8, 9, 40, 300):
        x = signed_sample(dtype, 2, columns, 35)
        for found, wanted in zip(native(x), native.interpreted(x), strict=True):
            assert found.tobytes() == wanted.tobytes(), columns


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_rows_that_only_a_call_knows_go_straight_where_they_are_spread(target: Target) -> None:
    """Columns of less than a vector, of several, and so many that all rows share a set of the cache, or nearly."""
    native = Native(make(["f32[N, 40]"], lambda ir, x: ir.transpose(x, (1, 0))), target)
    (kernel,) = native.plan.kernels
    assert kernel.scheduled(PointwiseSchedule).straight
    for rows in (0, 1, 3, 7, 8, 17, 1023, 1024, 1025, 1026, 2048):
        native.check(sample(F32, rows, 40))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_what_crosses_memory_is_turned_before_it_is_padded(target: Target) -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.abs(ir.pad(ir.transpose(x, (0, 2, 1)), (0, 1, 2), (0, 0, 1), -2.0))

    native = Native(make(["f32[N, M, 35]"], build), target)
    assert schedules(native) == ["squares", "rows"]
    for rows, columns in [(2, 40), (1, 9), (0, 8), (3, 0), (1, 1)]:
        native.check(sample(F32, rows, columns, 35))


@pytest.mark.parametrize("rows", [8, 12, 15, 16, 17, 60, 67])
@pytest.mark.parametrize("dtype", [F32, F64, F16, I8], ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_the_last_rows_end_with_the_axis(rows: int, dtype: DType, target: Target) -> None:
    """Straight to the result, by way of a tile, and beside what is not turned, whose results may lie on an operand."""

    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        turned = [ir.transpose(x, (0, 2, 1)), ir.transpose(x, (2, 1, 0))]
        return [*turned, ir.add(turned[0], y)]

    native = Native(make([f"{dtype}[2, 37, {rows}]", f"{dtype}[2, {rows}, 37]"], build), target)
    x = signed_sample(dtype, 2, 37, rows)
    y = x.reshape(2, rows, 37)
    for found, wanted in zip(native(x, y), native.interpreted(x, y), strict=True):
        assert found.tobytes() == wanted.tobytes(), found.shape


# Rows that end with a square, and that do not; of the last one all rows of a tile share a set of the cache.
@pytest.mark.parametrize("columns", [33, 64, 65, 71, 200, 1024])
@pytest.mark.parametrize("dtype", [F32, F64, F16, I8], ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_wide_rows_are_written_from_registers(columns: int, dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.transpose(x, (0, 2, 1)), ir.transpose(ir.slice_axis(x, 2, 1, M), (2, 0, 1))]

    native = Native(make([f"{dtype}[2, {columns}, N]", "f32[M]"], lambda ir, x, y: build(ir, x)), target)
    assert schedules(native) == ["squares"] * 2
    for rows in (2, 16, 33, 65, 130):
        x, y = signed_sample(dtype, 2, columns, rows), np.zeros(rows - 1, np.float32)
        for found, wanted in zip(native(x, y), native.interpreted(x, y), strict=True):
            assert found.tobytes() == wanted.tobytes(), (rows, found.shape)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_a_slice_is_turned_in_squares(target: Target) -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.transpose(ir.slice(x, (0, 2, 1), (N, 33, 18), (1, 1, 1)), (2, 0, 1))

    native = Native(make(["f32[N, 37, 19]"], build), target)
    assert schedules(native) == ["squares"]
    for batch in (0, 1, 5):
        native.check(sample(F32, batch, 37, 19))


def test_a_composite_of_what_crosses_memory_is_computed_in_squares() -> None:
    native = Native(make(["f32[N, M, K]"], lambda ir, x: ir.gelu(ir.transpose(x, (0, 2, 1)))))
    assert schedules(native) == ["squares"]
    for shape in CROSSED_SHAPES:
        native.check(sample(F32, *shape), bound=1e-6)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("shape", [(1, 16, 16), (2, 19, 37), (1, 130, 9)], ids=str)
def test_pointwise_ops_read_what_is_turned_beside_what_is_not(shape: tuple[int, int, int], target: Target) -> None:
    def build(ir: Builder, x: Value, y: Value, z: Value, bias: Value) -> Value:
        turned = ir.add(ir.transpose(x, (0, 2, 1)), ir.exp(ir.transpose(z, (0, 2, 1))))
        return ir.mul(ir.add(turned, y), ir.broadcast_to(bias, tuple(y.shape)))

    batch, rows, columns = shape
    wide = f"f32[{batch}, {rows}, {columns}]"
    native = Native(make([wide, f"f32[{batch}, {columns}, {rows}]", wide, f"f32[{rows}]"], build), target)
    assert schedules(native) == ["squares"]
    x, z = sample(F32, *shape), sample(F32, *shape, seed=1)
    native.check(x, sample(F32, batch, columns, rows), z, sample(F32, rows), bound=1e-6)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, BF16, I8, C128], ids=str)
def test_few_columns_that_a_call_decides_are_no_squares(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value, y: Value, rows: Value) -> list[Value]:
        moved = ir.transpose(x, (1, 2, 0))
        repeated = ir.broadcast(rows, (0,), moved.shape)
        return [moved, ir.select(ir.equal(moved, y), repeated, moved)]

    native = Native(make([f"{dtype}[N, M, 20]", f"{dtype}[M, 20, N]", f"{dtype}[M]"], build), target)
    assert "squares" in schedules(native) or dtype == C128
    for columns, rows in [(0, 3), (1, 3), (1, 500), (2, 9), (3, 1), (4, 70), (5, 70), (65, 5), (2, 0)]:
        x, y = signed_sample(dtype, columns, rows, 20), signed_sample(dtype, rows, 20, columns)
        arrays = (x, y, signed_sample(dtype, rows))
        for found, wanted in zip(native(*arrays), native.interpreted(*arrays), strict=True):
            assert found.tobytes() == wanted.tobytes(), (columns, rows)


def test_squares_are_shared_by_threads() -> None:
    native = Native(make(["f32[N, M]"], lambda ir, x: ir.transpose(x, (1, 0))), threads=2)
    native.check(sample(F32, 700, 500))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, BF16, I8, BOOL, C128], ids=str)
@pytest.mark.parametrize("columns", [2, 3, 4, 7])
def test_rows_shorter_than_a_vector_share_one(columns: int, dtype: DType, target: Target) -> None:
    """Channels moved behind pixels, elements repeated, a column beside rows, and a row for all or for an image."""

    def build(ir: Builder, x: Value, y: Value, z: Value, w: Value) -> list[Value]:
        batch, _, pixels = x.shape
        spread = ir.broadcast(y, (0, 1), (batch, pixels, columns))
        row, rows = ir.broadcast(z, (2,), spread.shape), ir.broadcast(w, (0, 2), spread.shape)
        moved = ir.transpose(x, (0, 2, 1))
        return [
            moved,
            ir.reshape(spread, (batch, pixels * columns)),
            ir.select(ir.equal(moved, spread), moved, spread),
            ir.select(ir.equal(moved, row), spread, row),
            ir.select(ir.equal(moved, spread), row, rows),
        ]

    types = [f"{dtype}[N, {columns}, M]", f"{dtype}[N, M]", f"{dtype}[{columns}]", f"{dtype}[N, {columns}]"]
    native = Native(make(types, build), target)
    assert set(schedules(native)) == {"short" if 64 * columns <= max(target.vector_bits, 256) else "rows"}
    for batch, pixels in [(2, 3), (1, 40), (3, 5001), (2, 17), (1, 31), (2, 14), (0, 4), (2, 0), (1, 1)]:
        x, y = signed_sample(dtype, batch, columns, pixels), signed_sample(dtype, batch, pixels)
        arrays = (x, y, signed_sample(dtype, columns), signed_sample(dtype, batch, columns))
        for found, wanted in zip(native(*arrays), native.interpreted(*arrays), strict=True):
            assert found.tobytes() == wanted.tobytes(), (batch, pixels)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("pixels", ["28", "14", "M"])
def test_repeated_elements_are_loaded_side_by_side(pixels: str, target: Target) -> None:
    """The rows that fill no vector too: one that ends with the last of them, or a masked one."""

    def build(ir: Builder, x: Value) -> Value:
        shape = (*x.shape, 2)
        return ir.reshape(ir.broadcast(x, (0, 1), shape), (shape[0], shape[1] * 2))

    module = make([f"f32[N, {pixels}]"], build)
    functions = kernel_pieces(plan_kernels(module, cpu_plan_target(target)), target).functions
    assert not any("gather" in function.text() for together in functions for function in together)
    native = Native(module, target)
    for size in [1, 8, 15, 16, 17, 100] if pixels == "M" else [int(pixels)]:
        native.check(sample(F32, 3, size))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, BF16, I8, BOOL, C128], ids=str)
@pytest.mark.parametrize("step", [-5, -4, -3, -2, -1, 2, 3, 4, 5])
def test_elements_some_steps_apart(step: int, dtype: DType, target: Target) -> None:
    """To the first and the last element of a buffer: what lies beyond is not touched."""
    lengths = (1, 4, 16, 64, 130)
    shapes = [(3, (length - 1) * abs(step) + 1) for length in lengths]

    def build(ir: Builder, *operands: Value) -> list[Value]:
        starts = [0 if step > 0 else shape[1] - 1 for shape in shapes]
        pairs = zip(operands, starts, lengths, strict=True)
        return [ir.slice(x, (0, start), (3, length), (1, step)) for x, start, length in pairs]

    native = Native(make([f"{dtype}[3, {columns}]" for _, columns in shapes], build), target)
    arrays = [signed_sample(dtype, *shape) for shape in shapes]
    for found, wanted in zip(native(*arrays), native.interpreted(*arrays), strict=True):
        assert found.tobytes() == wanted.tobytes(), wanted.shape


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, BF16, I8, BOOL], ids=str)
@pytest.mark.parametrize("step", [-4, -3, -2, -1, 2, 3, 4])
def test_elements_some_steps_apart_in_rows_of_any_length(step: int, dtype: DType, target: Target) -> None:
    """The last ones of groups of so many, up to the last element of a buffer, or the first ones, from the last on."""

    def build(ir: Builder, x: Value) -> Value:
        return ir.slice_axis(x, 2, step - 1, 1) if step > 0 else ir.reverse(ir.slice_axis(x, 2, 0, 1), 1)

    native = Native(make([f"{dtype}[3, N, {abs(step)}]"], build), target)
    for length in (0, 1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 130):
        x = signed_sample(dtype, 3, length, abs(step))
        assert native(x)[0].tobytes() == native.interpreted(x)[0].tobytes(), length


@pytest.mark.parametrize(("start", "step"), [(0, 2), (31, -1)])
def test_rows_of_bytes_some_steps_apart_that_are_shorter_than_a_vector_are_loaded_whole(start: int, step: int) -> None:
    target = parse_target("cpu:x86-64-v4")
    module = make(["u8[300, 64]"], lambda ir, x: ir.slice(x, (0, start), (300, 32), (1, step)))
    functions = kernel_pieces(plan_kernels(module, cpu_plan_target(target)), target).functions
    assert not any("gather" in function.text() for together in functions for function in together)


@pytest.mark.parametrize(
    ("columns", "side"), [(64, 64), (65, 80), (84, 96), (96, 64), (127, 128), (150, 64), ("N", 64)]
)
def test_rows_that_would_end_in_a_narrow_square_are_turned_whole(columns: int | str, side: int) -> None:
    """But for those that end with a line of the cache, as 96 f32 do."""
    module = make([f"f32[{columns}, 8400]"], lambda ir, x: ir.transpose(x, (1, 0)))
    (kernel,) = plan_kernels(module, cpu_plan_target(parse_target("cpu:x86-64-v4"))).kernels
    assert kernel.scheduled(PointwiseSchedule).block == side


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_costly_parts_of_short_rows_are_joined(target: Target) -> None:
    """Rows of 1 + 2 and of 2 times 3 elements, which are computed."""

    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        costly = ir.exp(ir.tanh(x))
        stacked = ir.reshape(ir.slice_axis(y, 2, 0, 1), (2, y.shape[1], 1, 1))
        pair = ir.concatenate([ir.exp(ir.tanh(y)), costly], 2)
        return [pair, ir.concatenate([ir.exp(ir.tanh(stacked)), stacked, ir.neg(stacked)], 2)]

    native = Native(make(["f32[2, N, 2]", "f32[2, N, 1]"], build), target)
    for rows in (0, 1, 15, 16, 35):
        native.check(sample(F32, 2, rows, 2), sample(F32, 2, rows, 1, seed=1), bound=4e-6)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F16, I8, I64, BOOL], ids=str)
@pytest.mark.parametrize("length", ["L", "1", "64"])
def test_rows_that_each_pick_one_element_along_an_axis(dtype: DType, target: Target, length: str) -> None:
    def build(ir: Builder, x: Value, where: Value) -> list[Value]:
        shape = (*where.shape, x.shape[2])
        rows, columns = ir.broadcast(where, (0, 1), shape), ir.broadcast(ir.unsqueeze(where, (2,)), (0, 1, 2), shape)
        return [ir.gather_along(x, rows, 0), ir.abs(ir.gather_along(x, columns, 0))]

    native = Native(make([f"{dtype}[R, M, {length}]", "i64[N, M]"], build), target)
    random = np.random.default_rng(0)
    for rows, count, columns in [(1, 3, 2), (5, 4, 1), (3, 0, 2), (7, 2, 5)]:
        for width in [0, 1, 7, 33, 100] if length == "L" else [int(length)]:
            x, where = sample(dtype, rows, columns, width), random.integers(0, rows, (count, columns))
            for found, wanted in zip(native(x, where), native.interpreted(x, where), strict=True):
                assert found.tobytes() == wanted.tobytes(), (rows, count, columns, width)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F16, I8, I64], ids=str)
@pytest.mark.parametrize("step", [2, 3, 4])
def test_what_is_left_out_of_is_turned_in_squares(dtype: DType, target: Target, step: int) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        kept = ir.slice(x, (0, 0, 1), (x.shape[0], x.shape[1], 77 // step), (1, 1, step))
        turned = ir.transpose(kept, (0, 2, 1))
        return [turned, ir.abs(turned)]

    native = Native(make([f"{dtype}[N, M, 78]"], build), target)
    assert "squares" in schedules(native)
    for shape in [(1, 1, 78), (2, 7, 78), (1, 8, 78), (2, 67, 78), (0, 3, 78), (1, 300, 78)]:
        x = signed_sample(dtype, *shape)
        for found, wanted in zip(native(x), native.interpreted(x), strict=True):
            assert found.tobytes() == wanted.tobytes(), shape


def test_what_lies_closer_along_the_last_axis_is_not_turned() -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.slice(ir.reshape(x, (40, 40)), (0, 0), (10, 40), (4, 1))

    native = Native(make(["f32[1600]"], build))
    assert schedules(native) == ["rows"]
    native.check(sample(F32, 1600))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (2, 1, 3, 70), (7, 5, 33, 61), (1, 400, 1, 90), (3, 2, 1, 9000)], ids=str
)
def test_coordinates_are_counted_from_wherever_a_claim_begins(shape: tuple[int, ...], threads: int) -> None:
    """Of sizes that only the call knows, and claims of 16384 elements."""
    sizes = tuple(Size.symbol(name) for name in "ABCD")

    def build(ir: Builder, x: Value) -> Value:
        return ir.pad(x, (0, 1, 0, 2), (1, 0, 2, 0), 7.0)

    native = Native(make([f"f32[{', '.join(map(str, sizes))}]"], build), threads=threads)
    native.check(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
