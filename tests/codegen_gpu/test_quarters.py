"""Large tiles whose results are computed in quarters, for what has stack in halves: where they are; their values."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, I8, I32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.choose_schedules import KernelProblem, cases_of
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import Arithmetic, ContractionSchedule, Tile, Warps
from tests.codegen_gpu.support import SM_90, Device, make, precision, sample


def _sums(ir: Builder, x: Value, w: Value, rest: Value) -> Value:
    return ir.add(ir.cast(ir.dot(x, w, "mk,nk->mn"), F32), rest)


def _finished(ir: Builder, x: Value, w: Value, rest: Value) -> Value:
    return ir.gelu(ir.add(ir.dot(x, w, "mk,nk->mn"), rest))


def _bytes(ir: Builder, x: Value, w: Value, rest: Value) -> Value:
    return ir.add(ir.dot(x, w, "mk,nk->mn", I32), rest)


def _schedule(dtype: DType, tile: Tile, resident: int) -> ContractionSchedule:
    warps = Warps(tile.rows * tile.columns // (128 * 32))
    is_copied = resident > 0
    return ContractionSchedule(
        algorithm="tiles", tile=tile, arithmetic=Arithmetic(str(dtype), F32 if dtype.is_float else I32), workers=warps,
        block_copies=is_copied, resident=resident, program_bytes=256 * is_copied, programs=resident, quarters=True,
    )  # fmt: skip


CASES: dict[str, tuple[DType, Callable[..., Value], DType, Tile, int]] = {
    "f16, and f32 added": (F16, _sums, F32, Tile(128, 128, 64), 2),
    "f16 to f32": (F16, _sums, F32, Tile(128, 256, 64), 1),
    "bf16": (BF16, _finished, BF16, Tile(128, 128, 64), 2),
    "bf16, a program for each tile": (BF16, _finished, BF16, Tile(64, 256, 64), 0),
    "bytes": (I8, _bytes, I32, Tile(128, 128, 64), 0),
}
"""The type of operands, what follows, its type, and the tile of how many programs that stay."""


def _device(name: str) -> Device:
    dtype, build, added, tile, resident = CASES[name]
    module = make([f"{dtype}[M, 72]", f"{dtype}[328, 72]", f"{added}[M, 328]"], build)
    return Device(module, schedule=_schedule(dtype, tile, resident))


@pytest.mark.parametrize("rows", [0, 1, 128, 200])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, rows: int) -> None:
    dtype, _, added, _, _ = CASES[name]
    device = _device(name)
    assert device.code(0).steps[0].source.text.count(".split()") == 3
    device.check(sample(dtype, rows, 72), sample(dtype, 328, 72), sample(added, rows, 328), bound=8 * precision(dtype))


def test_what_is_no_number_stays_in_its_quarter() -> None:
    x, w, rest = sample(F16, 40, 72), sample(F16, 328, 72), sample(F32, 40, 328)
    rest[3, [0, 31, 32, 63, 64, 127, 128, 327]] = [np.nan, np.inf, -np.inf, -0.0, np.nan, np.inf, -np.inf, np.nan]
    _device("f16, and f32 added").check(x, w, rest, bound=1e-2)


TYPES = {
    "bf16": ["bf16[8192, 4096]", "bf16[4096, 4096]"],
    "f16 of a call": ["f16[M, 768]", "f16[2304, 768]"],
    "i8": ["i8[8192, 4096]", "i8[4096, 4096]"],
    "f32": ["f32[8192, 4096]", "f32[4096, 4096]"],
}


@pytest.mark.parametrize("name", TYPES)
def test_tiles_of_many_sums_have_their_quarters_behind_them_alone(name: str) -> None:
    """Those that copying warps leave registers to are finished whole, and tiles of f32 are smaller."""
    target = gpu_plan_target(SM_90)
    result = I32 if name == "i8" else None
    kernel = plan_kernels(make(TYPES[name], lambda ir, a, b: ir.dot(a, b, "mk,nk->mn", result)), target).kernels[-1]
    problem = KernelProblem(kernel.kind, kernel.block)
    *_, (_, case) = cases_of(problem, target)
    behind = []
    for each in target.candidates(problem, case):
        assert isinstance(each, ContractionSchedule)
        assert isinstance(each.workers, Warps)
        assert not each.quarters
        sums = each.tile.rows * each.tile.columns / (32 * each.workers.count)
        assert len(each.fallbacks) == (sums >= 128 and not each.hands_over), each
        behind += each.fallbacks
    assert bool(behind) == (name != "f32")
    assert all(isinstance(each, ContractionSchedule) and each.quarters for each in behind)
