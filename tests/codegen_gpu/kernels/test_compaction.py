"""Where elements are true, by the interpreter: none, few or all, in one range or many, too little room or too much."""

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.schedules.compactions import BLOCK, LONGEST_ALONE, RANGES
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, F32, I8, I64, DType
from onnxc.compiler.ir.module import Value
from tests.codegen_cpu.table_views import VIEWS, View
from tests.codegen_gpu.support import Device, make, sample

N = Size.symbol("N")

LENGTHS = (0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, LONGEST_ALONE, LONGEST_ALONE + 1)


def _masks(size: int) -> list[np.ndarray]:
    random = np.random.default_rng(size)
    return [random.random(size) < part for part in (0.0, 0.02, 0.5, 1.0)]


@pytest.mark.parametrize("count", [N, 2 * N + 3, 0, 1, 40], ids=str)
def test_positions_in_their_order_and_then_zeros(count: Dim) -> None:
    device = Device(make(["bool[N]"], lambda ir, x: ir.true_positions(x, count)))
    assert {kernel.kind for kernel in device.plan.kernels} == {"compaction"}
    for size in LENGTHS:
        for mask in _masks(size):
            device.check(mask)


def test_ranges_of_several_blocks() -> None:
    size = RANGES * BLOCK + 5
    device = Device(make(["bool[N]"], lambda ir, x: ir.true_positions(x, 30_000)))
    for part in (0.0, 0.01, 0.3):
        device.check(np.random.default_rng(1).random(size) < part)


@pytest.mark.parametrize("dtype", [F32, BF16, I64, I8], ids=str)
def test_what_is_not_zero_is_compared_as_it_is_read(dtype: DType) -> None:
    """-0.0 is zero, NaN is not."""
    device = Device(make([f"{dtype}[N]"], lambda ir, x: ir.true_positions(ir.not_(ir.equal(x, 0)), N)))
    assert {kernel.kind for kernel in device.plan.kernels} == {"compaction"}
    for size in (0, 1, 40, LONGEST_ALONE + 3):
        x = sample(dtype, size)
        x[::3] = 0
        if dtype.is_float and size > 7:
            x[3], x[4], x[5] = -0.0, np.nan, np.inf
        device.check(x)


@pytest.mark.parametrize("view", VIEWS)
def test_the_operand_may_be_a_view(view: View) -> None:
    def build(ir: Builder, x: Value) -> Value:
        seen = view(ir, x)
        return ir.true_positions(ir.reshape(seen, (seen.tensor.elements,)), 60)

    device = Device(make(["bool[M, 40]"], build))
    for size in (0, 1, 2, 500):
        device.check(np.random.default_rng(size).random((size, 40)) < 0.5)


def test_a_truth_that_is_known_to_be_that_of_all() -> None:
    device = Device(make(["bool[]"], lambda ir, x: ir.true_positions(ir.broadcast(x, (), (100,)), 120)))
    for truth in (False, True):
        device.check(np.array(truth))


def test_programs_share_many_elements_and_write_nothing_between_themselves_but_counts() -> None:
    """Work and bytes grow with the elements, whatever is true: no update meets another one."""
    device = Device(make([f"bool[{1 << 22}]"], lambda ir, x: ir.true_positions(x, 1 << 22)))
    (kernel,) = device.plan.kernels
    assert kernel.schedule.shared_bytes == RANGES * 4
    assert isinstance(kernel.schedule.loop_operations, int)
    assert kernel.schedule.loop_operations < 2 << 22
