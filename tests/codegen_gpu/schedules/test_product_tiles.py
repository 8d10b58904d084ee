"""What tiles of products take: iterations along k, and how many programs may share them."""

import pytest

from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.schedules.product_tiles import Products, splits
from onnxc.compiler.ir.dtypes import BF16, F16, DType
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import ContractionSchedule, Warps
from tests.codegen_gpu.support import SM_90, make


def _products(segments: int, depth: int) -> Products:
    return Products(1, 4096, 4096, segments, depth, 1 << 20, BF16)


def test_no_iteration_is_in_two_segments() -> None:
    assert _products(1, 9 * 40).iterations(32) == 12
    assert _products(9, 40).iterations(32) == 18
    assert _products(0, 40).iterations(32) == 0


def test_programs_that_share_a_tile_have_iterations_enough_for_each() -> None:
    assert [splits(count) for count in (0, 15, 16, 63)] == [(1,), (1,), (1, 2), (1, 2, 4)]
    assert splits(1 << 20) == (1, 2, 4, 8, 16)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("batch", ["", "5, "], ids=["resident", "batched"])
@pytest.mark.parametrize(("columns", "depth"), [(64, 512), (192, 192), (576, 96), (256, 16)])
def test_blocks_are_copied_in_three_stages_or_more(dtype: DType, batch: str, columns: int, depth: int) -> None:
    target, letter = gpu_plan_target(SM_90), "b" if batch else ""
    types = [f"{dtype}[{batch}100352, {depth}]", f"{dtype}[{batch}{depth}, {columns}]"]
    module = make(types, lambda ir, a, b: ir.dot(a, b, f"{letter}mk,{letter}kn->{letter}mn", dtype))
    (kernel,) = plan_kernels(module, target).kernels
    sizes = {"batch": 5 if batch else 1, "rows": 100352, "columns": columns, "depth": depth}
    candidates = target.candidates(KernelProblem("contraction", kernel.block), Case(sizes, sizes))
    copied = [each for each in candidates if isinstance(each, ContractionSchedule) and each.block_copies]
    assert copied
    for each in copied:
        assert isinstance(each.workers, Warps)
        assert each.workers.stages >= 3, each.brief
    assert (256, 64) in {(each.tile.rows, each.tile.columns) for each in copied}
