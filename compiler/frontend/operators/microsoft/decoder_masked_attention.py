"""DecoderMaskedMultiHeadAttention of com.microsoft: one new token, over a cache that has room for all of a search."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.attention_heads import (
    PAST,
    attended,
    expect_equal_batches,
    join_heads,
    split_heads,
    written_behind,
)
from onnxc.compiler.frontend.operator_helpers.attention_masks import score_bias
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element, read_lengths
from onnxc.compiler.frontend.operators.microsoft.multi_head_attention import biased
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

RULE = "ONNX Runtime DecoderMaskedMultiHeadAttention"


@operator("DecoderMaskedMultiHeadAttention", since=(1,), domain=MICROSOFT)
def decoder_masked_multi_head_attention(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """query, key, value: T[B, 1, N * D], past_key, past_value: T[B, N, M, D], bias: T[3 N * D], past_sequence_length

    ->  output: T[B, 1, N * D], and the past with the new token in it. Or query: T[B, 1, 3 N * D] with all three.
    Without a past, key and value: T[B, N, L, D] are attended to as they are.
    """
    if node.wants(3) or node.flag("output_qk", False):
        node.unsupported("the output qk is wanted; use the standard's Attention-23, which has one")
    if node.optional("past_key") is None and node.optional("past_value") is None:
        return _attended_across(node, ir), None, None
    if not node.flag("past_present_share_buffer", False):
        node.unsupported("past and present share no buffer; use MultiHeadAttention, which joins them")
    q, k, v = _heads(node, ir)
    batch, heads, _, width = q.shape
    shape = (batch, heads, None, width)
    past_k = of_shape(node.input("past_key"), shape, "past_key", node, ir, PAST)
    past_v = of_shape(node.input("past_value"), past_k.shape, "past_value", node, ir, PAST)
    past = _past_length(past_k.shape[2], node, ir)
    before = ir.broadcast(ir.size(past), (), (batch,))
    present_k, present_v = (written_behind(x, new, before, ir) for x, new in ((past_k, k), (past_v, v)))
    k, v = (_seen(present, past, node, ir) for present in (present_k, present_v))
    return _output(q, k, v, past, node, ir), present_k, present_v


def _attended_across(node: Node, ir: Builder) -> Value:
    """Attention to keys and values that are not of this search"""
    key, value = node.inputs("key", "value")
    if key.rank != 4 or value.rank != 4:
        node.fail("attention-rank", f"key is {key.type} and value {value.type}, not of 4 axes", rule=RULE)
    query = of_shape(node.input("query"), (None, 1, None), "query", node, ir, "attention-heads")
    total = query.shape[2] * 2 + value.shape[1] * value.shape[3]
    q = split_heads(biased(query, 0, total, node, ir), node.int("num_heads"), node, ir)
    k, v = expect_equal_batches(key, value, q, node, ir)
    return _output(q, k, v, 0, node, ir)


def _output(q: Value, k: Value, v: Value, past: Dim, node: Node, ir: Builder) -> Value:
    sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    added = score_bias(
        node.optional("mask_index"), node.optional("attention_bias"), sizes, past, node, ir, causal=False
    )
    return join_heads(attended(q, k, v, added, node, ir), ir)


def _heads(node: Node, ir: Builder) -> list[Value]:
    """Queries, keys and values of the new token: T[B, N, 1, D], with their parts of the bias"""
    query = of_shape(node.input("query"), (None, 1, None), "query", node, ir, "attention-heads")
    key, value = node.optional("key"), node.optional("value")
    heads = node.int("num_heads")
    if key is None and value is None:
        total = query.shape[2]
        packed = split_heads(biased(query, 0, total, node, ir), 3 * heads, node, ir)
        return [ir.slice_axis(packed, 1, heads * part, heads) for part in range(3)]
    if key is None or value is None:
        node.fail("missing-input", "only one of key and value is given", rule=RULE)
    key, value = (of_shape(x, query.shape, name, node, ir, PAST) for name, x in (("key", key), ("value", value)))
    hidden = query.shape[2]
    parts = (biased(x, hidden * part, hidden * 3, node, ir) for part, x in enumerate((query, key, value)))
    return [split_heads(part, heads, node, ir) for part in parts]


def _past_length(capacity: Dim, node: Node, ir: Builder) -> Dim:
    """How many tokens are in the cache"""
    given = only_element(node.input("past_sequence_length"), "past_sequence_length", node, ir)
    (past,) = read_lengths(ir.reshape(given, (1,)), "past_sequence_length", node, ir, 1)
    ir.guard(capacity, past + 1, "at_least", "past_key has no room for a token behind past_sequence_length others")
    return past


def _seen(present: Value, past: Dim, node: Node, ir: Builder) -> Value:
    """T[B, N, M, D] -> T[B, N, past + 1, D]: the tokens of each beam, which may be in caches of others of its batch"""
    batch, heads, _, width = present.shape
    seen = ir.slice_axis(present, 2, 0, past + 1)
    sources = node.optional("cache_indirection")
    if sources is None:
        return seen
    if sources.rank != 3:
        node.fail(PAST, f"cache_indirection is {sources.type}, not of 3 axes", rule=f"{RULE}, cache_indirection")
    beams, room = sources.shape[1:]
    ir.require_equal(sources.shape[0] * beams, batch, "cache_indirection is for another number of beams", PAST)
    ir.guard(room, past, "at_least", "cache_indirection has no room for past_sequence_length tokens")
    beam = ir.slice(ir.reshape(sources, (batch, room)), (0, 0), (batch, past))
    expect_in_range(beam, beams, node, ir)
    own = ir.iota((batch, 1), 0, I64)
    first = ir.mul(ir.div(own, ir.size(beams)), ir.size(beams))
    rows = ir.concatenate([ir.add(first, ir.cast(beam, I64)), own], 1)
    indices = ir.broadcast(rows, (0, 2), (batch, heads, past + 1, width))
    return ir.gather_along(seen, indices, 0)
