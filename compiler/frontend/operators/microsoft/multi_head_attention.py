"""MultiHeadAttention of com.microsoft: attention of queries, keys and values that are projected already."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.attention_heads import (
    attended,
    behind,
    expect_equal_batches,
    join_heads,
    split_heads,
)
from onnxc.compiler.frontend.operator_helpers.attention_masks import score_bias
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value

RULE = "ONNX Runtime MultiHeadAttention"


@operator("MultiHeadAttention", since=(1,), domain=MICROSOFT)
def multi_head_attention(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """query: T[B, S, H], key: T[B, L, H], value: T[B, L, V], bias: T[H + H + V], past keys and values

    ->  output: T[B, S, V], present_key, present_value: T[B, N, P + L, D]. Or query: T[B, S, N, 3, D] with all three,
    or key: T[B, L, N, 2, D] with both; key and value: T[B, N, L, D] are used as they are, without bias.
    """
    for name in ("past_sequence_length", "cache_indirection"):
        if node.optional(name) is not None:
            node.unsupported(f"{name} is given; export the model without shared buffers for past and present")
    if node.wants(3):
        node.unsupported("the output qk is wanted; use the standard's Attention-23, which has one")
    q, k, v = projected_heads(node, ir)
    past: Dim = 0
    past_key, past_value = node.optional("past_key"), node.optional("past_value")
    if (past_key is None) != (past_value is None):
        node.fail("past-without-partner", "only one of past_key and past_value is given", rule=RULE)
    if past_key is not None:
        past = past_key.shape[2] if past_key.rank == 4 else 0
        k, v = behind(past_key, k, "past_key", node, ir), behind(past_value, v, "past_value", node, ir)
    k, v = expect_equal_batches(k, v, q, node, ir)
    sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    mask, bias = node.optional("key_padding_mask"), node.optional("attention_bias")
    added = score_bias(mask, bias, sizes, past, node, ir, causal=node.flag("unidirectional"))
    return join_heads(attended(q, k, v, added, node, ir), ir), k, v


def projected_heads(node: Node, ir: Builder) -> tuple[Value, Value, Value]:
    """Queries, keys and values: T[B, N, S, D], with their parts of the bias"""
    query, key, value = node.input("query"), node.optional("key"), node.optional("value")
    heads = node.int("num_heads")
    if key is None:
        q, k, v = _unpacked(query, 3, "query", node, ir)
    elif key.rank == 5:
        q = query
        k, v = _unpacked(key, 2, "key", node, ir)
    elif value is None:
        node.fail("missing-input", "value is left out, and key has no part for it", rule=f"{RULE}, value")
    elif key.rank == 4:
        # Keys and values have their parts of the bias in them already.
        total = query.shape[-1] * 2 + value.shape[1] * value.shape[3] if value.rank == 4 else query.shape[-1] * 3
        return split_heads(biased(query, 0, total, node, ir), heads, node, ir), key, value
    else:
        q, k, v = query, key, value
    hidden, total = q.shape[-1], q.shape[-1] * 2 + v.shape[-1]
    starts: tuple[Dim, ...] = (0, hidden, hidden * 2)
    q, k, v = (biased(x, start, total, node, ir) for x, start in zip((q, k, v), starts, strict=True))
    return split_heads(q, heads, node, ir), split_heads(k, heads, node, ir), split_heads(v, heads, node, ir)


def _unpacked(x: Value, count: int, name: str, node: Node, ir: Builder) -> list[Value]:
    """T[B, L, N, count, D] -> count times T[B, L, N * D]"""
    if x.rank != 5:
        node.fail("attention-rank", f"{name} is {x.type}, not packed in 5 axes", rule=f"{RULE}, {name}")
    x = of_shape(x, (None, None, node.int("num_heads"), count, None), name, node, ir, "attention-heads")
    batch, length, heads, _, width = x.shape
    parts = [ir.squeeze(ir.slice_axis(x, 3, index, 1), (3,)) for index in range(count)]
    return [ir.reshape(part, (batch, length, heads * width)) for part in parts]


def biased(x: Value, start: Dim, total: Dim, node: Node, ir: Builder) -> Value:
    """x: T[..., C] plus C elements of the bias: T[total] from `start` on, where there is one"""
    bias = node.optional("bias")
    if bias is None:
        return x
    bias = of_shape(bias, (total,), "bias", node, ir, "bias-shape")
    return ir.add(x, ir.slice(bias, (start,), x.shape[-1:]))
