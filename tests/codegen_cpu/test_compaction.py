"""Where elements are true: none, few, many or all of a word, words of all lengths, too little room or too much."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.schedules.compactions import RANGE_ELEMENTS
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I8, I64, U8, U32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, odd_values
from tests.codegen_cpu.table_views import VIEWS, View

# Words of 64, alone and behind others, and what is left of one.
LENGTHS = (0, 1, 2, 63, 64, 65, 127, 128, 200, 1000)
PARTS = (0.0, 0.02, 0.1, 0.15, 0.5, 1.0)
N = Size.symbol("N")


def _masks(size: int) -> list[np.ndarray]:
    random = np.random.default_rng(size)
    return [random.random(size) < part for part in PARTS]


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("count", [N, 2 * N + 3, 0, 1, 9, 40], ids=str)
def test_positions_in_their_order_and_then_zeros(count: Dim, target: Target) -> None:
    native = Native(make(["bool[N]"], lambda ir, x: ir.true_positions(x, count)), target)
    assert native.kernels() == ["compaction"]
    for size in LENGTHS:
        for mask in _masks(size):
            native.check(mask)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16, I64, U32, I8, U8], ids=str)
def test_what_is_not_zero_is_compared_as_it_is_read(dtype: DType, target: Target) -> None:
    """NaN, infinities and the least numbers are not zero, -0.0 is."""
    native = Native(make([f"{dtype}[N]"], lambda ir, x: ir.true_positions(ir.not_(ir.equal(x, 0)), N)), target)
    assert native.kernels() == ["compaction"]
    for size in LENGTHS:
        native.check(np.resize(odd_values(dtype), size))
        native.check(np.zeros(size, dtype.numpy))


@pytest.mark.parametrize("view", VIEWS)
def test_the_operand_may_be_a_view(view: View) -> None:
    def build(ir: Builder, x: Value) -> Value:
        seen = view(ir, x)
        return ir.true_positions(ir.reshape(seen, (seen.tensor.elements,)), 60)

    native = Native(make(["bool[M, 40]"], build))
    for size in (0, 1, 2, 5):
        native.check(np.random.default_rng(size).random((size, 40)) < 0.5)


@pytest.mark.parametrize(
    "size", [2 * RANGE_ELEMENTS - 1, 2 * RANGE_ELEMENTS, 2 * RANGE_ELEMENTS + 1, 3 * RANGE_ELEMENTS + 64]
)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_ranges_of_several_threads(size: int, threads: int) -> None:
    native = Native(make(["bool[N]"], lambda ir, x: [ir.true_positions(x, N), ir.true_positions(x, 40_000)]))
    native.threads = threads
    for mask in _masks(size):
        native.check(mask)


def test_a_scalar_truth_for_all() -> None:
    native = Native(make(["bool[]"], lambda ir, x: ir.true_positions(ir.broadcast(x, (), (100,)), 120)))
    for truth in (False, True):
        native.check(np.array(truth))
