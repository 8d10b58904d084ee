"""Rotary embedding, from the halves that exporters swap and negate."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import moved_axes
from onnxc.compiler.passes.notes import note_refusal


def recognize_rotary(module: Module) -> Module:
    """Makes one op of each rotary embedding."""
    return rewrite(module, [turn_halves], note_refusal)


@rule("add")
def turn_halves(op: Op, build: Rewriter) -> Value | Refusal | None:
    """x * c + (-x₂, x₁) * s = rotary(x, c₁, s₁), for x = (x₁, x₂), c = (c₁, c₁), s = (s₁, s₁) along the last axis"""
    for first, second in (op.operands, reversed(op.operands)):
        straight, turned = made_by(first, "mul"), made_by(second, "mul")
        if straight is None or turned is None:
            return None
        for swapped, sine in (turned.operands, reversed(turned.operands)):
            for x, cosine in (straight.operands, reversed(straight.operands)):
                if _is_swapped(swapped, x):
                    return _turned(x, cosine, sine, max(build.uses(value) for value in (first, second, swapped)), build)
    return None


def _turned(x: Value, cosine: Value, sine: Value, uses: int, build: Rewriter) -> Value | Refusal:
    if uses > 1:
        return Refusal("the halves or their products are used elsewhere, too")
    cos, sin = (first_of_equal_halves(factor, x.rank - 1, build) for factor in (cosine, sine))
    if cos is None or sin is None:
        return Refusal("the two halves of the cosines or sines are not known to be equal")
    return build.rotary(x, cos, sin)


def _is_swapped(value: Value, x: Value) -> bool:
    """Whether `value` is (-x₂, x₁), for the halves of `x` along its last axis."""
    joined = made_by(value, "concatenate")
    if joined is None or joined.int("axis") != value.rank - 1 or len(joined.operands) != 2:
        return False
    negated = made_by(joined.operands[0], "neg")
    half = x.shape[-1] // 2
    if negated is None or 2 * half != x.shape[-1]:
        return False
    return _is_half(negated.operands[0], x, half, half) and _is_half(joined.operands[1], x, 0, half)


def _is_half(value: Value, x: Value, start: Dim, size: Dim) -> bool:
    """Whether `value` is `size` elements of the last axis of `x` from `start` on; both may be slices of one tensor."""
    if value.shape != (*x.shape[:-1], size):
        return False
    (source, starts, steps), (base, offsets, strides) = _sliced(value), _sliced(x)
    wanted = (*offsets[:-1], offsets[-1] + strides[-1] * start)
    return source == base and starts == wanted and steps == strides


def _sliced(value: Value) -> tuple[Value, tuple[Dim, ...], tuple[int, ...]]:
    """What `value` is a slice of, from where and in which steps; itself, from 0, in steps of one if it is none."""
    op = made_by(value, "slice")
    if op is None:
        return value, (0,) * value.rank, (1,) * value.rank
    return op.operands[0], op.dims("starts"), op.ints("steps")


def first_of_equal_halves(value: Value, axis: int, build: Builder) -> Value | None:
    """The first half of `value` along `axis`, where the second is certainly the same; else None."""
    op, size = value.op, value.shape[axis]
    half = size // 2
    if op is None or 2 * half != size:
        return None
    shape = (*value.shape[:axis], half, *value.shape[axis + 1 :])
    match op.name:
        case "constant":
            return _half_of_constant(op, axis, build)
        case "concatenate":
            same = op.int("axis") == axis and len(op.operands) == 2 and op.operands[0] == op.operands[1]
            return op.operands[0] if same else None
        case "broadcast":
            return _half_of_broadcast(op, axis, shape, build)
        case "reshape":
            return _half_of_reshape(op, axis, shape, build)
        case "gather":
            return _half_of_gather(op, axis, build)
    if PRIMITIVES[op.name].kind != "pointwise":
        return None
    halves = [first_of_equal_halves(operand, axis, build) for operand in op.operands]
    known = [half for half in halves if half is not None]
    return build.op(op.name, known, op.attributes)[0] if len(known) == len(halves) else None


def _half_of_constant(op: Op, axis: int, build: Builder) -> Value | None:
    first, second = np.split(op.array(), 2, axis)
    return build.constant(np.asarray(first, order="C")) if first.tobytes() == second.tobytes() else None


def _half_of_broadcast(op: Op, axis: int, shape: Sequence[Dim], build: Builder) -> Value | None:
    """Where the axis is repeated any part is like any other."""
    x, axes = op.operands[0], op.ints("axes")
    if axis not in axes:
        return build.broadcast(x, axes, shape)
    x_axis = axes.index(axis)
    inner = first_of_equal_halves(x, x_axis, build) if x.shape[x_axis] == op.result.shape[axis] else None
    return None if inner is None else build.broadcast(inner, axes, shape)


def _half_of_reshape(op: Op, axis: int, shape: Sequence[Dim], build: Builder) -> Value | None:
    """Of a reshape that only adds or drops units."""
    targets = moved_axes(op.operands[0].shape, op.result.shape) or {}
    before = next((old for old, new in targets.items() if new == axis), None)
    inner = None if before is None else first_of_equal_halves(op.operands[0], before, build)
    return None if inner is None else build.with_shape(inner, shape)


def _half_of_gather(op: Op, axis: int, build: Builder) -> Value | None:
    """Of rows of a table."""
    data, indices = op.operands
    picked = range(op.int("axis"), op.int("axis") + indices.rank)
    if axis in picked:
        return None
    x_axis = axis if axis < picked.start else axis - indices.rank + 1
    inner = first_of_equal_halves(data, x_axis, build)
    return None if inner is None else build.gather(inner, indices, op.int("axis"))
