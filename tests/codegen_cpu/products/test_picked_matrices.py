"""Products with matrices that indices pick: read where they lie, as the experts of a mixture are."""

import numpy as np
import pytest

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I8, I32, DType
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.planning.schedules import ContractionSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.errors import InputError
from onnxc.runtime.load import make_executable
from tests.codegen_cpu.products.two_picks import arrays_of_two_picks, product_of_two_picks
from tests.codegen_cpu.support import EVERY_TARGET, Native, make, precision, sample

INDICES = [0, 2, 2, 1, 0, 2, 1]


def _experts(ir: Builder, x: Value, indices: Value, experts: np.ndarray, equation: str) -> Value:
    return ir.dot(ir.gather(ir.constant(experts), indices, 0), x, equation)


def _forms(native: Native) -> list[str]:
    return [kernel.scheduled(ContractionSchedule).algorithm for kernel in native.plan.kernels]


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize(
    ("experts", "row", "equation", "form"),
    [
        ((3, 70, 40), (40,), "amk,ak->am", "lines"),
        ((3, 150, 40), (40, 1), "amk,akn->amn", "lines"),
        ((3, 40, 300), (40,), "akn,ak->an", "sweeps"),
        ((3, 40, 90), (9, 40), "akn,amk->amn", "shallow"),
        ((3, 40, 130), (9, 40), "akn,amk->amn", "panels"),
        ((3, 130, 40), (9, 40), "ank,amk->anm", "panels"),
    ],
)
def test_every_form_reads_where_indices_pick(
    experts: tuple[int, ...], row: tuple[int, ...], equation: str, form: str, target: Target
) -> None:
    weights, inner = sample(F32, *experts), ", ".join(map(str, row))
    module = make([f"f32[N, {inner}]", "i64[N]"], lambda ir, x, i: _experts(ir, x, i, weights, equation))
    native = Native(module, target)
    assert set(_forms(native)) == {form}
    for count in (0, 1, len(INDICES)):
        native.check(sample(F32, count, *row, seed=1), np.array(INDICES[:count], np.int64), bound=2 * precision(F32))


@pytest.mark.parametrize("dtype", [F64, F16, BF16, I32], ids=str)
def test_every_type_that_lines_multiply(dtype: DType) -> None:
    module = make(
        [f"{dtype}[7, 20]", "i64[7]", f"{dtype}[3, 70, 20]"],
        lambda ir, x, i, w: ir.dot(ir.gather(w, i, 0), x, "amk,ak->am"),
    )
    native = Native(module)
    assert len(native.plan.kernels) == 1
    arrays = (sample(dtype, 7, 20), np.array(INDICES, np.int64), sample(dtype, 3, 70, 20, seed=1))
    native.check(*arrays, bound=2 * precision(dtype))


def test_both_operands_are_picked_by_other_indices_from_any_axis() -> None:
    native = Native(product_of_two_picks())
    assert len(native.plan.kernels) == 1
    native.check(*arrays_of_two_picks(), bound=2 * precision(F32))


def test_indices_are_counted_from_the_end_and_repeated_as_they_are_read() -> None:
    def build(ir: Builder, x: Value, i: Value) -> Value:
        wrapped = ir.wrap_negative(i, 3)
        weights = ir.gather(ir.constant(sample(F32, 3, 70, 40)), wrapped, 0)
        repeated = ir.broadcast(weights, (1, 2, 3), (2, 5, 70, 40))
        return ir.dot(repeated, x, "bamk,bak->bam")

    native = Native(make(["f32[2, 5, 40]", "i64[5]"], build))
    assert len(native.plan.kernels) == 1
    native.check(sample(F32, 2, 5, 40), np.array([-1, 0, -3, 2, 1]), bound=2 * precision(F32))


def _kernels(module: Module) -> int:
    return len(Native(module).plan.kernels)


def test_what_else_is_picked_is_written() -> None:
    indices, table = "i64[7]", "f32[9, 20]"
    rows = make([table, indices, "f32[20, 30]"], lambda ir, x, i, w: ir.dot(ir.gather(x, i, 0), w, "mk,kn->mn"))
    summed = make([table, indices, "f32[7, 30]"], lambda ir, x, i, w: ir.dot(ir.gather(x, i, 0), w, "km,kn->mn"))
    several = make(
        ["f32[3, 70, 40]", indices, "f32[7, 40]"],
        lambda ir, w, i, x: (ir.dot(picked := ir.gather(w, i, 0), x, "amk,ak->am"), ir.exp(picked)),
    )
    perhaps_empty = make(
        ["f32[E, 70, 40]", indices, "f32[7, 40]"], lambda ir, w, i, x: ir.dot(ir.gather(w, i, 0), x, "amk,ak->am")
    )
    of_bytes = make(
        [f"{I8}[3, 70, 40]", indices, f"{I8}[7, 40]"],
        lambda ir, w, i, x: ir.dot(ir.gather(w, i, 0), x, "amk,ak->am", I32),
    )
    assert [_kernels(module) for module in (rows, summed, several, perhaps_empty, of_bytes)] == [2, 2, 3, 2, 2]


@pytest.mark.parametrize("index", [3, -1, 2**40])
def test_an_index_outside_of_the_axis_names_the_node_that_picks(index: int) -> None:
    def build(ir: Builder, x: Value, i: Value) -> Value:
        with ir.at(Location(index=7, name="experts", operator="ai.onnx.Gather-13")):
            weights = ir.gather(ir.constant(sample(F32, 3, 70, 40)), i, 0)
        with ir.at(Location(index=8, name="product", operator="ai.onnx.MatMul-13")):
            return ir.dot(weights, x, "amk,ak->am")

    executable = make_executable(Native(make(["f32[2, 40]", "i64[2]"], build)).artifact)
    x = sample(F32, 2, 40)
    with pytest.raises(InputError, match=f"index {index} is outside of an axis of size 3") as caught:
        executable.run({"x0": x, "x1": np.array([0, index])})
    assert 'node 7 "experts"' in str(caught.value)
    executable.run({"x0": x, "x1": np.array([0, 1])})


def test_any_number_of_threads_gives_the_same_bits() -> None:
    weights = sample(F32, 3, 500, 40)
    native = Native(make(["f32[7, 40]", "i64[7]"], lambda ir, x, i: _experts(ir, x, i, weights, "amk,ak->am")))
    arrays = sample(F32, 7, 40), np.array(INDICES)
    alone = native(*arrays)[0].tobytes()
    for threads in (2, 3):
        native.threads = threads
        assert native(*arrays)[0].tobytes() == alone
