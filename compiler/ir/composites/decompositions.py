"""What each composite is made of: the other primitives that compute the same, as ops that a builder makes."""

from collections.abc import Callable, Mapping
from math import sqrt

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.composites.box_rounds import rounds_of_boxes
from onnxc.compiler.ir.composites.transforms import summed_roots
from onnxc.compiler.ir.composites.tree_walks import walked_trees
from onnxc.compiler.ir.dtypes import BF16, F16, F32, I64
from onnxc.compiler.ir.module import Op, Value

Decomposition = Callable[[Op, Builder], tuple[Value, ...]]


def decompose(op: Op, build: Builder) -> tuple[Value, ...]:
    """The results of a composite, computed by the ops that it is made of."""
    return DECOMPOSITIONS[op.name](op, build)


def _softmax(op: Op, build: Builder) -> tuple[Value, ...]:
    """exp(x - max(x)) / sum(exp(x - max(x)))"""
    x, axes = _wide(op.operands[0], build), [op.int("axis")]
    e = build.exp(build.sub(x, build.reduce(x, "max", axes, keepdims=True)))
    total = build.reduce(e, "sum", axes, keepdims=True)
    return (build.cast(_scaled_down(e, total, build), op.results[0].dtype),)


def _masked_softmax(op: Op, build: Builder) -> tuple[Value, ...]:
    """softmax(x), with zeros where everything is -inf"""
    x, axes = _wide(op.operands[0], build), [op.int("axis")]
    top = build.reduce(x, "max", axes, keepdims=True)
    e = build.exp(build.sub(x, build.select(build.equal(top, float("-inf")), 0.0, top)))
    total = build.reduce(e, "sum", axes, keepdims=True)
    return (build.cast(_scaled_down(e, build.select(build.equal(total, 0.0), 1.0, total), build), op.results[0].dtype),)


def _scaled_down(row: Value, divisor: Value, build: Builder) -> Value:
    """row / divisor, one number for the row: elements are multiplied, for a division takes eight times as long."""
    return build.mul(row, build.reciprocal(divisor))


def _log_softmax(op: Op, build: Builder) -> tuple[Value, ...]:
    """x - max(x) - log(sum(exp(x - max(x))))"""
    x, axes = _wide(op.operands[0], build), [op.int("axis")]
    shifted = build.sub(x, build.reduce(x, "max", axes, keepdims=True))
    total = build.log(build.reduce(build.exp(shifted), "sum", axes, keepdims=True))
    return (build.cast(build.sub(shifted, total), op.results[0].dtype),)


def _layer_norm(op: Op, build: Builder) -> tuple[Value, ...]:
    """(x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + bias"""
    value, scale, bias = op.operands
    x, axes = _wide(value, build), range(op.int("axis"), value.rank)
    centred = build.sub(x, build.mean(x, axes, keepdims=True))
    deviation = build.sqrt(build.add(build.mean(build.square(centred), axes, keepdims=True), op.float("epsilon")))
    scaled = build.mul(_scaled_down(centred, deviation, build), _wide(scale, build))
    return (build.cast(build.add(scaled, _wide(bias, build)), value.dtype),)


def _rms_norm(op: Op, build: Builder) -> tuple[Value, ...]:
    """x / sqrt(mean(x^2) + epsilon) * scale"""
    value, scale = op.operands
    x, axes = _wide(value, build), range(op.int("axis"), value.rank)
    root = build.sqrt(build.add(build.mean(build.square(x), axes, keepdims=True), op.float("epsilon")))
    return (build.cast(build.mul(_scaled_down(x, root, build), _wide(scale, build)), value.dtype),)


def _gelu(op: Op, build: Builder) -> tuple[Value, ...]:
    """x/2 * (1 + erf(x / sqrt(2))), or with tanh(sqrt(2/pi) * (x + 0.044715 x^3)) for the erf"""
    x = _wide(op.operands[0], build)
    if op.text("approximate") == "none":
        inner = build.erf(build.mul(x, sqrt(0.5)))
    else:
        cubic = build.mul(build.mul(build.square(x), x), 0.044715)
        inner = build.tanh(build.mul(build.add(x, cubic), 0.7978845608028654))
    return (build.cast(build.mul(build.mul(x, 0.5), build.add(inner, 1)), op.results[0].dtype),)


def _attention(op: Op, build: Builder) -> tuple[Value, ...]:
    """softmax(scale * q kᵀ + mask) v; a row in which everything is masked gives zeros"""
    q, k, v, *mask = (_wide(operand, build) for operand in op.operands)
    (batch, heads, queries, width), (_, groups, keys, _) = q.shape, k.shape
    assert isinstance(heads, int)
    assert isinstance(groups, int)
    grouped = build.reshape(q, (batch, groups, heads // groups, queries, width))
    scores = build.reshape(build.dot(grouped, k, "bghsd,bgtd->bghst"), (batch, heads, queries, keys))
    scores = build.mul(scores, op.float("scale"))
    if op.float("softcap"):
        scores = build.mul(build.tanh(build.div(scores, op.float("softcap"))), op.float("softcap"))
    if mask:
        bias = build.broadcast_to(mask[0], scores.shape)
        # Not a sum alone: a score of infinity, or NaN, of a key that the mask closes would be NaN.
        closed = build.equal(bias, float("-inf"))
        scores = build.select(closed, float("-inf"), build.add(scores, bias))
    if op.flag("causal"):
        row, column = (build.iota((queries, keys), axis, I64) for axis in (0, 1))
        visible = build.less_equal(column, row)
        scores = build.select(build.broadcast_to(visible, scores.shape), scores, float("-inf"))
    weights = build.reshape(build.masked_softmax(scores, 3), (batch, groups, heads // groups, queries, keys))
    mixed = build.dot(weights, v, "bghst,bgte->bghse")
    return (build.cast(build.reshape(mixed, (batch, heads, queries, v.shape[3])), op.results[0].dtype),)


def _rotary(op: Op, build: Builder) -> tuple[Value, ...]:
    """(a cos - b sin, a sin + b cos), with a, b the halves of the last axis"""
    if op.flag("interleaved"):
        return (_interleaved_rotary(op, build),)
    x, cos, sin = op.operands
    last, half = x.rank - 1, cos.shape[-1]
    a, b = (build.slice_axis(x, last, start, half) for start in (0, half))
    turned = (build.sub(build.mul(a, cos), build.mul(b, sin)), build.add(build.mul(a, sin), build.mul(b, cos)))
    return (build.concatenate(turned, last),)


def _interleaved_rotary(op: Op, build: Builder) -> Value:
    """(a, b) cos + (b, a) (-sin, sin), with a and b the even and odd elements of the last axis"""
    x, *angles = op.operands
    half = angles[0].shape[-1]
    pairs = build.reshape(build.slice_axis(x, x.rank - 1, 0, 2 * half), (*x.shape[:-1], half, 2))
    cos, sin = (build.unsqueeze(each, [each.rank]) for each in angles)
    signs = build.constant(np.array([-1, 1], x.dtype.numpy))
    turned = build.add(build.mul(pairs, cos), build.mul(build.reverse(pairs, x.rank), build.mul(sin, signs)))
    return build.reshape(turned, x.shape)


def _block_product(op: Op, build: Builder) -> tuple[Value, ...]:
    """x wᵀ, with w = (codes - zeros) * scales"""
    x, codes, *spreads = op.operands
    rows = _wide(x, build)
    (columns, depth), blocks, block = codes.shape, spreads[0].shape[1], op.int("block")

    def spread(each: Value) -> Value:
        repeated = build.broadcast(build.cast(each, rows.dtype), (0, 1), (columns, blocks, block))
        return build.slice(build.reshape(repeated, (columns, blocks * block)), (0, 0), (columns, depth))

    scales, *zeros = map(spread, spreads)
    weights = build.cast(codes, rows.dtype)
    for each in zeros:
        weights = build.sub(weights, each)
    weights = build.mul(weights, scales)
    return (build.cast(build.matmul(rows, build.transpose(weights, (1, 0))), x.dtype),)


def _byte_block_product(op: Op, build: Builder) -> tuple[Value, ...]:
    """The product of what the bytes stand for"""
    x, steps, codes, scales, *zeros = op.operands
    bits, block = op.int("bits"), op.int("block")
    repeated = build.broadcast(steps, range(steps.rank), (*steps.shape, block))
    rows = build.mul(build.cast(x, steps.dtype), build.reshape(repeated, x.shape))
    return (build.block_product(rows, codes, scales, zeros[0] if zeros else None, bits, block),)


def _true_positions(op: Op, build: Builder) -> tuple[Value, ...]:
    """The k-th element that is true has k of these before it, which is where its position goes."""
    (x,), count = op.operands, op.dim("count")
    room = build.size(count)
    before = build.scan_axis(build.cast(x, I64), "sum", 0, exclusive=True)
    # What is false, and what there is no room for, goes behind the end.
    targets = build.select(x, build.min(before, room), room)
    positions = build.iota(x.shape, 0, I64)
    scattered = build.scatter_along(build.full((count + 1,), 0, I64), targets, positions, 0, "set")
    return (build.slice(scattered, (0,), (count,)),)


def _wide(x: Value, build: Builder) -> Value:
    """`x` as composites compute: 16-bit floats in f32."""
    return build.cast(x, F32) if x.dtype in (F16, BF16) else x


DECOMPOSITIONS: Mapping[str, Decomposition] = {
    "softmax": _softmax,
    "masked_softmax": _masked_softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "gelu": _gelu,
    "attention": _attention,
    "rotary": _rotary,
    "block_product": _block_product,
    "byte_block_product": _byte_block_product,
    "suppress_boxes": rounds_of_boxes,
    "true_positions": _true_positions,
    "tree_ensemble": walked_trees,
    "fourier": summed_roots,
}
