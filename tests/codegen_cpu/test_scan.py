"""Running folds along every axis, in both directions."""

from itertools import product

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.schedules import ScanSchedule, Tile
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, odd_values, precision, sample

# From 100 lines on they are parts of a tile of vectors side by side, whole tiles and a part with some vectors or most;
# the last is two stretches, and a part.
SHAPES = [(2, 3, 5), (1, 1, 1), (3, 17, 33), (0, 2, 3), (2, 0, 3), (2, 3, 0), (2, 7, 16)]
SHAPES += [(2, 3, 100), (2, 3, 150), (1, 2, 250), (1, 2, 1101)]
FORMS = list(product(("sum", "prod", "min", "max"), range(3), (False, True), (False, True)))


def build(ir: Builder, x: Value) -> list[Value]:
    return [ir.scan_axis(x, kind, axis, exclusive, reverse) for kind, axis, exclusive, reverse in FORMS]


def _numbers(dtype: DType, *shape: int) -> np.ndarray:
    x = sample(dtype, *shape)
    return (1 + x / 16).astype(dtype.numpy) if dtype.is_float else x


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F32, F16, I32], ids=str)
def test_scans_on_every_target(dtype: DType, target: Target) -> None:
    native = Native(make([f"{dtype}[N, M, K]"], build), target)
    assert set(native.kernels()) == {"scan"}
    for shape in SHAPES:
        native.check(_numbers(dtype, *shape), bound=2 * precision(dtype))


@pytest.mark.parametrize("dtype", [F64, BF16, I8, U8, BOOL], ids=str)
def test_element_types(dtype: DType) -> None:
    native = Native(make([f"{dtype}[N, M, K]"], build))
    for shape in SHAPES:
        native.check(_numbers(dtype, *shape), bound=2 * precision(dtype))


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("lines", [2, 15, 17, 64, 128, 129])
def test_lines_of_a_known_number(lines: int, target: Target) -> None:
    forms = [(kind, exclusive, reverse) for kind, axis, exclusive, reverse in FORMS if axis == 1]
    for dtype in (F32, I32, F64):
        native = Native(
            make(
                [f"{dtype}[N, M, {lines}]"],
                lambda ir, x: [ir.scan_axis(x, kind, 1, exclusive, reverse) for kind, exclusive, reverse in forms],
            ),
            target,
        )
        native.check(_numbers(dtype, 2, 5, lines), bound=2 * precision(dtype))


@pytest.mark.parametrize(("lines", "together"), [("N", 4), ("9", 4), ("3", 3), ("1", 1), ("0", 1)])
def test_lines_along_the_last_axis_go_along_beside_each_other(lines: str, together: int) -> None:
    native = Native(make([f"f32[{lines}, M]"], lambda ir, x: ir.scan_axis(x, "sum", 1)))
    (kernel,) = native.plan.kernels
    assert kernel.scheduled(ScanSchedule).tile == Tile(together, 1)
    for count in range(11) if lines == "N" else (int(lines),):
        for length in (0, 1, 17):
            native.check(_numbers(F32, count, length), bound=1e-6)


def test_an_axis_with_one_element_behind_it_is_the_last_of_a_buffer_and_not_of_a_view() -> None:
    native = Native(make(["f32[N, M, 1]"], lambda ir, x: ir.scan_axis(x, "sum", 1)))
    turned = Native(make(["f32[M, N, 1]"], lambda ir, x: ir.scan_axis(ir.transpose(x, (1, 0, 2)), "sum", 1)))
    for count in (1, 4, 6):
        native.check(_numbers(F32, count, 17, 1), bound=1e-6)
        turned.check(_numbers(F32, 17, count, 1), bound=1e-6)


def test_the_operand_may_be_a_view() -> None:
    native = Native(make(["f32[N, M, K]"], lambda ir, x: build(ir, ir.transpose(x, (2, 0, 1)))))
    for shape in SHAPES:
        native.check(_numbers(F32, *shape), bound=1e-6)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_a_little_work_is_done_as_it_is_scanned(target: Target) -> None:
    """As where a mask is counted."""

    def count(ir: Builder, x: Value) -> list[Value]:
        mask = ir.cast(ir.less(x, 0.0), I64)
        return [ir.scan_axis(mask, "sum", axis, exclusive) for axis in range(3) for exclusive in (False, True)]

    native = Native(make(["f32[N, M, K]"], count), target)
    assert set(native.kernels()) == {"scan"}
    for shape in SHAPES:
        native.check(np.resize(odd_values(F32), shape))
    alone = Native(make(["f32[N]"], lambda ir, x: ir.scan_axis(ir.cast(ir.less(x, 0.0), I64), "sum", 0)), target)
    for size in (0, 1, 17, 100):
        alone.check(np.resize(odd_values(F32), size))


def test_much_work_is_done_before() -> None:
    native = Native(make(["f32[N, M]"], lambda ir, x: ir.scan_axis(ir.exp(ir.exp(x)), "sum", 1)))
    assert native.kernels() == ["pointwise", "scan"]
    native.check(_numbers(F32, 3, 17) / 16, bound=1e-5)


def test_what_crosses_memory_is_turned_before_it_is_scanned() -> None:
    native = Native(make(["f32[N, M, K]"], lambda ir, x: ir.scan_axis(ir.transpose(x, (1, 2, 0)), "sum", 1)))
    assert native.kernels() == ["pointwise", "scan"]
    for shape in SHAPES:
        native.check(_numbers(F32, *shape), bound=1e-6)


def test_a_running_sum_is_as_exact_as_its_type() -> None:
    native = Native(make(["f32[N]"], lambda ir, x: ir.scan_axis(x, "sum", 0)))
    native.check(np.full(100_000, 0.1, np.float32))


@pytest.mark.parametrize("kind", ["min", "max"])
def test_extremes_of_nan_and_infinities(kind: str) -> None:
    native = Native(make(["f32[N, M]"], lambda ir, x: [ir.scan_axis(x, kind, axis) for axis in (0, 1)]))
    native.check(np.resize(odd_values(F32), (20, 21)))
