"""Products with matrices that indices pick, by the interpreter: tiles of them where they lie."""

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.schedules.block_copies import block_sides
from onnxc.compiler.codegen_gpu.schedules.product_tiles import tile_problem
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.schedules import Arithmetic, ContractionSchedule, Tile, Warps
from onnxc.runtime.program import STATUS_CODE, STATUS_SIZE, STATUS_VALUE
from tests.codegen_cpu.products.two_picks import arrays_of_two_picks, product_of_two_picks
from tests.codegen_gpu.support import SM_90, Device, make, precision, sample

INDICES = [0, 2, 2, 1, 0, 2, 1]


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize(
    ("experts", "row", "equation"),
    [
        ((3, 70, 40), (40,), "amk,ak->am"),
        ((3, 50, 40), (40, 1), "amk,akn->amn"),
        ((3, 40, 30), (9, 40), "akn,amk->amn"),
        ((3, 30, 40), (9, 40), "ank,amk->anm"),
    ],
)
def test_tiles_are_read_where_indices_pick(
    experts: tuple[int, ...], row: tuple[int, ...], equation: str, dtype: DType
) -> None:
    weights, inner = sample(dtype, *experts), ", ".join(map(str, row))
    device = Device(
        make(
            [f"{dtype}[N, {inner}]", "i64[N]"],
            lambda ir, x, i: ir.dot(ir.gather(ir.constant(weights), i, 0), x, equation),
        )
    )
    assert set(device.kernels()) == {"contraction"}
    for count in (0, 1, len(INDICES)):
        arrays = sample(dtype, count, *row, seed=1), np.array(INDICES[:count], np.int64)
        device.check(*arrays, bound=4 * precision(dtype))


def test_both_operands_are_picked_by_other_indices_from_any_axis() -> None:
    device = Device(product_of_two_picks())
    assert device.kernels() == ["contraction"]
    device.check(*arrays_of_two_picks(), bound=1e-5)


def test_blocks_are_copied_of_matrices_that_are_picked() -> None:
    weights = sample(F16, 3, 64, 128)
    module = make(
        ["f16[7, 80, 64]", "i64[7]"],
        lambda ir, x, i: ir.dot(x, ir.gather(ir.constant(weights), i, 0), "amk,akn->amn"),
    )
    schedule = ContractionSchedule(
        algorithm="tiles", tile=Tile(64, 64, 64), arithmetic=Arithmetic("f16", F32), workers=Warps(4, 3),
        block_copies=True, program_bytes=256, programs=28,
    )  # fmt: skip
    device = Device(module, schedule=schedule)
    assert sum(text.count("make_tensor_descriptor") for text in device.sources()) == 2
    assert len(compile_kernels([step.source for step in device.code(0).steps], SM_90, None)) == 1
    device.check(sample(F16, 7, 80, 64, seed=1), np.array(INDICES, np.int64), bound=4 * precision(F16))


@pytest.mark.parametrize(("apart", "is_copied"), [(4104, True), (4100, False)])
def test_blocks_begin_at_multiples_of_16_bytes(apart: int, is_copied: bool) -> None:
    """Matrices of 64 x 64 so many elements apart: the copy engine reads none that begins elsewhere."""

    def build(ir: Builder, x: Value, w: Value, i: Value) -> Value:
        matrices = ir.reshape(ir.slice(w, (0, 0), (3, 4096)), (3, 64, 64))
        return ir.dot(x, ir.gather(matrices, i, 0), "amk,akn->amn")

    problem = tile_problem(Device(make(["f16[7, 80, 64]", f"f16[3, {apart}]", "i64[7]"], build)).plan.kernels[0].block)
    assert problem is not None
    assert problem.b_pick is not None
    assert (block_sides(problem, SM_90, is_packed=False) is not None) is is_copied


def test_what_tensor_cores_do_not_multiply_is_written() -> None:
    module = make(
        ["f64[3, 70, 40]", "i64[7]", "f64[7, 40]"], lambda ir, w, i, x: ir.dot(ir.gather(w, i, 0), x, "amk,ak->am")
    )
    device = Device(module)
    assert device.kernels() == ["pointwise", "contraction"]
    device.check(sample(F64, 3, 70, 40), np.array(INDICES), sample(F64, 7, 40), bound=1e-12)


def test_an_index_outside_of_the_axis_is_reported() -> None:
    module = make(
        ["f32[3, 70, 40]", "i64[2]", "f32[2, 40]"], lambda ir, w, i, x: ir.dot(ir.gather(w, i, 0), x, "amk,ak->am")
    )
    device = Device(module)
    device(sample(F32, 3, 70, 40), np.array([1, 7]), sample(F32, 2, 40))
    assert [device.status[word] for word in (STATUS_CODE, STATUS_VALUE, STATUS_SIZE)] == [1, 7, 3]
