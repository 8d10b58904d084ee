"""Sums of products on processors that cannot multiply and add at once: no element is a call of the C library."""

import pytest

from onnxc.compiler.driver import compile_model
from onnxc.compiler.options import make_options
from tests.support.models import model_from_text

SUMS = {
    "product": "(float[N, 64] x, float[64, 48] w) => (y) { y = MatMul(x, w) }",
    "one row": "(float[1, 64] x, float[64, 48] w) => (y) { y = MatMul(x, w) }",
    "product of doubles": "(double[N, 64] x, double[64, 48] w) => (y) { y = MatMul(x, w) }",
    "product of halves": "(float16[N, 64] x, float16[64, 48] w) => (y) { y = MatMul(x, w) }",
    "batches of small products": "(float[N, 3, 5] x, float[N, 5, 4] w) => (y) { y = MatMul(x, w) }",
    "convolution": "(float[N, 16, 32, 32] x, float[16, 16, 3, 3] w) => (y) { y = Conv<pads = [1, 1, 1, 1]>(x, w) }",
    "convolution of open sizes": "(float[N, 3, H, W] x, float[4, 3, 3, 3] w) => (y) { y = Conv(x, w) }",
    "depthwise": "(float[N, 16, 9, 9] x, float[16, 1, 3, 3] w) => (y) { y = Conv<group = 16>(x, w) }",
    "transposed": "(float[N, 8, 9, 9] x, float[8, 2, 3, 3] w) => (y) { y = ConvTranspose<strides = [2, 2]>(x, w) }",
    "attention": "(float[N, 2, S, 16] q) => (y) { y = Attention(q, q, q) }",
    "exponentials": "(float[N, 64] x) => (y) { z = Softmax(x) e = Erf(z) t = Tanh(e) y = Gelu(t) }",
    "angles": "(float[N, 64] x) => (y) { s = Sin(x) c = Cos(s) t = Tan(c) a = Asin(t) b = Acos(a) y = Atan(b) }",
    "angles of halves": "(float16[N, 64] x) => (y) { s = Sin(x) c = Cos(s) y = Atan(c) }",
    "lstm": "(float[S, 2, 4] x, float[1, 8, 4] w, float[1, 8, 2] r) => (y) { y = LSTM<hidden_size = 2>(x, w, r) }",
}


@pytest.mark.parametrize("text", SUMS.values(), ids=SUMS)
def test_products_are_added_by_two_instructions(text: str) -> None:
    model = model_from_text(f'<ir_version: 10, opset_import: ["": 23]> g {text}')
    (image,) = compile_model(model, make_options("cpu:x86-64-v2")).images.values()
    assert not {b"fma", b"fmaf"}.intersection(image.split(b"\0"))
