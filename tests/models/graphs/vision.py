"""Networks on images: skips, squeezes, upsampling, patches, and what detection heads do after them."""

import numpy as np

from tests.models.graphs.case import GraphCase, integers, model_of, normal

RESIDUAL = """
residual (float[batch, 3, height, width] x) => (float[batch, 10] y)
{
  c0 = Conv <kernel_shape = [7, 7], strides = [2, 2], pads = [3, 3, 3, 3]> (x, w0)
  n0 = BatchNormalization <epsilon = 0.001> (c0, g0, b0, m0, v0) r0 = Relu (n0)
  p0 = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (r0)
  c1 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (p0, w1, b1) r1 = Relu (c1)
  c2 = Conv <kernel_shape = [3, 3], auto_pad = "SAME_UPPER"> (r1, w2)
  s0 = Conv <kernel_shape = [1, 1]> (p0, w3)
  a0 = Add (c2, s0) r2 = Relu (a0)
  g = GlobalAveragePool (r2) f = Flatten (g)
  y = Gemm <transB = 1, alpha = 0.5> (f, wf, bf)
}"""

SQUEEZED = """
squeezed (float[batch, 8, height, width] x) => (float[batch, 8, height, width] y)
{
  d0 = Conv <kernel_shape = [3, 3], group = 8, pads = [1, 1, 1, 1]> (x, wd, bd)
  h0 = HardSwish (d0)
  axes = Constant <value_ints = [2, 3]> ()
  g0 = ReduceMean (h0, axes)
  e0 = Conv <kernel_shape = [1, 1]> (g0, w1, b1) e1 = Relu (e0)
  e2 = Conv <kernel_shape = [1, 1]> (e1, w2, b2) e3 = HardSigmoid <alpha = 0.1666667, beta = 0.5> (e2)
  m0 = Mul (h0, e3)
  c0 = Conv <kernel_shape = [1, 1]> (m0, w3)
  y = Add (c0, x)
}"""

UPSAMPLED = """
upsampled (float[batch, 4, height, width] x) => (float[batch, 2, up, across] y, float[batch, 6, h2, w2] z)
{
  c0 = Conv <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x, w0) r0 = LeakyRelu <alpha = 0.2> (c0)
  t0 = ConvTranspose <kernel_shape = [2, 2], strides = [2, 2]> (r0, w1)
  n0 = InstanceNormalization (t0, g, b)
  y = Resize <mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"> (n0, , scales)
  hw = Shape <start = 2> (r0) two = Constant <value_ints = [2]> () hw2 = Mul (hw, two)
  nc = Shape <end = 2> (r0) size = Concat <axis = 0> (nc, hw2)
  u0 = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"> (r0, , , size)
  z = Conv <kernel_shape = [1, 1]> (u0, w2)
}"""

PATCHES = """
patches (float[batch, 3, height, width] x) => (float[batch, tokens, 12] y)
{
  c = Conv <kernel_shape = [4, 4], strides = [4, 4]> (x, w, b)
  shape = Shape (c) two = Constant <value_ints = [0, 1]> () nc = Gather (shape, two)
  minus = Constant <value_ints = [-1]> () target = Concat <axis = 0> (nc, minus)
  f = Reshape (c, target) t = Transpose <perm = [0, 2, 1]> (f)
  zero = Constant <value_ints = [0]> () n = Gather (shape, zero)
  rest = Constant <value_ints = [1, 12]> () where = Concat <axis = 0> (n, rest)
  class = Expand (token, where)
  all = Concat <axis = 1> (class, t)
  y = LayerNormalization (all, g, h)
}"""

SHIFTED = """
shifted (float[batch, 8, 8, 6] x) => (float[batch, 8, 8, 6] y)
{
  two = Constant <value_ints = [2]> () most = Constant <value_ints = [9223372036854775807]> ()
  zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
  a = Slice (x, two, most, one) b = Slice (x, zero, two, one) r = Concat <axis = 1> (a, b)
  c = Slice (r, two, most, two) d = Slice (r, zero, two, two) s = Concat <axis = 2> (c, d)
  w0 = Constant <value_ints = [-1, 2, 4, 2, 4, 6]> () v = Reshape (s, w0)
  t = Transpose <perm = [0, 1, 3, 2, 4, 5]> (v)
  w1 = Constant <value_ints = [-1, 16, 6]> () k = Reshape (t, w1)
  kt = Transpose <perm = [0, 2, 1]> (k) g = MatMul (k, kt) p = Softmax (g) m = MatMul (p, k)
  w2 = Constant <value_ints = [-1, 2, 2, 4, 4, 6]> () u = Reshape (m, w2)
  ut = Transpose <perm = [0, 1, 3, 2, 4, 5]> (u)
  w3 = Constant <value_ints = [-1, 8, 8, 6]> () y = Reshape (ut, w3)
}"""

DETECTION = """
detection (float[1, boxes, 4] at, float[1, classes, boxes] scores)
  => (float[kept, 4] found, int64[kept] class, float[kept] score)
{
  most = Constant <value_ints = [3]> () iou = Constant <value_floats = [0.5]> ()
  least = Constant <value_floats = [0.2]> ()
  picked = NonMaxSuppression (at, scores, most, iou, least)
  one = Constant <value = int64 {1}> () two = Constant <value = int64 {2}> () zero = Constant <value = int64 {0}> ()
  class = Gather <axis = 1> (picked, one)
  box = Gather <axis = 1> (picked, two)
  flat = Squeeze (at, first)
  found = Gather (flat, box)
  score = GatherND (scores, picked)
}"""

TOP_BOXES = """
top (float[batch, boxes, 5] raw) => (float[batch, 4, 4] corners, float[batch, 4] score, int64[batch, 4] place)
{
  pieces = Constant <value_ints = [2, 2, 1]> ()
  centre, extent, logit = Split <axis = 2> (raw, pieces)
  s0 = Sigmoid (logit) last = Constant <value_ints = [2]> () s = Squeeze (s0, last)
  k = Constant <value_ints = [4]> ()
  score, place = TopK <axis = 1> (s, k)
  e = Exp (extent) half = Constant <value = float {0.5}> () he = Mul (e, half)
  low = Sub (centre, he) high = Add (centre, he)
  all = Concat <axis = 2> (low, high)
  index = Unsqueeze (place, last)
  wide = Constant <value_ints = [1, 1, 4]> () index4 = Expand (index, wide)
  corners0 = GatherElements <axis = 1> (all, index4)
  zero = Constant <value = float {0.0}> () one = Constant <value = float {1.0}> ()
  corners = Clip (corners0, zero, one)
}"""

ALIGNED = """
aligned (float[batch, 2, 9, 9] features, float[rois, 4] boxes, int64[rois] image, float[batch, 2, 3] theta)
  => (float[rois, 2, 3, 3] y, float[batch, 2, 5, 5] z)
{
  y = RoiAlign <output_height = 3, output_width = 3, sampling_ratio = 2, spatial_scale = 0.5,
                coordinate_transformation_mode = "half_pixel"> (features, boxes, image)
  n = Shape <start = 0, end = 1> (features)
  rest = Constant <value_ints = [2, 5, 5]> ()
  size = Concat <axis = 0> (n, rest)
  g = AffineGrid (theta, size)
  z = GridSample <mode = "linear", padding_mode = "border"> (features, g)
}"""

SEGMENTED = """
segmented (float[batch, 3, height, width] x)
  => (int64[batch, height, width] label, float[batch, 5, height, width] logits)
{
  c0 = Conv <kernel_shape = [3, 3], dilations = [2, 2], pads = [2, 2, 2, 2]> (x, w0, b0)
  r0 = PRelu (c0, slope)
  a = AveragePool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (r0)
  l = LpPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], p = 2> (r0)
  hw = Shape <start = 2> (r0) nc = Shape <end = 2> (r0) size = Concat <axis = 0> (nc, hw)
  u = Resize <mode = "cubic", coordinate_transformation_mode = "half_pixel"> (a, , , size)
  c = Concat <axis = 1> (r0, u, l)
  pads = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> ()
  p = Pad <mode = "reflect"> (c, pads)
  logits = Conv <kernel_shape = [3, 3]> (p, w1)
  label = ArgMax <axis = 1, keepdims = 0> (logits)
}"""


def images(channels: int, *sizes: tuple[int, int, int]) -> tuple[dict[str, object], ...]:
    return tuple({"x": normal(n, channels, h, w, seed=5) * np.float32(np.sqrt(channels * h * w))} for n, h, w in sizes)


def residual() -> GraphCase:
    norm = {"g0": normal(8), "b0": normal(8, seed=1), "m0": normal(8, seed=2), "v0": np.abs(normal(8, seed=3)) + 0.1}
    weights = {"w0": (8, 3, 7, 7), "w1": (8, 8, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "w3": (8, 8, 1, 1)}
    model = model_of(RESIDUAL, **norm, **weights, wf=(10, 8), bf=(10,))
    return GraphCase(model, images(3, (1, 32, 32), (3, 17, 41), (2, 7, 7)))


def squeezed() -> GraphCase:
    weights = {"wd": (8, 1, 3, 3), "w1": (4, 8, 1, 1), "w2": (8, 4, 1, 1), "w3": (8, 8, 1, 1)}
    model = model_of(SQUEEZED, opset=18, **weights, bd=(8,), b1=(4,), b2=(8,))
    return GraphCase(model, images(8, (1, 5, 5), (3, 13, 8)))


def upsampled() -> GraphCase:
    scales = np.array([1, 1, 1.5, 2], np.float32)
    model = model_of(
        UPSAMPLED, opset=18, w0=(6, 4, 3, 3), w1=(6, 2, 2, 2), w2=(6, 6, 1, 1), g=(2,), b=(2,), scales=scales
    )
    return GraphCase(model, images(4, (1, 8, 8), (2, 6, 10)))


def patches() -> GraphCase:
    model = model_of(PATCHES, w=(12, 3, 4, 4), b=(12,), g=(12,), h=(12,), token=(1, 1, 12))
    return GraphCase(model, images(3, (1, 8, 8), (2, 16, 12), (3, 4, 4)))


def shifted_windows() -> GraphCase:
    return GraphCase(model_of(SHIFTED), tuple({"x": normal(n, 8, 8, 6)} for n in (1, 3)))


def detection() -> GraphCase:
    rng = np.random.default_rng(3)
    feeds = []
    for boxes, classes in ((1, 1), (12, 3), (40, 2)):
        low = rng.random((1, boxes, 2), np.float32)
        at = np.concatenate([low, low + rng.random((1, boxes, 2), np.float32)], 2)
        feeds.append({"at": at, "scores": rng.random((1, classes, boxes), np.float32)})
    feeds.append({"at": feeds[1]["at"], "scores": np.zeros((1, 3, 12), np.float32)})
    return GraphCase(model_of(DETECTION, first=np.array([0])), tuple(feeds))


def top_boxes() -> GraphCase:
    return GraphCase(model_of(TOP_BOXES), tuple({"raw": normal(n, k, 5) * 4} for n, k in ((1, 4), (3, 19))))


def aligned() -> GraphCase:
    feeds = [
        {
            "features": normal(n, 2, 9, 9),
            "boxes": np.sort(np.random.default_rng(r).random((r, 2, 2)), 1).reshape(r, 4).astype(np.float32) * 16,
            "image": integers(n, r),
            "theta": np.tile(np.array([[0.8, 0.1, 0], [-0.2, 0.9, 0.1]], np.float32), (n, 1, 1)),
        }
        for n, r in ((1, 1), (2, 5))
    ]
    return GraphCase(model_of(ALIGNED, opset=20), tuple(feeds))


def segmented() -> GraphCase:
    model = model_of(SEGMENTED, opset=18, w0=(6, 3, 3, 3), b0=(6,), slope=(6, 1, 1), w1=(5, 18, 3, 3))
    return GraphCase(model, images(3, (1, 8, 8), (2, 6, 12)))


CASES = {
    case.__name__: case
    for case in (residual, squeezed, upsampled, patches, shifted_windows, detection, top_boxes, aligned, segmented)
}
