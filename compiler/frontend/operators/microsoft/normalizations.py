"""Normalisations of com.microsoft, with the sums, embeddings and activations that are fused into them.

What is normalised is a sum rounded to the type of the operands; the normalisation itself is computed in f32.
"""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.linear_quantization import dequantized
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element
from onnxc.compiler.frontend.operator_helpers.standardize import inverse_root, moments, standardize
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F32, I32, I64
from onnxc.compiler.ir.module import Value

CODE = "normalization-parameter"
NO_ACTIVATION, SILU = 0, 1


@operator("SkipLayerNormalization", since=(1,), domain=MICROSOFT)
def skip_layer_normalization(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """input: T[..., C], skip: T to its shape, gamma, beta, bias: T[C]  ->  output: T[..., C], mean, 1 / deviation, sum

    The sum of input, skip and bias is normalised over the last axis, then scaled by gamma and shifted by beta.
    """
    total = _skip_sum(node, ir)
    gamma, beta = _vector("gamma", total, node, ir), node.optional("beta")
    shift = ir.full(gamma.shape, 0, gamma.dtype) if beta is None else _vector("beta", total, node, ir)
    y = ir.layer_norm(total, gamma, shift, total.rank - 1, node.float("epsilon"))
    mean = inverse = None
    if node.wants(1) or node.wants(2):
        mean, variance = moments(ir.cast(total, F32), (total.rank - 1,), ir)
        inverse = ir.reciprocal(ir.sqrt(ir.add(variance, node.float("epsilon"))))
    return y, mean, inverse, total


@operator("SkipSimplifiedLayerNormalization", since=(1,), domain=MICROSOFT)
def skip_simplified_layer_normalization(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """As SkipLayerNormalization without mean and beta: the sum is divided by the root of its mean square."""
    total = _skip_sum(node, ir)
    y = ir.rms_norm(total, _vector("gamma", total, node, ir), total.rank - 1, node.float("epsilon"))
    inverse = inverse_root(total, (total.rank - 1,), node.float("epsilon"), ir) if node.wants(2) else None
    mean = ir.mean(ir.cast(total, F32), (total.rank - 1,), keepdims=True) if node.wants(1) else None
    return y, mean, inverse, total


def _skip_sum(node: Node, ir: Builder) -> Value:
    """input + skip + bias, in the type of the input; a skip with fewer batches is for all of them."""
    x, skip = node.inputs("input", "skip")
    if x.rank < 1 or skip.rank > x.rank:
        node.fail("normalization-rank", f"input is {x.type}, skip {skip.type}", rule=f"ONNX Runtime {node.operator}")
    shape = [1 if size == 1 else wanted for size, wanted in zip(skip.shape, x.shape[x.rank - skip.rank :], strict=True)]
    total = ir.add(widened(x, ir), widened(of_shape(skip, shape, "skip", node, ir, CODE), ir))
    bias = node.optional("bias")
    if bias is not None:
        total = ir.add(total, widened(_vector("bias", x, node, ir), ir))
    return ir.cast(total, x.dtype)


def _vector(name: str, x: Value, node: Node, ir: Builder) -> Value:
    """The input `name`: T[C], C the last axis of x"""
    return of_shape(node.input(name), x.shape[-1:], name, node, ir, CODE)


@operator("EmbedLayerNormalization", since=(1,), domain=MICROSOFT)
def embed_layer_normalization(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """input_ids, segment_ids, mask, position_ids: i32[B, S], embeddings: T[?, C]  ->  T[B, S, C], mask_index, the sum

    The embeddings of words, positions (0, 1, ... where they are not given) and segments (0 where a table is given
    alone) are added up and normalised.
    mask_index: i32[B] counts the ones of the mask; it is 0 without one.
    """
    ids, words = node.inputs("input_ids", "word_embedding")
    if ids.rank != 2:
        node.fail("embedding-rank", f"input_ids is {ids.type}, not [B, S]", rule=f"ONNX Runtime {node.operator}")
    total = ir.add(widened(_looked_up(words, ids, node, ir), ir), widened(_positions(ids.shape, node, ir), ir))
    segments, table = node.optional("segment_ids"), node.optional("segment_embedding")
    if table is not None:
        rows = ir.full((1, 1), 0, I32) if segments is None else segments
        total = ir.add(total, widened(_looked_up(table, rows, node, ir), ir))
    total = ir.cast(total, words.dtype)
    gamma, beta = (_vector(name, total, node, ir) for name in ("gamma", "beta"))
    y = ir.layer_norm(total, gamma, beta, 2, node.float("epsilon"))
    return y, _mask_index(ids.shape[0], node, ir), total


def _looked_up(table: Value, indices: Value, node: Node, ir: Builder) -> Value:
    expect_in_range(indices, table.shape[0], node, ir)
    return ir.gather(table, ir.cast(indices, I64), 0)


def _positions(shape: Sequence[Dim], node: Node, ir: Builder) -> Value:
    """T[B | 1, S, C]: the embeddings of the positions"""
    table, given = node.input("position_embedding"), node.optional("position_ids")
    if given is not None:
        return _looked_up(table, given, node, ir)
    if isinstance(shape[1], int) and isinstance(table.shape[0], int) and shape[1] > table.shape[0]:
        message = f"{shape[1]} positions, and position_embedding has {table.shape[0]}"
        node.fail("index-out-of-range", message, rule=f"ONNX Runtime {node.operator}")
    return ir.gather(table, ir.iota((1, shape[1]), 1, I64), 0)


def _mask_index(batch: Dim, node: Node, ir: Builder) -> Value:
    mask = node.optional("mask")
    if mask is None:
        return ir.full((batch,), 0, I32)
    return ir.reduce(ir.cast(ir.equal(mask, 1), I32), "sum", (1,))


@operator("QEmbedLayerNormalization", since=(1,), domain=MICROSOFT)
def quantized_embed_layer_normalization(node: Node, ir: Builder) -> tuple[Value, Value]:
    """As EmbedLayerNormalization of tables, gamma and beta that are quantised, each by a scale and a zero point."""
    ids = node.input("input_ids")
    if ids.rank != 2:
        node.fail("embedding-rank", f"input_ids is {ids.type}, not [B, S]", rule=f"ONNX Runtime {node.operator}")
    positions, segments = ir.iota((1, ids.shape[1]), 1, I64), node.optional("segment_ids")
    words, rows = (node.input(f"{name}_embedding_quant") for name in ("word", "position"))
    total = ir.add(
        _real(_looked_up(words, ids, node, ir), "word_embedding", node, ir),
        _real(ir.gather(rows, positions, 0), "position_embedding", node, ir),
    )
    table = node.optional("segment_embedding")
    if segments is not None and table is not None:
        total = ir.add(total, _real(_looked_up(table, segments, node, ir), "segment_embedding", node, ir))
    gamma, beta = (_real(_vector(f"{name}_quant", total, node, ir), name, node, ir) for name in ("gamma", "beta"))
    return ir.layer_norm(total, gamma, beta, 2, node.float("epsilon")), _mask_index(ids.shape[0], node, ir)


def _real(x: Value, name: str, node: Node, ir: Builder) -> Value:
    """`x`, dequantised by the scale and the zero point of `name`"""
    scale, zero = (only_element(node.input(f"{name}_{part}"), name, node, ir) for part in ("scale", "zero_point"))
    return dequantized(x, scale, zero, ir)


@operator("GroupNorm", since=(1,), domain=MICROSOFT)
def group_norm(node: Node, ir: Builder) -> Value:
    """X: T[N, H, W, C], or T[N, C, H, W] unless channels_last, gamma, beta: M[C]  ->  as X

    Each of `groups` groups of channels is normalised, scaled, shifted, and with activation 1 multiplied by its sigmoid.
    """
    return _normalized_groups(node.input("X"), node, ir)


@operator("SkipGroupNorm", since=(1,), domain=MICROSOFT)
def skip_group_norm(node: Node, ir: Builder) -> tuple[Value, Value]:
    """X, skip: T[N, H, W, C], T[N, 1, 1, C] or T[N, C], bias: T[C]  ->  Y: GroupNorm of their sum S, and S"""
    x, skip, bias = node.input("X"), node.input("skip"), node.optional("bias")
    channel = _channel_axis(x, node)
    total = ir.add(widened(x, ir), widened(_per_image(skip, channel, ir), ir))
    if bias is not None:
        total = ir.add(
            total, ir.broadcast(widened(_of_channels(bias, "bias", x, channel, node, ir), ir), (channel,), total.shape)
        )
    rounded = ir.cast(total, x.dtype)
    return _normalized_groups(rounded, node, ir), rounded


def _per_image(skip: Value, channel: int, ir: Builder) -> Value:
    """T[N, C] with the axes of images, as it is if it has them."""
    if skip.rank != 2:
        return skip
    return ir.unsqueeze(skip, (1, 2) if channel == 3 else (2, 3))


def _channel_axis(x: Value, node: Node) -> int:
    if x.rank != 4:
        node.fail("normalization-rank", f"X is {x.type}, not of 4 axes", rule=f"ONNX Runtime {node.operator}")
    return 3 if node.flag("channels_last") else 1


def _of_channels(value: Value, name: str, x: Value, channel: int, node: Node, ir: Builder) -> Value:
    return of_shape(value, (x.shape[channel],), name, node, ir, CODE)


def _normalized_groups(x: Value, node: Node, ir: Builder) -> Value:
    channel, groups = _channel_axis(x, node), node.int("groups")
    channels = x.shape[channel]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        message = f"{channels} channels cannot be split into {groups} groups"
        node.fail("normalization-groups", message, rule=f"ONNX Runtime {node.operator}, attribute groups")
    split = (*x.shape[:channel], groups, floordiv(channels, groups), *x.shape[channel + 1 :])
    axes = [axis for axis in range(1, 5) if axis != channel]
    wide = ir.reshape(standardize(ir.reshape(widened(x, ir), split), axes, node.float("epsilon"), ir), x.shape)
    gamma, beta = (
        ir.broadcast(widened(_of_channels(node.input(name), name, x, channel, node, ir), ir), (channel,), x.shape)
        for name in ("gamma", "beta")
    )
    scaled = ir.add(ir.mul(wide, gamma), beta)
    activation = node.int("activation")
    if activation not in (NO_ACTIVATION, SILU):
        message = f"activation is {activation}, not {NO_ACTIVATION} or {SILU}"
        node.fail("attribute-range", message, rule=f"ONNX Runtime {node.operator}, attribute activation")
    return ir.cast(ir.mul(scaled, ir.sigmoid(scaled)) if activation == SILU else scaled, x.dtype)
