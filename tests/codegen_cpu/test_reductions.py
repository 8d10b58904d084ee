"""Reductions over every set of axes, the places of extrema, and normalisations, with what is fused before and after."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.plan_target import is_native
from onnxc.compiler.codegen_cpu.schedules.reductions import STAGED_COST
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.decompose import decompose_kernel
from onnxc.compiler.planning.loops.rows import Rows
from onnxc.compiler.planning.schedules import ReductionSchedule, Threads
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, FLOATS, Native, make, odd_values, precision, sample, tensor

N, M, K = Size.symbol("N"), Size.symbol("M"), Size.symbol("K")

SHAPES = [(2, 3, 5), (1, 1, 1), (3, 17, 33), (0, 2, 3), (2, 0, 3), (2, 3, 0), (4, 5, 64), (2, 1, 16), (1, 70, 2)]
AXES = [axes for count in (1, 2, 3) for axes in combinations(range(3), count)]
KINDS = {"f": ("sum", "prod", "min", "max"), "i": ("sum", "prod", "min", "max", "and", "or"), "b": ("and", "or")}


def _kinds(dtype: DType) -> tuple[str, ...]:
    return KINDS["f" if dtype.is_float else "b" if dtype.is_bool else "i"]


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64, I64, I32, I8, U8, U64, BOOL], ids=str)
def test_folds_over_every_set_of_axes(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.reduce(x, kind, axes) for kind in _kinds(dtype) for axes in AXES]

    native = Native(make([f"{dtype}[N, M, K]"], build), target)
    assert set(native.kernels()) == {"reduction"}
    for shape in SHAPES:
        # Near 1, so that no product of this many leaves the range.
        x = sample(dtype, *shape)
        native.check(x if not dtype.is_float else (1 + x / 16).astype(dtype.numpy), bound=4 * precision(dtype))


@pytest.mark.parametrize("dtype", [F32, F16, I8, U64, I64], ids=str)
def test_folds_at_the_ends_of_a_type(dtype: DType) -> None:
    kinds = ("min", "max") if dtype.is_float else ("min", "max", "sum")

    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.reduce(x, kind, axes) for kind in kinds for axes in ((0,), (1,), (0, 1))]

    native = Native(make([f"{dtype}[N, M]"], build))
    odd = odd_values(dtype)
    for shape in [(20, 21), (3, 40), (40, 3)]:
        native.check(np.resize(odd, shape))
    for value in odd:
        native.check(np.full((2, 18), value))


def test_sums_of_infinities_and_nan() -> None:
    native = Native(make(["f32[N, M]"], lambda ir, x: [ir.reduce(x, "sum", (axis,)) for axis in (0, 1)]))
    x = sample(F32, 20, 20)
    x[0, 3], x[1, 4], x[2, 5], x[2, 6] = np.inf, np.nan, np.inf, -np.inf
    native.check(x, bound=1e-6)


def test_long_sums_lose_little_in_many_partial_ones() -> None:
    native = Native(make(["f32[N]"], lambda ir, x: ir.reduce(x, "sum", (0,))))
    native.check(np.full(1_000_003, 0.1, np.float32), bound=1e-3)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16, F64, I32, U8], ids=str)
def test_places_of_extrema(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        choices = ((axis, kind, last) for axis in range(3) for kind in ("min", "max") for last in (False, True))
        return [ir.arg_reduce(x, kind, axis, last) for axis, kind, last in choices]

    native = Native(make([f"{dtype}[N, M, K]"], build), target)
    for shape in [(2, 3, 5), (1, 1, 1), (3, 17, 33), (0, 2, 3), (2, 0, 3), (2, 3, 0), (2, 40, 3), (1, 3, 100)]:
        native.check(sample(dtype, *shape))
        native.check(np.resize(odd_values(dtype), shape))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("columns", [2, 4, 7, 21])
def test_short_rows_side_by_side(columns: int, target: Target) -> None:
    """Sums, what is computed of them, and positions; of views too, whose rows are other steps apart."""

    def build(ir: Builder, x: Value) -> list[Value]:
        rows = [x, ir.slice_axis(x, 2, 1, columns - 1), ir.transpose(x, (1, 0, 2))]
        sums = [ir.log(ir.reduce(ir.abs(each), "sum", (2,), keepdims=True)) for each in rows]
        return [ir.reduce(x, "max", (2,)), *sums, *(ir.arg_reduce(x, "max", 2, last) for last in (False, True))]

    native = Native(make([f"f32[2, N, {columns}]"], build), target)
    for count in (0, 1, 15, 16, 33):
        native.check(sample(F32, 2, count, columns), bound=4 * precision(F32))
        native.check(np.resize(odd_values(F32), (2, count, columns)), bound=4 * precision(F32))


@pytest.mark.parametrize("columns", [2, 4, 5, 8, 12, 13, 32])
@pytest.mark.parametrize("tensors", [1, 2])
def test_rows_that_would_be_gathered_are_folded_one_by_one(columns: int, tensors: int) -> None:
    """A function of a sum pays for gathers of 12 elements of one tensor, an extremum for 8, a sum alone for none."""

    def summed(ir: Builder, *x: Value) -> Value:
        return ir.reduce(x[0] if tensors == 1 else ir.mul(*x), "sum", (1,))

    def function_of_sum(ir: Builder, *x: Value) -> Value:
        return ir.exp(ir.log(ir.abs(summed(ir, *x))))

    def greatest(ir: Builder, *x: Value) -> Value:
        return ir.reduce(x[0] if tensors == 1 else ir.mul(*x), "max", (1,))

    parameters = [tensor(f"f32[N, {columns}]")] * tensors
    for build, longest in ((summed, 4), (function_of_sum, 12), (greatest, 8)):
        native = Native(make(parameters, build))
        kernel, *_ = native.plan.kernels
        is_short = kernel.scheduled(ReductionSchedule).algorithm == "short"
        assert is_short == (columns <= (longest if tensors == 1 else 4))
        for count in (0, 1, 17, 33):
            native.check(*(sample(F32, count, columns) for _ in range(tensors)), bound=8 * precision(F32))


@pytest.mark.parametrize("beside", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("dtype", [F32, F16, I64], ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_few_rows_side_by_side(beside: int, dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        wholes = [ir.softmax(x, 1)] if dtype.is_float else []
        return [ir.reduce(x, "sum", (1,)), ir.reduce(x, "max", (1,)), ir.arg_reduce(x, "min", 1, True), *wholes]

    native = Native(make([f"{dtype}[N, M, {beside}]"], build), target)
    for shape in [(1, 1), (3, 5), (2, 40), (0, 3)]:
        native.check(sample(dtype, *shape, beside), bound=8 * precision(dtype))
    # Positions of extrema of 64 bits have vectors of so many of them.
    expected = {
        {2: 2, 3: 4, 4: 4, 5: 8, 7: 8}.get(beside, widest) if beside <= widest // 2 else widest
        for widest in (target.vector_bits // 32, target.vector_bits // max(dtype.bits, 32))
    }
    workers = [kernel.schedule.workers for kernel in native.plan.kernels]
    assert {each.lanes for each in workers if isinstance(each, Threads)} == expected


# Less than a tile of the widest vectors, whole tiles, one row more; and a size that only a call tells.
@pytest.mark.parametrize("beside", ["5", "130", "512", "513", "M"])
@pytest.mark.parametrize("dtype", [F32, F64, F16, I8], ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_rows_side_by_side_go_along_together(beside: str, dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        folds = [*(ir.reduce(x, kind, (0,)) for kind in ("sum", "max")), ir.arg_reduce(x, "max", 0, False)]
        wholes = [ir.softmax(x, 0), ir.sub(x, ir.mean(x, (0,), keepdims=True))] if dtype.is_float else []
        return [*folds, *wholes]

    native = Native(make([f"{dtype}[N, {beside}]"], build), target)
    for columns in (1, 63, 64, 65, 200, 512) if beside == "M" else (int(beside),):
        for rows in (2, 3, 4, 9):
            native.check(sample(dtype, rows, columns), bound=8 * precision(dtype))
        odd = np.random.default_rng(0).choice(odd_values(dtype), (9, columns))
        native.check(odd, bound=8 * precision(dtype))
    lanes, folds = target.vector_bits // 32, [kernel for kernel in native.plan.kernels if kernel.kind == "reduction"]
    widest = max(kernel.scheduled(ReductionSchedule).tile.columns for kernel in folds)
    assert (widest == min(lanes, 8)) == (beside == "5")


# Less than two vectors, two, and more, for the widths of all targets; and a length that only a call tells.
@pytest.mark.parametrize("columns", ["3", "15", "16", "17", "31", "32", "33", "65", "K"])
@pytest.mark.parametrize("dtype", [F32, F16, F64], ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_rows_of_functions_are_folded_two_vectors_at_a_time(columns: str, dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        folds = [
            ir.reduce(ir.tanh(ir.mul(x, factor)), kind, (1,)) for factor, kind in enumerate(("sum", "max", "min"), 2)
        ]
        return [*folds, ir.softmax(x, 1)]

    native = Native(make([f"{dtype}[N, {columns}]"], build), target)
    for length in (1, 7, 16, 50) if columns == "K" else (int(columns),):
        for rows in (0, 1, 5):
            native.check(sample(dtype, rows, length), bound=8 * precision(dtype))
        odd = np.random.default_rng(0).choice(odd_values(dtype), (9, length))
        native.check(odd, bound=8 * precision(dtype))
    lanes = target.vector_bits // 32
    schedules = [kernel.schedule for kernel in native.plan.kernels if isinstance(kernel.schedule, ReductionSchedule)]
    widest = max(each.workers.lanes for each in schedules if isinstance(each.workers, Threads))
    is_wide = columns != "K" and int(columns) >= 2 * lanes and dtype != F64
    assert (widest == 2 * lanes) == is_wide


OPEN_ROWS: dict[str, Callable[[Builder, Value], Value]] = {
    "sum": lambda ir, x: ir.reduce(ir.abs(x), "sum", (1,)),
    "max": lambda ir, x: ir.reduce(x, "max", (1,)),
    "sum of a function": lambda ir, x: ir.reduce(ir.exp(x), "sum", (1,)),
    "argmax": lambda ir, x: ir.arg_reduce(x, "max", 1),
    "last argmin": lambda ir, x: ir.arg_reduce(ir.mul(x, x), "min", 1, last=True),
    "softmax": lambda ir, x: ir.softmax(x, 1),
    "log_softmax of a function": lambda ir, x: ir.log_softmax(ir.tanh(x), 1),
    "norm": lambda ir, x: ir.div(x, ir.broadcast_to(ir.reduce(ir.mul(x, x), "sum", (1,), keepdims=True), x.shape)),
}


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, F16], ids=str)
@pytest.mark.parametrize("fold", OPEN_ROWS)
def test_rows_of_a_length_that_only_a_call_tells(fold: str, dtype: DType, target: Target) -> None:
    """Short ones lie side by side in lanes; one kernel is for these, and one for all others."""
    native = Native(make([f"{dtype}[N, M]"], OPEN_ROWS[fold]), target)
    assert [kernel.kind for kernel in native.plan.kernels].count("reduction") == 2
    for columns in (1, 2, 3, 5, 6, 7, 8, 9, 12, 13, 16, 17, 32, 33):
        for rows in (0, 1, 17, 40):
            native.check(sample(dtype, rows, columns, seed=columns), bound=4 * precision(dtype))
    native.check(sample(dtype, 3, 0))


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_what_surrounds_a_fold_is_in_its_kernel(kind: str) -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        rows = ir.reduce(ir.mul(ir.exp(ir.transpose(x, (1, 0, 2))), 0.5), kind, (1,))
        return ir.max(ir.add(rows, y), 0.0)

    native = Native(make(["f32[N, M, K]", "f32[M, K]"], build))
    assert native.kernels() == ["reduction"]
    for shape in [(2, 3, 5), (1, 1, 1), (3, 17, 33), (2, 0, 3), (2, 3, 0)]:
        native.check(sample(F32, *shape), sample(F32, *shape[1:], seed=1), bound=1e-6)


@pytest.mark.parametrize(
    ("shape", "axes", "kernels"),
    [
        ("N, 28", (1,), ["reduction", "pointwise"]),
        ("N, 28, 1", (1,), ["reduction", "pointwise"]),
        ("N, K", (1,), ["reduction", "pointwise"]),
        ("N, 12", (1,), ["reduction"]),
        ("32, K", (1,), ["reduction"]),
        ("28, N", (0,), ["reduction"]),
    ],
)
def test_functions_of_many_folds_have_lanes_of_their_own(shape: str, axes: tuple[int, ...], kernels: list[str]) -> None:
    """Those of few folds are computed one by one, those of short rows and of rows side by side in vectors anyhow."""
    native = Native(make([f"f32[{shape}]"], lambda ir, x: ir.exp(ir.neg(ir.reduce(x, "max", axes)))))
    assert native.kernels() == kernels
    sizes = [{"N": 37, "K": 19}.get(size) or int(size) for size in shape.split(", ")]
    native.check(sample(F32, *sizes), bound=1e-6)


def _counted(ir: Builder, counts: Value, shape: Sequence[Dim], axis: int) -> Value:
    """bool[shape]: whether the place along an axis is below the count of its index along axis 0."""
    return ir.less(ir.iota(shape, axis, I64), ir.broadcast(counts, (0,), shape))


# Folds of x: f32[N, K, M, L, 5], where counts, i64[N], say which places along K and L do count.
COUNTED_FOLDS: dict[str, Callable[[Builder, Value, Value, Value], Value]] = {
    "sum": lambda ir, x, k, n: ir.reduce(
        ir.select(ir.and_(_counted(ir, k, x.shape, 1), _counted(ir, n, x.shape, 3)), x, 0.0), "sum", (1, 3)
    ),
    "max of a function": lambda ir, x, k, n: ir.add(
        ir.reduce(ir.select(_counted(ir, k, x.shape, 1), ir.abs(x), float("-inf")), "max", (1, 3)), 1.0
    ),
    "products": lambda ir, x, k, n: ir.reduce(ir.select(_counted(ir, n, x.shape, 3), x, 1.0), "prod", (3,)),
    "one axis": lambda ir, x, k, n: ir.reduce(
        ir.select(ir.and_(_counted(ir, k, x.shape, 1), _counted(ir, n, x.shape, 1)), x, 0.0), "sum", (1,)
    ),
    "what is left out counts": lambda ir, x, k, n: ir.reduce(
        ir.select(_counted(ir, k, x.shape, 1), x, 2.0), "sum", (1, 3)
    ),
    "along an axis that is kept": lambda ir, x, k, n: ir.reduce(
        ir.select(_counted(ir, k, x.shape, 2), x, 0.0), "sum", (1, 3)
    ),
    "along the last axis": lambda ir, x, k, n: ir.reduce(
        ir.select(ir.less(ir.iota(x.shape, 3, I64), ir.iota(x.shape, 4, I64)), x, 0.0), "sum", (1, 3)
    ),
    "the other way": lambda ir, x, k, n: ir.reduce(
        ir.select(ir.less(ir.broadcast(k, (0,), x.shape), ir.iota(x.shape, 1, I64)), x, 0.0), "sum", (1, 3)
    ),
    "other places": lambda ir, x, k, n: ir.reduce(
        ir.select(ir.or_(_counted(ir, k, x.shape, 1), ir.less(0.5, x)), x, 0.0), "sum", (1, 3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_folds_of_what_counts(target: Target) -> None:
    def build(ir: Builder, x: Value, k: Value, n: Value) -> list[Value]:
        return [fold(ir, x, k, n) for fold in COUNTED_FOLDS.values()]

    native = Native(make(["f32[N, K, M, L, 5]", "i64[N]", "i64[N]"], build), target)
    for shape in [(4, 3, 2, 7, 5), (4, 1, 1, 1, 5), (4, 0, 2, 3, 5), (4, 3, 2, 0, 5), (0, 3, 2, 1, 5)]:
        x = sample(F32, *shape)
        x[:, -1:, :, 1:] = np.nan
        counts = [np.array(each[: shape[0]], np.int64) for each in ([2, 0, 9, -1], [3, 2, 2**40, 1])]
        native.check(x, *counts, bound=1e-6)


def test_a_mean_and_a_variance() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        mean = ir.mean(x, (1, 2), keepdims=True)
        return [mean, ir.mean(ir.square(ir.sub(x, mean)), (1, 2)), ir.sub(x, mean)]

    native = Native(make(["f32[N, M, K]"], build))
    for shape in [(2, 3, 5), (1, 1, 1), (3, 17, 33)]:
        native.check(sample(F32, *shape), bound=2e-6)


# Normalisations


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax_along_every_axis(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        scaled = ir.mul(x, 3.0)
        whole = [kind(scaled, axis) for kind in (ir.softmax, ir.log_softmax, ir.masked_softmax) for axis in range(3)]
        return [*whole, ir.add(ir.softmax(ir.neg(x), 2), 1.0)]

    native = Native(make([f"{dtype}[N, M, K]"], build), target)
    for shape in SHAPES:
        native.check(sample(dtype, *shape), bound=4 * precision(dtype))


@pytest.mark.parametrize("value", [0.0, 1e30, -1e30, -np.inf, np.inf, np.nan, 88.0, -104.0])
def test_softmax_of_extremes(value: float) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [kind(x, axis) for kind in (ir.softmax, ir.log_softmax, ir.masked_softmax) for axis in (0, 1)]

    native = Native(make(["f32[N, M]"], build))
    x = sample(F32, 18, 20)
    x[3, 4] = x[5] = value
    native.check(x, bound=2e-6)


# Fewer columns than a vector has lanes, as many, one more, as many as registers hold for either width, more than that.
@pytest.mark.parametrize("columns", [1, 2, 3, 8, 15, 16, 17, 32, 49, 64, 128, 129])
@pytest.mark.parametrize("dtype", [F32, F16, F64], ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_rows_of_a_known_length(columns: int, dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        sigmoid = ir.div(1.0, ir.add(ir.exp(ir.neg(x)), 1.0))
        kinds = (ir.softmax, ir.log_softmax, ir.masked_softmax)
        scale = ir.constant(np.linspace(0.5, 2, columns).astype(dtype.numpy))
        return [*(kind(x, 1) for kind in kinds), ir.softmax(sigmoid, 1), ir.rms_norm(x, scale, 1, 1e-5)]

    native = Native(make([f"{dtype}[N, {columns}]"], build), target)
    for rows in (0, 1, 9, 33):
        native.check(sample(dtype, rows, columns), bound=8 * precision(dtype))
    lanes = target.vector_bits // 8 // max(dtype.itemsize, 4)
    schedules = [kernel.scheduled(ReductionSchedule) for kernel in native.plan.kernels]
    is_short = 1 < columns <= 8 and columns * max(dtype.itemsize, 4) <= target.vector_registers
    assert [each.algorithm for each in schedules] == ["short" if is_short else "rows"] * 5
    assert any(each.is_held for each in schedules) == (columns <= lanes * target.vector_registers // 4)


@pytest.mark.parametrize("columns", [1, 7, 17, 49])
def test_odd_values_in_rows_that_registers_hold(columns: int) -> None:
    """NaN in any column makes its row NaN, and no other."""
    native = Native(
        make([f"f32[N, {columns}]"], lambda ir, x: [ir.softmax(x, 1), ir.log_softmax(x, 1), ir.masked_softmax(x, 1)])
    )
    odd = [np.nan, np.inf, -np.inf, -0.0, 3e38, -3e38]
    x = np.zeros((len(odd) * columns + 1, columns), np.float32)
    for ordinal, value in enumerate(odd):
        for column in range(columns):
            x[ordinal * columns + column, column] = value
    x[-1] = -np.inf
    native.check(x, bound=2e-6)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm_and_rms_norm(dtype: DType, target: Target) -> None:
    def build(ir: Builder, x: Value, y: Value, scale: Value, bias: Value) -> list[Value]:
        both = ir.add(x, y)
        layer = ir.layer_norm(both, scale, bias, 2, 1e-5)
        return [layer, ir.rms_norm(layer, scale, 2, 1e-5), ir.rms_norm(x, scale, 2, 1e-6)]

    native = Native(make([f"{dtype}[N, M, 40]"] * 2 + [f"{dtype}[40]"] * 2, build), target)
    scale, bias = sample(dtype, 40, seed=3), sample(dtype, 40, seed=4)
    for shape in [(0, 3, 40), (1, 1, 40), (5, 3, 40), (2, 0, 40)]:
        native.check(sample(dtype, *shape), sample(dtype, *shape, seed=1), scale, bias, bound=8 * precision(dtype))


def test_layer_norm_over_several_axes_of_any_size() -> None:
    native = Native(
        make(["f32[N, M, K]", "f32[M, K]", "f32[M, K]"], lambda ir, x, s, b: ir.layer_norm(x, s, b, 1, 1e-5))
    )
    for shape in [(3, 4, 5), (1, 1, 1), (2, 17, 33), (0, 2, 3), (2, 0, 3)]:
        native.check(
            *(sample(F32, *part, seed=seed) for seed, part in enumerate((shape, shape[1:], shape[1:]))), bound=4e-6
        )


def test_a_fold_over_no_axes_has_no_kernel() -> None:
    module = make(["f32[N]"], lambda ir, x: ir.op("reduce", [x], {"kind": "sum", "axes": ()})[0])
    assert not is_native(module.main.body.ops[0])
    Native(module).check(sample(F32, 4))


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("sizes", ["2, 2, 1", "N, 2, 1", "3, 2, 4, 1", "2, 17"])
def test_a_lane_that_is_alone_is_stored_alone(dtype: DType, sizes: str) -> None:
    shape = [4 if size == "N" else int(size) for size in sizes.split(", ")]
    native = Native(make([f"{dtype}[{sizes}]"], lambda ir, x: [ir.softmax(x, 0)]))
    native.check(sample(dtype, *shape), bound=4 * precision(dtype))


@pytest.mark.parametrize("count", [1, 17, 33, 65])
def test_a_lane_that_is_alone_is_cast_alone(count: int) -> None:
    native = Native(make([f"i32[2, {count}]"], lambda ir, x: [ir.reduce(ir.cast(ir.add(x, 1), I8), "max", (0,))]))
    native.check(sample(I32, 2, count))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_rows_that_cross_memory_are_turned_first(target: Target) -> None:
    native = Native(make(["f32[N, M, K]"], lambda ir, x: ir.softmax(ir.transpose(x, (0, 2, 1)), 2)), target)
    assert native.kernels() == ["pointwise", "reduction"]
    for shape in [(2, 3, 5), (1, 40, 33), (2, 0, 3), (0, 3, 4)]:
        native.check(sample(F32, *shape), bound=1e-6)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_what_is_one_number_for_a_row_varies_from_row_to_row(target: Target) -> None:
    def build(ir: Builder, x: Value, scale: Value, bias: Value) -> list[Value]:
        rows = (N, M, K)
        shifted = ir.sub(x, ir.reduce(x, "max", (2,), keepdims=True))
        logged = ir.sub(shifted, ir.log(ir.reduce(ir.exp(shifted), "sum", (2,), keepdims=True)))
        scaled = ir.mul(logged, ir.broadcast(scale, (1,), rows))
        columns = ir.mul(ir.sub(x, ir.mean(x, (1,), keepdims=True)), ir.broadcast(bias, (2,), rows))
        return [ir.mul(scaled, ir.broadcast(bias, (2,), rows)), ir.add(columns, ir.broadcast(scale, (1,), rows))]

    native = Native(make(["f32[N, M, K]", "f32[M]", "f32[K]"], build), target)
    for shape in [(2, 3, 5), (1, 40, 33), (2, 17, 1), (2, 0, 3), (2, 3, 0)]:
        _, rows, columns = shape
        native.check(sample(F32, *shape), sample(F32, rows), sample(F32, columns), bound=2e-6)


def _mean_scaled(ir: Builder, x: Value, scale: Value, axes: tuple[int, ...]) -> list[Value]:
    scaled = ir.mul(x, ir.broadcast(scale, axes, (N, M, K)))
    return [ir.reduce(scaled, "sum", (1, 2)), ir.sub(scaled, ir.mean(scaled, (1, 2), keepdims=True))]


@pytest.mark.parametrize(
    ("axes", "merged"), [((), 2), ((0,), 2), ((1, 2), 2), ((0, 1, 2), 2), ((1,), 1), ((2,), 1), ((0, 2), 1)], ids=str
)
def test_folded_axes_are_gone_through_as_one_where_every_operand_follows(axes: tuple[int, ...], merged: int) -> None:
    sizes = [("N", "M", "K")[axis] for axis in axes]
    types = ["f32[N, M, K]", f"f32[{', '.join(sizes)}]"]
    module = make(types, lambda ir, x, scale: _mean_scaled(ir, x, scale, axes))
    native = Native(module)
    kernels = [kernel for kernel in native.plan.kernels if kernel.kind == "reduction"]
    assert {Rows(decompose_kernel(kernel).block).merged for kernel in kernels} == {merged}
    for shape in [(3, 7, 5), (2, 4, 16), (1, 3, 33), (0, 2, 3), (2, 0, 3), (2, 3, 0)]:
        native.check(sample(F32, *shape), sample(F32, *(shape[axis] for axis in axes), seed=1), bound=4e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_costly_values_wait_for_each_other_in_the_row(dtype: DType) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        sigmoid = ir.div(1.0, ir.add(ir.exp(ir.neg(x)), 1.0))
        softmax = ir.softmax(sigmoid, 1)
        # Here the first value is needed to the end, beside the second.
        return [softmax, ir.mul(ir.softmax(ir.tanh(x), 1), ir.tanh(x))]

    native = Native(make([f"{dtype}[N, M]"], build))
    for shape in [(2, 3), (3, 49), (1, 130), (0, 3), (2, 0)]:
        native.check(sample(dtype, *shape), bound=8 * precision(dtype))


def test_exponentials_behind_a_costly_operand_are_computed_once() -> None:
    module = make(["f32[N, M]"], lambda ir, x: ir.softmax(ir.tanh(x), 1))
    kernel, *_ = Native(module).plan.kernels
    staged = Rows(decompose_kernel(kernel).block).staged(STAGED_COST)
    assert [None if value is None or value.op is None else value.op.name for value in staged] == [None, "tanh", "exp"]


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 1, 3, 2), (1, 2, 3, 0), (0, 2, 3, 1)], ids=str)
@pytest.mark.parametrize("new", [0, 1, 3])
def test_rows_behind_an_axis_of_one_that_is_turned(new: int, order: tuple[int, ...], target: Target) -> None:
    """What is computed before it is turned: lines of the fold lie apart in memory, or across it."""

    def build(ir: Builder, x: Value) -> list[Value]:
        turned = ir.transpose(ir.unsqueeze(ir.abs(x), (new,)), order)
        return [ir.reduce(turned, "sum", axes) for axes in ((2, 3), (1, 2, 3), (3,))]

    Native(make(["f32[3, 4, 35]"], build), target).check(sample(F32, 3, 4, 35), bound=1e-5)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, F16, I64, U8], ids=str)
@pytest.mark.parametrize(
    ("length", "is_open"), [(4 * 4 * 64 + 77, False), (4 * 4 * 64 + 77, True), (255, True), (256, True), (1, True)]
)
def test_searches_in_turns_for_an_extremum_give_the_first_or_the_last(
    length: int, is_open: bool, dtype: DType, target: Target
) -> None:
    """Equal elements and NaN anywhere: in one of the searches, in several, and behind them all."""

    def build(ir: Builder, x: Value) -> list[Value]:
        return [ir.arg_reduce(x, kind, 1, last) for kind in ("max", "min") for last in (False, True)]

    native = Native(make([f"{dtype}[N, {'M' if is_open else length}]"], build), target)
    rng = np.random.default_rng(0)
    few = rng.integers(0, 3, (40, length)).astype(dtype.numpy)
    rare = np.ones((40, length), dtype.numpy)
    for row, columns in enumerate(rng.integers(0, length, (40, 3))):
        rare[row, columns[: row % 4]] = 2 * (row // 4 % 2)
    for x in (few, rare, np.ones((3, length), dtype.numpy), np.zeros((0, length), dtype.numpy)):
        native.check(x)
        if dtype.is_float:
            marked = x.copy()
            for row in range(len(x)):
                marked[row, rng.integers(0, length, row % 4)] = np.nan
            native.check(marked)
