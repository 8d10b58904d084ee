"""RotaryEmbedding of com.microsoft."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.attention_heads import HEADS, join_heads, split_heads
from onnxc.compiler.frontend.operator_helpers.rotary_positions import expect_cache, rotated
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

RULE = "ONNX Runtime RotaryEmbedding"


@operator("RotaryEmbedding", since=(1,), domain=MICROSOFT)
def rotary_embedding(node: Node, ir: Builder) -> Value:
    """input: T[B, S, N * D] or T[B, N, S, D], position_ids: i64[B, S], or i64[1] that of the first, caches: T[P, R/2]

    ->  as input. A head has 2 features for each column of the caches, unless num_heads says how many heads there are.
    """
    x, cos, sin = node.inputs("input", "cos_cache", "sin_cache")
    expect_cache(cos, node)
    heads = _heads(x, cos, node, ir)
    batch, _, length, _ = heads.shape
    positions = node.input("position_ids")
    if positions.rank == 2:
        positions = of_shape(positions, (batch, length), "position_ids", node, ir, "rotary-positions")
    else:
        first = only_element(positions, "position_ids", node, ir)
        positions = ir.add(ir.iota((1, length), 1, I64), first)
    expect_in_range(positions, cos.shape[0], node, ir)
    turned = rotated(heads, cos, sin, positions, node, ir, interleaved=node.flag("interleaved", False))
    return turned if x.rank == 4 else ir.with_shape(join_heads(turned, ir), x.shape)


def _heads(x: Value, cos: Value, node: Node, ir: Builder) -> Value:
    """T[B, N, S, D]"""
    if node.flag("is_packed_batching", False):
        node.unsupported("is_packed_batching is set; keep the padding of the batches")
    if x.rank == 4:
        return x
    if node.int("num_heads", 0):
        return split_heads(x, node.int("num_heads"), node, ir)
    if x.rank != 3 or cos.shape[1] == 0:
        node.fail("rotary-rank", f"input is {x.type} and cos_cache {cos.type}", rule=RULE)
    width = cos.shape[1] * 2
    batch, length, hidden = x.shape
    count = floordiv(hidden, width)
    ir.require_equal(count * width, hidden, "the input has no whole number of heads", HEADS)
    return ir.transpose(ir.reshape(x, (batch, length, count, width)), (0, 2, 1, 3))
