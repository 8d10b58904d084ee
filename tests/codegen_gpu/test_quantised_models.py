"""Quantised models on a GPU: products of i8 whatever their bytes are, few launches, code that layers share."""

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxc
from onnxc.compiler.codegen_gpu.transfers import find_transfers
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I8, I32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Kernel, segments_of
from tests.codegen_gpu.support import Device, make, sample
from tests.support.fake_gpu import FakeRun, compile_for_fake

BYTES = {"int8": (np.int8, -128, -11), "uint8": (np.uint8, 0, 117)}
"""The least number of a type, and a zero point that is nowhere special."""


class Quantised:
    """A model of quantised layers, each with scales of its own; weights are i8 with a scale for each filter."""

    def __init__(self, element: str) -> None:
        self.dtype, self.least, self.zero = BYTES[element]
        self.rng = np.random.default_rng(3)
        self.nodes, self.tensors = list[object](), list[TensorProto]()

    def constant(self, array: np.ndarray) -> str:
        self.tensors.append(numpy_helper.from_array(array, f"t{len(self.tensors)}"))
        return self.tensors[-1].name

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [f"v{len(self.nodes)}"], **attributes))
        return f"v{len(self.nodes) - 1}"

    def quantised(self, x: str, scale: float, zero: int) -> str:
        """x through QuantizeLinear and DequantizeLinear."""
        parameters = self.constant(np.float32(scale)), self.constant(np.asarray(zero, self.dtype))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, *parameters), *parameters)

    def weight(self, *shape: int, axis: int) -> str:
        array = self.constant(self.rng.integers(-127, 128, shape).astype(np.int8))
        scale = self.rng.uniform(0.5, 1.5, shape[axis]).astype(np.float32) / np.float32(127 * np.prod(shape) ** 0.5)
        zero = self.constant(np.zeros(shape[axis], np.int8))
        return self.node("DequantizeLinear", array, self.constant(scale * 3), zero, axis=axis)

    def layer(self, x: str, channels: int, ordinal: int) -> str:
        """A padded convolution with a rectifier, added to what it reads, quantised before and behind."""
        bias = self.constant(self.rng.normal(size=channels).astype(np.float32))
        y = self.node("Conv", x, self.weight(channels, channels, 3, 3, axis=0), bias, pads=[1, 1, 1, 1])
        y = self.quantised(self.node("Relu", y), 0.01 + 0.003 * ordinal, self.least + 2 + ordinal)
        return self.quantised(self.node("Add", x, y), 0.03 + 0.002 * ordinal, self.zero + ordinal)

    def model(self) -> ModelProto:
        x = self.quantised("x", 0.02, self.zero)
        for ordinal in range(3):
            x = self.layer(x, 32, ordinal)
        flat = self.node("ReduceMean", x, self.constant(np.array([2, 3], np.int64)), keepdims=0)
        y = self.node("MatMul", self.quantised(flat, 0.005, self.zero), self.weight(32, 20, axis=1))
        self.nodes[-1].output[0] = "y"
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32, 5, "width"])]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 20])]
        graph = helper.make_graph(self.nodes, "quantised", inputs, outputs, self.tensors)
        assert y
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


FEEDS = [(1, 6), (3, 5)]
"""Sizes of batch and width."""


def feeds() -> list[Mapping[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.normal(0, 1, (batch, 32, 5, width)).astype(np.float32)} for batch, width in FEEDS]


def products(run: FakeRun) -> list[str]:
    """The text of each kernel of a product or a convolution, of those that serve every call."""
    return [str(kernel) for kernel in general_kernels(run) if kernel.kind in ("contraction", "convolution")]


def general_kernels(run: FakeRun) -> list[Kernel]:
    """The kernels that serve every call, each once."""
    launches = (launch for segment in segments_of(run.plan.body.steps) for launch in segment.launches)
    return [run.plan.kernels[ordinal] for ordinal in dict.fromkeys(launch.general.kernel for launch in launches)]


@pytest.mark.parametrize("element", BYTES)
def test_layers_that_differ_in_their_scales_are_products_of_i8_of_one_kernel(element: str) -> None:
    source = Quantised(element).model().SerializeToString()
    run, oracle = compile_for_fake(source), onnxc.compile(source, threads=1)
    texts = products(run)
    assert all("arithmetic = i8 -> i32" in text for text in texts)
    # The first layer reads an image with its channels first, which has been padded when it was quantised.
    assert [text.split()[0] for text in texts] == ["convolution", "convolution", "contraction"]
    (segment,) = segments_of(run.plan.body.steps)
    assert len(segment.launches) == 7
    assert [str(kernel.block.results[0].dtype) for kernel in general_kernels(run)] == [*(5 * ["i8"]), "f32"]
    assert find_transfers(run.plan) == ()
    for feed in feeds():
        np.testing.assert_allclose(run.executable.run(feed)["y"], oracle.run(feed)["y"], rtol=1e-6, atol=1e-6)
    run.driver.check()


def _quantised_in_calls(form: str) -> ModelProto:
    """A product as dynamic quantisation writes it, or with a scale and a zero point that a caller gives."""
    weights = numpy_helper.from_array(np.random.default_rng(1).integers(-127, 128, (64, 32)).astype(np.int8), "w")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "rows", 64])]
    if form == "by the model":
        first = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])
    else:
        first = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"])
        inputs += [helper.make_tensor_value_info("scale", TensorProto.FLOAT, [])]
        inputs += [helper.make_tensor_value_info("zero", TensorProto.UINT8, [])]
    nodes = [
        first,
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["wide", "scale"], ["y"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "rows", 32])]
    graph = helper.make_graph(nodes, "product", inputs, outputs, [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("form", ["by the model", "by the caller"])
def test_products_of_what_is_quantised_in_a_call_are_of_i8(form: str) -> None:
    source = _quantised_in_calls(form).SerializeToString()
    run, oracle = compile_for_fake(source), onnxc.compile(source, threads=1)
    texts = products(run)
    assert texts
    assert all("arithmetic = i8 -> i32" in text for text in texts)
    rng = np.random.default_rng(0)
    for shape in ((1, 1, 64), (2, 40, 64)):
        feed: dict[str, np.ndarray] = {"x": rng.normal(0.3, 1, shape).astype(np.float32)}
        if form == "by the caller":
            feed |= {"scale": np.array(0.03, np.float32), "zero": np.array(131, np.uint8)}
        np.testing.assert_allclose(run.executable.run(feed)["y"], oracle.run(feed)["y"], rtol=1e-6, atol=1e-6)
    run.driver.check()


@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("fill", ["a number", "an input"])
def test_a_convolution_pads_with_any_number_as_it_reads(fill: str, groups: int) -> None:
    def build(ir: Builder, x: Value, zero: Value, w: Value) -> Value:
        number = zero if fill == "an input" else ir.constant(np.array(-7, np.int8))
        padded = ir.pad(x, (0, 0, 2, 1), (0, 0, 1, 0), number)
        return ir.convolution(padded, w, (1, 2), (0, 0), (0, 0), (1, 1), groups, dtype=I32)

    device = Device(make(["i8[N, 16, 5, W]", "i8[]", f"i8[16, {16 // groups}, 3, 3]"], build))
    assert device.kernels() == ["convolution"]
    device.check(sample(I8, 2, 16, 5, 6), np.array(5, np.int8), sample(I8, 16, 16 // groups, 3, 3))
