"""Graphs of old and new operator sets, and of element types other than float."""

import ml_dtypes
import numpy as np
from onnx import TensorProto, TypeProto, helper

from tests.models.graphs.case import Feed, GraphCase, integers, model_of, normal

OPSET_6 = """
six (float[2, 3, 8, 8] x) => (float[2, 5] y)
{
  c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
  b = Add <broadcast = 1, axis = 1> (c, bias)
  n = BatchNormalization <is_test = 1, epsilon = 0.01> (b, g, h, m, v)
  r = Relu (n)
  p = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (r)
  d, mask = Dropout <is_test = 1, ratio = 0.4> (p)
  f = Flatten (d)
  y0 = Gemm <broadcast = 1> (f, u, k)
  y = Softmax (y0)
}"""

OPSET_9 = """
nine (float[batch, 2, 4, 4] x) => (float[batch, 2, 8, 8] y, float[batch, 3] z)
{
  y = Upsample <mode = "nearest"> (x, scales)
  s = Slice <axes = [2, 3], starts = [1, -3], ends = [3, 100]> (x)
  u = Unsqueeze <axes = [0]> (s) q = Squeeze <axes = [0]> (u)
  p = Pad <pads = [0, 0, 1, 0, 0, 0, 0, 1], value = 2.0> (q)
  e = ReduceSum <axes = [2], keepdims = 0> (p)
  t, i = TopK <k = 3> (e)
  h = Hardmax <axis = 2> (t)
  m = Mul (t, h)
  c = Clip <min = -1.0, max = 1.0> (m)
  z = ReduceMax <axes = [1], keepdims = 0> (c)
}"""

OPSET_11 = """
eleven (float[batch, 6] x, int64[k] at) => (float[batch, k] y, float[a, b] z)
{
  g = Gather <axis = 1> (x, at)
  y = Add (g, half)
  low = Constant <value = float {-0.5}> () high = Constant <value = float {0.5}> ()
  c = Clip (x, low, high)
  pads = Constant <value = int64[4] {1, 0, 0, 2}> () p = Pad <mode = "edge"> (c, pads)
  d = CumSum <exclusive = 1, reverse = 1> (p, axis)
  z = Round (d)
}"""

OPSET_28 = """
newest (float[batch, sequence, 8] x) => (float[batch, sequence, 8] y, float[batch, sequence, 8] z)
{
  n = RMSNormalization <axis = -1> (x, g)
  m = MatMul (n, w)
  a = Swish <alpha = 1.5> (m)
  y = Add (x, a)
  axes = Constant <value_ints = [2]> ()
  e = ReduceLogSumExp (y, axes)
  z = Sub (y, e)
}"""

HALF = """
half (float16[batch, 8] x) => (float16[batch, 8] y, float16[batch] top)
{
  m = MatMul (x, w) a = Add (m, b) r = Relu (a)
  n = LayerNormalization (r, g, h)
  y = Softmax (n)
  top = ReduceMax <keepdims = 0, axes = [1]> (y)
}"""

BRAIN = """
brain (float[batch, 8] x) => (bfloat16[batch, 4] y, float[batch, 4] z)
{
  c = Cast <to = 16> (x)
  m = MatMul (c, w) a = Add (m, b)
  y = Tanh (a)
  z = Cast <to = 1> (y)
}"""

DOUBLES = """
doubles (double[n, n] x) => (double[n, n] y, double d, double[n] s)
{
  t = Transpose (x) m = MatMul (x, t)
  d = Det (m)
  y = Exp (m)
  s = ReduceSumSquare <keepdims = 0, axes = [0]> (x)
}"""

WHOLE = """
whole (int32[n, m] x, uint8[n, m] z)
  => (int32[n, m] y, int32[n] most, uint8[n, m] bits, bool[n, m] same, int64[n] where)
{
  two = Constant <value = int32 {2}> () five = Constant <value = int32 {5}> ()
  d = Div (x, two) r = Mod (x, five) p = Mul (d, r) y = Sub (p, x)
  rows = Constant <value_ints = [1]> () most = ReduceMax <keepdims = 0> (y, rows)
  one = Constant <value = uint8 {1}> ()
  l = BitShift <direction = "LEFT"> (z, one)
  bits = BitwiseXor (l, z)
  zi = Cast <to = 6> (z)
  same = Equal (r, zi)
  where = ArgMin <axis = 1, keepdims = 0, select_last_index = 1> (x)
}"""

SPECTRUM = """
spectrum (float[batch, samples] x) => (float[batch, frames, 17] power)
{
  step = Constant <value = int64 {8}> () length = Constant <value = int64 {32}> ()
  axis = Constant <value_ints = [2]> ()
  wave = Unsqueeze (x, axis)
  window = HannWindow (length)
  s = STFT (wave, step, window, length)
  power0 = ReduceSumSquare <keepdims = 0> (s, last)
  one = Constant <value = float {1.0}> () p1 = Add (power0, one) power = Log (p1)
}"""


def opset_6() -> GraphCase:
    norm = {"g": normal(4), "h": normal(4, seed=1), "m": normal(4, seed=2), "v": np.abs(normal(4, seed=3)) + 0.1}
    weights = {"w": normal(4, 3, 3, 3), "bias": normal(4, seed=4), "u": normal(64, 5), "k": normal(5, seed=5)}

    def expected(feed: Feed) -> list[object]:
        x = np.pad(np.asarray(feed["x"], np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        c = np.einsum("nchwij,mcij->nmhw", windows, weights["w"])
        column = (slice(None), None, None)
        b = c + weights["bias"][column]
        n = (b - norm["m"][column]) / np.sqrt(norm["v"][column] + 0.01) * norm["g"][column] + norm["h"][column]
        p = np.maximum(n, 0).reshape(2, 4, 4, 2, 4, 2).mean((3, 5)).reshape(2, 64)
        e = np.exp(p @ weights["u"] + weights["k"])
        return [(e / e.sum(1, keepdims=True)).astype(np.float32)]

    model = model_of(OPSET_6, opset=6, **norm, **weights)
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.add(name=tensor.name).type.CopyFrom(tensor_type(tensor))
    return GraphCase(model, ({"x": normal(2, 3, 8, 8)},), expected)


def tensor_type(tensor: TensorProto) -> TypeProto:
    return helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))


def opset_9() -> GraphCase:
    model = model_of(OPSET_9, opset=9, scales=np.array([1, 1, 2, 2], np.float32))
    return GraphCase(model, tuple({"x": normal(n, 2, 4, 4) * 3} for n in (1, 3)))


def opset_11() -> GraphCase:
    model = model_of(OPSET_11, opset=11, half=np.array(0.5, np.float32), axis=np.array(1))
    feeds = [{"x": normal(n, 6) * 3, "at": integers(6, k, low=-6)} for n, k in ((1, 1), (4, 9), (2, 0))]
    return GraphCase(model, tuple(feeds))


def opset_28() -> GraphCase:
    model = model_of(OPSET_28, opset=28, g=(8,), w=(8, 8))
    return GraphCase(model, tuple({"x": normal(b, s, 8)} for b, s in ((1, 1), (2, 5))), "reference")


def half() -> GraphCase:
    weights = {name: normal(8, seed=n, dtype=np.float16) for n, name in enumerate("bgh")}
    model = model_of(HALF, w=normal(8, 8, dtype=np.float16), **weights)
    return GraphCase(model, tuple({"x": normal(n, 8, dtype=np.float16)} for n in (1, 9)), bound=4e-3)


def brain() -> GraphCase:
    weights = {"w": normal(8, 4, dtype=ml_dtypes.bfloat16), "b": normal(4, dtype=ml_dtypes.bfloat16)}
    return GraphCase(model_of(BRAIN, **weights), tuple({"x": normal(n, 8)} for n in (1, 7)), "reference", 2e-2)


def doubles() -> GraphCase:
    return GraphCase(
        model_of(DOUBLES), tuple({"x": normal(n, n, dtype=np.float64)} for n in (1, 4)), "reference", 1e-12
    )


def whole_numbers() -> GraphCase:
    feeds = [
        {"x": integers(100, n, m, low=-100, dtype=np.int32), "z": integers(256, n, m, dtype=np.uint8)}
        for n, m in ((1, 1), (3, 17))
    ]
    return GraphCase(model_of(WHOLE, opset=18), tuple(feeds), "reference")


def spectrum() -> GraphCase:
    model = model_of(SPECTRUM, opset=18, last=np.array([3]))
    return GraphCase(model, tuple({"x": normal(b, n)} for b, n in ((1, 32), (2, 75))))


CASES = {
    case.__name__: case
    for case in (opset_6, opset_9, opset_11, opset_28, half, brain, doubles, whole_numbers, spectrum)
}
