"""RotaryEmbedding of com.microsoft, and MRotaryEmbedding, whose tokens have three positions."""

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.attention_heads import HEADS, join_heads, split_heads
from onnxc.compiler.frontend.operator_helpers.rotary_positions import CODE, expect_cache, rotated, turned_by
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

RULE, MRULE = "ONNX Runtime RotaryEmbedding", "ONNX Runtime MRotaryEmbedding"


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


@operator("MRotaryEmbedding", since=(1,), domain=MICROSOFT)
def m_rotary_embedding(node: Node, ir: Builder) -> Value:
    """input: T[B, S, N * D] or T[B, N, S, D], position_ids: i64[3, B, S], caches: T[P, R/2]  ->  as input

    The angle of feature f is that of the position in time, height or width: of sections of the features one after the
    other, or with mrope_layout = 1 of features that take turns where there are as many of each.
    """
    x, cos, sin = node.inputs("input", "cos_cache", "sin_cache")
    expect_cache(cos, node)
    sin = of_shape(sin, cos.shape, "sin_cache", node, ir, CODE)
    heads = _heads(x, cos, node, ir)
    batch, _, length, _ = heads.shape
    positions = of_shape(node.input("position_ids"), (3, batch, length), "position_ids", node, ir, "rotary-positions")
    expect_in_range(positions, cos.shape[0], node, ir)
    streams = _streams(cos, node, ir)
    rows = [_row_of_streams(ir.gather(cache, positions, 0), streams, ir) for cache in (cos, sin)]
    turned = turned_by(heads, rows[0], rows[1], node, ir, interleaved=node.flag("interleaved", False))
    return turned if x.rank == 4 else ir.with_shape(join_heads(turned, ir), x.shape)


def _streams(cos: Value, node: Node, ir: Builder) -> np.ndarray:
    """Of each column of the caches the position that it is for: 0, 1 or 2"""
    sections, layout = node.ints("mrope_section"), node.int("mrope_layout", 0)
    if len(sections) != 3 or min(sections) < 0:
        node.fail(CODE, f"mrope_section is {list(sections)}, not three sizes", rule=MRULE)
    ir.require_equal(cos.shape[1], sum(sections), "mrope_section has not as many features as the caches", CODE)
    if layout == 0:
        return np.repeat(np.arange(3), sections)
    if layout != 1:
        node.fail("attribute-value", f"mrope_layout is {layout}, not 0 or 1", rule=MRULE)
    streams = np.zeros(sum(sections), np.int64)
    for stream in (1, 2):
        streams[stream : sections[stream] * 3 : 3] = stream
    return streams


def _row_of_streams(rows: Value, streams: np.ndarray, ir: Builder) -> Value:
    """T[3, B, S, R/2] -> T[B, S, R/2]"""
    first, *others = (ir.squeeze(ir.slice_axis(rows, 0, stream, 1), (0,)) for stream in range(3))
    first = ir.with_shape(first, (*first.shape[:2], streams.size))
    for stream, other in enumerate(others, 1):
        other = ir.with_shape(other, first.shape)
        first = ir.select(ir.broadcast_to(ir.constant(streams == stream), first.shape), other, first)
    return first


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
