"""Composites: kept whole while a kernel of their own pays; each has its decomposition into the other primitives."""

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING

from onnxc.compiler.ir.dtypes import BF16, F16, F32, I64
from onnxc.compiler.ir.module import Attributes, Block, Op, Value
from onnxc.compiler.ir.primitive import AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.primitives.movement import axis_of
from onnxc.compiler.ir.primitives.pointwise import pointwise_axes
from onnxc.compiler.ir.primitives.reductions import other_axes
from onnxc.compiler.ir.types import TensorType, Type

if TYPE_CHECKING:
    from onnxc.compiler.ir.builder import Builder

APPROXIMATIONS = ("none", "tanh")


def _wide(x: Value, build: "Builder") -> Value:
    """`x` as composites compute: 16-bit floats in f32."""
    return build.cast(x, F32) if x.dtype in (F16, BF16) else x


def _floats(operands: Sequence[Type], count: int) -> tuple[TensorType, ...]:
    values = tensors(operands, count)
    if any(not value.dtype.is_float for value in values):
        raise TypeRuleError(f"takes floats, got {', '.join(map(str, values))}")
    return values


def _softmax(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = _floats(operands, 1)
    axis_of(attributes, value.rank)
    return (value,)


def _decompose_softmax(op: Op, build: "Builder") -> tuple[Value, ...]:
    """exp(x - max(x)) / sum(exp(x - max(x)))"""
    x, axes = _wide(op.operands[0], build), [op.int("axis")]
    e = build.exp(build.sub(x, build.reduce(x, "max", axes, keepdims=True)))
    return (build.cast(build.div(e, build.reduce(e, "sum", axes, keepdims=True)), op.results[0].dtype),)


def _decompose_masked_softmax(op: Op, build: "Builder") -> tuple[Value, ...]:
    """softmax(x), with zeros where everything is -inf"""
    x, axes = _wide(op.operands[0], build), [op.int("axis")]
    top = build.reduce(x, "max", axes, keepdims=True)
    e = build.exp(build.sub(x, build.select(build.equal(top, float("-inf")), 0.0, top)))
    total = build.reduce(e, "sum", axes, keepdims=True)
    return (build.cast(build.div(e, build.select(build.equal(total, 0.0), 1.0, total)), op.results[0].dtype),)


def _decompose_log_softmax(op: Op, build: "Builder") -> tuple[Value, ...]:
    """x - max(x) - log(sum(exp(x - max(x))))"""
    x, axes = _wide(op.operands[0], build), [op.int("axis")]
    shifted = build.sub(x, build.reduce(x, "max", axes, keepdims=True))
    total = build.log(build.reduce(build.exp(shifted), "sum", axes, keepdims=True))
    return (build.cast(build.sub(shifted, total), op.results[0].dtype),)


def _layer_norm(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[d...], scale: T[d from axis...], bias: T[d from axis...] -> T[d...]"""
    x, scale, bias = _floats(operands, 3)
    axis = axis_of(attributes, x.rank)
    if scale.shape != x.known_shape[axis:] or bias.shape != scale.shape:
        raise TypeRuleError(f"scale {scale} and bias {bias} do not have the normalised axes of {x}")
    return (x,)


def _decompose_layer_norm(op: Op, build: "Builder") -> tuple[Value, ...]:
    """(x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + bias"""
    value, scale, bias = op.operands
    x, axes = _wide(value, build), range(op.int("axis"), value.rank)
    centred = build.sub(x, build.mean(x, axes, keepdims=True))
    deviation = build.sqrt(build.add(build.mean(build.square(centred), axes, keepdims=True), op.float("epsilon")))
    scaled = build.mul(build.div(centred, deviation), _wide(scale, build))
    return (build.cast(build.add(scaled, _wide(bias, build)), value.dtype),)


def _rms_norm(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[d...], scale: T[d from axis...] -> T[d...]"""
    x, scale = _floats(operands, 2)
    if scale.shape != x.known_shape[axis_of(attributes, x.rank) :]:
        raise TypeRuleError(f"scale {scale} does not have the normalised axes of {x}")
    return (x,)


def _decompose_rms_norm(op: Op, build: "Builder") -> tuple[Value, ...]:
    """x / sqrt(mean(x^2) + epsilon) * scale"""
    value, scale = op.operands
    x, axes = _wide(value, build), range(op.int("axis"), value.rank)
    root = build.sqrt(build.add(build.mean(build.square(x), axes, keepdims=True), op.float("epsilon")))
    return (build.cast(build.mul(build.div(x, root), _wide(scale, build)), value.dtype),)


def _leading_axes(op: Op) -> tuple[AxisLink, ...]:
    """Axes before the normalised ones run through x and the result; scale and bias do not have them."""
    others = (None,) * (len(op.operands) - 1)
    return tuple(AxisLink("map", (axis, *others), (axis,)) for axis in range(op.int("axis")))


def _gelu(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = _floats(operands, 1)
    if attributes.get("approximate") not in APPROXIMATIONS:
        raise TypeRuleError(f"approximate is {attributes.get('approximate')}, not one of {', '.join(APPROXIMATIONS)}")
    return (value,)


def _decompose_gelu(op: Op, build: "Builder") -> tuple[Value, ...]:
    """x/2 * (1 + erf(x / sqrt(2))), or with tanh(sqrt(2/pi) * (x + 0.044715 x^3)) for the erf"""
    x = _wide(op.operands[0], build)
    if op.text("approximate") == "none":
        inner = build.erf(build.mul(x, sqrt(0.5)))
    else:
        cubic = build.mul(build.mul(build.square(x), x), 0.044715)
        inner = build.tanh(build.mul(build.add(x, cubic), 0.7978845608028654))
    return (build.cast(build.mul(build.mul(x, 0.5), build.add(inner, 1)), op.results[0].dtype),)


def _attention(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """q: T[B, H, S, D], k: T[B, G, T, D], v: T[B, G, T, E], mask: T broadcast to [B, H, S, T] -> T[B, H, S, E]

    H is a multiple of G; head h reads group h // (H / G). Where `causal`, position s sees t <= s.
    """
    q, k, v, *mask = _floats(operands, len(operands))
    if {q.rank, k.rank, v.rank} != {4} or len(mask) > 1 or {q.dtype, k.dtype, v.dtype} != {q.dtype}:
        raise TypeRuleError(f"takes q, k, v of rank 4 and a mask, got {', '.join(map(str, operands))}")
    (batch, heads, queries, width), (_, groups, keys, _) = q.known_shape, k.known_shape
    if k.shape != (batch, groups, keys, width) or v.known_shape[:3] != (batch, groups, keys):
        raise TypeRuleError(f"q {q}, k {k} and v {v} do not fit")
    if not isinstance(heads, int) or not isinstance(groups, int) or groups == 0 or heads % groups:
        raise TypeRuleError(f"{heads} heads cannot share {groups} groups")
    if mask and mask[0].rank != 4:
        raise TypeRuleError(f"the mask is {mask[0]}, not of rank 4")
    return (TensorType(q.dtype, (batch, heads, queries, v.known_shape[3])),)


def _attention_axes(op: Op) -> tuple[AxisLink, ...]:
    q, k, _, *mask = op.operands
    whole = [AxisLink("map", (0, 0, 0, *(_mask_axis(m, 0, q.shape[0]) for m in mask)), (0,))]
    if q.shape[1] == k.shape[1]:
        whole.append(AxisLink("map", (1, 1, 1, *(_mask_axis(m, 1, q.shape[1]) for m in mask)), (1,)))
    if not op.flag("causal"):
        whole.append(AxisLink("map", (2, None, None, *(_mask_axis(m, 2, q.shape[2]) for m in mask)), (2,)))
    whole.append(AxisLink("map", (None, None, 3, *(None for _ in mask)), (3,)))
    sizes = (q.shape[0], q.shape[1], q.shape[2])
    undecided = {axis for axis in range(3) for m in mask if m.shape[axis] not in (1, sizes[axis])}
    return tuple(link for link in whole if link.results[0] not in undecided)


def _mask_axis(mask: Value, axis: int, size: object) -> int | None:
    return axis if mask.shape[axis] == size and size != 1 else None


def _decompose_attention(op: Op, build: "Builder") -> tuple[Value, ...]:
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


def _rotary(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[d..., 2h], cos and sin: T[d..., h] -> T[d..., 2h]"""
    x, cos, sin = _floats(operands, 3)
    if not x.rank or cos != sin or cos.known_shape[:-1] != x.known_shape[:-1]:
        raise TypeRuleError(f"{x}, {cos} and {sin} do not fit")
    if cos.known_shape[-1] * 2 != x.known_shape[-1]:
        raise TypeRuleError(f"the last axis of {x} is not twice that of {cos}")
    return (x,)


def _rotary_axes(op: Op) -> tuple[AxisLink, ...]:
    return pointwise_axes(op)[:-1]


def _decompose_rotary(op: Op, build: "Builder") -> tuple[Value, ...]:
    """(a cos - b sin, a sin + b cos), with a, b the halves of the last axis, or its even and odd elements"""
    x, cos, sin = op.operands
    last, half = x.rank - 1, cos.shape[-1]
    if op.flag("interleaved"):
        a, b = (build.slice_axis(x, last, place, half, 2) for place in (0, 1))
    else:
        a, b = (build.slice_axis(x, last, start, half) for start in (0, half))
    turned = (build.sub(build.mul(a, cos), build.mul(b, sin)), build.add(build.mul(a, sin), build.mul(b, cos)))
    if op.flag("interleaved"):
        pairs = build.concatenate([build.unsqueeze(part, [x.rank]) for part in turned], x.rank)
        return (build.reshape(pairs, x.shape),)
    return (build.concatenate(turned, last),)


define(Primitive("softmax", "composite", _softmax, other_axes, decompose=_decompose_softmax))
define(Primitive("masked_softmax", "composite", _softmax, other_axes, decompose=_decompose_masked_softmax))
define(Primitive("log_softmax", "composite", _softmax, other_axes, decompose=_decompose_log_softmax))
define(Primitive("layer_norm", "composite", _layer_norm, _leading_axes, decompose=_decompose_layer_norm))
define(Primitive("rms_norm", "composite", _rms_norm, _leading_axes, decompose=_decompose_rms_norm))
define(Primitive("gelu", "composite", _gelu, pointwise_axes, decompose=_decompose_gelu))
define(Primitive("attention", "composite", _attention, _attention_axes, decompose=_decompose_attention))
define(Primitive("rotary", "composite", _rotary, _rotary_axes, decompose=_decompose_rotary))
