"""Losses of training steps agree with loops in NumPy."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

import onnxc
from tests.support.models import model_from_text
from tests.support.training_reference import UPDATES, convolutional, dense, losses

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
STEPS, BATCH = 50, 8

DENSE = """g (float[8, 5] x) => (float[8, 3] p)
    <float[5, 7] w1 = {%s}, float[7] b1 = {%s}, float[7, 3] w2 = {%s}, float[3] b2 = {%s}>
    { a = Gemm (x, w1, b1) h = Tanh (a) l = Gemm (h, w2, b2) p = Softmax <axis = 1> (l) }"""

CONVOLUTIONAL = """g (float[8, 1, 6, 6] x) => (float[8, 3] l)
    <float[4, 1, 3, 3] k = {%s}, float[4] c = {%s}, float[36, 3] w = {%s}, float[3] b = {%s}>
    { a = Conv <pads = [1, 1, 1, 1]> (x, k, c) r = Relu (a) m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
      f = Flatten (m) l = Gemm (f, w, b) }"""

NETWORKS = {"dense": (DENSE, dense), "convolutional": (CONVOLUTIONAL, convolutional)}


def with_weights(text: str, random: np.random.Generator) -> onnx.ModelProto:
    """The model, with drawn values of all initializers."""
    model = model_from_text(HEADER + text.replace("{%s}", "{0}"))
    for tensor in model.graph.initializer:
        drawn = random.normal(0, 0.5, list(tensor.dims)).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(drawn, tensor.name))
    return model


def initializers(model: onnx.ModelProto) -> Mapping[str, np.ndarray]:
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


@pytest.mark.parametrize("optimizer", UPDATES)
@pytest.mark.parametrize("network", NETWORKS)
def test_losses_are_those_of_a_loop_in_numpy(network: str, optimizer: str) -> None:
    text, forward = NETWORKS[network]
    random = np.random.default_rng(13)
    model = with_weights(text, random)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    drawn = [random.normal(0, 1, shape).astype(np.float32) for _ in range(5)]
    # A rule to be learned: which third of the input is largest.
    batches = [(x, x.reshape(BATCH, -1)[:, :3].argmax(1)) for x in drawn] * (STEPS // 5)
    expected = losses(forward, initializers(model), batches, optimizer)
    made = onnxc.make_training(model, optimizer=optimizer, learning_rate=UPDATES[optimizer][1], initialization=None)
    trainer = onnxc.compile_training(made)
    found = [float(trainer.step({"x": x, "labels": labels})["loss"]) for x, labels in batches]
    assert found[-1] < found[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
