"""Sorting and the best k: along every axis, in both directions, stable, NaN after every number."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu import sorting
from onnxc.compiler.codegen_cpu.kernels import ordering
from onnxc.compiler.codegen_cpu.schedules.orders import fewest_by_digits
from onnxc.compiler.codegen_cpu.sorting import Ordering
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U16, U64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, HOST, Native, make, odd_values, sample

# (shape, k): k is at most the shortest axis.
SIZES = [((2, 3, 5), 2), ((2, 3, 5), 0), ((4, 4, 4), 4), ((1, 1, 1), 1), ((3, 2, 130), 2), ((130, 2, 150), 1),
         ((0, 3, 4), 0), ((2, 0, 3), 0)]  # fmt: skip


def _build(ir: Builder, x: Value, marks: Value) -> list[Value]:
    results = []
    for axis in range(3):
        for down in (False, True):
            results += [*ir.sort(x, axis, down), *ir.top_k(x, Size.symbol("k"), axis, down)]
    return results


def _check(native: Native, x: np.ndarray, *counts: int) -> None:
    """To the bit: -0.0 and 0.0 are equal and keep their order."""
    arrays = (x, *(np.zeros(count, np.bool_) for count in counts))
    for found, wanted in zip(native(*arrays), native.interpreted(*arrays), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F16, I64], ids=str)
def test_orders_on_every_target(dtype: DType, target: Target) -> None:
    native = Native(make([f"{dtype}[N, M, K]", "bool[k]"], _build), target)
    assert set(native.kernels()) == {"ordering"}
    for shape, count in SIZES:
        _check(native, sample(dtype, *shape), count)
        _check(native, np.resize(odd_values(dtype), shape), count)


@pytest.mark.parametrize("dtype", [F64, BF16, I32, I8, U8, U64, U16, BOOL], ids=str)
def test_element_types(dtype: DType) -> None:
    native = Native(make([f"{dtype}[N, M, K]", "bool[k]"], _build))
    for shape, count in SIZES:
        _check(native, sample(dtype, *shape), count)
        _check(native, np.resize(odd_values(dtype), shape), count)


def test_the_operand_may_be_a_view_and_the_results_be_used_apart() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        values, _ = ir.sort(ir.transpose(x, (1, 0)), 1)
        _, places = ir.top_k(ir.slice(x, (0, 0), (Size.symbol("N"), 3), (1, 2)), 2, 1)
        return [ir.mul(values, 2.0), ir.add(places, 1)]

    native = Native(make(["f32[N, 6]"], build))
    assert sorted(native.kernels()) == ["ordering", "ordering", "pointwise", "pointwise"]
    for rows in (0, 1, 7, 200):
        native.check(sample(F32, rows, 6))


@pytest.mark.parametrize("length", [31, 32, 33, 257, 5000])
@pytest.mark.parametrize("dtype", [F32, F64, U8], ids=str)
def test_long_lines(dtype: DType, length: int) -> None:
    native = Native(make([f"{dtype}[N]"], lambda ir, x: [*ir.sort(x, 0), *ir.sort(x, 0, True), *ir.top_k(x, 20, 0)]))
    native.check(sample(dtype, length))
    native.check(np.sort(sample(dtype, length)))
    native.check(np.zeros(length, dtype.numpy))


@pytest.mark.parametrize("dtype", [F32, F64, U8], ids=str)
def test_the_best_k_of_a_line_may_be_all_of_it(dtype: DType) -> None:
    native = Native(make([f"{dtype}[2, N]", "bool[k]"], lambda ir, x, _: [*ir.top_k(x, Size.symbol("k"), 1)]))
    for length, count in [(40, 39), (40, 40), (5000, 5000)]:
        _check(native, sample(dtype, 2, length), count)
        _check(native, np.resize(odd_values(dtype), (2, length)), count)


def test_indices_that_leave_no_room_for_keys_lie_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "LONGEST_PACKED", 40)
    native = Native(make(["f32[N]"], lambda ir, x: [*ir.top_k(x, 20, 0)]))
    for length in (20, 40, 41, 300):
        _check(native, sample(F32, length))


def test_sizes_known_when_compiling() -> None:
    native = Native(
        make(["f32[5, 100]", "f32[3]"], lambda ir, x, y: [*ir.sort(x, 1), *ir.sort(y, 0), *ir.top_k(x, 7, 1)])
    )
    native.check(sample(F32, 5, 100), sample(F32, 3))


def _best_of_lanes(ir: Builder, x: Value) -> list[Value]:
    """Along the last axis and along others, and in both directions."""
    last = [y for count in (1, 5, 8) for down in (False, True) for y in ir.top_k(x, count, 2, down)]
    return [*last, *ir.top_k(x, 3, 1, True), *ir.top_k(x, 2, 1, False), *ir.sort(x, 1), *ir.sort(x, 2, True)]


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F16, I8, F64, U64], ids=str)
def test_lines_in_lanes(dtype: DType, target: Target) -> None:
    """Equal elements keep their order; the last group of lines is a part of a vector, too few for one, or none."""
    for lines in (8, 16, 21, 30):
        shape = (3, lines, 8)
        native = Native(make([f"{dtype}{list(shape)}"], _best_of_lanes), target)
        assert "lanes" in {kernel.schedule.algorithm for kernel in native.plan.kernels}
        _check(native, sample(dtype, *shape))
        _check(native, np.resize(odd_values(dtype), shape))
        _check(native, (np.arange(np.prod(shape)).reshape(shape) % 3).astype(dtype.numpy))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("shape", [(31, 1, 9), (40, 1, 9), (3, 33, 1, 9)], ids=str)
def test_lines_are_in_lanes_along_the_longest_axis_where_the_last_is_short(
    shape: tuple[int, ...], target: Target
) -> None:
    *outer, _, length = shape
    rank, wide = len(shape), (*outer, 2, length)

    def build(ir: Builder, x: Value) -> list[Value]:
        half = ir.slice(x, (0,) * rank, shape)
        crossed = ir.transpose(half, (*range(rank - 2), rank - 1, rank - 2))
        return [*ir.top_k(half, 4, rank - 1, True), *ir.top_k(crossed, 2, rank - 2, False), *ir.sort(half, rank - 1)]

    native = Native(make([f"f32{list(wide)}"], build), target)
    schedules = {kernel.schedule for kernel in native.plan.kernels if kernel.kind == "ordering"}
    assert {schedule.lane_axis for schedule in schedules} == {outer.index(max(outer))}
    _check(native, sample(F32, *wide))
    _check(native, np.resize(odd_values(F32), wide))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_lines_in_lanes_may_be_any_number(target: Target) -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        return [*ir.top_k(x, 4, 1, True), *ir.top_k(ir.transpose(x, (1, 0)), 2, 0, False)]

    native = Native(make(["f32[N, 7]"], build), target)
    assert {kernel.schedule.algorithm for kernel in native.plan.kernels} == {"lanes"}
    for lines in (0, 1, 3, 4, 7, 8, 15, 16, 17, 40):
        _check(native, sample(F32, lines, 7))
        _check(native, np.resize(odd_values(F32), (lines, 7)))


@pytest.mark.parametrize(
    ("shape", "count", "algorithm"),
    [((64, 9), 8, "lanes"), ((64, 90), 64, "lanes"), ((64, 37), 37, "lanes"), ((64, 90), 65, "heap"),
     ((64, 256), 8, "lanes"), ((64, 257), 8, "heap"), ((3, 9), 2, "heap"), ((64, 9), 0, "heap"), ((9,), 2, "heap"),
     ((31, 5, 9), 2, "lanes"), ((2, 31, 1, 9), 2, "lanes"), ((3, 3, 9), 2, "heap")],
)  # fmt: skip
def test_lanes_hold_the_best_few_of_many_short_lines(shape: tuple[int, ...], count: int, algorithm: str) -> None:
    native = Native(make([f"f32{list(shape)}"], lambda ir, x: [*ir.top_k(x, count, len(shape) - 1)]))
    assert [kernel.schedule.algorithm for kernel in native.plan.kernels] == [algorithm]
    _check(native, sample(F32, *shape))
    _check(native, np.resize(odd_values(F32), shape))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F16, U8, I32, U64], ids=str)
def test_more_than_a_few_in_lanes(dtype: DType, target: Target) -> None:
    """Ties, and the ends of the type beside slots that are still empty, in both directions."""

    def build(ir: Builder, x: Value) -> list[Value]:
        return [y for count in (9, 29) for down in (False, True) for y in ir.top_k(x, count, 1, down)]

    native = Native(make([f"{dtype}[19, 31]"], build), target)
    for x in (sample(dtype, 19, 31), np.resize(odd_values(dtype), (19, 31)), np.arange(19 * 31).reshape(19, 31) % 3):
        _check(native, x.astype(dtype.numpy))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, I64], ids=str)
def test_how_much_of_lines_that_cross_memory_goes_through_lanes(dtype: DType, target: Target) -> None:
    """Long ones with vectors of 512 bits alone; of wide keys fewer."""
    is_wide, is_widest = dtype == I64, target.vector_bits == 512
    for length, count, fits in [
        (60, 9, target.vector_bits > 128 or not is_wide),
        (64, 64, target.vector_bits > 128 or not is_wide),
        (66, 65, False),
        (300, 8, is_widest),
        (1000, 12, is_widest),
        (500, 24, is_widest),
        (1000, 20, is_widest and not is_wide),
        (3000, 20, is_widest and not is_wide),
        (4000, 20, False),
    ]:
        native = Native(make([f"{dtype}[{length}, 20]"], lambda ir, x, k=count: [*ir.top_k(x, k, 0)]), target)
        assert [kernel.schedule.algorithm == "lanes" for kernel in native.plan.kernels] == [fits]
        for x in (sample(dtype, length, 20), np.resize(odd_values(dtype), (length, 20)), np.zeros((length, 20))):
            _check(native, x.astype(dtype.numpy))


@pytest.mark.parametrize(
    ("dtype", "shortest"), [(U8, 16), (BOOL, 16), (F16, 24), (BF16, 24), (F32, 48), (I32, 36), (F64, 60), (I64, 36)]
)
def test_how_long_lines_are_that_are_sorted_by_digits(dtype: DType, shortest: int) -> None:
    """The more bytes may differ, the longer; where only a call tells, it decides."""
    for length, algorithm in ((shortest - 1, "heap"), (shortest, "radix")):
        native = Native(make([f"{dtype}[3, {length}]"], lambda ir, x: [*ir.sort(x, 1)]))
        assert [kernel.schedule.algorithm for kernel in native.plan.kernels] == [algorithm]
        _check(native, sample(dtype, 3, length))
        _check(native, np.resize(odd_values(dtype), (3, length)))
    native = Native(make([f"{dtype}[3, N]"], lambda ir, x: [*ir.sort(x, 1)]))
    for length in (0, 1, shortest - 1, shortest, shortest + 1):
        _check(native, sample(dtype, 3, length))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, I64, U8, F16], ids=str)
def test_the_best_many_are_chosen_below_a_limit(dtype: DType, target: Target) -> None:
    """Keys far apart and all equal, in rising and falling order, the ends of the type, lines of no whole vectors."""

    def build(ir: Builder, x: Value, _: Value) -> list[Value]:
        fixed = [*ir.top_k(x, 64, 1, True), *ir.top_k(x, 70, 1, False)]
        return [*fixed, *ir.top_k(x, Size.symbol("k"), 1, True), *ir.top_k(x, Size.symbol("k"), 1, False)]

    native = Native(make([f"{dtype}[2, N]", "bool[k]"], build), target)
    for length, count in [(70, 65), (127, 64), (128, 64), (129, 64), (1003, 300), (3070, 64), (3072, 64)]:
        x = sample(dtype, 2, length)
        for line in (x, np.sort(x), np.sort(x)[:, ::-1].copy(), np.ones_like(x), np.resize(odd_values(dtype), x.shape)):
            _check(native, line, count)
        x[0, 3], x[1, -1] = odd_values(dtype)[:2]
        _check(native, x, count)


@pytest.mark.parametrize(
    ("dtype", "target"), [*((F32, target) for target in EVERY_TARGET), *((each, HOST) for each in (F64, I64, U8, F16))]
)
def test_the_best_many_are_sorted_by_digits(dtype: DType, target: Target) -> None:
    """Dense lines and such that lie across memory, ties, the ends of the type; from as few as pay to nearly all."""

    def build(ir: Builder, x: Value, y: Value, _: Value) -> list[Value]:
        count, turned = Size.symbol("k"), ir.transpose(y, (1, 0))
        return [result for down in (True, False) for z in (x, turned) for result in ir.top_k(z, count, 1, down)]

    native = Native(make([f"{dtype}[2, N]", f"{dtype}[N, 2]", "bool[k]"], build), target)
    fewest = fewest_by_digits(dtype.bits)
    for length, count in [(2 * fewest - 1, fewest - 1), (fewest + 1, fewest), (1030, 1029), (1203, 600)]:
        x = sample(dtype, 2, length)
        for lines in (x, np.ones_like(x), np.resize(odd_values(dtype), x.shape), np.resize(x[:, :7], x.shape)):
            arrays = (lines, np.ascontiguousarray(lines.T), np.zeros(count, np.bool_))
            for found, wanted in zip(native(*arrays), native.interpreted(*arrays), strict=True):
                assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(("dtype", "count", "is_sorted"), [(F32, 255, False), (F32, 256, True), (F64, 511, False)])
def test_few_have_no_code_for_digits(
    dtype: DType, count: int, is_sorted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorts: list[bool] = []

    def radix_function(name: str, order: Ordering, *, is_chosen: bool = False) -> FunctionBuilder:
        sorts.append(is_chosen)
        return sorting.radix_function(name, order, is_chosen=is_chosen)

    monkeypatch.setattr(ordering, "radix_function", radix_function)
    native = Native(make([f"{dtype}[3000]"], lambda ir, x: [*ir.top_k(x, count, 0)]))
    native.check(sample(dtype, 3000))
    assert sorts == [True] * is_sorted
