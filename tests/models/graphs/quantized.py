"""Quantised graphs: QDQ pairs, integer operators, dynamic quantisation, weights of few bits."""

import ml_dtypes
import numpy as np

from tests.models.graphs.case import GraphCase, integers, model_of, normal

QDQ = """
qdq (float[batch, 3, height, width] x) => (float[batch, 4] y)
{
  xq = QuantizeLinear (x, sx, zx) xd = DequantizeLinear (xq, sx, zx)
  wd = DequantizeLinear <axis = 0> (w, sw, zw)
  bd = DequantizeLinear (b, sb)
  c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (xd, wd, bd)
  r = Relu (c)
  rq = QuantizeLinear (r, sr, zr) rd = DequantizeLinear (rq, sr, zr)
  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (rd)
  s = Conv <kernel_shape = [1, 1]> (p, v)
  a = Add (s, p)
  aq = QuantizeLinear (a, sr, zr) ad = DequantizeLinear (aq, sr, zr)
  g = GlobalAveragePool (ad) f = Flatten (g)
  ud = DequantizeLinear <axis = 1> (u, su)
  y = MatMul (f, ud)
}"""

INTEGER = """
whole (uint8[batch, 3, 9, 9] x) => (uint8[batch, 5] y)
{
  c = QLinearConv <kernel_shape = [3, 3], strides = [2, 2]> (x, sx, zx, w, sw, zw, sr, zr, b)
  shape = Constant <value_ints = [0, -1]> ()
  f = Reshape (c, shape)
  y = QLinearMatMul (f, sr, zr, u, su, zu, sy, zy)
}"""

DYNAMIC = """
dynamic (float[batch, sequence, 8] x) => (float[batch, sequence, 6] y)
{
  q, s, z = DynamicQuantizeLinear (x)
  m = MatMulInteger (q, w, z)
  f = Cast <to = 1> (m)
  k = Mul (s, sw)
  d = Mul (f, k)
  a = Add (d, b)
  y = Relu (a)
}"""

BLOCKED = """
blocked (float[batch, 16] x) => (float[batch, 6] y)
{
  wd = DequantizeLinear <axis = 0, block_size = 4> (w, sw, zw)
  h = MatMul (x, wd)
  hq = QuantizeLinear <output_dtype = 3> (h, sh)
  y = DequantizeLinear (hq, sh)
}"""

FLOAT8 = """
small (float[batch, 8] x) => (float[batch, 4] y, bfloat16[batch, 4] z)
{
  xq = QuantizeLinear (x, s, zero)
  xd = DequantizeLinear (xq, s, zero)
  wd = Cast <to = 1> (w)
  m = MatMul (xd, wd)
  y = Mul (m, s)
  z = Cast <to = 16> (y)
}"""


def scalar(value: float, dtype: object = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def qdq() -> GraphCase:
    scales = {"sx": scalar(0.02), "sr": scalar(0.05), "sb": scalar(0.0002), "sw": np.full(4, 0.01, np.float32)}
    zeros = {"zx": scalar(128, np.uint8), "zr": scalar(0, np.uint8), "zw": np.zeros(4, np.int8)}
    model = model_of(
        QDQ,
        opset=21,
        **scales,
        **zeros,
        w=integers(100, 4, 3, 3, 3, low=-100, dtype=np.int8),
        b=integers(1000, 4, low=-1000, dtype=np.int32),
        v=(4, 4, 1, 1),
        u=integers(127, 4, 4, low=-127, dtype=np.int8),
        su=np.array([0.01, 0.02, 0.005, 0.01], np.float32),
    )
    return GraphCase(model, tuple({"x": normal(n, 3, h, w) * 5} for n, h, w in ((1, 4, 4), (3, 9, 6))), "reference")


def integer_network() -> GraphCase:
    names = ("sx", "sw", "sr", "su", "sy")
    scales = {name: scalar(value) for name, value in zip(names, (0.02, 0.01, 0.1, 0.015, 0.2), strict=True)}
    points = {"zx": 120, "zw": 130, "zr": 100, "zu": 127, "zy": 128}
    zeros = {name: scalar(value, np.uint8) for name, value in points.items()}
    w, u = integers(256, 4, 3, 3, 3, dtype=np.uint8), integers(256, 64, 5, dtype=np.uint8)
    model = model_of(INTEGER, **scales, **zeros, w=w, u=u, b=integers(500, 4, low=-500, dtype=np.int32))
    return GraphCase(model, tuple({"x": integers(256, n, 3, 9, 9, dtype=np.uint8)} for n in (1, 4)))


def dynamic() -> GraphCase:
    model = model_of(DYNAMIC, w=integers(127, 8, 6, low=-127, dtype=np.int8), sw=scalar(0.01), b=(6,))
    return GraphCase(model, tuple({"x": normal(b, s, 8)} for b, s in ((1, 1), (2, 7))))


def blocked_weights() -> GraphCase:
    model = model_of(
        BLOCKED,
        opset=21,
        w=integers(15, 16, 6, dtype=np.uint8),
        zw=integers(15, 4, 6, seed=1, dtype=np.uint8),
        sw=np.abs(normal(4, 6)) + np.float32(0.01),
        sh=scalar(0.05),
    )
    return GraphCase(model, tuple({"x": normal(n, 16)} for n in (1, 5)), "reference")


def float8() -> GraphCase:
    model = model_of(
        FLOAT8,
        opset=21,
        w=normal(8, 4).astype(ml_dtypes.float8_e5m2),
        s=scalar(0.5),
        zero=scalar(0, ml_dtypes.float8_e4m3fn),
    )
    return GraphCase(model, tuple({"x": normal(n, 8) * 3} for n in (1, 6)), "reference")


CASES = {case.__name__: case for case in (qdq, integer_network, dynamic, blocked_weights, float8)}
