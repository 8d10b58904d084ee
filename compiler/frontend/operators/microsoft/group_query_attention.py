"""GroupQueryAttention of com.microsoft: attention with a cache of keys and values, in decoders of language models.

Batch b has P[b] = max(seqlens_k[b] + 1 - S, 0) tokens in its cache, then S new ones. A query sees the tokens up to its
own, of the last local_window_size if that is given.
"""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.attention_heads import attended, grouped_heads, join_heads, scale_of
from onnxc.compiler.frontend.operator_helpers.broadcasting import broadcast_onto
from onnxc.compiler.frontend.operator_helpers.rotary_positions import expect_cache, rotated
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element, read_lengths
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

RULE = "ONNX Runtime GroupQueryAttention"
PAST, BIAS = "attention-past", "attention-mask"
NEGATIVE_INFINITY = float("-inf")


@record
class _Cache:
    """k, v: T[B, G, T, D]; `lengths`: i64[B, 1, 1, 1], how many tokens of each batch were there before.

    keys: of how many tokens there may be something in the cache.
    """

    k: Value
    v: Value
    lengths: Value
    keys: Dim

    def seen(self, ir: Builder) -> tuple[Value, Value]:
        """The keys and values of these tokens."""
        return ir.slice_axis(self.k, 2, 0, self.keys), ir.slice_axis(self.v, 2, 0, self.keys)


@operator("GroupQueryAttention", since=(1,), domain=MICROSOFT)
def group_query_attention(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """query: T[B, S, N * D], key, value: T[B, S, G * D], past_key, past_value: T[B, G, C, D], seqlens_k: i32[B]

    ->  output: T[B, S, N * D], present_key, present_value: T[B, G, max(C, total_sequence_length), D], 0 behind the new
    tokens. Or query: T[B, S, (N + 2 G) * D] with all three. Caches of angles: T[P, R/2], used where do_rotary is set.
    """
    _expect_known_form(node)
    q, k, v = (_normed(x, name, node, ir) for x, name in zip(grouped_heads(node, ir), ("q", "k", "v"), strict=True))
    batch, _, length, _ = q.shape
    ends = of_shape(_as_vector(node.input("seqlens_k"), ir), (batch,), "seqlens_k", node, ir, PAST)
    last = ir.cast(ends, I64)
    before = ir.max(ir.sub(ir.add(last, 1), _new_tokens(batch, length, node, ir)), 0)
    lengths = ir.reshape(before, (batch, 1, 1, 1))
    if node.flag("do_rotary", False):
        q, k = turned_heads(q, k, _positions(before, last, length, node, ir), node, ir)
    cache = _cache(k, v, lengths, node, ir)
    bias = _bias(q, cache, node, ir)
    if _has_sink(node):
        y = _attended_with_sink(q, cache, bias, node, ir)
    else:
        y = attended(q, *cache.seen(ir), bias, node, ir, softcap=node.float("softcap", 0.0))
    return join_heads(y, ir), cache.k, cache.v


def _expect_known_form(node: Node) -> None:
    for name in ("k_quant_type", "v_quant_type"):
        if node.string(name, "NONE") != "NONE":
            node.unsupported(f"{name} is {node.string(name)}; export the model with caches of floats")
    if node.flag("sliding_window_cache", False):
        node.unsupported("sliding_window_cache is set; export the model with whole caches")
    if node.wants(3):
        node.unsupported("the output output_qk is wanted; use the standard's Attention-24, which has one")


def _new_tokens(batch: Dim, length: Dim, node: Node, ir: Builder) -> Value:
    """i64[] or i64[B]: how many of the new tokens are none of padding.

    Padding is behind the others. What it leaves in the cache is behind all that a query sees, and not said to be 0.
    """
    counts = node.optional("query_seqlens")
    if counts is None:
        return ir.size(length)
    if node.optional("past_key") is None or not node.flag("causal", True):
        node.fail(
            PAST, "query_seqlens is given without a past, or attention is not causal", rule=f"{RULE}, query_seqlens"
        )
    return ir.cast(of_shape(counts, (batch,), "query_seqlens", node, ir, PAST), I64)


def _positions(before: Value, last: Value, length: Dim, node: Node, ir: Builder) -> Value:
    """i64[B, S]: those of the new tokens"""
    (batch,), given = before.shape, node.optional("position_ids")
    if given is not None:
        return of_shape(given, (batch, length), "position_ids", node, ir, "rotary-positions")
    positions = ir.add(ir.reshape(before, (batch, 1)), ir.iota((1, length), 1, I64))
    if node.optional("query_seqlens") is None:
        return positions
    # Padding is turned, too, and may be behind the last angle.
    return ir.min(positions, ir.reshape(ir.max(last, 0), (batch, 1)))


def _as_vector(value: Value, ir: Builder) -> Value:
    """i32[B] of i32[B] or i32[B, 1]"""
    return ir.reshape(value, value.shape[:1]) if value.rank == 2 and value.shape[1] == 1 else value


# Operands


def _normed(x: Value, name: str, node: Node, ir: Builder) -> Value:
    """`x`, whose heads are divided by the roots of their mean squares and scaled, where there is a weight for it"""
    weight = None if name == "v" else node.optional(f"{name}_norm_weight")
    if weight is None:
        return x
    weight = of_shape(weight, x.shape[3:], f"{name}_norm_weight", node, ir, "normalization-parameter")
    return ir.rms_norm(x, weight, 3, node.float(f"{name}_norm_epsilon", node.float("qk_norm_epsilon")))


def turned_heads(q: Value, k: Value, positions: Value, node: Node, ir: Builder) -> tuple[Value, Value]:
    """Queries and keys T[B, N, S, D], turned by the caches at positions: i64[B, S], which must be in them"""
    cos, sin = node.inputs("cos_cache", "sin_cache")
    expect_cache(cos, node)
    expect_in_range(positions, cos.shape[0], node, ir)
    interleaved = node.flag("rotary_interleaved", False)
    turned = [rotated(x, cos, sin, positions, node, ir, interleaved=interleaved) for x in (q, k)]
    return turned[0], turned[1]


def _cache(k: Value, v: Value, lengths: Value, node: Node, ir: Builder) -> _Cache:
    """The cache with the new tokens behind those of each batch; without a past, in its beginning."""
    past_k, past_v = node.optional("past_key"), node.optional("past_value")
    if (past_k is None) != (past_v is None):
        node.fail("past-without-partner", "only one of past_key and past_value is given", rule=RULE)
    total = _total(k, past_k, node, ir)
    if past_k is None or past_v is None:
        room = total - k.shape[2]
        k, v = (_with_room(x, room, total, ir) for x in (k, v))
        return _Cache(k, v, lengths, total)
    capacity = past_k.shape[2]
    shape = (k.shape[0], k.shape[1], capacity, k.shape[3])
    past_k, past_v = (
        of_shape(past, shape, name, node, ir, PAST) for past, name in ((past_k, "past_key"), (past_v, "past_value"))
    )
    size = maximum(capacity, total)
    joined = [_joined(past, new, lengths, size, ir) for past, new in ((past_k, k), (past_v, v))]
    return _Cache(joined[0], joined[1], lengths, total)


def _total(k: Value, past: Value | None, node: Node, ir: Builder) -> Dim:
    """The greatest length of a sequence, as the input tells; the new tokens are part of it."""
    given = only_element(node.input("total_sequence_length"), "total_sequence_length", node, ir)
    (total,) = read_lengths(ir.reshape(given, (1,)), "total_sequence_length", node, ir, 1)
    return maximum(total, k.shape[2])


def _with_room(x: Value, room: Dim, total: Dim, ir: Builder) -> Value:
    if room == 0:
        return x
    return ir.with_shape(ir.pad(x, (0, 0, 0, 0), (0, 0, room, 0)), (*x.shape[:2], total, x.shape[3]))


def _joined(past: Value, new: Value, lengths: Value, size: Dim, ir: Builder) -> Value:
    """T[B, G, size, D]: of each batch the first tokens of the past, as many as it has, then the new ones, then 0"""
    batch, groups, capacity, width = past.shape
    shape = (batch, groups, size, width)
    column = ir.iota((1, 1, size, 1), 2, I64)
    ordinal = ir.sub(column, lengths)
    is_past, is_new = (ir.broadcast_to(ir.less(ordinal, end), shape) for end in (0, ir.size(new.shape[2])))
    known = ir.max(ir.min(ordinal, ir.size(new.shape[2] - 1)), 0)
    picked = ir.gather_along(new, ir.broadcast_to(known, shape), 2)
    return ir.select(is_past, _with_room(past, size - capacity, size, ir), ir.select(is_new, picked, 0))


# Scores


def _bias(q: Value, cache: _Cache, node: Node, ir: Builder) -> Value:
    """f32[B, 1 | N, S, T]: minus infinity for keys that a query does not see, and the bias that is given"""
    batch, heads, length, _ = q.shape
    keys, window = cache.keys, node.int("local_window_size", -1)
    column = ir.iota((1, 1, 1, keys), 3, I64)
    row = ir.add(ir.iota((1, 1, length, 1), 2, I64), cache.lengths)
    last = row if node.flag("causal", True) else ir.add(cache.lengths, ir.sub(ir.size(length), 1))
    seen = ir.less_equal(column, last)
    if window >= 0:
        seen = ir.and_(seen, ir.less(ir.sub(row, window), column))
    given = node.optional("attention_bias")
    shown = ir.scalar(0, F32) if given is None else _given_bias(given, (batch, heads, length, keys), node, ir)
    return ir.select(seen, shown, ir.scalar(NEGATIVE_INFINITY, F32))


def _given_bias(bias: Value, sizes: tuple[Dim, ...], node: Node, ir: Builder) -> Value:
    """The bias in f32; one for fewer keys than the cache has room for is 0 there"""
    if bias.rank != 4:
        node.fail(BIAS, f"attention_bias is {bias.type}, not of 4 axes", rule=RULE)
    room = sizes[3] - bias.shape[3]
    if room != 0:
        bias = ir.with_shape(ir.pad(bias, (0, 0, 0, 0), (0, 0, 0, room)), (*bias.shape[:3], sizes[3]))
    target = [1 if size == 1 else wanted for size, wanted in zip(bias.shape, sizes, strict=True)]
    return ir.cast(broadcast_onto(bias, target, "attention_bias", node, ir, BIAS), F32)


def _has_sink(node: Node) -> bool:
    return node.int("smooth_softmax", -1) == 1 or node.optional("head_sink") is not None


def _attended_with_sink(q: Value, cache: _Cache, bias: Value, node: Node, ir: Builder) -> Value:
    """Attention with a further key for each head, of a score that is given (else 0) and without a value."""
    batch, heads, length, width = q.shape
    keys, values = cache.seen(ir)
    groups = keys.shape[1]
    if not isinstance(width, int):
        node.unsupported("the width of a head is only known at run time; give the inputs their sizes with shapes=")
    grouped = ir.reshape(q, (batch, groups, floordiv(heads, groups), length, width))
    scores = ir.mul(ir.dot(grouped, keys, "bghsd,bgtd->bghst", F32), scale_of(width, node))
    scores = ir.reshape(scores, (batch, heads, length, cache.keys))
    softcap = node.float("softcap", 0.0)
    if softcap:
        scores = ir.mul(ir.tanh(ir.div(scores, softcap)), softcap)
    scores, _ = ir.broadcast_together(ir.add(scores, bias), scores)
    given = node.optional("head_sink")
    sink = ir.full((heads,), 0, F32) if given is None else of_shape(given, (heads,), "head_sink", node, ir, BIAS)
    column = ir.broadcast(ir.cast(sink, F32), (1,), (batch, heads, length, 1))
    weights = ir.softmax(ir.concatenate([scores, column], 3), 3)
    weights = ir.slice_axis(weights, 3, 0, cache.keys)
    split = ir.reshape(weights, (batch, groups, floordiv(heads, groups), length, cache.keys))
    mixed = ir.dot(split, ir.cast(values, F32), "bghst,bgte->bghse")
    return ir.cast(ir.reshape(mixed, (batch, heads, length, width)), q.dtype)
