"""Heads of the attentions of com.microsoft: split, joined with the past, and attended to."""

from math import sqrt

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

HEADS, PAST = "attention-heads", "attention-past"


def split_heads(x: Value, heads: int, node: Node, ir: Builder) -> Value:
    """T[B, S, N * D] -> T[B, N, S, D], N = `heads`"""
    if x.rank != 3:
        node.fail("attention-rank", f"an operand is {x.type}, not of 3 axes", rule=f"ONNX Runtime {node.operator}")
    batch, length, hidden = x.shape
    if heads < 1 or (isinstance(hidden, int) and hidden % heads):
        message = f"{hidden} features cannot be those of {heads} heads"
        node.fail(HEADS, message, rule=f"ONNX Runtime {node.operator}")
    return ir.transpose(ir.reshape(x, (batch, length, heads, floordiv(hidden, heads))), (0, 2, 1, 3))


def grouped_heads(node: Node, ir: Builder) -> list[Value]:
    """Queries T[B, N, S, D], and keys and values T[B, G, S, D], of the inputs of these names, or of query alone"""
    rule = f"ONNX Runtime {node.operator}"
    heads, groups = node.int("num_heads"), node.int("kv_num_heads")
    if groups < 1 or heads < 1 or heads % groups:
        node.fail(HEADS, f"{heads} heads cannot share {groups} of keys", rule=rule)
    query, key, value = node.input("query"), node.optional("key"), node.optional("value")
    if key is not None and value is not None:
        q, k, v = (split_heads(x, n, node, ir) for x, n in ((query, heads), (key, groups), (value, groups)))
        k = of_shape(k, (q.shape[0], None, q.shape[2], q.shape[3]), "key", node, ir, HEADS)
        return [q, k, of_shape(v, k.shape, "value", node, ir, HEADS)]
    if key is not None or value is not None:
        node.fail("missing-input", "only one of key and value is given", rule=rule)
    packed = split_heads(query, heads + 2 * groups, node, ir)
    starts = ((0, heads), (heads, groups), (heads + groups, groups))
    return [ir.slice_axis(packed, 1, start, count) for start, count in starts]


def join_heads(x: Value, ir: Builder) -> Value:
    """T[B, N, S, D] -> T[B, S, N * D]"""
    batch, heads, length, width = x.shape
    return ir.reshape(ir.transpose(x, (0, 2, 1, 3)), (batch, length, heads * width))


def behind(past: Value | None, new: Value, name: str, node: Node, ir: Builder) -> Value:
    """past: T[B, N, P, D] and new: T[B, N, S, D], one after the other"""
    if past is None:
        return new
    batch, heads, _, width = new.shape
    return ir.concatenate([of_shape(past, (batch, heads, None, width), name, node, ir, PAST), new], 2)


def written_behind(past: Value, new: Value, before: Value, ir: Builder) -> Value:
    """past: T[B, G, C, D] with new: T[B, G, S, D] behind the first before: i64[B] tokens of each batch"""
    (batch, groups, capacity, width), length = past.shape, new.shape[2]
    ordinal = ir.sub(ir.iota((1, 1, capacity, 1), 2, I64), ir.reshape(before, (batch, 1, 1, 1)))
    is_new = ir.and_(ir.less_equal(0, ordinal), ir.less(ordinal, ir.size(length)))
    source = ir.select(is_new, ir.add(ordinal, ir.size(capacity)), ir.iota((1, 1, capacity, 1), 2, I64))
    both = ir.concatenate([past, new], 2)
    return ir.gather_along(both, ir.broadcast_to(source, (batch, groups, capacity, width)), 2)


def attended(q: Value, k: Value, v: Value, bias: Value | None, node: Node, ir: Builder, softcap: float = 0.0) -> Value:
    """q: T[B, N, S, D], k: T[B, G, T, D], v: T[B, G, T, E], bias: f32 to [B, N, S, T]  ->  T[B, N, S, E]

    The scale is the attribute of that name, or 1 / sqrt(D) where that is absent or 0.
    """
    width = q.shape[3]
    if not isinstance(width, int):
        node.unsupported("the width of a head is only known at run time; give the inputs their sizes with shapes=")
    return ir.attention(q, k, v, bias, scale_of(width, node), softcap=softcap)


def scale_of(width: int, node: Node) -> float:
    """The factor of the scores."""
    return node.float("scale", 0.0) or 1 / sqrt(max(width, 1))


def expect_equal_batches(k: Value, v: Value, q: Value, node: Node, ir: Builder) -> tuple[Value, Value]:
    """k and v with the batch of q, and the keys and heads of each other; checked, or guarded."""
    keys: Dim = k.shape[2]
    k = of_shape(k, (q.shape[0], None, None, q.shape[3]), "the key", node, ir, HEADS)
    return k, of_shape(v, (q.shape[0], k.shape[1], keys, None), "the value", node, ir, HEADS)
