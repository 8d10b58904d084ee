"""The models that mutation starts from: small ones of every feature, and official ones."""

import warnings
from functools import cache
from pathlib import Path

import onnx
from onnx.backend.test.loader import load_model_tests

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from tests.frontend.invalid import devices, training
from tests.frontend.invalid.names import NESTED, SCAN
from tests.frontend.model_texts import ADD, CALL, IF, LEAKY, LOOP, model

MOST_BYTES = 4000
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

# Together these have shapes that are computed, convolutions, normalisations, attention, quantisation and sequences.
CHAIN = """g (float[B, 3, 8, 8] x) => (float[B, K] y)
  <float[4, 3, 3, 3] w, float[4] s = {1, 2, 3, 4}, int64[1] minus = {-1}, int64[1] zero = {0}, int64[1] one = {1}> {
  c = Conv<pads = [1, 1, 1, 1]>(x, w, s)
  n = BatchNormalization(c, s, s, s, s)
  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(n)
  shape = Shape(p)
  batch = Slice(shape, zero, one)
  to = Concat<axis = 0>(batch, minus)
  f = Reshape(p, to)
  y = Softmax<axis = -1>(f)
}"""
ATTENTION = """g (float[B, T, 8] x) => (float[B, T, 8] y) <float[8, 8] w, float[8] s> {
  n = LayerNormalization(x, s, s)
  q = MatMul(n, w)
  a = Attention<q_num_heads = 2, kv_num_heads = 2>(q, q, q)
  r = Add(a, x)
  y = Gelu(r)
}"""
SEQUENCES = """g (seq(float[N]) s, float[N] x, int64 k) => (float[M] y, optional(float[N]) o) {
  t = SequenceInsert(s, x)
  e = SequenceAt(t, k)
  o = Optional(e)
  y = ConcatFromSequence<axis = 0>(t)
}"""
QUANTIZED = """g (float[N, 4] x) => (float[N, 4] y) <float s = {0.5}, uint8 z = {128}, int64[4] i = {3, 2, 1, 0}> {
  q = QuantizeLinear(x, s, z)
  d = DequantizeLinear(q, s, z)
  g1 = Gather<axis = 1>(d, i)
  v, j = TopK(g1, k)
  k = Constant<value = int64[1] {4}>()
  e = Einsum<equation = "ij,kj->ik">(v, g1)
  y = ReduceSum<keepdims = 0>(e, j)
}"""

SPARSE = """g (sparse_tensor(float[N, 4]) s, float[N] x) => (sparse_tensor(float[N, 4]) t, float[N] y) {
  t = own.keep(s)
  y = Relu(x)
}
<domain: "own", opset_import: ["": 23]> keep (a) => (a) { b = Constant<value = float {1}>() }"""


@cache
def seeds() -> tuple[ModelProto, ...]:
    """The models, always in the same order."""
    newer = '<ir_version: 11, opset_import: ["": 23, "own": 1]>\n'
    texts = [
        model(text, header=newer) for text in (ADD, CALL, IF, LEAKY, LOOP, NESTED, SCAN, CHAIN, ATTENTION, SEQUENCES)
    ]
    texts += [model(text, header=newer) for text in (QUANTIZED, SPARSE)]
    texts += [model(devices.MATRIX, edit, devices.NEWER) for edit in devices.LEGAL.values()]
    texts += [model(ADD, edit) for edit in training.LEGAL.values()]
    for tensor in (tensor for text in texts for tensor in text.graph.initializer if not tensor.ByteSize() > 2000):
        if not tensor.raw_data and not tensor.float_data and tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.raw_data = bytes(4 * onnx.numpy_helper.np.prod(tuple(tensor.dims), dtype=int))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        official = [case.model for case in load_model_tests(kind="node") if case.model is not None]
    small = [data for proto in official if len(data := proto.SerializeToString()) < MOST_BYTES]
    light = [path.read_bytes() for path in sorted(LIGHT.glob("light_*.onnx")) if path.stat().st_size < 10 * MOST_BYTES]
    return tuple(
        ModelProto.FromString(data) for data in (*(text.SerializeToString() for text in texts), *light, *small)
    )
