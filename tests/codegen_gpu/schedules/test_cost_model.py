"""The cost model by its decisions: what it prefers, never how long something takes."""

import json
from pathlib import Path

import pytest

from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.schedules import cost_model as module
from onnxc.compiler.codegen_gpu.schedules.cards import CARDS
from onnxc.compiler.codegen_gpu.schedules.cost_model import Work, cost_model
from onnxc.compiler.codegen_gpu.schedules.product_tiles import (
    TILED_DTYPES,
    Products,
    arithmetic_of,
    multiplies,
    product_seconds,
)
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, F32, I8, I32, DType
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import ContractionSchedule, Tile, Warps
from onnxc.compiler.target import Target, parse_target
from tests.codegen_gpu.support import make

SM_90 = parse_target("cuda:sm_90")


def _choose(rows: Dim, columns: int, depth: int, dtype: DType, target: Target = SM_90) -> ContractionSchedule:
    """The schedule of a product that serves every call."""
    types = [TensorType(dtype, (rows, depth)), TensorType(dtype, (depth, columns))]
    sums = I32 if dtype == I8 else F32 if dtype.itemsize == 1 else dtype
    plan = plan_kernels(make(types, lambda ir, a, b: ir.dot(a, b, "mk,kn->mn", sums)), gpu_plan_target(target))
    return plan.kernels[-1].scheduled(ContractionSchedule)


def test_every_card_is_calibrated() -> None:
    table = json.loads(Path(module.__file__).with_name("calibration.json").read_text())
    assert set(table) == set(CARDS)
    for name in CARDS:
        model = cost_model(parse_target(f"cuda:{name}"))
        assert 0 < model.calibration.bandwidth <= 1
        assert 0 < model.calibration.peak <= 1


def test_one_pass_over_memory_beats_three() -> None:
    model, nbytes = cost_model(SM_90), 128e6
    fused = model.seconds(Work(memory_bytes=2 * nbytes, programs=10_000))
    apart = 3 * model.seconds(Work(memory_bytes=2 * nbytes, programs=10_000))
    assert apart > 2.5 * fused


def test_few_programs_are_slower_than_many() -> None:
    model = cost_model(SM_90)
    work = [Work(memory_bytes=1e6, operations=1e10, unit="bf16", programs=n) for n in (1, 16, 132)]
    times = [model.seconds(x) for x in work]
    assert times == sorted(times, reverse=True)
    # One program more than the card holds at once costs a second wave.
    full, over = (model.seconds(Work(memory_bytes=0, operations=1e12, unit="bf16", programs=n)) for n in (132, 133))
    assert over > 1.5 * full


@pytest.mark.parametrize("sizes", [(1024, 3072, 768), (65536, 128, 512), (256, 8192, 1024)], ids=str)
def test_single_warps_hold_fewer_sums_of_f32_in_parts(sizes: tuple[int, int, int]) -> None:
    choice = _choose(*sizes, F32, parse_target("cuda:sm_80"))
    assert choice.arithmetic.operands == "tf32x3"
    for schedule in (choice, *choice.fallbacks):
        assert isinstance(schedule, ContractionSchedule), schedule
        assert isinstance(schedule.workers, Warps), schedule
        assert schedule.tile.rows * schedule.tile.columns <= 32 * 32 * schedule.workers.count


def test_behind_the_smallest_tile_stands_the_same_in_more_steps() -> None:
    choice = _choose(16, 4096, 4096, BF16)
    *_, smallest, last = (choice, *choice.fallbacks)
    assert isinstance(smallest, ContractionSchedule), smallest
    assert isinstance(last, ContractionSchedule), last
    assert (last.tile.rows, last.tile.columns, last.workers.count) == (
        smallest.tile.rows,
        smallest.tile.columns,
        smallest.workers.count,
    )
    assert last.tile.depth < smallest.tile.depth


def test_turning_columns_costs_groups_of_warps_alone() -> None:
    def seconds(name: str, is_turned: bool) -> float:
        products = Products(1, 4096, 4096, 1, 4096, 2 * 4096**2 * 4, F32, is_turned)
        model = cost_model(parse_target(f"cuda:{name}"))
        return float(
            product_seconds(products, Tile(64, 128, 32), Warps(8, 3), 1, arithmetic_of(F32, F32, "tf32x3"), model)
        )

    assert seconds("sm_80", True) == seconds("sm_80", False)
    assert seconds("sm_90", True) > seconds("sm_90", False)


def test_large_products_have_large_tiles_and_no_split() -> None:
    choice = _choose(8192, 8192, 8192, BF16)
    assert (choice.tile.rows, choice.tile.columns, choice.split) == (128, 128, 1)
    choice = _choose(4096, 4096, 4096, F32)
    assert choice.tile.rows * choice.tile.columns >= 64 * 128
    assert choice.split == 1


def test_few_rows_and_a_long_k_are_shared() -> None:
    choice = _choose(1, 128, 8192, BF16)
    assert choice.split > 1
    assert choice.tile.rows == 16


def test_sizes_of_a_call_are_never_split_along() -> None:
    choice = _choose(Size.symbol("M"), 128, 8192, BF16)
    assert choice.split == 1


MULTIPLIED = [
    (name, dtype)
    for name in CARDS
    for dtype in sorted(TILED_DTYPES, key=str)
    if multiplies(dtype, parse_target(f"cuda:{name}"))
]


@pytest.mark.parametrize(("architecture", "dtype"), MULTIPLIED, ids=str)
def test_tiles_fit_the_card(architecture: str, dtype: DType) -> None:
    target = parse_target(f"cuda:{architecture}")
    for m, n, k in [(1, 1, 1), (3, 5, 7), (16, 16, 16), (128, 1000, 2048), (5000, 33, 4096), (1 << 20, 64, 64)]:
        schedule = _choose(m, n, k, dtype, target)
        tile = schedule.tile
        assert isinstance(schedule.workers, Warps)
        shared = schedule.workers.stages * (tile.rows + tile.columns) * tile.depth * dtype.itemsize
        assert shared <= CARDS[architecture].shared_bytes
        assert tile.rows >= 16
        assert tile.columns >= 16
        assert tile.depth >= (32 if dtype.itemsize == 1 else 16)
