"""Recurrent networks: the operators, and recurrences written with Scan and Loop."""

import numpy as np

from tests.models.graphs.case import GraphCase, integers, model_of, normal

TAGGER = """
tagger (int64[batch, sequence] ids, int32[batch] lengths) => (float[batch, sequence, 7] tags, float[2, batch, 6] last)
{
  e = Gather (words, ids)
  x = Transpose <perm = [1, 0, 2]> (e)
  h, last, cell = LSTM <hidden_size = 6, direction = "bidirectional"> (x, w, r, b, lengths)
  t = Transpose <perm = [2, 0, 1, 3]> (h)
  shape = Constant <value_ints = [0, 0, 12]> () f = Reshape (t, shape)
  logits = MatMul (f, out) tags = LogSoftmax <axis = 2> (logits)
}"""

STACKED = """
stacked (float[sequence, batch, 5] x, float[1, batch, 8] h0) => (float[sequence, batch, 4] y, float[1, batch, 4] last)
{
  a, ah = GRU <hidden_size = 8, linear_before_reset = 1> (x, w0, r0, b0, , h0)
  one = Constant <value_ints = [1]> () s = Squeeze (a, one)
  b, last = RNN <hidden_size = 4, activations = ["Relu"], clip = 3.0> (s, w1, r1)
  y = Squeeze (b, one)
}"""

CAPTIONS = """
captions (float[batch, 6] image, int64 steps) => (int64[steps, batch, 1] words, float[batch, 6] state)
{
  true = Constant <value = bool {1}> ()
  n = Shape <start = 0, end = 1> (image)
  start = ConstantOfShape <value = int64[1] {2}> (n)
  state, token, words = Loop (steps, true, image, start) <
    body = b (int64 i, bool go, s, t) => (on, s1, t1, out) {
      on = Identity (go)
      e = Gather (table, t)
      c = Concat <axis = 1> (s, e)
      z = MatMul (c, wz) s1 = Tanh (z)
      logits = MatMul (s1, wo)
      t1 = ArgMax <axis = 1, keepdims = 0> (logits)
      minus = Constant <value_ints = [-1]> ()
      out = Unsqueeze (t1, minus)
    } >
}"""

SCANNED = """
scanned (float[sequence, batch, 4] x, float[batch, 4] h)
  => (float[batch, 4] last, float[sequence, batch, 4] all, float[sequence, batch] norms)
{
  last, all, norms = Scan <num_scan_inputs = 1,
    body = b (float[batch, 4] s, float[batch, 4] e) => (float[batch, 4] t, float[batch, 4] o, float[batch] n) {
      g0 = MatMul (e, wg) g = Sigmoid (g0)
      c0 = MatMul (s, wc) c = Tanh (c0)
      one = Constant <value = float {1.0}> () k = Sub (one, g)
      a = Mul (g, s) d = Mul (k, c) t = Add (a, d)
      o = Identity (t)
      axes = Constant <value_ints = [1]> () n = ReduceL2 <keepdims = 0> (t, axes)
    }> (h, x)
}"""

PEEPHOLES = """
peepholes (float[sequence, batch, 3] x)
  => (float[sequence, 1, batch, 4] y, float[1, batch, 4] h, float[1, batch, 4] c)
{
  y, h, c = LSTM <hidden_size = 4, input_forget = 1, activations = ["HardSigmoid", "Softsign", "Elu"],
                  activation_alpha = [0.3, 0.0, 0.5], activation_beta = [0.4]> (x, w, r, b, , , , p)
}"""


def tagger() -> GraphCase:
    model = model_of(TAGGER, words=(30, 5), w=(2, 24, 5), r=(2, 24, 6), b=(2, 48), out=(12, 7))
    feeds = [
        {"ids": integers(30, b, s), "lengths": integers(s + 1, b, low=1, dtype=np.int32)}
        for b, s in ((1, 1), (3, 9), (5, 24))
    ]
    return GraphCase(model, tuple(feeds))


def stacked() -> GraphCase:
    weights = {"w0": (1, 24, 5), "r0": (1, 24, 8), "b0": (1, 48), "w1": (1, 4, 8), "r1": (1, 4, 4)}
    feeds = [{"x": normal(s, b, 5), "h0": normal(1, b, 8)} for s, b in ((1, 1), (7, 3), (20, 2))]
    return GraphCase(model_of(STACKED, **weights), tuple(feeds))


def captions() -> GraphCase:
    model = model_of(CAPTIONS, table=(9, 3), wz=(9, 6), wo=(6, 9))
    return GraphCase(model, tuple({"image": normal(b, 6), "steps": np.array(n)} for b, n in ((1, 1), (3, 8))))


def scanned() -> GraphCase:
    feeds = [{"x": normal(s, b, 4), "h": normal(b, 4)} for s, b in ((1, 1), (9, 3))]
    return GraphCase(model_of(SCANNED, opset=18, wg=(4, 4), wc=(4, 4)), tuple(feeds))


def peepholes() -> GraphCase:
    model = model_of(PEEPHOLES, w=(1, 16, 3), r=(1, 16, 4), b=(1, 32), p=(1, 12))
    return GraphCase(model, tuple({"x": normal(s, b, 3)} for b, s in ((1, 1), (2, 6))))


CASES = {case.__name__: case for case in (tagger, stacked, captions, scanned, peepholes)}
