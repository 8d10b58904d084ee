"""Loops, branches, sequences and optionals, and functions of the model."""

import numpy as np

from tests.models.graphs.case import GraphCase, integers, model_of, normal

BEAM = """
beam (float[beams, 6] scores0, int64 steps) => (int64[beams, length] tokens, float[beams] scores)
{
  true = Constant <value = bool {1}> ()
  n = Shape <start = 0, end = 1> (scores0)
  zero = Constant <value_ints = [0]> () none = Concat <axis = 0> (n, zero)
  empty = ConstantOfShape <value = int64[1] {0}> (none)
  start = ReduceMax <keepdims = 0, axes = [1]> (scores0)
  state, tokens, scores = Loop (steps, true, scores0, empty, start) <
    body = b (int64 i, bool go, float[beams, 6] s, int64[beams, done] t, float[beams] total) => (on, s1, t1, best) {
      on = Identity (go)
      p = LogSoftmax <axis = 1> (s)
      one = Constant <value_ints = [1]> () column = Unsqueeze (total, one)
      all = Add (p, column)
      flat1 = Constant <value_ints = [-1]> () flat = Reshape (all, flat1)
      best, where = TopK <axis = 0> (flat, n)
      six = Constant <value = int64 {6}> ()
      from = Div (where, six) word = Mod (where, six)
      kept = Gather (t, from)
      w = Unsqueeze (word, one)
      t1 = Concat <axis = 1> (kept, w)
      e = Gather (moves, word) s0 = Gather (s, from) s1 = Add (s0, e)
    } >
}"""

COLLATZ = """
collatz (int64 n) => (int64 steps, int64[trips] seen)
{
  most = Constant <value = int64 {1000}> () zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  go = Greater (n, one)
  last, steps, seen = Loop (most, go, n, zero) <
    body = b (int64 i, bool c, int64 v, int64 k) => (bool on, int64 w, int64 k1, int64 out) {
      two = Constant <value = int64 {2}> () three = Constant <value = int64 {3}> ()
      r = Mod (v, two) odd = Cast <to = 9> (r)
      w = If (odd) < then_branch = t () => (int64 a) { x = Mul (v, three) a = Add (x, one) },
                     else_branch = e () => (int64 d) { d = Div (v, two) } >
      on = Greater (w, one) k1 = Add (k, one) out = Identity (w)
    } >
}"""

SHAPES = """
shapes (float[n, 3] x, bool wide) => (float[m, k] y)
{
  y = If (wide) < then_branch = t () => (float[a, b] p) { p = Concat <axis = 1> (x, x) },
                  else_branch = e () => (float[c, d] q) {
                    z = Constant <value_ints = [0]> () o = Constant <value_ints = [2]> ()
                    q = Slice (x, z, o, z) } >
}"""

CHUNKS = """
chunks (float[n, 4] x, int64[pieces] sizes) => (float[n, 4] y, int64 count, float[4] first)
{
  s = SplitToSequence <axis = 0> (x, sizes)
  t = SequenceMap (s) < body = b (float[p, 4] e) => (float[p, 4] f) {
        m = ReduceMax <axes = [0], keepdims = 1> (e) f = Sub (e, m) } >
  y = ConcatFromSequence <axis = 0> (t)
  count = SequenceLength (t)
  zero = Constant <value = int64 {0}> ()
  head = SequenceAt (t, zero)
  first = ReduceSum <keepdims = 0> (head, axes)
}"""

GATHERED = """
gathered (float[n, m] x) => (float[total, m] y)
{
  empty = SequenceEmpty <dtype = 1> ()
  true = Constant <value = bool {1}> ()
  n1 = Shape <start = 0, end = 1> (x) zero = Constant <value_ints = [0]> () trips = Squeeze (n1, zero)
  all = Loop (trips, true, empty) <
    body = b (int64 i, bool c, seq(float[p, m]) s) => (bool on, seq(float[q, m]) t) {
      on = Identity (c)
      one = Constant <value = int64 {1}> () next = Add (i, one)
      end = Unsqueeze (next, zero)
      head = Slice (x, zero, end, zero)
      t = SequenceInsert (s, head)
    } >
  y = ConcatFromSequence <axis = 0> (all)
}"""

NESTED = """
nested (float[batch, 6] x) => (float[batch, 6] y, float[batch, 2] z)
{
  y = local.block <scale = 0.5> (x, w)
  z0 = local.head (y, h)
  z = local.norm <axis = 1> (z0)
}
<domain: "local", opset_import: ["": 17, "local": 1]>
block <scale: float> (a, weight) => (b)
{
  k = Constant <value_float: float = @scale> ()
  m = MatMul (a, weight)
  n = local.norm <axis = 1> (m)
  s = Mul (n, k)
  b = Add (s, a)
}
<domain: "local", opset_import: ["": 17]>
norm <axis: int = 0, epsilon: float = 0.001> (a) => (b)
{
  e = Constant <value_float: float = @epsilon> ()
  sum = LpNormalization <axis: int = @axis, p = 2> (a)
  b = Add (sum, e)
}
<domain: "local", opset_import: ["": 17, "local": 1]>
head (a, weight) => (b)
{
  m = MatMul (a, weight)
  t = Tanh (m)
  b = Identity (t)
}"""

WHILE_SUM = """
newton (float[n] a) => (float[n] root, int64 steps)
{
  most = Constant <value = int64 {50}> () true = Constant <value = bool {1}> () zero = Constant <value = int64 {0}> ()
  half = Constant <value = float {0.5}> () small = Constant <value = float {0.0001}> ()
  one = Constant <value = float {1.0}> ()
  start = Add (a, one)
  root, steps = Loop (most, true, start, zero) <
    body = b (int64 i, bool c, float[n] r, int64 k) => (bool on, float[n] r1, int64 k1) {
      q = Div (a, r) s = Add (r, q) r1 = Mul (s, half)
      d = Sub (r1, r) e = Abs (d) worst = ReduceMax <keepdims = 0> (e)
      on = Greater (worst, small)
      o = Constant <value = int64 {1}> () k1 = Add (k, o)
    } >
}"""

OPTIONALS = """
optionals (optional(float[n]) x, float[m] z) => (float[k] y, bool there)
{
  there = OptionalHasElement (x)
  y = If (there) < then_branch = t () => (float[a] p) { v = OptionalGetElement (x) p = Neg (v) },
                   else_branch = e () => (float[b] q) { q = Exp (z) } >
}"""

RAGGED = """
ragged (float[n] x, bool[n] keep) => (float[kept] y, int64[kept] at, float[n] back, float[u] values, int64[u] counts)
{
  y = Compress <axis = 0> (x, keep)
  nz = NonZero (keep) zero = Constant <value_ints = [0]> () at = Squeeze (nz, zero)
  nothing = Mul (x, none)
  one = Constant <value_ints = [1]> () places = Unsqueeze (at, one)
  back = ScatterND (nothing, places, y)
  r = Round (x) values, first, inverse, counts = Unique <sorted = 1> (r)
}"""


def beam_search() -> GraphCase:
    feeds = [{"scores0": normal(b, 6) * 3, "steps": np.array(n)} for b, n in ((1, 1), (3, 7), (2, 0))]
    return GraphCase(model_of(BEAM, moves=(6, 6)), tuple(feeds))


def collatz() -> GraphCase:
    return GraphCase(model_of(COLLATZ), tuple({"n": np.array(n)} for n in (1, 2, 7, 27)))


def branch_shapes() -> GraphCase:
    feeds = [{"x": normal(n, 3), "wide": np.array(wide)} for n in (1, 5) for wide in (False, True)]
    return GraphCase(model_of(SHAPES), tuple(feeds))


def chunks() -> GraphCase:
    feeds = [{"x": normal(sum(sizes), 4), "sizes": np.array(sizes)} for sizes in ([3], [1, 4, 2], [2, 2, 1, 1, 1])]
    return GraphCase(model_of(CHUNKS, axes=np.array([0])), tuple(feeds))


def gathered_prefixes() -> GraphCase:
    return GraphCase(model_of(GATHERED), tuple({"x": normal(n, m)} for n, m in ((1, 1), (4, 3))))


def nested_functions() -> GraphCase:
    return GraphCase(model_of(NESTED, w=(6, 6), h=(6, 2)), tuple({"x": normal(n, 6)} for n in (1, 5)))


def newton() -> GraphCase:
    return GraphCase(model_of(WHILE_SUM), tuple({"a": np.abs(normal(n)) * 10 + 1} for n in (1, 6)))


def optionals() -> GraphCase:
    feeds = [{"x": None, "z": normal(3)}, {"x": normal(5), "z": normal(1)}]

    def expected(feed: "object") -> list[object]:
        x, z = feed["x"], feed["z"]
        return [np.exp(z) if x is None else -x, np.array(x is not None)]

    return GraphCase(model_of(OPTIONALS, opset=18), tuple(feeds), expected)


def ragged() -> GraphCase:
    feeds = [{"x": normal(n) * 3, "keep": integers(2, n, dtype=bool)} for n in (1, 9, 30)]
    feeds.append({"x": normal(4), "keep": np.zeros(4, bool)})
    return GraphCase(model_of(RAGGED, none=np.array(0, np.float32)), tuple(feeds))


CASES = {
    case.__name__: case
    for case in (
        beam_search,
        collatz,
        branch_shapes,
        chunks,
        gathered_prefixes,
        nested_functions,
        newton,
        optionals,
        ragged,
    )
}
