"""Regret: what the tile of a call costs by the cost model, against the best tile for the numbers of that call."""

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, F16, F32, I8, I32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Sweep
from onnxc.compiler.planning.kernel_plan import KernelPlan, Launch, Segment
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import AttentionSchedule, ContractionSchedule, ConvolutionSchedule
from tests.codegen_cpu.products.test_block_products import Weights
from tests.codegen_gpu.support import SM_90, make

TARGET, SMS = gpu_plan_target(SM_90), 132
M, N = Size.symbol("M"), Size.symbol("N")
MOST, BOUND = 1 << 17, 1.15

PRODUCTS = [(768, 768), (3072, 768), (768, 3072), (96, 384), (384, 96), (4096, 4096)]
PRODUCTS += [(14336, 4096), (1000, 2048), (50257, 768), (256, 64), (64, 576), (512, 4608)]


def _product(rows: Dim, columns: int, depth: int, dtype: DType) -> KernelPlan:
    types = [TensorType(dtype, (rows, depth)), TensorType(dtype, (depth, columns))]
    sums = I32 if dtype == I8 else dtype
    return plan_kernels(make(types, lambda ir, a, b: ir.dot(a, b, "mk,kn->mn", sums)), TARGET)


def _launch(plan: KernelPlan) -> Launch:
    (step,) = (step for step in plan.body.steps if isinstance(step, Segment))
    return step.launches[-1]


def _rows(launch: Launch) -> tuple[int, ...]:
    """Numbers of rows over all sizes, those at the ends of guards and beside them included."""
    ends = {end for variant in launch.variants for each in variant.guard for end in (each.low, each.high or each.low)}
    spread = np.unique(np.geomspace(1, MOST, 500).astype(int)).tolist()
    near = {end + step for end in ends for step in (-1, 0, 1)}
    return tuple(sorted(rows for rows in {*spread, *near} if 1 <= rows <= MOST))


def _case(rows: tuple[int, ...], columns: int, depth: int) -> Case:
    sizes = {"batch": 1, "rows": MOST, "columns": columns, "depth": depth}
    return Case(sizes, sizes, Sweep("rows", rows))


@pytest.mark.parametrize("dtype", [F32, F16, BF16, I8], ids=str)
def test_regret_of_products_of_any_number_of_rows(dtype: DType) -> None:
    for columns, depth in PRODUCTS:
        plan = _product(M, columns, depth, dtype)
        rows, regret = _regret(plan, "contraction", columns, depth)
        assert regret <= BOUND, (columns, depth, rows)
        assert len(_launch(plan).variants) <= (10 if dtype == F32 else 9), (columns, depth)


@pytest.mark.parametrize(("columns", "depth"), [(256, 64), (768, 768), (4096, 4096)])
def test_regret_of_products_with_few_bits_of_any_number_of_rows(columns: int, depth: int) -> None:
    weights = Weights(4, 32, depth, columns)

    def product(ir: Builder, x: Value) -> Value:
        return ir.cast(weights.product(ir, ir.cast(x, F32)), BF16)

    rows, regret = _regret(plan_kernels(make([f"bf16[M, {depth}]"], product), TARGET), "block_product", columns, depth)
    assert regret <= BOUND, rows


def _regret(plan: KernelPlan, kind: str, columns: int, depth: int) -> tuple[int, float]:
    """The rows at which the variant that a call takes costs most beside the best candidate, and how much."""
    launch, kernels = _launch(plan), plan.kernels
    rows = _rows(launch)
    case, problem = _case(rows, columns, depth), KernelProblem(kind, kernels[0].block)
    assert TARGET.sweep is not None
    best = np.min([TARGET.sweep(problem, each, case) for each in TARGET.candidates(problem, case)], axis=0)
    costs = {each.kernel: TARGET.sweep(problem, kernels[each.kernel].schedule, case) for each in launch.variants}
    taken = [launch.variant_for({"M": count}).kernel for count in rows]
    regret = np.array([costs[kernel][index] for index, kernel in enumerate(taken)]) / best
    worst = int(regret.argmax())
    return rows[worst], float(regret[worst])


@pytest.mark.parametrize("rows", [64, 100, M, 49 * N])
def test_regret_of_the_smallest_tiles_is_too_large_for_many_rows(rows: Dim) -> None:
    for columns, depth in ((64, 576), (768, 768), (1000, 2048)):
        plan = _product(rows, columns, depth, BF16)
        launch = _launch(plan)
        for number in (1, 2, 3, 8, 32):
            symbols = {"M": 64 * number, "N": 2 * number}
            kernel = plan.kernels[launch.variant_for(symbols).kernel]
            assert kernel.scheduled(ContractionSchedule).tile.rows > 16


def _convolution(images: Dim, side: int, channels: int, filters: int, taps: int) -> KernelPlan:
    x, w = TensorType(BF16, (images, side, side, channels)), TensorType(BF16, (filters, channels, taps, taps))
    edge = (taps // 2, taps // 2)
    dimensions = channels_innermost(2)
    module = make(
        [x, w],
        lambda ir, x, w: ir.convolution(
            x, w, strides=(1, 1), low=edge, high=edge, dilations=(1, 1), dimensions=dimensions
        ),
    )
    return plan_kernels(module, TARGET)


RESNET = [(56, 64, 64, 3), (56, 64, 256, 1), (28, 128, 128, 3), (14, 256, 256, 3), (14, 256, 1024, 1)]
RESNET += [(7, 512, 512, 3), (7, 2048, 512, 1), (7, 512, 2048, 1)]


@pytest.mark.parametrize(("side", "channels", "filters", "taps"), RESNET)
def test_regret_of_one_image_is_small_as_half_of_the_card_works(
    side: int, channels: int, filters: int, taps: int
) -> None:
    for images in (1, N):
        plan = _convolution(images, side, channels, filters, taps)
        kernel = plan.kernels[_launch(plan).variant_for({"N": 1}).kernel]
        schedule = kernel.scheduled(ConvolutionSchedule)
        tile = schedule.tile
        programs = -(-side * side // tile.rows) * -(-filters // tile.columns) * schedule.split
        assert programs >= SMS // 2


def test_regret_of_attention_is_small_as_few_queries_are_in_many_programs() -> None:
    heads = TensorType(BF16, (N, 12, 128, 64))
    plan = plan_kernels(make([heads] * 3, lambda ir, q, k, v: ir.attention(q, k, v, None, scale=0.125)), TARGET)
    launch = _launch(plan)
    one, many = (plan.kernels[launch.variant_for({"N": images}).kernel] for images in (1, 64))
    assert one.scheduled(AttentionSchedule).tile.rows < many.scheduled(AttentionSchedule).tile.rows == 64
