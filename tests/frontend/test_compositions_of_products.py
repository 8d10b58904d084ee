"""Sums of products, transforms, samplings, attentions and quantisation, said by older operators."""

from collections.abc import Mapping

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import ModelError
from tests.support.conversions import assert_same_in, model_of, run
from tests.support.models import model_from_text

X = np.sin(np.arange(48, dtype=np.float32)).reshape(2, 4, 6)
A, C = X[0], X[:, :, 0].copy()
SQUARE = X.reshape(-1)[:32].reshape(2, 4, 4)
IMAGES = X.reshape(2, 2, 3, 4)
GRID = np.linspace(-1.6, 1.6, 2 * 2 * 5 * 2, dtype=np.float32).reshape(2, 2, 5, 2)
VOLUMES, POINTS = X.reshape(1, 2, 2, 3, 4), np.linspace(-1.2, 1.2, 18, dtype=np.float32).reshape(1, 1, 2, 3, 3)
THETA = np.float32([[[1, 0.2, 0], [-0.1, 0.5, 0.3]]])
SIGNAL = X.reshape(2, 24, 1)
U, W = np.arange(24, dtype=np.uint8).reshape(2, 12) * 9, np.arange(24, dtype=np.int8).reshape(12, 2) * 9 - 100
FILTERS = np.arange(54, dtype=np.int8).reshape(3, 2, 3, 3) * 4 - 100
PLANES = (np.arange(64, dtype=np.uint8).reshape(1, 2, 4, 8) * 7).astype(np.uint8)
Q = np.sin(np.arange(24, dtype=np.float32)).reshape(1, 2, 3, 4)
PAST = np.full((1, 2, 2, 4), 0.25, np.float32)
NONE: Mapping[str, np.ndarray] = {}


def f32(*values: float) -> np.ndarray:
    return np.float32(values)


# version, node, target, inputs, constants
ROWS = (
    *((12, f'Einsum <equation = "{equation}"> ({", ".join("abc"[: len(inputs)])})', 9, inputs, NONE)
      for equation, inputs in (
          ("ij,jk->ik", (A, np.ascontiguousarray(A.T))),
          ("ij,ij->", (A, A)), ("ij->ji", (A,)), ("ij->", (A,)), ("ij", (A,)), ("bij,bjk->bik", (SQUARE, SQUARE)),
          ("i,j->ij", (C[0], C[1])), ("bij,bij->b", (SQUARE, SQUARE)), ("bii->bi", (SQUARE,)), ("ii->", (SQUARE[0],)),
          ("...ij,...jk->...ik", (SQUARE, SQUARE[0])), ("bij,jk,bk->bi", (SQUARE, SQUARE[0], C)),
          ("bnij,bnjk->bink", (IMAGES, np.ascontiguousarray(IMAGES.transpose(0, 1, 3, 2)))),
          ("bnid,nde->bie", (IMAGES, np.ascontiguousarray(X.reshape(4, 4, 3)[:2]))),
          ("ij,jk->ik", (A[:0], np.ascontiguousarray(A.T))),
      )),
    (12, 'Einsum <equation = "ij,jk"> (a, b)', 10, [np.int64([[1, 2]]), np.int64([[3], [-4]])], NONE),
    (17, "DFT (a)", 16, [SIGNAL], NONE),
    (17, "DFT <onesided = 1, axis = 1> (a, l)", 11, [SIGNAL], {"l": np.array(20)}),
    (20, "DFT <inverse = 1> (a, , k)", 13, [X[:, :, :2]], {"k": np.array(1)}),
    (20, "DFT (a, b, k)", 16, [X[:, :, :2], np.array(7)], {"k": np.array(0)}),
    (20, "DFT <inverse = 1, onesided = 1> (a, , k)", 16, [X[:, :, :2]], {"k": np.array(1)}),
    (17, "DFT (a)", 16, [SIGNAL.astype(np.float64)], NONE),
    (17, "STFT (a, s, w)", 16, [SIGNAL], {"s": np.array(4), "w": np.hanning(8).astype(np.float32)}),
    (17, "STFT <onesided = 0> (a, b, , c)", 13, [X[:, :, :2], np.array(1), np.array(3)], NONE),
    (17, "MelWeightMatrix (a, b, c, d, e)", 16,
     [np.array(8), np.array(16), np.array(8192), np.float32(0).reshape(()), np.float32(4096).reshape(())], NONE),
    *((16, f'GridSample <mode = "{mode}", padding_mode = "{padding}", align_corners = {corners}> (a, b)', 11,
       [IMAGES, GRID], NONE)
      for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection")
      for corners in (0, 1)),
    (20, "GridSample (a, b)", 19, [VOLUMES, POINTS], NONE),
    (22, 'GridSample <mode = "nearest"> (a, b)', 15, [(VOLUMES * 9).astype(np.int32), POINTS], NONE),
    (16, "GridSample (a, b)", 15, [IMAGES, np.full((2, 1, 1, 2), np.nan, np.float32)], NONE),
    (20, "AffineGrid (a, s)", 15, [THETA], {"s": np.int64([1, 3, 4, 5])}),
    (20, "AffineGrid <align_corners = 1> (a, b)", 11, [THETA, np.int64([1, 3, 1, 5])], NONE),
    (20, "AffineGrid (a, s)", 19, [np.ones((2, 3, 4), np.float32)], {"s": np.int64([2, 1, 2, 3, 4])}),
    (10, "MatMulInteger (a, b)", 9, [U, W], NONE),
    (10, "MatMulInteger (a, b, c, d)", 9, [U, W, np.uint8([3, 200]), np.int8([-7, 9])], NONE),
    (10, "ConvInteger <pads = [1, 1, 1, 1]> (a, b, c, d)", 9, [PLANES, FILTERS, np.array(9, np.uint8),
     np.array(-3, np.int8)], NONE),
    (10, "ConvInteger <strides = [2, 2]> (a, b)", 8, [PLANES, FILTERS], NONE),
    (10, "QuantizeLinear (a, b, c)", 9, [f32(-9, -0.5, 0.5, 1.5, 2.5, 300), f32(1)[0].reshape(()),
     np.array(-3, np.int8)], NONE),
    (10, "QuantizeLinear (a, b, c)", 7, [f32(-2.5, -1.5, -0.4999, 254.5, 1e30, -np.inf), f32(1)[0].reshape(()),
     np.array(1, np.uint8)], NONE),
    (21, "QuantizeLinear (a, b, c)", 7, [f32(-2.5, 65534.5, 131070, -3e38), f32(1)[0].reshape(()),
     np.array(65535, np.uint16)], NONE),
    (10, "QuantizeLinear (a, b)", 9, [X * 100, f32(0.7)[0].reshape(())], NONE),
    (13, "QuantizeLinear <axis = 1> (a, b, c)", 11, [X, f32(0.1, 0.2, 0.3, 0.4), np.uint8([0, 9, 128, 255])], NONE),
    (21, "QuantizeLinear (a, b, c)", 13, [X * 9999, f32(0.1)[0].reshape(()), np.array(-5, np.int16)], NONE),
    (10, "DequantizeLinear (a, b, c)", 9, [W, f32(0.3)[0].reshape(()), np.array(-3, np.int8)], NONE),
    (13, "DequantizeLinear <axis = -1> (a, b, c)", 9, [U, np.arange(12.0, dtype=np.float32), U[0]], NONE),
    (21, "DequantizeLinear (a, b)", 19, [np.uint16([0, 65535]), f32(0.3)[0].reshape(())], NONE),
    *((11, "y, s, z = DynamicQuantizeLinear (a)", 9, [x], NONE) for x in (X, X * 0, X + 9, -X[0] - 9)),
    (10, "QLinearMatMul (a, b, c, d, e, f, g, h)", 9,
     [U, f32(0.1), np.uint8([7]), W, f32(0.3), np.int8([-4]), f32(2), np.uint8([100])], NONE),
    (10, "QLinearConv (a, b, c, d, e, f, g, h, i)", 9,
     [PLANES, f32(0.1)[0].reshape(()), np.array(7, np.uint8), FILTERS, f32(0.3, 0.1, 0.2), np.int8([0, 0, 0]),
      f32(20)[0].reshape(()), np.array(100, np.uint8), np.int32([5, -900, 0])], NONE),
    (23, "Attention <is_causal = 1> (a, b, c, , d, d)", 13, [Q, Q, Q, PAST], NONE),
    (24, "y, k, v = Attention <is_causal = 1> (a, b, c, , d, d)", 23, [Q, Q, Q, PAST], NONE),
    (24, "Attention <is_causal = 1> (a, b, c, , , , d)", 22, [Q[:, :, :1], Q, Q, np.int64([2])], NONE),
    (25, "Attention <left_window_size = 1, right_window_size = 0> (a, b, c)", 24, [Q, Q, Q], NONE),
    (23, "Attention (a, b, c, m)", 18, [Q, Q, Q], {"m": np.array([[True, False]] * 3)}),
    (23, "Attention (a, b, c, d, e, e)", 18, [Q, Q, Q, np.zeros((3, 4), np.float32), PAST], NONE),
)  # fmt: skip
IDS = [f"{row[1]} {index}" for index, row in enumerate(ROWS)]
KNOWN = {"DFT": (-1,), "STFT": (-1,), "AffineGrid": (1, 2), "Attention": (1, -1)}
"""Axes on whose sizes a composition depends: parts of complex numbers, rows of a map, heads and widths."""


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_it_computes_the_same_in_an_older_version(row: tuple) -> None:  # type: ignore[type-arg]
    version, node, target, inputs, constants = row
    assert_same_in(target, model_of(version, node, inputs, constants), inputs, signs=False)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_it_computes_the_same_where_calls_tell_the_sizes(row: tuple) -> None:  # type: ignore[type-arg]
    version, node, target, inputs, constants = row
    known = next((axes for name, axes in KNOWN.items() if f"{name} " in node), ())
    model = model_of(version, node, inputs, constants, known=known)
    assert_same_in(max(target, 9), model, inputs, signs=False)


@pytest.mark.parametrize("operator", ["q = QuantizeLinear (a, s, z)", "q, u, v = DynamicQuantizeLinear (a)"])
@pytest.mark.parametrize("opset", [9, 7])
def test_a_quantised_model_of_an_older_version_takes_a_batch(operator: str, opset: int) -> None:
    model = model_from_text(f"""<ir_version: 8, opset_import: ["" : 11]>
    g (float[1, 2, 3] x) => (float[1, 6] y) <float s = {{0.3}}, uint8 z = {{9}}, int64[2] t = {{1, 6}}> {{
       a = Abs (x) {operator} d = DequantizeLinear (q, s, z) y = Reshape (d, t) }}""")
    older = onnxc.convert_version(model, opset)
    images = np.sin(np.arange(18, dtype=np.float32)).reshape(3, 2, 3)
    # What is quantised by the range of its elements depends on the batch.
    images[:, 0, 0] = 1
    found = np.asarray(onnxc.compile(older, "interpreter", shapes={"x": ["B", 2, 3]})(images))
    np.testing.assert_array_equal(found, np.concatenate([run(model, [image[None]])[0] for image in images]))


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,jk->ijk", "...j,jk->...k"])
def test_an_axis_of_size_one_is_repeated_along_others_of_its_label(equation: str) -> None:
    inputs = [A, A[:1]]
    assert_same_in(9, model_of(12, f'Einsum <equation = "{equation}"> (a, b)', inputs), inputs, signs=False)


@pytest.mark.parametrize(
    ("version", "node", "target", "message"),
    [
        (23, "Attention (a, a, a)", 22, "the heads and the width of its input a are not known"),
        (17, "DFT (a)", 16, "whether its signal is complex is not known"),
        (20, "AffineGrid (a, s)", 19, "whether its grid is one of planes is not known"),
    ],
)
def test_what_depends_on_what_is_not_known_tells_why(version: int, node: str, target: int, message: str) -> None:
    x, constants = (Q, NONE) if "Attention" in node else (X, {"s": np.int64([1, 1, 2, 2])} if " s)" in node else NONE)
    with pytest.raises(ModelError, match="opset-conversion") as caught:
        onnxc.convert_version(model_of(version, node, [x], constants, known=()), target)
    assert message in str(caught.value)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_map_over_a_sequence_is_a_loop(count: int) -> None:
    model = model_from_text("""<ir_version: 8, opset_import: ["" : 17]>
    g (seq(float[N]) s, seq(int64) t, float w) => (seq(float[N]) y, seq(int64) z) {
       y, z = SequenceMap <body = b (float[M] e, int64 n, float v) => (float[M] f, int64 m) {
         f = Mul (e, v) m = Add (n, n) }> (s, t, w) }""")
    older = onnxc.convert_version(model, 13)
    assert "SequenceMap" not in {node.op_type for node in older.graph.node}
    first, second = [X[0, 0, : k + 1] for k in range(count)], [np.array(k) for k in range(count)]
    y, z = onnxc.compile(older, target="interpreter")(first, second, np.float32(2))
    assert [each.tolist() for each in y] == [(2 * each).tolist() for each in first]
    assert [int(each) for each in z] == [2 * k for k in range(count)]
