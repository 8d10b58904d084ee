"""Floats of 8 bits on a GPU: casts bit for bit those of the standard, products by tensor cores, nothing on the host."""

from importlib.util import find_spec
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.compile.cubin import instruction_counts
from onnxc.compiler.codegen_gpu.transfers import find_transfers
from onnxc.compiler.driver import run_stages
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F16, F32, I8, I32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.options import make_options
from onnxc.compiler.passes.lower.depth_last import depth_last
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.runtime.program import Launch
from tests.codegen_gpu.support import SM_90, Device, make, sample
from tests.support.fake_gpu import compile_for_fake

FLOATS = (F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ)


def around_every_number(dtype: DType) -> np.ndarray:
    """All numbers of a type, what lies halfway between neighbours, their neighbours in f32, and what is special."""
    numbers = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)
    finite = np.unique(numbers[np.isfinite(numbers)])
    halfway = (finite[1:] + finite[:-1]) / 2
    edge = finite[-1] + (finite[-1] - finite[-2]) * np.array([0.49, 0.5, 0.51, 1, 2], np.float32)
    exact = np.concatenate([numbers, halfway, edge, -edge, [np.inf, -np.inf, np.nan, -0.0, 1e-45, 3e38]])
    exact = exact.astype(np.float32)
    return np.concatenate([exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(-np.inf))])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_casts_are_those_of_the_meaning_bit_for_bit(dtype: DType) -> None:
    x = around_every_number(dtype)

    def build(ir: Builder, x: Value) -> list[Value]:
        saturated, exact = ir.cast(x, dtype), ir.cast(x, dtype, saturate=False)
        return [saturated, exact, ir.cast(exact, F32), ir.cast(ir.add(saturated, exact), F16), ir.cast(exact, I32)]

    device = Device(make([f"f32[{x.size}]"], build))
    assert set(device.kernels()) == {"pointwise"}
    device.check(x, bound=0.0)


@pytest.mark.parametrize(("dtype", "numpy"), [(F8E4M3FN, ml_dtypes.float8_e4m3fn), (F8E5M2, ml_dtypes.float8_e5m2)])
def test_what_ml_dtypes_casts_without_saturation_is_the_same(dtype: DType, numpy: type) -> None:
    x = around_every_number(dtype)
    device = Device(make([f"f32[{x.size}]"], lambda ir, x: ir.cast(x, dtype, saturate=False)))
    (found,) = device(x)
    with np.errstate(all="ignore"):
        wanted = x.astype(numpy)
    is_number = ~np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(found.view(np.uint8)[is_number], wanted.view(np.uint8)[is_number])
    assert np.isnan(found.astype(np.float32)[~is_number]).all()


def quantised_model(name: str) -> bytes:
    """Two products of 8-bit floats, activations quantised in the call, one weight as [K, N], one as [N, K]."""
    rng, nodes, tensors = np.random.default_rng(5), list[object](), list[TensorProto]()

    def constant(array: np.ndarray) -> str:
        tensors.append(numpy_helper.from_array(array, f"t{len(tensors)}"))
        return tensors[-1].name

    def node(operator: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(operator, inputs, [f"v{len(nodes)}"], **attributes))
        return f"v{len(nodes) - 1}"

    zero = constant(np.zeros((), getattr(ml_dtypes, name)))

    def quantised(x: str, scale: float) -> str:
        factor = constant(np.float32(scale))
        return node("DequantizeLinear", node("QuantizeLinear", x, factor, zero), factor, zero)

    def weight(*shape: int, axis: int) -> str:
        codes = constant(rng.normal(0, 4, shape).astype(getattr(ml_dtypes, name)))
        scale = constant(rng.uniform(0.01, 0.03, shape[axis]).astype(np.float32))
        return node("DequantizeLinear", codes, scale, axis=axis)

    x = node("MatMul", quantised("x", 0.02), weight(48, 64, axis=1))
    x = node("Relu", node("Add", x, constant(rng.normal(size=64).astype(np.float32))))
    node("Gemm", quantised(x, 0.05), weight(24, 64, axis=0), transB=1)
    nodes[-1].output[0] = "y"  # type: ignore[attr-defined]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 48])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 24])]
    graph = helper.make_graph(nodes, "quantised", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("element", ["float8_e4m3fn", "float8_e5m2"])
def test_a_quantised_model_is_kernels_alone(element: str) -> None:
    source = quantised_model(element)
    oracle, x = onnxc.compile(source, threads=1), np.random.default_rng(1).normal(size=(19, 48)).astype(np.float32)
    wanted = oracle.run({"x": x})["y"]
    run = compile_for_fake(source)
    texts = [str(kernel) for kernel in run.plan.kernels if kernel.kind == "contraction"]
    assert texts
    assert all("arithmetic = f8e" in text for text in texts)
    assert find_transfers(run.plan) == ()
    assert [type(step) for step in run.artifact.program.body.steps] == [Launch]
    found = run.executable.run({"x": x})["y"]
    # A sum in another order may be rounded to the neighbour of a number of 8 bits.
    assert np.abs(found - wanted).max() <= 0.05 * np.abs(wanted).max()
    assert np.abs(found - wanted).mean() <= 1e-3 * np.abs(wanted).max()
    run.driver.check()


def test_older_tensor_cores_multiply_what_8_bit_floats_stand_for() -> None:
    """On sm_80 no product is of 8-bit floats, and nothing is done on the host either."""
    stages = run_stages(quantised_model("float8_e4m3fn"), make_options("cuda:sm_80", cache=False))
    plan = next(noun for _, noun in stages if isinstance(noun, KernelPlan))
    texts = [str(kernel) for kernel in plan.kernels if kernel.kind == "contraction"]
    assert all("arithmetic = tf32x3" in text for text in texts)
    assert [type(step).__name__ for step in plan.body.steps] == ["Segment"]


@pytest.mark.slow
def test_tensor_cores_multiply_bytes_as_they_are_loaded(tmp_path: Path) -> None:
    """QGMMA of 8-bit floats and IGMMA of i8, by a constant [K, N] too, without a shuffle of single bytes on the way."""
    triton = find_spec("triton")
    assert triton is not None
    assert triton.origin is not None
    disassembler = Path(triton.origin).parent / "backends/nvidia/bin/nvdisasm"
    wanted = {F8E4M3FN: "QGMMA", F8E5M2: "QGMMA", I8: "IGMMA"}
    sources = []
    for dtype in wanted:
        w = sample(dtype, 768, 1024)
        sums = F32 if dtype.is_float else I32

        def multiply(ir: Builder, x: Value, w: np.ndarray = w, sums: DType = sums) -> Value:
            return ir.dot(x, ir.constant(w), "mk,kn->mn", sums)

        module = depth_last(make([f"{dtype}[512, 768]"], multiply))
        sources += [step.source for step in Device(module).code(0).steps]
    for kernel, instruction in zip(compile_kernels(sources, SM_90, tmp_path), wanted.values(), strict=True):
        counts = instruction_counts(kernel.cubin, disassembler)
        assert any(name.startswith(instruction) for name in counts), counts
        assert "STS.U8" not in counts
        assert kernel.stack_bytes == 0
