"""Scan: its states keep their shapes, which is required where sizes decide it and checked where only the call does."""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import InputError
from tests.operators.host_models import TARGETS
from tests.support.models import model_from_text

PRODUCTS = """
<ir_version: 10, opset_import: ["": 21, "ai.onnx.preview.training": 1]>
products (float[N] s, float[T, M] x) => (float[N] last, float[T, N] seen, float[N] slope) {
  last, seen = Scan <num_scan_inputs = 1, body = b (float[A] h, float[B] e) => (float[C] t, float[D] u) {
    p = Mul (h, e) t = Add (p, h) u = Identity (t)
  }> (s, x)
  slope = ai.onnx.preview.training.Gradient <xs = ["s"], zs = ["x"], y = "last"> (s, x)
}"""
S, X = np.array([1, 2], np.float32), np.array([[1, 2], [3, 4], [0.5, 0.25]], np.float32)


@pytest.mark.parametrize("target", TARGETS)
def test_a_state_whose_sizes_go_by_several_names_has_a_gradient(target: str) -> None:
    compiled = onnxc.compile(model_from_text(PRODUCTS), target=target)
    texts = {info.name: info.text for info in compiled.outputs}
    assert (texts["last"], texts["slope"]) == ("f32[N]", "f32[N]")
    got = compiled.run({"s": S, "x": X})
    seen = S * (1 + X).cumprod(axis=0)
    np.testing.assert_array_equal(got["seen"], seen, strict=True)
    np.testing.assert_array_equal(got["last"], seen[-1], strict=True)
    np.testing.assert_array_equal(got["slope"], seen[-1] / S, strict=True)


@pytest.mark.parametrize("target", TARGETS)
def test_a_state_that_would_change_its_shape_is_an_input_error_of_the_call(target: str) -> None:
    compiled = onnxc.compile(model_from_text(PRODUCTS), target=target)
    with pytest.raises(InputError, match=r"state 0 is f32\[N\] before an iteration and .* after"):
        compiled.run({"s": S[:1], "x": X})
    empty = compiled.run({"s": S[:1], "x": X[:0, :1]})
    assert (empty["last"].tolist(), empty["slope"].tolist()) == ([1], [1])
