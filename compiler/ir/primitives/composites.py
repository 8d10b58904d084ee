"""Composites: kept whole while a kernel of their own pays; `ir/composites/` says of which others each is made."""

from collections.abc import Sequence

from onnxc.compiler.ir.module import Attributes, Block, Op, Value
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Inline, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.primitives.movement import axis_of
from onnxc.compiler.ir.primitives.pointwise import pointwise_axes
from onnxc.compiler.ir.primitives.reductions import other_axes
from onnxc.compiler.ir.types import TensorType, Type

APPROXIMATIONS = ("none", "tanh")


def _floats(operands: Sequence[Type], count: int) -> tuple[TensorType, ...]:
    values = tensors(operands, count)
    if any(not value.dtype.is_float for value in values):
        raise TypeRuleError(f"takes floats, got {', '.join(map(str, values))}")
    return values


def _softmax(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = _floats(operands, 1)
    axis_of(attributes, value.rank)
    return (value,)


def _layer_norm(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[d...], scale: T[d from axis...], bias: T[d from axis...] -> T[d...]"""
    x, scale, bias = _floats(operands, 3)
    axis = axis_of(attributes, x.rank)
    if scale.shape != x.known_shape[axis:] or bias.shape != scale.shape:
        raise TypeRuleError(f"scale {scale} and bias {bias} do not have the normalised axes of {x}")
    return (x,)


def _rms_norm(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[d...], scale: T[d from axis...] -> T[d...]"""
    x, scale = _floats(operands, 2)
    if scale.shape != x.known_shape[axis_of(attributes, x.rank) :]:
        raise TypeRuleError(f"scale {scale} does not have the normalised axes of {x}")
    return (x,)


def _leading_axes(op: Op) -> tuple[AxisLink, ...]:
    """Axes before the normalised ones run through x and the result; scale and bias do not have them."""
    others = (None,) * (len(op.operands) - 1)
    return tuple(AxisLink("map", (axis, *others), (axis,)) for axis in range(op.int("axis")))


def _gelu(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = _floats(operands, 1)
    if attributes.get("approximate") not in APPROXIMATIONS:
        raise TypeRuleError(f"approximate is {attributes.get('approximate')}, not one of {', '.join(APPROXIMATIONS)}")
    return (value,)


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


define(Primitive("softmax", "composite", _softmax, other_axes, kernel=Anchor("reduction")))
define(Primitive("masked_softmax", "composite", _softmax, other_axes, kernel=Anchor("reduction")))
define(Primitive("log_softmax", "composite", _softmax, other_axes, kernel=Anchor("reduction")))
define(Primitive("layer_norm", "composite", _layer_norm, _leading_axes, kernel=Anchor("reduction")))
define(Primitive("rms_norm", "composite", _rms_norm, _leading_axes, kernel=Anchor("reduction")))
define(Primitive("gelu", "composite", _gelu, pointwise_axes, kernel=Inline(cost=30, elementwise=True)))
define(Primitive("attention", "composite", _attention, _attention_axes, kernel=Anchor("attention")))
define(Primitive("rotary", "composite", _rotary, _rotary_axes, kernel=None))
