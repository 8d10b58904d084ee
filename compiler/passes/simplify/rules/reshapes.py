"""Reshapes: merged with each other, with transposes and with broadcasts."""

from collections.abc import Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import rule
from onnxc.compiler.passes.analysis.matching import axis_groups


@rule("reshape")
def reshape_nothing(op: Op, build: Builder) -> Value | None:
    """reshape(x, shape of x) = x"""
    x = op.operands[0]
    return x if x.shape == op.result.shape else None


@rule("reshape")
def merge_reshapes(op: Op, build: Builder) -> Value | None:
    """reshape(reshape(x, s), t) = reshape(x, t)

    Where s hides that x cannot have the shape t, a guard before the first one says so at the call.
    """
    inner = made_by(op.operands[0], "reshape")
    if inner is None:
        return None
    old, new = (product(shape) for shape in (inner.operands[0].shape, op.result.shape))
    is_impossible = isinstance(old, int) and isinstance(new, int) and old != new
    return None if is_impossible else build.with_shape(inner.operands[0], op.result.shape)


@rule("reshape")
def reshape_unit_transpose(op: Op, build: Builder) -> Value | None:
    """reshape(transpose(x), s) = reshape(x, s) where the transpose only moves axes of size 1"""
    inner = made_by(op.operands[0], "transpose")
    if inner is None or not _moves_units_only(inner):
        return None
    return build.with_shape(inner.operands[0], op.result.shape)


def _moves_units_only(transpose: Op) -> bool:
    shape = transpose.operands[0].shape
    order = [axis for axis in transpose.ints("permutation") if shape[axis] != 1]
    return order == sorted(order)


@rule("transpose")
def transpose_units(op: Op, build: Builder) -> Value | None:
    """transpose(x) = reshape(x) where it only moves axes of size 1"""
    return build.with_shape(op.operands[0], op.result.shape) if _moves_units_only(op) else None


@rule("reshape")
def split_before_transposing(op: Op, build: Builder) -> Value | None:
    """reshape(transpose(reshape(x))) = transpose(reshape(x)) where the last reshape only splits axes

    So what the first one merged is never merged: exporters swap two axes of a batch of matrices that way.
    """
    moved = made_by(op.operands[0], "transpose")
    if moved is None or made_by(moved.operands[0], "reshape") is None:
        return None
    groups = axis_groups(moved.result.shape, op.result.shape)
    if groups is None or any(len(before) != 1 for before, _ in groups) or all(len(after) == 1 for _, after in groups):
        return None
    permutation = moved.ints("permutation")
    runs = {permutation[before[0]]: after for before, after in groups}
    order = [axis for old in sorted(runs) for axis in runs[old]]
    split = build.with_shape(moved.operands[0], [op.result.shape[axis] for axis in order])
    inverse = [order.index(axis) for axis in sorted(order)]
    return build.with_shape(build.transpose(split, inverse), op.result.shape)


@rule("reshape")
def reshape_broadcast(op: Op, build: Builder) -> Value | None:
    """reshape(broadcast(x)) = broadcast(reshape(x)) where no group of axes is in part repeated and in part x's"""
    inner = made_by(op.operands[0], "broadcast")
    if inner is None:
        return None
    x, axes, shape = inner.operands[0], inner.ints("axes"), inner.result.shape
    own = [(axis, size) for axis, size in zip(axes, x.shape, strict=True) if size != 1]
    groups = axis_groups(shape, op.result.shape)
    if not own:
        return build.broadcast(build.with_shape(x, ()), (), op.result.shape)
    if groups is None or own != sorted(own, key=lambda pair: pair[0]):
        return None
    if any(size != shape[axis] for axis, size in own):
        return None
    kept = _kept_axes(groups, [axis for axis, _ in own])
    if kept is None:
        return None
    sizes: Sequence[Dim] = [op.result.shape[axis] for axis in kept]
    return build.broadcast(build.with_shape(x, sizes), kept, op.result.shape)


def _kept_axes(groups: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], own: Sequence[int]) -> list[int] | None:
    """The new axes that the axes `own` become; None where a group holds others besides."""
    kept: list[int] = []
    for before, after in groups:
        inside = [axis for axis in before if axis in own]
        if inside and len(inside) != len(before):
            return None
        kept += after if inside else ()
    return kept
