"""Attention: scaled dot products of queries and keys, masked, normalised, and applied to values.

Where the composite `attention` says it all, it is used; other outputs and precisions are built from primitives.
"""

from math import sqrt

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.attention_bias import Visibility, attention_bias
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import optional_broadcast_input, rank_of
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.scaled_scores import scaled_scores
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

RULE = "ONNX Attention"
PAST = "attention-past"
RAW, CAPPED, BIASED, NORMALISED = range(4)

# Kernels multiply sums by the scale, as a number of f32 and perhaps with a factor below 2, where the operator's text
# multiplies what is summed by its root. Beyond this, and below 0, that is not the same.
LARGEST_SCALE = 2.0**126


@record
class _Operands:
    """q: T1[B, H, S, D], k: T1[B, G, T, D], v: T2[B, G, T, E], with the past in k and v."""

    q: Value
    k: Value
    v: Value
    past: Dim


@operator("Attention", since=(23, 24, 25))
def attention(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """Q: T1[B, H, S, D], K: T1[B, G, L, D], V: T2[B, G, L, E], or with heads and width in one axis, the third

    ->  Y: T1[B, H, S, E] in the layout of Q, present_key: T1[B, G, P + L, D], present_value: T2[B, G, P + L, E],
    qk_matmul_output: T1[B, H, S, P + L]. Head h reads group h // (H / G). A row that is wholly masked gives zeros.
    Source: https://onnx.ai/onnx/operators/onnx__Attention.html
    """
    _expect_mode(node)
    _expect_whole_cache(node)
    operands = _operands(node, ir)
    visibility = Visibility(
        causal=node.flag("is_causal"),
        left=_window(node, "left_window_size"),
        right=_window(node, "right_window_size"),
        past=operands.past,
        valid=_valid_keys(node, operands, ir),
    )
    mask = _mask(operands.q, node, ir)
    if _is_composite(operands, node):
        y = _whole(operands, mask, visibility, node, ir)
        probe: Value | None = None
    else:
        y, probe = _in_steps(operands, mask, visibility, node, ir)
    return _in_layout(y, node, ir), operands.k, operands.v, probe


def _expect_mode(node: Node) -> None:
    mode = node.int("qk_matmul_output_mode", RAW)
    if mode not in (RAW, CAPPED, BIASED, NORMALISED):
        message = f"qk_matmul_output_mode is {mode}, outside [{RAW}, {NORMALISED}]"
        node.fail("attribute-range", message, rule=f"{RULE}, qk_matmul_output_mode")


# Operands


def _operands(node: Node, ir: Builder) -> _Operands:
    names = ("Q", "K", "V")
    q, k, v = node.inputs(*names)
    if {q.rank, k.rank, v.rank} not in ({3}, {4}):
        node.fail("attention-rank", f"Q, K and V have {q.rank}, {k.rank} and {v.rank} axes, not all 3 or 4", rule=RULE)
    if q.rank == 3:
        q = _by_heads(q, "q_num_heads", node, ir)
        k, v = (_by_heads(value, "kv_num_heads", node, ir) for value in (k, v))
    else:
        _expect_no_heads(q, node)
    past: Dim = 0
    past_key, past_value = node.optional("past_key"), node.optional("past_value")
    if (past_key is None) != (past_value is None):
        node.fail("past-without-partner", "only one of past_key and past_value is given", rule=RULE)
    if past_key is not None and past_value is not None:
        past_key = of_shape(past_key, (k.shape[0], k.shape[1], None, k.shape[3]), "past_key", node, ir, PAST)
        past = past_key.shape[2]
        past_value = of_shape(past_value, (v.shape[0], v.shape[1], past, v.shape[3]), "past_value", node, ir, PAST)
        k, v = ir.concatenate([past_key, k], 2), ir.concatenate([past_value, v], 2)
    return _with_common_sizes(_Operands(q, k, v, past), node, ir)


def _mask(q: Value, node: Node, ir: Builder) -> Value | None:
    """The mask, if any; of four axes where only data tells its rank, which then is not 0."""
    given, mask = node.host_input("attn_mask"), optional_broadcast_input("attn_mask", q, node, ir)
    if given is not None and mask is not None and given.tensor.shape is None:
        (rank,) = ir.read_sizes(ir.reshape(rank_of(given, ir), (1,)), "rank")
        ir.guard(rank, 1, "at_least", "attn_mask has no axes")
    return mask


def _by_heads(x: Value, name: str, node: Node, ir: Builder) -> Value:
    """T[B, S, H * D] -> T[B, H, S, D], H the attribute `name`"""
    batch, length, hidden = x.shape
    heads = node.int(name)
    if heads < 1 or (isinstance(hidden, int) and hidden % heads):
        message = f"{hidden} features cannot be those of {heads} heads"
        node.fail("attention-heads", message, rule=f"{RULE}, attribute {name}")
    return ir.transpose(ir.reshape(x, (batch, length, heads, floordiv(hidden, heads))), (0, 2, 1, 3))


def _expect_no_heads(q: Value, node: Node) -> None:
    """Raises ModelError where an attribute gives the number of heads beside operands of which they are an axis."""
    if node.since >= 25 and (node.has("q_num_heads") or node.has("kv_num_heads")):
        message = f"Q is {q.type}, whose heads are an axis, and an attribute tells their number"
        node.fail("attention-heads", message, rule=f"{RULE}, attributes q_num_heads and kv_num_heads")


def _with_common_sizes(operands: _Operands, node: Node, ir: Builder) -> _Operands:
    """The operands with one size for the batch, the groups, the keys and the width; checked, or guarded."""
    q, k, v = operands.q, operands.k, operands.v
    batch = ir.require_equal(q.shape[0], k.shape[0], "the batches of Q and K differ", "attention-sizes")
    batch = ir.require_equal(batch, v.shape[0], "the batches of Q and V differ", "attention-sizes")
    groups = ir.require_equal(k.shape[1], v.shape[1], "the heads of K and V differ", "attention-sizes")
    keys = ir.require_equal(k.shape[2], v.shape[2], "the lengths of K and V differ", "attention-sizes")
    width = ir.require_equal(q.shape[3], k.shape[3], "the widths of Q and K differ", "attention-sizes")
    heads = q.shape[1]
    if isinstance(heads, int) and isinstance(groups, int) and (groups == 0 or heads % groups):
        node.fail("attention-heads", f"{heads} heads of Q cannot share {groups} of K", rule=RULE)
    shared = groups * floordiv(heads, groups)
    ir.require_equal(shared, heads, "the heads of Q are no multiple of those of K", "attention-heads")
    return _Operands(
        ir.with_shape(q, (batch, heads, q.shape[2], width)),
        ir.with_shape(k, (batch, groups, keys, width)),
        ir.with_shape(v, (batch, groups, keys, v.shape[3])),
        operands.past,
    )


def _window(node: Node, name: str) -> int:
    size = node.int(name, -1)
    if size < -1:
        node.fail("attribute-range", f"{name} is {size}, below -1", rule=f"{RULE}, attribute {name}")
    return size


def _valid_keys(node: Node, operands: _Operands, ir: Builder) -> Value | None:
    """i64[B]: how many keys of each batch are no padding."""
    if node.since < 24:
        return None
    valid = node.optional("nonpad_kv_seqlen")
    if valid is None:
        return None
    if node.optional("past_key") is not None:
        node.fail("two-caches", "nonpad_kv_seqlen and past_key are both given", rule=f"{RULE}, KV cache update")
    return of_shape(valid, operands.q.shape[:1], "nonpad_kv_seqlen", node, ir, "attention-lengths")


def _expect_whole_cache(node: Node) -> None:
    """Raises ModelError where the present key and value are not wanted together, or beside an external cache."""
    if node.since < 25:
        return
    if node.wants(1) != node.wants(2):
        node.fail("past-without-partner", "only one of present_key and present_value is wanted", rule=RULE)
    if node.wants(1) and node.optional("nonpad_kv_seqlen") is not None:
        message = "nonpad_kv_seqlen is given and present_key is wanted"
        node.fail("two-caches", message, rule=f"{RULE}, KV cache update")


# Computation


def _is_composite(operands: _Operands, node: Node) -> bool:
    """Whether the composite computes it: no output but Y, one type, integers for heads and width, a usual scale."""
    q, v = operands.q, operands.v
    return (
        not node.wants(3)
        and q.dtype == v.dtype
        and _softmax_type(q.dtype, node) in (q.dtype, wide_type(q.dtype))
        and isinstance(q.shape[1], int)
        and isinstance(operands.k.shape[1], int)
        and isinstance(q.shape[3], int)
        and 0 <= _scale(q.shape[3], node) <= LARGEST_SCALE
    )


def _scale(width: int, node: Node) -> float:
    return node.float("scale") if node.has("scale") else 1 / sqrt(max(width, 1))


def _softmax_type(dtype: DType, node: Node) -> DType:
    return softmax_precision(node) if node.has("softmax_precision") else dtype


def softmax_precision(node: Node) -> DType:
    """The type that the attribute names, which is a float."""
    dtype = node.dtype("softmax_precision")
    if not dtype.is_float:
        rule = f"ONNX {node.operator}, attribute softmax_precision"
        node.fail("softmax-precision", f"softmax_precision is {dtype}, not a float", rule=rule)
    return dtype


def _whole(operands: _Operands, mask: Value | None, visibility: Visibility, node: Node, ir: Builder) -> Value:
    q, k, v = operands.q, operands.k, operands.v
    width = q.shape[3]
    assert isinstance(width, int), width
    causal = visibility.is_triangle
    bias = attention_bias(mask, visibility.without_causal() if causal else visibility, q, k, node, ir)
    if bias is not None and _softmax_type(q.dtype, node) != q.dtype:
        bias = ir.cast(bias, F32)
    return ir.attention(q, k, v, bias, _scale(width, node), causal=causal, softcap=node.float("softcap"))


def _in_steps(
    operands: _Operands, mask: Value | None, visibility: Visibility, node: Node, ir: Builder
) -> tuple[Value, Value]:
    """Y and the output of the mode, each step in the type of Q."""
    q, k, v = operands.q, operands.k, operands.v
    (batch, heads, queries, _), (_, groups, keys, _) = q.shape, k.shape
    scores = scaled_scores(q, k, node, ir)
    stages = [scores]
    softcap = node.float("softcap")
    stages.append(scores if softcap == 0 else ir.mul(ir.tanh(ir.div(scores, softcap)), softcap))
    bias = attention_bias(mask, visibility, q, k, node, ir)
    stages.append(stages[-1] if bias is None else ir.add(stages[-1], bias))
    weights = ir.cast(_softmax(ir.cast(stages[-1], _softmax_type(q.dtype, node)), bias, ir), q.dtype)
    stages.append(weights)
    grouped = ir.reshape(weights, (batch, groups, floordiv(heads, groups), queries, keys))
    if q.dtype != v.dtype:
        wide = F64 if F64 in (q.dtype, v.dtype) else F32
        grouped, v = ir.cast(grouped, wide), ir.cast(v, wide)
    mixed = ir.reshape(ir.dot(grouped, v, "bghst,bgte->bghse"), (batch, heads, queries, v.shape[3]))
    return ir.cast(mixed, q.dtype), stages[node.int("qk_matmul_output_mode")]


def _softmax(scores: Value, bias: Value | None, ir: Builder) -> Value:
    """Softmax along the last axis; zeros in rows where nothing is left, or that the bias closes."""
    infinite = float("-inf")
    top = ir.reduce(scores, "max", [3], keepdims=True)
    powers = ir.exp(ir.sub(scores, ir.select(ir.equal(top, infinite), 0, top)))
    total = ir.reduce(powers, "sum", [3], keepdims=True)
    weights = ir.div(powers, ir.select(ir.equal(total, 0), 1, total))
    if bias is None:
        return weights
    closed = ir.equal(ir.reduce(bias, "max", [3], keepdims=True), infinite)
    return ir.select(closed, 0, weights)


def _in_layout(y: Value, node: Node, ir: Builder) -> Value:
    """T[B, H, S, E] in the layout of Q."""
    if node.input("Q").rank == 4:
        return y
    batch, heads, length, width = y.shape
    return ir.reshape(ir.transpose(y, (0, 2, 1, 3)), (batch, length, heads * width))
