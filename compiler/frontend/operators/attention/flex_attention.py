"""FlexAttention: attention whose scores and probabilities go through graphs of the model."""

from math import sqrt

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.scaled_scores import scaled_scores
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operators.attention.attention import softmax_precision
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Value

RULE = "ONNX FlexAttention"
CODE = "attention-shape"


@operator("FlexAttention", since=(1,), domain="ai.onnx.preview")
def flex_attention(node: Node, ir: Builder) -> Value:
    """Q: T[B, H, L, D], K: T[B, G, S, D], V: T[B, G, S, E]  ->  T[B, H, L, E]; head h reads group h // (H / G)

    prob_mod(softmax(score_mod(scale Q K'))) V, the graphs and the softmax in the precision `softmax_precision`.
    Source: https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html
    """
    q, k, v = _operands(node, ir)
    dtype = softmax_precision(node) if node.has("softmax_precision") else wide_type(q.dtype)
    has_graphs = node.has("score_mod") or node.has("prob_mod")
    width = q.shape[3]
    if not has_graphs and dtype == wide_type(q.dtype) and _is_static(q.shape[1], k.shape[1], width):
        assert isinstance(width, int), q
        return ir.attention(q, k, v, None, node.float("scale") if node.has("scale") else 1 / sqrt(max(width, 1)))
    return _in_steps(q, k, v, dtype, node, ir)


def _is_static(*sizes: Dim) -> bool:
    return all(isinstance(size, int) for size in sizes)


def _operands(node: Node, ir: Builder) -> tuple[Value, Value, Value]:
    """Q, K and V, with the sizes that they share."""
    q = of_shape(node.input("Q"), (None, None, None, None), "Q", node, ir, CODE)
    batch, heads, _, width = q.shape
    k = of_shape(node.input("K"), (batch, None, None, width), "K", node, ir, CODE)
    v = of_shape(node.input("V"), (batch, k.shape[1], k.shape[2], None), "V", node, ir, CODE)
    groups = k.shape[1]
    if isinstance(heads, int) and isinstance(groups, int) and (groups == 0 or heads % groups):
        node.fail("attention-heads", f"{heads} heads of Q cannot share {groups} of K", rule=RULE)
    ir.require_equal(groups * floordiv(heads, groups), heads, "the heads of Q are no multiple of those of K")
    return q, k, v


def _in_steps(q: Value, k: Value, v: Value, dtype: DType, node: Node, ir: Builder) -> Value:
    (batch, heads, queries, _), (_, groups, keys, _) = q.shape, k.shape
    scores = _modified("score_mod", ir.cast(scaled_scores(q, k, node, ir), dtype), node, ir)
    probabilities = _modified("prob_mod", ir.softmax(scores, 3), node, ir)
    grouped = ir.reshape(probabilities, (batch, groups, floordiv(heads, groups), queries, keys))
    mixed = ir.dot(grouped, ir.cast(v, dtype), "bghst,bgte->bghse")
    return ir.cast(ir.reshape(mixed, (batch, heads, queries, v.shape[3])), q.dtype)


def _modified(name: str, x: Value, node: Node, ir: Builder) -> Value:
    """`x` after the graph of that name, which keeps its type."""
    if not node.has(name):
        return x
    results = node.lower_subgraph(node.graph(name), (x,), ir)
    if len(results) != 1 or results[0].type != x.type:
        listed = ", ".join(str(result.type) for result in results)
        node.fail("subgraph-type", f"{name} takes {x.type} and gives {listed}", rule=f"{RULE}, {name}")
    return results[0]
