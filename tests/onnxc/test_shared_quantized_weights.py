"""Weights that layers share, as quantisers write them: dequantized, and quantized again for the other layer."""

import numpy as np
import onnx.parser
import pytest

import onnxc
from onnxc.compiler.passes.simplify.fold_constants import SMALL_BYTES

SIZE = 160
"""Channels and filters: as f32 the weights take more than folding may make of them, as bytes they do not grow."""

CONVOLVE = """<ir_version: 8, opset_import: ["": 18]> twice (float[N, 160, 3, 3] x) => (float[N, 160, 3, 3] y)
    <float s = {0.5}, int8 z = {0}> {
        w1 = DequantizeLinear (w, s, z)
        same = Identity (w1)
        w2q = QuantizeLinear (same, s, z)
        w2 = DequantizeLinear (w2q, s, z)
        xq = QuantizeLinear (x, s, z)
        xd = DequantizeLinear (xq, s, z)
        y = Conv (xd, w2)
    }"""


@pytest.mark.parametrize("images", [0, 1, 2])
def test_filters_that_are_quantized_again_are_bytes_before_the_call(images: int) -> None:
    assert SIZE * SIZE * 4 > SMALL_BYTES
    weights = np.random.default_rng(1).integers(-100, 101, (SIZE, SIZE, 1, 1), np.int8)
    model = onnx.parser.parse_model(CONVOLVE)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    exe = onnxc.compile(model)
    convolutions = [each for each in exe.report()["launches"] if each["kind"] == "convolution"]
    assert ["algorithm = bytes" in each["schedule"] for each in convolutions] == [True]
    x = np.random.default_rng(2).integers(-8, 9, (images, SIZE, 3, 3)).astype(np.float32)
    y = exe(x)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, np.einsum("nchw,oc->nohw", x, weights[:, :, 0, 0] * np.float32(0.5)))
