"""Attention and QAttention of com.microsoft: projections of one input, then attention of its heads."""

from itertools import accumulate

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.attention_heads import attended, behind, join_heads, split_heads
from onnxc.compiler.frontend.operator_helpers.attention_masks import score_bias
from onnxc.compiler.frontend.operator_helpers.linear_quantization import onto
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element
from onnxc.compiler.frontend.operators.microsoft.activations import with_last_axis_bias
from onnxc.compiler.frontend.operators.quantized.integer_matmul import shifted_product
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value

RULE = "ONNX Runtime Attention"


@operator("Attention", since=(1,), domain=MICROSOFT)
def attention(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """input: T[B, S, I], weights: T[I, H + H + V], bias: T[H + H + V], mask_index, past: T[2, B, N, P, D]

    ->  output: T[B, S, V], present: T[2, B, N, P + S, D]. The projections are those of queries, keys and values.
    """
    x, weights = node.inputs("input", "weights")
    projected = ir.matmul(x, weights, wide_type(x.dtype))
    projected = ir.cast(with_last_axis_bias(projected, "bias", node, ir), x.dtype)
    return _attended(projected, node.optional("attention_bias"), node, ir)


@operator("QAttention", since=(1,), domain=MICROSOFT)
def qattention(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """input: T1[B, S, I], weight: T2[I, 3 H], both quantised, bias: T3[3 H], as Attention in T3 from there

    The scale and the zero point of the weight may be one per column.
    """
    x, w, scale = node.inputs("input", "weight", "weight_scale")
    total = shifted_product(x, node.optional("input_zero_point"), w, node.optional("weight_zero_point"), node, ir)
    factor = ir.mul(ir.cast(only_element(node.input("input_scale"), "input_scale", node, ir), F32), ir.cast(scale, F32))
    projected = ir.mul(ir.cast(total, F32), onto(factor, total.shape, "weight_scale", node, ir, "matmul-scale"))
    return _attended(ir.cast(with_last_axis_bias(projected, "bias", node, ir), scale.dtype), None, node, ir)


def _attended(projected: Value, bias: Value | None, node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """projected: T[B, S, H + H + V]  ->  output, present"""
    _expect_known_form(node)
    q, k, v = (split_heads(part, node.int("num_heads"), node, ir) for part in projected_parts(projected, node, ir))
    past = node.optional("past")
    length: Dim = 0
    if past is not None:
        shape = (2, k.shape[0], k.shape[1], None, k.shape[3])
        past = of_shape(past, shape, "past", node, ir, "attention-past")
        length = past.shape[3]
        halves = [ir.squeeze(ir.slice_axis(past, 0, index, 1), (0,)) for index in (0, 1)]
        k, v = (behind(half, new, "past", node, ir) for half, new in zip(halves, (k, v), strict=True))
    sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    causal = node.flag("unidirectional")
    added = score_bias(node.optional("mask_index"), bias, sizes, length, node, ir, causal=causal)
    y = join_heads(attended(q, k, v, added, node, ir), ir)
    present = ir.concatenate([ir.unsqueeze(k, (0,)), ir.unsqueeze(v, (0,))], 0) if node.wants(1) else None
    return y, present


def _expect_known_form(node: Node) -> None:
    if node.flag("do_rotary", False):
        node.unsupported("do_rotary is set; use RotaryEmbedding and MultiHeadAttention")
    if node.flag("past_present_share_buffer", False):
        node.unsupported("past and present share a buffer; export the model without past_present_share_buffer")


def projected_parts(projected: Value, node: Node, ir: Builder) -> list[Value]:
    """The projections of queries, keys and values, of equal widths unless qkv_hidden_sizes says otherwise."""
    if projected.rank != 3:
        node.fail("attention-rank", f"the input has {projected.rank} axes, not 3", rule=RULE)
    total = projected.shape[2]
    if not isinstance(total, int):
        node.unsupported("the width of the weights is only known at run time")
    widths = node.ints("qkv_hidden_sizes", ()) or (total // 3,) * 3
    if len(widths) != 3 or sum(widths) != total or min(widths) < 0:
        message = f"qkv_hidden_sizes are {list(widths)}, and the weights have {total} columns"
        node.fail("attention-heads", message, rule=f"{RULE}, attribute qkv_hidden_sizes")
    starts = (0, *accumulate(widths))
    return [ir.slice_axis(projected, 2, start, width) for start, width in zip(starts, widths, strict=False)]
