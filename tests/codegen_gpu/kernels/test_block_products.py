"""Products with weights of few bits by the interpreter: lines and tiles beside their meaning, and who takes which."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxc
from onnxc.compiler.codegen_gpu.kernel_work import work_of
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Segment
from onnxc.compiler.planning.schedules import BlockProductSchedule
from onnxc.compiler.target import Target
from tests.codegen_cpu.products.test_block_products import Weights
from tests.codegen_gpu.support import SM_80, SM_90, Device, assert_near, make, precision, sample
from tests.support.fake_gpu import compile_for_fake

ROWS = (0, 1, 2, 8, 9, 33)
"""None; a line, several and all of them; tiles of few and of many."""

CASES = (
    Weights(4, 32, 96, 130),
    Weights(4, 16, 70, 33, has_zeros=True),
    Weights(2, 16, 64, 17, has_zeros=True),
    Weights(2, 128, 300, 5),
    Weights(8, 32, 65, 20, has_zeros=True),
    Weights(4, 128, 384, 31, has_zeros=True),
    # Blocks that are no whole runs; all codes of a column in one block; fewer codes than a block, and none.
    Weights(2, 20, 50, 5, has_zeros=True),
    Weights(8, 300, 300, 20, has_zeros=True),
    Weights(4, 32, 20, 3),
    Weights(4, 32, 0, 5),
    Weights(4, 32, 64, 0),
)


def schedules(device: Device) -> list[BlockProductSchedule]:
    return [kernel.scheduled(BlockProductSchedule) for kernel in device.plan.kernels]


@pytest.mark.parametrize("weights", CASES, ids=str)
def test_any_number_of_rows_is_multiplied(weights: Weights) -> None:
    device = Device(make([f"f32[N, {weights.depth}]"], weights.product))
    assert set(device.kernels()) == {"block_product"}
    for rows in ROWS:
        device.check(sample(F32, rows, weights.depth), bound=2 * precision(F32))


@pytest.mark.parametrize("rows", [1, 3, 17])
def test_numbers_of_rows_that_are_known(rows: int) -> None:
    weights = Weights(4, 32, 100, 40, has_zeros=True)
    device = Device(make([f"f32[{rows}, 100]"], weights.product))
    device.check(sample(F32, rows, 100), bound=2 * precision(F32))


def widened(weights: Weights, ir: Builder, x: Value) -> Value:
    """As MatMulNBits of 16-bit floats is lowered."""
    return ir.cast(weights.product(ir, ir.cast(x, F32)), x.dtype)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("weights", [Weights(4, 32, 96, 130), Weights(8, 64, 64, 20), Weights(2, 32, 80, 9)], ids=str)
def test_16_bits_are_multiplied_as_they_are_and_summed_in_f32(weights: Weights, dtype: DType) -> None:
    device = Device(make([f"{dtype}[N, {weights.depth}]"], lambda ir, x: widened(weights, ir, x)))
    assert set(device.kernels()) == {"block_product"}
    assert {each.arithmetic.operands for each in schedules(device) if each.algorithm == "tiles"} == {str(dtype)}
    for rows in ROWS:
        device.check(sample(dtype, rows, weights.depth), bound=precision(dtype))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_operands_of_16_bits_have_a_result_of_16_bits(dtype: DType) -> None:
    weights = Weights(4, 32, 64, 24)
    device = Device(make([f"{dtype}[N, 64]"], weights.product))
    for rows in (1, 5, 20):
        device.check(sample(dtype, rows, 64), bound=precision(dtype))


@pytest.mark.parametrize("rows", [1, 7, 20])
def test_programs_share_a_long_sum(rows: int) -> None:
    weights = Weights(4, 32, 2048, 24, has_zeros=True)

    def build(ir: Builder, x: Value) -> Value:
        return ir.max(ir.add(weights.product(ir, x), ir.constant(sample(F32, 24, seed=2))), 0.0)

    device = Device(make([f"f32[{rows}, 2048]"], build))
    assert len(device.code(0).steps) == 2
    device.check(sample(F32, rows, 2048), bound=1e-5)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("rows", [1, 8, 16])
def test_whole_numbers_are_exact(bits: int, rows: int) -> None:
    """Every code of so many bits, less a zero point of its block, by f16."""
    half = 1 << bits - 1
    codes = np.resize(np.arange(-half, half, dtype=np.int8), (24, 64))
    zeros = np.resize(np.array([0, half - 1, -half], np.float32), (24, 2))
    scales = np.resize(np.array([2, -1, 0.5], np.float32), (24, 2))

    def build(ir: Builder, x: Value) -> Value:
        weights = (ir.constant(each) for each in (codes, scales, zeros))
        return ir.block_product(ir.cast(x, F32), *weights, bits, 32)

    x = np.resize(np.array([1, -2, 3, 0, 5], np.float16), (rows, 64))
    (y,) = Device(make([f"f16[{rows}, 64]"], build))(x)
    weights = (codes - np.repeat(zeros, 32, 1)) * np.repeat(scales, 32, 1)
    assert y.tolist() == (x.astype(np.float64) @ weights.T).tolist()


@pytest.mark.parametrize("rows", [2, 20])
def test_what_is_not_finite_reaches_its_row_alone(rows: int) -> None:
    weights = Weights(4, 16, 80, 20)
    device = Device(make(["f32[N, 80]"], weights.product))
    x = sample(F32, rows, 80)
    x[0, 3], x[1, 79] = np.nan, np.inf
    (y,) = device(x)
    assert np.isnan(y[0]).all()
    assert not np.isfinite(y[1]).any()
    assert np.isfinite(y[2:]).all()


def test_what_follows_joins_the_kernel_and_rows_have_any_axes() -> None:
    weights = Weights(4, 32, 64, 70)

    def build(ir: Builder, x: Value, residual: Value) -> Value:
        biased = ir.add(
            weights.product(ir, x), ir.broadcast(ir.constant(sample(F32, 70, seed=2)), (2,), residual.shape)
        )
        return ir.add(ir.mul(biased, ir.sigmoid(biased)), residual)

    device = Device(make(["f32[B, N, 64]", "f32[B, N, 70]"], build))
    assert set(device.kernels()) == {"block_product"}
    for batch, rows in ((1, 1), (2, 3), (3, 7)):
        device.check(sample(F32, batch, rows, 64), sample(F32, batch, rows, 70), bound=1e-5)


def test_a_vector_is_a_row() -> None:
    weights = Weights(4, 32, 64, 20)
    Device(make(["f32[64]"], weights.product)).check(sample(F32, 64), bound=2 * precision(F32))


def test_rows_are_read_through_a_view() -> None:
    weights = Weights(4, 32, 64, 20)
    device = Device(make(["f32[64, N]"], lambda ir, x: weights.product(ir, ir.transpose(x, (1, 0)))))
    assert set(device.kernels()) == {"block_product"}
    device.check(sample(F32, 64, 9), bound=2 * precision(F32))


@pytest.mark.parametrize("target", [SM_80, SM_90], ids=str)
def test_few_rows_are_lines_and_many_are_tiles_that_read_the_same_codes(target: Target) -> None:
    weights = Weights(4, 128, 4096, 4096)
    device = Device(make(["bf16[N, 4096]"], lambda ir, x: widened(weights, ir, x)), target)
    (segment,) = device.plan.body.steps
    assert isinstance(segment, Segment)
    (launch,) = segment.launches
    taken = {rows: launch.variant_for({"N": rows}).kernel for rows in (1, 8, 16, 64, 4096)}
    chosen = {rows: schedules(device)[kernel] for rows, kernel in taken.items()}
    assert chosen[1].algorithm == "lines"
    assert [chosen[rows].algorithm for rows in (16, 64, 4096)] == ["tiles"] * 3
    assert chosen[16].tile.rows == 16
    assert min(chosen[rows].tile.rows for rows in (64, 4096)) >= 64
    assert len({str(each.packing) for each in chosen.values()}) == 1
    # Half a byte for each code, and four for each scale; beside them rows and results of 2 bytes.
    work = work_of(device.plan.kernels[taken[1]])
    assert evaluate(work.read_bytes, {"s0": 1}) == 4096 * 4096 // 2 + 4096 * 32 * 4 + 4096 * 2
    assert evaluate(work.written_bytes, {"s0": 1}) == 4096 * 2


def quantised_model(bits: int, *, has_zeros: bool, has_bias: bool) -> ModelProto:
    """MatMulNBits of 16-bit floats: 40 columns, 72 deep, in blocks of 32."""
    random, shape = np.random.default_rng(0), (40, 3)
    tensors = {
        "b": random.integers(0, 256, (*shape, 32 * bits // 8), dtype=np.uint8),
        "scales": random.uniform(-1, 1, shape).astype(np.float16),
    }
    if has_zeros:
        tensors["zeros"] = random.integers(0, 256, (40, -(-3 * bits // 8)), dtype=np.uint8)
    if has_bias:
        tensors["bias"] = random.normal(size=40).astype(np.float16)
    inputs = ["x", "b", "scales", "zeros" * has_zeros, "", "bias" * has_bias]
    attributes = {"K": 72, "N": 40, "bits": bits, "block_size": 32}
    node = helper.make_node("MatMulNBits", inputs, ["y"], domain="com.microsoft", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["B", "S", 72])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["B", "S", 40])
    initializers = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    graph = helper.make_graph([node], "model", [x], [y], initializers)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("has_more", [False, True])
def test_a_model_with_quantised_weights_is_one_launch(bits: int, has_more: bool) -> None:
    model = quantised_model(bits, has_zeros=has_more, has_bias=has_more)
    run = compile_for_fake(model)
    assert {kernel.kind for kernel in run.plan.kernels} == {"block_product"}
    reference = onnxc.compile(model)
    for batch, length in ((1, 1), (2, 3), (1, 20)):
        x = sample(F16, batch, length, 72)
        expected, actual = (exe.run({"x": x})["y"] for exe in (reference, run.executable))
        assert_near(actual, expected, precision(F16))
