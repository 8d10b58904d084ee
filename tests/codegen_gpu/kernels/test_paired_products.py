"""Two products of the same rows by one kernel, as of gated layers: values, and where each stays a kernel of its own."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.depth_last import depth_last
from onnxc.compiler.planning.schedules import ContractionSchedule
from onnxc.compiler.target import Target
from tests.codegen_gpu.support import SM_80, SM_90, Device, make, sample

BOUND = 3e-2


def _weights(ir: Builder, dtype: DType, depth: int, columns: int, seed: int) -> Value:
    return ir.constant((sample(F32, depth, columns, seed=seed) / 4).astype(dtype.numpy))


def _gated(dtype: DType, depth: int, columns: int) -> Callable[[Builder, Value], Value]:
    def build(ir: Builder, x: Value) -> Value:
        gate, up = (ir.dot(x, _weights(ir, dtype, depth, columns, seed), "bmk,kn->bmn") for seed in (1, 2))
        return ir.mul(ir.mul(gate, ir.sigmoid(gate)), up)

    return build


def _schedules(device: Device) -> list[ContractionSchedule]:
    return [kernel.scheduled(ContractionSchedule) for kernel in device.plan.kernels]


@pytest.mark.parametrize("target", [SM_80, SM_90], ids=str)
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_a_gate_and_what_it_weighs_are_one_launch(dtype: DType, target: Target) -> None:
    device = Device(make([f"{dtype}[B, S, 72]"], _gated(dtype, 72, 136)), target)
    (segment,) = device.plan.body.steps
    assert len(segment.launches) == 1
    assert {schedule.products for schedule in _schedules(device)} == {2}
    for batch, rows in ((0, 3), (1, 1), (2, 9), (1, 70), (3, 200)):
        device.check(sample(dtype, batch, rows, 72), bound=BOUND)


@pytest.mark.parametrize("target", [SM_80, SM_90], ids=str)
@pytest.mark.parametrize(("depth", "columns"), [(72, 136), (70, 30)])
def test_of_f32_they_are_one_launch_where_columns_lie_along_what_is_summed(
    depth: int, columns: int, target: Target
) -> None:
    made = make([f"f32[B, S, {depth}]"], _gated(F32, depth, columns))
    device = Device(depth_last(made), target)
    assert device.kernels() == ["contraction"]
    assert {schedule.products for schedule in _schedules(device)} == {2}
    for batch, rows in ((0, 3), (1, 1), (2, 9), (1, 70), (3, 200)):
        device.check(sample(F32, batch, rows, depth), bound=2e-5)
    assert {schedule.products for schedule in _schedules(Device(made, target))} == {1}


def test_programs_share_the_sums_of_both() -> None:
    device = Device(make(["bf16[1, 1, 4096]"], _gated(BF16, 4096, 64)))
    (schedule,) = _schedules(device)
    assert (schedule.products, schedule.split > 1) == (2, True)
    device.check(sample(BF16, 1, 1, 4096) / 64, bound=BOUND)


def test_tiles_of_programs_that_stay_and_those_that_are_finished_in_parts() -> None:
    large = Device(make(["bf16[1, M, 768]"], _gated(BF16, 768, 2048)))
    schedule = next(schedule for schedule in _schedules(large) if schedule.resident)
    assert any(each.quarters for each in schedule.fallbacks if isinstance(each, ContractionSchedule))
    # As many programs as there are tiles, and fewer.
    for each in (schedule, *schedule.fallbacks[:2], replace(schedule, resident=3)):
        device = Device(make(["bf16[1, M, 64]"], _gated(BF16, 64, 128)), schedule=each)
        for rows in (5, 300):
            device.check(sample(BF16, 1, rows, 64), bound=BOUND)


def test_what_follows_either_product_is_done_in_registers() -> None:
    """A bias, a cast and a residual; the result is turned."""

    def build(ir: Builder, x: Value, residual: Value) -> Value:
        gate, up = (ir.dot(x, _weights(ir, BF16, 32, 64, seed), "mk,kn->mn", F32) for seed in (1, 2))
        gate = ir.cast(ir.relu(ir.add(gate, 0.5)), BF16)
        return ir.transpose(ir.add(ir.mul(gate, ir.cast(up, BF16)), residual), (1, 0))

    device = Device(make(["bf16[M, 32]", "bf16[M, 64]"], build))
    assert device.kernels() == ["contraction"]
    for rows in (1, 40, 130):
        device.check(sample(BF16, rows, 32), sample(BF16, rows, 64), bound=BOUND)


def _other_rows(ir: Builder, x: Value, y: Value) -> Value:
    gate, up = (ir.dot(each, _weights(ir, BF16, 64, 64, 1), "mk,kn->mn") for each in (x, y))
    return ir.mul(ir.sigmoid(gate), up)


def _wanted_twice(ir: Builder, x: Value, y: Value) -> list[Value]:
    gate, up = (ir.dot(x, _weights(ir, BF16, 64, 64, seed), "mk,kn->mn") for seed in (1, 2))
    return [ir.mul(ir.sigmoid(gate), ir.add(up, y)), gate]


def _output(ir: Builder, x: Value, y: Value) -> list[Value]:
    gate, up = (ir.dot(x, _weights(ir, BF16, 64, 64, seed), "mk,kn->mn") for seed in (1, 2))
    return [ir.mul(gate, ir.add(up, y)), gate]


def _odd_columns(ir: Builder, x: Value, y: Value) -> Value:
    gate, up = (ir.dot(x, _weights(ir, BF16, 64, 60, seed), "mk,kn->mn") for seed in (1, 2))
    return ir.mul(ir.sigmoid(gate), up)


def _not_constant(ir: Builder, x: Value, y: Value) -> Value:
    gate, up = (ir.dot(x, w, "mk,kn->mn") for w in (y, _weights(ir, BF16, 64, 64, 2)))
    return ir.mul(ir.sigmoid(gate), up)


APART = {
    "other rows": _other_rows, "wanted twice": _wanted_twice, "output": _output, "odd columns": _odd_columns,
    "inputs": _not_constant,
}  # fmt: skip


@pytest.mark.parametrize("case", APART)
def test_products_that_are_kernels_of_their_own(case: str) -> None:
    device = Device(make(["bf16[64, 64]", "bf16[64, 64]"], APART[case]))
    assert {schedule.products for schedule in _schedules(device)} == {1}
    device.check(sample(BF16, 64, 64), sample(BF16, 64, 64, seed=1), bound=BOUND)


def test_three_products_are_a_pair_and_one() -> None:
    def build(ir: Builder, x: Value) -> Value:
        first, second, third = (ir.dot(x, _weights(ir, BF16, 64, 64, seed), "mk,kn->mn") for seed in (1, 2, 3))
        return ir.add(ir.mul(ir.sigmoid(first), second), third)

    device = Device(make(["bf16[64, 64]"], build))
    assert sorted(schedule.products for schedule in _schedules(device)) == [1, 2]
    device.check(sample(BF16, 64, 64), bound=BOUND)


def test_nan_stays_in_its_row() -> None:
    device = Device(make(["bf16[1, 40, 64]"], _gated(BF16, 64, 64)))
    x = sample(BF16, 1, 40, 64)
    x[0, 3, 5] = np.nan
    device.check(x, bound=BOUND)
