"""GroupQueryAttention of com.microsoft: attention with a cache of keys and values, in decoders of language models.

Batch b has P[b] = max(seqlens_k[b] + 1 - S, 0) tokens in its cache, then S new ones. A query sees the tokens up to its
own, of the last local_window_size if that is given. With sliding_window_cache a cache has room for C tokens of which it
keeps the last ones, C - window + 1 fewer whenever it is full: how many only depends on how many there were.
"""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.attention_heads import attended, grouped_heads, join_heads, scale_of
from onnxc.compiler.frontend.operator_helpers.broadcasting import broadcast_onto
from onnxc.compiler.frontend.operator_helpers.rotary_positions import expect_cache, rotated
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element, read_lengths
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, at_least, floordiv
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

RULE = "ONNX Runtime GroupQueryAttention"
PAST, BIAS = "attention-past", "attention-mask"
NEGATIVE_INFINITY = float("-inf")


@record
class _Cache:
    """k, v: T[B, G, T, D], what is attended to; `lengths`: i64[B, 1, 1, 1], how many of these tokens are of the past.

    present: the cache of the next call.
    """

    k: Value
    v: Value
    lengths: Value
    present: tuple[Value, Value]


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
    if node.flag("do_rotary", False):
        q, k = turned_heads(q, k, _positions(before, last, length, node, ir), node, ir)
    if node.flag("sliding_window_cache", False):
        cache = _sliding_cache(k, v, before, ir.add(last, 1), node, ir)
    else:
        cache = _cache(k, v, _per_token(before, ir), node, ir)
    bias = _bias(q, cache, node, ir)
    if _has_sink(node):
        y = _attended_with_sink(q, cache, bias, node, ir)
    else:
        y = attended(q, cache.k, cache.v, bias, node, ir, softcap=node.float("softcap", 0.0))
    return join_heads(y, ir), *cache.present


def _expect_known_form(node: Node) -> None:
    for name in ("k_quant_type", "v_quant_type"):
        if node.string(name, "NONE") != "NONE":
            node.unsupported(f"{name} is {node.string(name)}; export the model with caches of floats")
    if node.flag("sliding_window_cache", False) and node.optional("attention_bias") is not None:
        node.unsupported("sliding_window_cache is set beside attention_bias; export the model with whole caches")
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
    total = _total(k, node, ir)
    if past_k is None or past_v is None:
        room = total - k.shape[2]
        k, v = (_with_room(x, room, total, ir) for x in (k, v))
        return _Cache(k, v, lengths, (k, v))
    capacity = past_k.shape[2]
    shape = (k.shape[0], k.shape[1], capacity, k.shape[3])
    past_k, past_v = (
        of_shape(past, shape, name, node, ir, PAST) for past, name in ((past_k, "past_key"), (past_v, "past_value"))
    )
    size = maximum(capacity, total)
    present = _joined(past_k, k, lengths, size, ir), _joined(past_v, v, lengths, size, ir)
    seen = [ir.slice_axis(each, 2, 0, total) for each in present]
    return _Cache(seen[0], seen[1], lengths, present)


def _sliding_cache(k: Value, v: Value, before: Value, after: Value, node: Node, ir: Builder) -> _Cache:
    """The last tokens of the past with the new ones behind them, and what of both the cache keeps.

    before, after: i64[B], how many tokens there were, and are.
    """
    past_k, past_v = node.inputs("past_key", "past_value")
    batch, groups, length, width = k.shape
    capacity, window = past_k.shape[2], node.int("local_window_size", -1)
    if window < 1 or at_least(window, capacity + 1):
        message = f"the cache has room for {capacity} tokens, local_window_size is {window}"
        node.fail(PAST, message, rule=f"{RULE}, sliding_window_cache")
    if not at_least(capacity, window):
        message = f"the cache has room for fewer than the {window} tokens of local_window_size"
        ir.guard(capacity, window, "at_least", message)
    shape = (batch, groups, capacity, width)
    held, kept = (_per_token(_resident(count, capacity, window, ir), ir) for count in (before, after))
    evicted = ir.sub(ir.add(held, _per_token(ir.sub(after, before), ir)), kept)
    keys = minimum(capacity + length, _total(k, node, ir))
    seen, present = list[Value](), list[Value]()
    for past, new, name in ((past_k, k, "past_key"), (past_v, v, "past_value")):
        past = of_shape(past, shape, name, node, ir, PAST)
        seen.append(_kept(past, new, held, None, keys, ir))
        inside = ir.broadcast_to(ir.less(ir.iota((1, 1, capacity, 1), 2, I64), kept), (batch, groups, capacity, width))
        present.append(ir.select(inside, _kept(past, new, held, evicted, capacity, ir), 0))
    return _Cache(seen[0], seen[1], held, (present[0], present[1]))


def _per_token(counts: Value, ir: Builder) -> Value:
    """i64[B] -> i64[B, 1, 1, 1]: the same for all groups, tokens and elements"""
    return ir.reshape(counts, (*counts.shape, 1, 1, 1))


def _resident(count: Value, capacity: Dim, window: int, ir: Builder) -> Value:
    """i64[B]: how many of so many tokens are in a cache with a sliding window"""
    evicted_together = ir.size(capacity - window + 1)
    excess = ir.max(ir.sub(count, ir.size(capacity)), 0)
    times = ir.div(ir.add(excess, ir.sub(evicted_together, 1)), evicted_together)
    return ir.sub(count, ir.mul(times, evicted_together))


def _kept(past: Value, new: Value, held: Value, first: Value | None, size: Dim, ir: Builder) -> Value:
    """T[B, G, size, D]: so many tokens from the first on, of those that are held of the past and the new ones"""
    shape = (*past.shape[:2], size, past.shape[3])
    column = ir.iota((1, 1, size, 1), 2, I64)
    ordinal = column if first is None else ir.add(column, first)

    def picked(x: Value, index: Value) -> Value:
        known = ir.max(ir.min(index, ir.size(x.shape[2] - 1)), 0)
        return ir.gather_along(x, ir.broadcast_to(known, shape), 2)

    is_past = ir.broadcast_to(ir.less(ordinal, held), shape)
    return ir.select(is_past, picked(past, ordinal), picked(new, ir.sub(ordinal, held)))


def _total(k: Value, node: Node, ir: Builder) -> Dim:
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
    keys, window = cache.k.shape[2], node.int("local_window_size", -1)
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
    groups = cache.k.shape[1]
    if not isinstance(width, int):
        node.unsupported("the width of a head is only known at run time; give the inputs their sizes with shapes=")
    grouped = ir.reshape(q, (batch, groups, floordiv(heads, groups), length, width))
    scores = ir.mul(ir.dot(grouped, cache.k, "bghsd,bgtd->bghst", F32), scale_of(width, node))
    scores = ir.reshape(scores, (batch, heads, length, cache.k.shape[2]))
    softcap = node.float("softcap", 0.0)
    if softcap:
        scores = ir.mul(ir.tanh(ir.div(scores, softcap)), softcap)
    scores, _ = ir.broadcast_together(ir.add(scores, bias), scores)
    given = node.optional("head_sink")
    sink = ir.full((heads,), 0, F32) if given is None else of_shape(given, (heads,), "head_sink", node, ir, BIAS)
    column = ir.broadcast(ir.cast(sink, F32), (1,), (batch, heads, length, 1))
    weights = ir.softmax(ir.concatenate([scores, column], 3), 3)
    weights = ir.slice_axis(weights, 3, 0, cache.k.shape[2])
    split = ir.reshape(weights, (batch, groups, floordiv(heads, groups), length, cache.k.shape[2]))
    mixed = ir.dot(split, ir.cast(cache.v, F32), "bghst,bgte->bghse")
    return ir.cast(ir.reshape(mixed, (batch, heads, length, width)), q.dtype)
