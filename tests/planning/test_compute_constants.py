"""Constants that calls would compute and write are computed once; what kernels compute as they read stays narrow."""

import numpy as np
import pytest
from onnx import numpy_helper

import onnxc
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I4, I8, DType
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.passes.notes import collect_notes
from onnxc.compiler.planning.compute_constants import compute_constants
from onnxc.compiler.target import parse_target
from tests.codegen_gpu.support import Device, make
from tests.passes.golden import assert_same_meaning
from tests.support.models import model_from_text

TARGET = gpu_plan_target(parse_target("cuda:sm_90"))
MANY = 1 << 30


def codes(dtype: DType, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-8, 8, shape).astype(np.int8).astype(dtype.numpy)


def widened(ir: Builder, dtype: DType, *shape: int) -> Value:
    """Codes as floats, with a zero point and a scale for each column."""
    scale = ir.constant(np.linspace(0.5, 2, shape[-1], dtype=np.float32))
    return ir.mul(ir.sub(ir.cast(ir.constant(codes(dtype, *shape)), F32), 3.0), ir.broadcast(scale, (1,), shape))


def product(dtype: DType) -> Module:
    return make(["f32[M, 32]"], lambda ir, x: ir.dot(x, widened(ir, dtype, 32, 40), "mk,kn->mn"))


def table(dtype: DType) -> Module:
    return make(["i64[M]"], lambda ir, i: ir.add(ir.gather(widened(ir, dtype, 50, 40), i, 0), 1.0))


@pytest.mark.parametrize("dtype", [I8, I4], ids=str)
def test_weights_are_widened_once(dtype: DType) -> None:
    """For i4 no kernel does, so that a call had to do it on the host."""
    before = product(dtype)
    after = compute_constants(before, TARGET, MANY)
    assert [op.name for op in after.main.body.ops] == ["constant", "dot"]
    assert_same_meaning(before, after, (1, 3), rounds=False)
    device = Device(after)
    assert device.kernels() == ["contraction"]
    assert len(device.plan.body.steps) == 1


def test_weights_that_several_products_take_parts_of_are_widened_once() -> None:
    """Each part is a constant then, which kernels pack; a call would have written the whole and packed what it read."""

    def halves(ir: Builder, x: Value) -> Value:
        weights = widened(ir, I8, 64, 40)
        parts = [ir.slice(weights, (start, 0), (32, 40), (1, 1)) for start in (0, 32)]
        return ir.add(*(ir.dot(x, ir.transpose(part, (1, 0)), "mk,nk->mn") for part in parts))

    before = make(["f32[M, 32]"], halves)
    after = compute_constants(before, TARGET, MANY)
    assert sorted(op.name for op in after.main.body.ops) == ["add", "constant", "constant", "dot", "dot"]
    assert_same_meaning(before, after, (1, 3), rounds=True)


def test_rows_that_are_picked_stay_narrow_where_a_kernel_widens_them() -> None:
    before = table(I8)
    assert compute_constants(before, TARGET, MANY) is before
    after = compute_constants(table(I4), TARGET, MANY)
    assert "cast" not in [op.name for op in after.main.body.ops]


@pytest.mark.parametrize("most_bytes", [0, 32 * 40 * 4 - 1])
def test_what_takes_more_than_the_limit_is_left_to_the_calls(most_bytes: int) -> None:
    with collect_notes() as notes:
        after = compute_constants(product(I8), TARGET, most_bytes)
    assert "cast" in [op.name for op in after.main.body.ops]
    assert [note.subject for note in notes] == ["folding-limit"]


def test_what_only_repeats_numbers_is_left_to_the_calls() -> None:
    def build(ir: Builder, x: Value) -> Value:
        repeated = ir.broadcast(ir.constant(np.arange(4, dtype=np.float32)), (0,), (4, 500))
        return ir.dot(x, ir.mul(repeated, 2.0), "mk,kn->mn")

    before = make(["f32[M, 4]"], build)
    assert compute_constants(before, TARGET, MANY) is before


def test_what_begins_at_a_size_of_the_call_is_no_constant() -> None:
    """Its type is static, and its elements are not."""

    def rows(ir: Builder, x: Value) -> Value:
        weights = widened(ir, I4, 32, 40)
        return ir.dot(x, ir.slice(weights, (x.shape[0], 0), (8, 40)), "mk,kn->mn")

    after = compute_constants(make(["f32[M, 8]"], rows), TARGET, MANY)
    assert [op.name for op in after.main.body.ops] == ["constant", "slice", "dot"]


def test_a_cpu_computes_what_folding_has_left() -> None:
    """Folding may do so much work and no more; a call converts no weights all the same."""
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (float[n, 64] x) => (float[n, 48] y) {
            scale = Constant <value_float = 0.5> ()
            w = DequantizeLinear (codes, scale)
            turned = Neg (w)
            y = MatMul (x, turned)
        }"""
    model = model_from_text(text)
    weights = codes(I8, 64, 48)
    model.graph.initializer.append(numpy_helper.from_array(weights, "codes"))
    exe = onnxc.compile(model, limits={"folding_work": 1})
    assert [launch["kind"] for launch in exe.report()["launches"]] == ["contraction"]
    x = np.linspace(-1, 1, 3 * 64, dtype=np.float32).reshape(3, 64)
    np.testing.assert_allclose(exe(x), x @ (-0.5 * weights.astype(np.float32)), rtol=1e-5, atol=1e-5)
