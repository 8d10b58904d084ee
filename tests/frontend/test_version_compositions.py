"""Operators that a version has not yet, said there by older ones: they compute what they computed."""

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, checker

import onnxc
from onnxc.compiler.frontend.schemas import versions
from onnxc.compiler.frontend.versions.compositions import COMPOSITIONS
from onnxc.runtime.errors import ModelError
from tests.frontend.test_compositions_of_indices import ROWS as ROWS_OF_INDICES
from tests.frontend.test_compositions_of_products import ROWS as ROWS_OF_PRODUCTS
from tests.support.conversions import assert_same_in, model_of, run
from tests.support.models import model_from_text

X = np.linspace(-3, 3, 48, dtype=np.float32).reshape(2, 4, 6)
ANGLES, POSITIONS = np.cos(X[:1, :3, :2]), np.int64([[2, 0, -1]])
SCALE, BIAS = np.linspace(0.5, 2, 6, dtype=np.float32), np.linspace(-1, 1, 6, dtype=np.float32)
Q = np.sin(np.arange(48, dtype=np.float32)).reshape(1, 4, 3, 4)
K, V = np.cos(Q[:, :2, :, :]), np.tanh(Q[:, 2:, :, :])
PAST = np.full((1, 2, 2, 4), 0.25, np.float32)
TARGETS = np.arange(12).reshape(2, 6) % 4
WEIGHTS = np.float32([0.5, 2, 0, 1])
MASK = np.array([[False] * 3, [True, False, True], [True] * 3])

# version, node, target, inputs
ROWS = (
    (20, "Gelu (a)", 9, [X]),
    (20, 'Gelu <approximate = "tanh"> (a)', 6, [X]),
    (18, "Mish (a)", 1, [X]),
    (14, "HardSwish (a)", 13, [X]),
    (24, "Swish <alpha = 1.5> (a)", 6, [X]),
    (28, "SwiGLU <alpha = 0.5> (a, b)", 6, [X, np.cos(X)]),
    (12, "Celu <alpha = 2.0> (a)", 6, [X]),
    (10, "ThresholdedRelu <alpha = 0.5> (a)", 9, [X]),
    (17, "LayerNormalization (a, b, c)", 16, [X, SCALE, BIAS]),
    (17, "LayerNormalization <axis = 1, epsilon = 0.1> (a, b)", 7, [X, X[0]]),
    (17, "LayerNormalization (a, b)", 10, [X.astype(np.float16), SCALE.astype(np.float16)]),
    (23, "RMSNormalization <axis = -2> (a, b)", 10, [X, SCALE]),
    (18, "GroupNormalization <num_groups = 2> (a, b, c)", 17, [X, SCALE[:2], BIAS[:2]]),
    (21, "GroupNormalization <num_groups = 2> (a, b, c)", 8, [X, SCALE[:4], BIAS[:4]]),
    (13, "MeanVarianceNormalization <axes = [0, 2]> (a)", 7, [X]),
    (15, "CastLike (a, b)", 9, [X, np.int64([1])]),
    (14, "Trilu <upper = 0> (a)", 9, [X]),
    (14, "Trilu (a, i)", 9, [X]),
    (9, "ConstantOfShape <value = int64[1] {7}> (a)", 8, [np.int64([2, 3])]),
    (9, "ConstantOfShape (a)", 8, [np.zeros(0, np.int64)]),
    (23, "Attention (a, b, c)", 22, [Q, K, V]),
    (23, "Attention <is_causal = 1, softcap = 2.0> (a, b, c)", 13, [Q, K, V]),
    (23, "Attention <scale = -0.5> (a, b, c, m)", 13, [Q, K, V, MASK]),
    (23, "Attention (a, b, c, d)", 13, [Q, K, V, np.where(MASK, np.float32(0.5), np.float32(-np.inf))]),
    (23, "Attention <is_causal = 1> (a, b, c, , p, p)", 13, [Q, K, V, PAST]),
    (
        23,
        "Attention <q_num_heads = 4, kv_num_heads = 2> (a, b, c)",
        13,
        [x.transpose(0, 2, 1, 3).reshape(1, 3, -1) for x in (Q, K, V)],
    ),
    (23, "RotaryEmbedding (a, b, c)", 13, [Q, ANGLES, ANGLES * 0.5]),
    (23, "RotaryEmbedding <interleaved = 1> (a, b, c, i)", 10, [Q, ANGLES[0], -ANGLES[0], POSITIONS]),
    (23, "RotaryEmbedding <num_heads = 3> (a, b, c)", 13, [X[:1, :3], ANGLES[..., :1], ANGLES[..., 1:]]),
    (23, "RotaryEmbedding <rotary_embedding_dim = 2> (a, b, c)", 13, [Q, ANGLES[..., :1], ANGLES[..., 1:]]),
    (15, "Shape <start = 1, end = -1> (a)", 9, [X]),
    (18, "OptionalGetElement (a)", 15, [X]),
    (18, "OptionalHasElement (a)", 12, [X]),
    (20, "ReduceMax <keepdims = 0> (m, i)", 12, [MASK]),
    (13, "Less (a, b)", 7, [np.int32([1, 2**31 - 1, -5]), np.int32([2, 2**31 - 2, -5])]),
    (13, "Equal (a, b)", 7, [np.uint8([1, 255]), np.uint8([1, 254])]),
    (12, "NegativeLogLikelihoodLoss (a, b)", 9, [X, TARGETS]),
    (13, 'NegativeLogLikelihoodLoss <reduction = "none", ignore_index = 3> (a, b)', 11, [X, TARGETS]),
    (22, "NegativeLogLikelihoodLoss <ignore_index = -1> (a, b, c)", 10, [X, TARGETS - 4 * (TARGETS > 2), WEIGHTS]),
    (12, 'SoftmaxCrossEntropyLoss <reduction = "sum"> (a, b, c)', 10, [X, TARGETS.astype(np.int32), WEIGHTS]),
    (13, "SoftmaxCrossEntropyLoss <ignore_index = 0> (a, b)", 9, [X, TARGETS]),
    (13, "SoftmaxCrossEntropyLoss (a, b)", 12, [X[0], np.int64([5, 0, 2, 1])]),
    (13, "SoftmaxCrossEntropyLoss (a, b, c)", 9, [X[0], np.int64([5, 0, 2, 1]), SCALE]),
    (13, 'SoftmaxCrossEntropyLoss <reduction = "none"> (a, b)', 9, [X[0].astype(np.float16), np.int64([5, 0, 2, 1])]),
    (22, "LpPool <kernel_shape = [2], p = 3> (a)", 1, [X]),
    (13, "Max (a, b, c)", 9, [np.int64([[2**63 - 1], [-(2**63)], [2**53 + 1]]), np.int64([2**63 - 2, 0]), np.int64(1)]),
    (12, "Min (a, b)", 10, [np.uint64([2**64 - 1, 0, 7]), np.uint64([2**64 - 2, 1, 7])]),
    (13, "Min (a)", 9, [np.int32([3, -3])]),
    (13, "Max (a, b)", 8, [np.float32([np.nan, 1, -0.0]), np.float32([1, np.nan, -0.0])]),
    (13, "Gemm <transB = 1> (a, b)", 9, [np.int32([[2**31 - 1, 1]]), np.int32([[1, -1], [0, 3]])]),
)  # fmt: skip


@pytest.mark.parametrize(("version", "node", "target", "inputs"), ROWS, ids=[row[1] for row in ROWS])
def test_it_computes_the_same_in_an_older_version(
    version: int, node: str, target: int, inputs: list[np.ndarray]
) -> None:
    constants = {"i": np.int64([0])} if " i)" in node and len(inputs) == 1 else {}
    assert_same_in(target, model_of(version, node, inputs, constants), inputs, signs=False)


def test_a_product_to_which_nothing_is_added_keeps_its_signs() -> None:
    inputs = [np.float32([[-0.0, 0.0], [np.inf, -1]]), np.float32([[1, -1], [0.0, 0.0]])]
    assert_same_in(6, model_of(13, "Gemm <beta = -2.0> (a, b)", inputs, {}), inputs)


def test_a_target_that_is_ignored_is_never_multiplied() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[3, 2] x, int64[3] t) => (float loss, float[3, 2] logs) {
       loss, logs = SoftmaxCrossEntropyLoss <ignore_index = -100> (x, t)
    }"""
    x = np.float32([[0, -np.inf], [np.inf, 1], [2, 2]])
    older = onnxc.convert_version(model_from_text(text), 9)
    loss, logs = onnxc.compile(older, target="interpreter")(x, np.int64([0, -100, 1]))
    np.testing.assert_allclose(loss, np.log(2) / 2, rtol=1e-6)
    np.testing.assert_allclose(logs[[0, 2]], [[0, -np.inf], [-np.log(2), -np.log(2)]], rtol=1e-6)


def test_every_composition_is_of_an_operator_when_it_is_new_and_is_tested() -> None:
    nodes = [row[1] for rows in (ROWS, ROWS_OF_INDICES, ROWS_OF_PRODUCTS) for row in rows]
    tested = {next(word for word in node.split() if word[0].isupper()) for node in nodes}
    for name, version in COMPOSITIONS:
        assert versions("", name)[0] == version, name
    assert {name for name, _ in COMPOSITIONS} - tested == {
        *("BlackmanWindow", "CausalConvWithState", "HammingWindow", "HannWindow", "LinearAttention", "SequenceMap"),
        *("Expand", "Where"),
    }


def test_the_page_says_how_many_there_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "versions.md").read_text()
    assert f"lists {len(COMPOSITIONS)} of them" in page


@pytest.mark.parametrize("size", [0, 1, 2, 7])
@pytest.mark.parametrize("attributes", ["", "<periodic = 0>"])
@pytest.mark.parametrize("name", ["BlackmanWindow", "HammingWindow", "HannWindow"])
def test_a_window_of_signals_is_a_sum_of_cosines(name: str, attributes: str, size: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (int64 n) => (float[m] y) {{ y = {name} {attributes} (n) }}"""
    model = model_from_text(text)
    older = onnxc.convert_version(model, 11)
    checker.check_model(ModelProto.FromString(older.SerializeToString()))
    inputs = [np.array(size, np.int64)]
    np.testing.assert_array_equal(run(older, inputs)[0], run(model, inputs)[0], strict=True)


def test_a_window_of_integers_reaches_its_peak() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (int32 n) => (int64[m] y) {
        y = HannWindow <periodic = 0, output_datatype = 7> (n) }"""
    older = onnxc.convert_version(model_from_text(text), 16)
    assert run(older, [np.array(5, np.int32)])[0].tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize(("node", "taps"), [('<activation = "silu"> (x, w)', 3), ("(x, w, b, p)", 3), ("(x, w)", 1)])
def test_a_causal_convolution_gives_its_state(node: str, taps: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 27]>
    g (float[2, 4, 6] x, float[4, 1, {taps}] w, float[4] b, float[2, 4, {taps - 1}] p)
    => (float[2, 4, 6] y, float[2, 4, n] s) {{
       y, s = CausalConvWithState {node}
    }}"""
    model = model_from_text(text)
    inputs = (X, np.sin(X[0, :, None, :taps]), BIAS[:4], X[:, :, : taps - 1])
    older = onnxc.compile(onnxc.convert_version(model, 11), target="interpreter")(*inputs)
    for computed, expected in zip(older, onnxc.compile(model, target="interpreter")(*inputs), strict=True):
        np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=1e-6)


def test_the_moments_of_a_layer_normalization_are_outputs_too() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 4, 6] x, float[6] s) => (float[2, 4, 6] y, float[2, 4, 1] mean, float[2, 4, 1] inverse) {
       y, mean, inverse = LayerNormalization (x, s)
    }"""
    older = onnxc.convert_version(model_from_text(text), 12)
    _, mean, inverse = onnxc.compile(older, target="interpreter")(X, SCALE)
    np.testing.assert_allclose(mean, X.mean(-1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(X.var(-1, keepdims=True) + 1e-5), rtol=1e-5)


@pytest.mark.parametrize(
    ("version", "node", "target", "message"),
    [
        (15, "CastLike (x, x)", 14, ""),
        (18, 'ScatterElements <reduction = "max"> (x, i, x)', 17, "reduction is max"),
        (12, "NegativeLogLikelihoodLoss (w, t)", 11, "the size of its axis of classes is not known"),
        (8, "Max (x, s)", 7, "its inputs are not known to have one shape"),
    ],
)
def test_what_depends_on_what_is_not_known_is_refused(version: int, node: str, target: int, message: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : {version}]>
    g (float[1, 2, N, 4] x, int64[1, 2, N, 4] i, float s, float[2, N] w, int64[2] t, int64 n)
    => (float[a, b, c, d] y) {{ y = {node} }}"""
    model = model_from_text(text)
    if not message:
        assert onnxc.convert_version(model, target).graph.node[0].op_type == "Cast"
        return
    with pytest.raises(ModelError, match="opset-conversion") as caught:
        onnxc.convert_version(model, target)
    assert message in str(caught.value)


def test_constants_of_integers_are_initializers_where_nodes_can_give_none() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[2, 3] x) => (float[3, 2] y) { s = Constant <value_ints = [3, 2]> ()  y = Reshape (x, s) }"""
    older = onnxc.convert_version(model_from_text(text), 8)
    assert [node.op_type for node in older.graph.node] == ["Reshape"]
    assert [(tensor.name, list(tensor.dims)) for tensor in older.graph.initializer] == [("s", [2])]
