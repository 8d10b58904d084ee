"""Tiles of attention in f32, whose products are made of parts of its operands."""

import importlib.util
from pathlib import Path

import pytest

from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.compile.cubin import instruction_counts
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import AttentionSchedule, Tile
from onnxc.compiler.target import Target
from tests.codegen_gpu.support import SM_80, SM_90, Device, code_of, make, sample

LONG, SHORT = "N, 12, 197", "2, 3, 70"


def _attention(shape: str, width: int) -> Module:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.attention(q, k, v, None, 0.125, False, 0.0)

    return make([f"f32[{shape}, {width}]"] * 3, build)


def _schedule(module: Module, target: Target = SM_90) -> AttentionSchedule:
    return plan_kernels(module, gpu_plan_target(target)).kernels[-1].scheduled(AttentionSchedule)


@pytest.mark.parametrize(
    ("target", "width", "rows"), [(SM_90, 64, 64), (SM_90, 32, 64), (SM_90, 128, 32), (SM_80, 64, 32)]
)
def test_groups_of_warps_multiply_many_queries(target: Target, width: int, rows: int) -> None:
    assert _schedule(_attention(LONG, width), target).tile.rows == rows


def test_what_has_too_many_registers_takes_half_of_the_keys_at_a_time() -> None:
    schedule = _schedule(_attention(LONG, 64))
    half = schedule.fallbacks[0]
    assert isinstance(half, AttentionSchedule)
    assert (schedule.tile, half.tile) == (Tile(64, 32), Tile(64, 16))
    device = Device(_attention(SHORT, 64), schedule=half)
    device.check(*(sample(F32, 2, 3, 70, 64, seed=seed) for seed in range(3)), bound=1e-5)


@pytest.mark.slow
def test_groups_of_warps_multiply_heads_of_64_without_stack(tmp_path: Path) -> None:
    kernel = plan_kernels(_attention(LONG, 64), gpu_plan_target(SM_90)).kernels[-1]
    (compiled,) = compile_kernels([step.source for step in code_of(kernel).steps], SM_90, tmp_path)
    spec = importlib.util.find_spec("triton")
    assert spec is not None
    assert spec.origin is not None
    counts = instruction_counts(compiled.cubin, Path(spec.origin).parent / "backends/nvidia/bin/nvdisasm")
    assert any(name.startswith("HGMMA") for name in counts)
    assert compiled.stack_bytes == 0
