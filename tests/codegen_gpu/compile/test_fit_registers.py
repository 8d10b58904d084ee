"""Kernels that have stack are replaced by the next of their ranking: with kernels that only say how much they have."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from onnxc.compiler.codegen_gpu.compile.compile_kernels import KernelsFailed
from onnxc.compiler.codegen_gpu.fit_registers import FittedPlan, fit_registers
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import at_least, floordiv
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import AttentionSchedule, ContractionSchedule, PointwiseSchedule, Tile, Warps
from onnxc.runtime.device_code import DeviceKernel
from tests.codegen_gpu.support import SM_90, make


def _plan() -> KernelPlan:
    types = ["bf16[8192, 4096]", "bf16[4096, 4096]"]
    return plan_kernels(make(types, lambda ir, a, b: ir.gelu(ir.dot(a, b, "mk,kn->mn"))), gpu_plan_target(SM_90))


class _Compiler:
    """Compiles nothing; kernels have the stack that `stacks` says, in the order in which they are asked for.

    None is one that fails.
    """

    def __init__(self, *stacks: int | None) -> None:
        self.stacks = list(stacks)
        self.asked: list[KernelSource] = []

    def __call__(self, sources: Sequence[KernelSource]) -> list[DeviceKernel]:
        self.asked += sources
        stacks = [(source, self.stacks.pop(0)) for source in sources]
        compiled = {source: _kernel(source, stack) for source, stack in stacks if stack is not None}
        if len(compiled) < len(sources):
            raise KernelsFailed("a block needs 73728 registers", compiled)
        return [*compiled.values()]


def _kernel(source: KernelSource, stack_bytes: int) -> DeviceKernel:
    types = tuple(parameter.type for parameter in source.parameters)
    return DeviceKernel(source.text, "kernel", b"", types, source.warps, 1, 0, 0, False, 32, stack_bytes, source.text)


def _schedule(fitted: FittedPlan) -> ContractionSchedule:
    (kernel,) = fitted.plan.kernels
    return kernel.scheduled(ContractionSchedule)


def test_what_has_no_stack_is_compiled_once() -> None:
    plan, compiler = _plan(), _Compiler(0)
    fitted = fit_registers(plan, SM_90, compiler)
    assert fitted.plan.kernels == plan.kernels
    assert len(compiler.asked) == len(fitted.kernels) == len(fitted.codes) == 1
    assert _schedule(fitted).tile == Tile(128, 128, 64)


def test_the_next_without_stack_is_taken_and_says_why() -> None:
    compiler = _Compiler(504, 0)
    fitted = fit_registers(_plan(), SM_90, compiler)
    schedule = _schedule(fitted)
    assert schedule.quarters
    assert schedule.tile == Tile(128, 128, 64)
    assert "128 x 128 x 64, 4 warps, 3 stages has 504 bytes of stack" in schedule.why
    assert list(fitted.kernels) == compiler.asked[1:]
    assert fitted.codes[0].steps[0].source == compiler.asked[1]


def test_a_tile_that_has_stack_in_quarters_too_is_replaced_by_a_smaller_one() -> None:
    fitted = fit_registers(_plan(), SM_90, _Compiler(504, 64, 0))
    schedule = _schedule(fitted)
    assert schedule.tile.rows * schedule.tile.columns < 128 * 128
    assert not schedule.quarters
    assert "3 stages, finished in quarters has 64 bytes of stack" in schedule.why


def test_where_all_have_some_the_least_is_taken() -> None:
    plan = _plan()
    count = 1 + len(plan.kernels[0].schedule.fallbacks)
    stacks = [504, 16, *[32] * (count - 2)]
    compiler = _Compiler(*stacks)
    fitted = fit_registers(plan, SM_90, compiler)
    assert count > 2
    assert [kernel.stack_bytes for kernel in fitted.kernels.values()] == [16]
    assert len(compiler.asked) == count


def test_what_does_not_compile_is_replaced_and_the_others_are_compiled_once() -> None:
    types = ["bf16[8192, 4096]", "bf16[4096, 4096]", "f32[N]"]
    module = make(types, lambda ir, a, b, x: [ir.dot(a, b, "mk,kn->mn"), ir.exp(x)])
    plan, compiler = plan_kernels(module, gpu_plan_target(SM_90)), _Compiler(None, 0, None, 8, 0)
    fitted = fit_registers(plan, SM_90, compiler)
    product, elements = fitted.plan.kernels
    assert elements == plan.kernels[1]
    assert product.schedule.why == f"{plan.kernels[0].schedule.fallbacks[1].brief} has 8 bytes of stack"
    assert len(compiler.asked) == 5
    assert list(fitted.kernels) == [compiler.asked[4], compiler.asked[1]]


def test_a_fallback_says_that_what_was_before_it_does_not_compile() -> None:
    fitted = fit_registers(_plan(), SM_90, _Compiler(None, 0))
    assert "128 x 128 x 64, 4 warps, 3 stages does not compile" in _schedule(fitted).why


def test_what_has_stack_is_kept_where_nothing_else_compiles() -> None:
    plan = _plan()
    fitted = fit_registers(plan, SM_90, _Compiler(8, *[None] * len(plan.kernels[0].schedule.fallbacks)))
    assert fitted.plan.kernels == plan.kernels
    assert [kernel.stack_bytes for kernel in fitted.kernels.values()] == [8]


def test_where_nothing_compiles_the_failure_is_told() -> None:
    plan = _plan()
    compiler = _Compiler(*[None] * (1 + len(plan.kernels[0].schedule.fallbacks)))
    with pytest.raises(KernelsFailed, match="a block needs 73728 registers"):
        fit_registers(plan, SM_90, compiler)
    assert not compiler.stacks


def test_fallbacks_are_within_each_other_and_need_no_more_memory_than_is_reserved() -> None:
    schedule = _plan().kernels[0].scheduled(ContractionSchedule)
    row = [schedule, *schedule.fallbacks]
    for each, following in pairwise(row):
        assert isinstance(following, ContractionSchedule)
        assert isinstance(each, ContractionSchedule)
        assert following.tile.rows <= each.tile.rows
        assert following.tile.columns <= each.tile.columns
        assert following.shared_bytes == schedule.shared_bytes
        assert at_least(schedule.scratch_bytes, replace(following, fallbacks=()).scratch_bytes)
    assert len(row) > 2


def test_programs_that_share_keys_are_alike_in_more_warps_behind_what_has_stack() -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.attention(q, k, v, None, 0.125, False, 0.0)

    types = ["f32[1, 8, 1, 64]", "f32[1, 2, T, 64]", "f32[1, 2, T, 64]"]
    plan = plan_kernels(make(types, build), gpu_plan_target(SM_90))
    schedules = [kernel.scheduled(AttentionSchedule) for kernel in plan.kernels]
    (shared,) = (schedule for schedule in schedules if schedule.split > 1)
    assert shared.workers == Warps(4, 2)
    assert [(each.brief, each.workers) for each in shared.fallbacks] == [
        ("16 x 32, 8 warps, 2 stages, 16 programs share each", Warps(8, 2))
    ]


def _gathering(columns: int) -> KernelPlan:
    types = [f"f32[N, {columns}]", "i64[4000]"]
    return plan_kernels(make(types, lambda ir, x, i: ir.gather(x, i, 0)), gpu_plan_target(SM_90))


def test_programs_have_fewer_elements_behind_what_has_stack() -> None:
    plan = _gathering(3)
    (kernel,) = plan.kernels
    schedule = kernel.scheduled(PointwiseSchedule)
    assert [each.brief for each in (schedule, *schedule.fallbacks)] == [
        "1024 elements, 4 warps, 3 stages",
        "512 elements, 4 warps, 3 stages",
        "256 elements, 4 warps, 3 stages",
    ]
    fitted = fit_registers(plan, SM_90, _Compiler(16, 0))
    (taken,) = fitted.plan.kernels
    chosen = taken.scheduled(PointwiseSchedule)
    assert (chosen.block, chosen.workers) == (512, Warps(4))
    assert "1024 elements, 4 warps, 3 stages has 16 bytes of stack" in chosen.why
    (step,) = fitted.codes[0].steps
    assert step.grid[0] == floordiv(12000 + 511, 512)
