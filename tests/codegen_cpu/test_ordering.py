"""Sorting and the best k: along every axis, in both directions, stable, NaN after every number."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.kernels import ordering
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U16, U64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, odd_values, sample

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
