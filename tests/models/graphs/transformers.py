"""Transformers: encoders, decoders with a cache, mixtures of experts, and their pieces."""

from collections.abc import Mapping

import numpy as np

from tests.models.graphs.case import GraphCase, integers, model_of, normal

ENCODER = """
encoder (int64[batch, sequence] ids, int64[batch, sequence] mask)
  => (float[batch, sequence, 16] last, float[batch, 16] pooled)
{
  word = Gather (words, ids)
  shape = Shape (ids)
  one = Constant <value_ints = [1]> ()
  zero = Constant <value = int64 {0}> ()
  step = Constant <value = int64 {1}> ()
  length1 = Gather (shape, one)
  scalar = Constant <value_ints = [0]> ()
  length = Squeeze (length1, scalar)
  places = Range (zero, length, step)
  place = Gather (positions, places)
  embedded = Add (word, place)
  h0 = LayerNormalization <axis = -1, epsilon = 0.00001> (embedded, g0, b0)
  q0 = MatMul (h0, wq) q1 = Add (q0, bq)
  k0 = MatMul (h0, wk) k1 = Add (k0, bk)
  v0 = MatMul (h0, wv) v1 = Add (v0, bv)
  heads = Constant <value_ints = [0, 0, 4, 4]> ()
  q2 = Reshape (q1, heads) q = Transpose <perm = [0, 2, 1, 3]> (q2)
  k2 = Reshape (k1, heads) k = Transpose <perm = [0, 2, 3, 1]> (k2)
  v2 = Reshape (v1, heads) v = Transpose <perm = [0, 2, 1, 3]> (v2)
  s0 = MatMul (q, k)
  two = Constant <value = float {2.0}> ()
  s1 = Div (s0, two)
  maskf = Cast <to = 1> (mask)
  onef = Constant <value = float {1.0}> ()
  minus = Constant <value = float {-10000.0}> ()
  m0 = Sub (onef, maskf) m1 = Mul (m0, minus)
  axes = Constant <value_ints = [1, 2]> ()
  m2 = Unsqueeze (m1, axes)
  s2 = Add (s1, m2)
  p = Softmax <axis = -1> (s2)
  c0 = MatMul (p, v) c1 = Transpose <perm = [0, 2, 1, 3]> (c0)
  flat = Constant <value_ints = [0, 0, 16]> ()
  c2 = Reshape (c1, flat)
  o = MatMul (c2, wo) r0 = Add (o, h0)
  h1 = LayerNormalization <axis = -1> (r0, g1, b1)
  f0 = MatMul (h1, w1)
  root = Constant <value = float {1.4142135}> () half = Constant <value = float {0.5}> ()
  f1 = Div (f0, root) f2 = Erf (f1) f3 = Add (f2, onef) f4 = Mul (f0, f3) f5 = Mul (f4, half)
  f6 = MatMul (f5, w2) r1 = Add (f6, h1)
  last = LayerNormalization <axis = -1> (r1, g2, b2)
  first = Gather <axis = 1> (last, zero)
  pooled0 = Gemm (first, wp, bp) pooled = Tanh (pooled0)
}"""

CACHED = """
decoder (float[batch, new, 16] x, float[batch, 2, past, 8] past_k, float[batch, 2, past, 8] past_v)
  => (float[batch, new, 16] y, float[batch, 2, total, 8] k, float[batch, 2, total, 8] v)
{
  qkv = MatMul (x, w)
  thirds = Constant <value_ints = [16, 16, 16]> ()
  q0, k0, v0 = Split <axis = 2> (qkv, thirds)
  heads = Constant <value_ints = [0, -1, 2, 8]> ()
  q1 = Reshape (q0, heads) q = Transpose <perm = [0, 2, 1, 3]> (q1)
  k1 = Reshape (k0, heads) k2 = Transpose <perm = [0, 2, 1, 3]> (k1)
  v1 = Reshape (v0, heads) v2 = Transpose <perm = [0, 2, 1, 3]> (v1)
  k = Concat <axis = 2> (past_k, k2)
  v = Concat <axis = 2> (past_v, v2)
  kt = Transpose <perm = [0, 1, 3, 2]> (k)
  s0 = MatMul (q, kt)
  scale = Constant <value = float {0.35355338}> ()
  s1 = Mul (s0, scale)
  qs = Shape <start = 2, end = 3> (q)
  ks = Shape <start = 2, end = 3> (k)
  square = Concat <axis = 0> (qs, ks)
  ones = ConstantOfShape <value = float[1] {1}> (square)
  past = Sub (ks, qs) none = Constant <value_ints = [0]> ()
  past0 = Squeeze (past, none)
  lower = Trilu <upper = 0> (ones, past0)
  allowed = Cast <to = 9> (lower)
  far = Constant <value = float {-3.4e38}> ()
  s2 = Where (allowed, s1, far)
  p = Softmax <axis = -1> (s2)
  c0 = MatMul (p, v) c1 = Transpose <perm = [0, 2, 1, 3]> (c0)
  flat = Constant <value_ints = [0, 0, -1]> ()
  c2 = Reshape (c1, flat)
  o = MatMul (c2, wo)
  y = Add (x, o)
}"""

CROSS = """
decoder (float[batch, target, 12] x, float[batch, source, 12] memory, bool[batch, source] padding)
  => (float[batch, target, 12] y)
{
  q = MatMul (x, wq) k = MatMul (memory, wk) v = MatMul (memory, wv)
  qh = Reshape (q, heads) kh = Reshape (k, heads) vh = Reshape (v, heads)
  qt = Transpose <perm = [0, 2, 1, 3]> (qh) kt = Transpose <perm = [0, 2, 3, 1]> (kh)
  vt = Transpose <perm = [0, 2, 1, 3]> (vh)
  s = MatMul (qt, kt)
  mask = Unsqueeze (padding, axes)
  s1 = Where (mask, low, s)
  p = Softmax <axis = 3> (s1)
  c = MatMul (p, vt) ct = Transpose <perm = [0, 2, 1, 3]> (c)
  cf = Reshape (ct, flat)
  r = Add (x, cf)
  mean = ReduceMean <axes = [-1]> (r)
  d = Sub (r, mean) dd = Mul (d, d) var = ReduceMean <axes = [-1]> (dd)
  ve = Add (var, eps) sd = Sqrt (ve) n = Div (d, sd) ng = Mul (n, gain) y = Add (ng, shift)
}"""

MOE = """
experts (float[tokens, 8] x) => (float[tokens, 8] y, int64[tokens, 2] chosen)
{
  gate = MatMul (x, wg)
  scores = Softmax <axis = -1> (gate)
  two = Constant <value_ints = [2]> ()
  top, chosen = TopK <axis = -1> (scores, two)
  last = Constant <value_ints = [-1]> ()
  total = ReduceSum <keepdims = 1> (top, last)
  weight = Div (top, total)
  shape = Shape (gate)
  zeros = ConstantOfShape (shape)
  dense = ScatterElements <axis = 1> (zeros, chosen, weight)
  xe = Unsqueeze (x, front)
  h = MatMul (xe, w1) act = Sigmoid (h) hs = Mul (h, act)
  out = MatMul (hs, w2)
  dt = Transpose <perm = [1, 0]> (dense)
  dw = Unsqueeze (dt, last)
  mixed = Mul (out, dw)
  y = ReduceSum <keepdims = 0> (mixed, front)
}"""

ROTARY = """
rotary (float[batch, sequence, 2, 8] x, int64[batch, sequence] places) => (float[batch, sequence, 2, 8] y)
{
  p = Cast <to = 1> (places)
  axis = Constant <value_ints = [2]> ()
  pu = Unsqueeze (p, axis)
  angle = Mul (pu, frequencies)
  both = Concat <axis = -1> (angle, angle)
  wide = Unsqueeze (both, axis)
  c = Cos (wide) s = Sin (wide)
  halves = Constant <value_ints = [4, 4]> ()
  a, b = Split <axis = 3> (x, halves)
  nb = Neg (b)
  turned = Concat <axis = 3> (nb, a)
  xc = Mul (x, c) ts = Mul (turned, s)
  y = Add (xc, ts)
}"""

ATTENTION_23 = """
block (float[batch, sequence, 16] x, float[batch, 1, sequence, sequence] bias) => (float[batch, sequence, 16] y)
{
  n = RMSNormalization <axis = -1, epsilon = 0.00001> (x, gain)
  q = MatMul (n, wq) k = MatMul (n, wk) v = MatMul (n, wv)
  a = Attention <q_num_heads = 4, kv_num_heads = 2, softcap = 30.0> (q, k, v, bias)
  o = MatMul (a, wo)
  r = Add (x, o)
  u = MatMul (r, w1) g = Gelu <approximate = "tanh"> (u) d = MatMul (g, w2)
  y = Add (r, d)
}"""

RELATIVE = """
relative (float[heads, length, 8] q, float[heads, length, 8] k) => (float[heads, length, length] y)
{
  zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
  n1 = Shape <start = 1, end = 2> (q) first = Constant <value_ints = [0]> ()
  n = Squeeze (n1, first)
  r = Range (zero, n, one)
  col = Unsqueeze (r, lastaxis) row = Unsqueeze (r, first)
  d = Sub (row, col)
  low = Constant <value = int64 {-3}> () high = Constant <value = int64 {3}> ()
  c = Clip (d, low, high)
  i = Sub (c, low)
  e = Gather (table, i)
  ke = Einsum <equation = "hid,ijd->hij"> (q, e)
  qk = Einsum <equation = "hid,hjd->hij"> (q, k)
  s = Add (qk, ke)
  y = LogSoftmax <axis = -1> (s)
}"""


def text_feed(batch: int, length: int) -> Mapping[str, object]:
    mask = np.ones((batch, length), np.int64)
    mask[-1, length // 2 + 1 :] = 0
    return {"ids": integers(50, batch, length), "mask": mask}


def encoder() -> GraphCase:
    vectors = dict.fromkeys(("g0", "b0", "bq", "bk", "bv", "g1", "b1", "g2", "b2", "bp"), (16,))
    squares = dict.fromkeys(("wq", "wk", "wv", "wo", "wp"), (16, 16))
    model = model_of(ENCODER, words=(50, 16), positions=(64, 16), w1=(16, 32), w2=(32, 16), **vectors, **squares)
    return GraphCase(model, tuple(text_feed(*sizes) for sizes in ((1, 1), (3, 7), (2, 64))))


def cached_feed(batch: int, new: int, past: int) -> Mapping[str, object]:
    cache = {name: normal(batch, 2, past, 8, seed=n) for n, name in enumerate(("past_k", "past_v"))}
    return {"x": normal(batch, new, 16), **cache}


def cached_decoder() -> GraphCase:
    model = model_of(CACHED, w=(16, 48), wo=(16, 16))
    return GraphCase(model, tuple(cached_feed(*sizes) for sizes in ((1, 1, 0), (2, 5, 0), (3, 1, 13), (2, 3, 31))))


def cross_decoder() -> GraphCase:
    integers_ = {"heads": np.array([0, 0, 3, 4]), "flat": np.array([0, 0, 12]), "axes": np.array([1, 2])}
    small = {"low": np.array(-1e9, np.float32), "eps": np.array(1e-5, np.float32)}
    squares = dict.fromkeys(("wq", "wk", "wv"), (12, 12))
    model = model_of(CROSS, **integers_, **small, **squares, gain=(12,), shift=(12,))
    feeds = [
        {"x": normal(b, t, 12), "memory": normal(b, s, 12, seed=1), "padding": np.arange(s)[None].repeat(b, 0) > s - 2}
        for b, t, s in ((1, 1, 2), (2, 5, 9), (4, 1, 33))
    ]
    return GraphCase(model, tuple(feeds))


def mixture_of_experts() -> GraphCase:
    model = model_of(MOE, wg=(8, 4), w1=(4, 8, 16), w2=(4, 16, 8), front=np.array([0]))
    return GraphCase(model, tuple({"x": normal(n, 8)} for n in (1, 7, 40)))


def rotary() -> GraphCase:
    model = model_of(ROTARY, frequencies=(1 / 10000 ** (np.arange(4) / 4)).astype(np.float32))
    feeds = [{"x": normal(b, s, 2, 8), "places": integers(500, b, s)} for b, s in ((1, 1), (2, 9), (0, 3))]
    return GraphCase(model, tuple(feeds))


def attention_23() -> GraphCase:
    weights = {"wq": (16, 16), "wk": (16, 8), "wv": (16, 8), "wo": (16, 16), "w1": (16, 24), "w2": (24, 16)}
    model = model_of(ATTENTION_23, opset=23, gain=(16,), **weights)
    feeds = [{"x": normal(b, s, 16), "bias": normal(b, 1, s, s, seed=3)} for b, s in ((1, 1), (2, 7), (1, 32))]
    return GraphCase(model, tuple(feeds), "reference")


def relative_positions() -> GraphCase:
    model = model_of(RELATIVE, table=(7, 8), lastaxis=np.array([1]))
    return GraphCase(
        model, tuple({"q": normal(h, n, 8), "k": normal(h, n, 8, seed=1)} for h, n in ((1, 1), (2, 5), (4, 17)))
    )


CASES = {
    case.__name__: case
    for case in (encoder, cached_decoder, cross_decoder, mixture_of_experts, rotary, attention_23, relative_positions)
}
