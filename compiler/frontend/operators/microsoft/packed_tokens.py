"""Tokens without padding: RemovePadding, RestorePadding, and attention of the tokens of each sequence to each other.

Packed are the T real tokens of B sequences of S tokens, one after another. `token_offset` is where each is among the
B * S tokens with padding, then where the padding is; `cumulative_sequence_length` is how many there are before each
sequence, and at last T. ONNX Runtime computes these on CUDA alone.
"""

from dataclasses import replace

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.attention_heads import attended, expect_equal_batches, split_heads
from onnxc.compiler.frontend.operator_helpers.attention_masks import score_bias
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operators.microsoft.activations import with_last_axis_bias
from onnxc.compiler.frontend.operators.microsoft.attention import projected_parts
from onnxc.compiler.frontend.operators.microsoft.multi_head_attention import projected_heads
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least, product
from onnxc.compiler.ir.dtypes import I32, I64
from onnxc.compiler.ir.module import Value

CODE = "packed-tokens"


@operator("RemovePadding", since=(1,), domain=MICROSOFT)
def remove_padding(node: Node, ir: Builder) -> tuple[Value, ...]:
    """input: T[B, S, H], sequence_token_count: i32[B]

    ->  output: T[T, H], token_offset: i32[B, S], cumulated_seq_len: i32[B + 1], max_seq_len: i32[1]
    """
    x = of_shape(node.input("input"), (None, None, None), "input", node, ir, CODE)
    batch, length, width = x.shape
    counts = of_shape(node.input("sequence_token_count"), (batch,), "sequence_token_count", node, ir, CODE)
    counts = ir.clamp(ir.cast(counts, I64), 0, ir.size(length))
    is_real = ir.less(ir.iota((batch, length), 1, I64), ir.reshape(counts, (batch, 1)))
    flat = ir.reshape(is_real, (product((batch, length)),))
    real, padding = (ir.squeeze(ir.non_zero(which), (0,)) for which in (flat, ir.not_(flat)))
    offsets = ir.reshape(ir.concatenate([real, padding], 0), (batch, length))
    total = ir.concatenate([ir.full((1,), 0, I64), ir.scan_axis(counts, "sum", 0)], 0)
    longest = ir.reduce(ir.concatenate([ir.full((1,), 0, I64), counts], 0), "max", (0,), keepdims=True)
    packed = ir.gather(ir.reshape(x, (*flat.shape, width)), real, 0)
    return packed, ir.cast(offsets, I32), ir.cast(total, I32), ir.cast(longest, I32)


@operator("RestorePadding", since=(1,), domain=MICROSOFT)
def restore_padding(node: Node, ir: Builder) -> Value:
    """input: T[T, H], token_offset: i32[B, S]  ->  T[B, S, H], 0 where there is padding"""
    packed = of_shape(node.input("input"), (None, None), "input", node, ir, CODE)
    return _padded(packed, node, ir)


@operator("PackedAttention", since=(1,), domain=MICROSOFT)
def packed_attention(node: Node, ir: Builder) -> Value:
    """input: T[T, I], weights: T[I, H + H + V], bias: T[H + H + V], token_offset: i32[B, S],

    cumulative_sequence_length: i32[B + 1], attention_bias: T[B|1, N|1, S, S]  ->  T[T, V], Attention of each sequence
    """
    x = of_shape(node.input("input"), (None, None), "input", node, ir, CODE)
    projected = ir.matmul(x, node.input("weights"), wide_type(x.dtype))
    projected = ir.cast(with_last_axis_bias(projected, "bias", node, ir), x.dtype)
    parts = projected_parts(ir.unsqueeze(projected, (0,)), node, ir)
    q, k, v = (split_heads(part, node.int("num_heads"), node, ir) for part in parts)
    return _attended(q, k, v, node, ir)


@operator("PackedMultiHeadAttention", since=(1,), domain=MICROSOFT)
def packed_multi_head_attention(node: Node, ir: Builder) -> Value:
    """query: T[T, H], key: T[T, H], value: T[T, V], or query: T[T, N, 3, D] with all three, bias: T[H + H + V],

    token_offset: i32[B, S], cumulative_sequence_length: i32[B + 1], attention_bias: T[B|1, N|1, S, S]  ->  T[T, V], as
    MultiHeadAttention of each sequence
    """
    one_batch = [None if operand is None else ir.unsqueeze(operand, (0,)) for operand in _given(node)]
    q, k, v = projected_heads(replace(node, operands=(*one_batch, *node.operands[3:])), ir)
    k, v = expect_equal_batches(k, v, q, node, ir)
    return _attended(q, k, v, node, ir)


def _given(node: Node) -> tuple[Value | None, Value | None, Value | None]:
    """query, key and value, each of two axes, or query alone of four."""
    query, key, value = node.input("query"), node.optional("key"), node.optional("value")
    rule = f"ONNX Runtime {node.operator}"
    if query.rank == 4 and (key is not None or value is not None):
        node.fail(CODE, "key or value is given, and query has a part for it", rule=f"{rule}, query")
    for name in ("query", "key", "value") if query.rank != 4 else ():
        if node.input(name).rank != 2:
            node.fail(CODE, f"{name} is {node.input(name).type}, expected 2 axes", rule=f"{rule}, {name}")
    return query, key, value


def _attended(q: Value, k: Value, v: Value, node: Node, ir: Builder) -> Value:
    """q, k: T[1, N, T, D], v: T[1, N, T, E]  ->  T[T, N * E], each token attending to those of its sequence"""
    tokens = q.shape[2]
    q, k, v = (ir.transpose(_padded(_tokens_first(x, ir), node, ir), (0, 2, 1, 3)) for x in (q, k, v))
    batch, heads, length, _ = q.shape
    ends = of_shape(
        node.input("cumulative_sequence_length"), (batch + 1,), "cumulative_sequence_length", node, ir, CODE
    )
    counts = ir.sub(ir.slice(ends, (1,), (batch,)), ir.slice(ends, (0,), (batch,)))
    sizes = (batch, heads, length, length)
    bias = score_bias(counts, node.optional("attention_bias"), sizes, 0, node, ir, causal=False)
    y = ir.transpose(attended(q, k, v, bias, node, ir), (0, 2, 1, 3))
    rows = ir.reshape(y, (product((batch, length)), product((heads, y.shape[3]))))
    return ir.gather(rows, _offsets(tokens, node, ir), 0)


def _tokens_first(x: Value, ir: Builder) -> Value:
    """T[1, N, T, D] -> T[T, N, D]"""
    return ir.squeeze(ir.transpose(x, (0, 2, 1, 3)), (0,))


def _padded(packed: Value, node: Node, ir: Builder) -> Value:
    """T[T, ...] -> T[B, S, ...], 0 where there is padding"""
    batch, length = _token_offset(node, ir).shape
    tokens, *features = packed.shape
    zeros = ir.full((product((batch, length)), *features), 0, packed.dtype)
    offsets = ir.reshape(_offsets(tokens, node, ir), (tokens, 1))
    return ir.reshape(ir.scatter_nd(zeros, offsets, packed, "set"), (batch, length, *features))


def _offsets(tokens: Dim, node: Node, ir: Builder) -> Value:
    """i64[T]: where the real tokens are among the padded ones"""
    offsets = ir.cast(_token_offset(node, ir), I64)
    count = product(offsets.shape)
    if at_least(tokens, count + 1):
        message = f"there are {tokens} packed tokens and {count} with padding"
        node.fail(CODE, message, rule=f"ONNX Runtime {node.operator}, token_offset")
    if not at_least(count, tokens):
        ir.guard(count, tokens, "at_least", f"{node.operator} has more packed tokens than token_offset has")
    return ir.slice(ir.reshape(offsets, (count,)), (0,), (tokens,))


def _token_offset(node: Node, ir: Builder) -> Value:
    return of_shape(node.input("token_offset"), (None, None), "token_offset", node, ir, CODE)
