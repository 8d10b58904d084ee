"""Slices of a product's columns become slices of its heads, so that the product is read in place.

Splitting an axis of a slice goes through the elements of the slice one after another, which wants them written. What
the slice is cut from is dense already: under a shape with one more axis, the slice is a view of it.
"""

from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import axis_groups
from onnxc.compiler.passes.simplify.rules.reshapes import merge_reshapes
from onnxc.compiler.passes.simplify.rules.slices import merge_slices


def split_slices(module: Module) -> Module:
    """Splits the axes of a tensor before it is sliced, where slices of slices and reshapes of reshapes are one."""
    return rewrite(module, [split_before_slicing, cut_once, merge_slices, merge_reshapes])


@rule("reshape")
def split_before_slicing(op: Op, build: Rewriter) -> Outcome:
    """reshape(slice(x)) = slice(reshape(x)) where the slice is of whole parts into which its last axis is split

    x is read by others too, so that it is in memory anyway.
    """
    cut = made_by(op.operands[0], "slice")
    if cut is None or not _cuts_last_axis(cut) or not _is_shared(cut.operands[0], build):
        return None
    whole, shape = cut.operands[0].shape, op.result.shape
    groups = axis_groups(cut.result.shape, shape)
    if not groups or groups[-1][0] != (len(whole) - 1,) or len(groups[-1][1]) == 1:
        return None
    first, *others = groups[-1][1]
    part, start, end = product(shape[axis] for axis in others), cut.dims("starts")[-1], whole[-1]
    if (
        not isinstance(part, int)
        or not isinstance(start, int)
        or not isinstance(end, int)
        or start % part
        or end % part
    ):
        return None
    split = build.with_shape(cut.operands[0], (*shape[:first], end // part, *shape[first + 1 :]))
    return build.slice(split, [start // part if axis == first else 0 for axis in range(len(shape))], shape)


@rule("slice")
def cut_once(op: Op, build: Rewriter) -> Outcome:
    """slice(reshape(slice(x))) = slice(reshape(x)) where both take a part of the last axis, which the reshape leaves"""
    reshape = made_by(op.operands[0], "reshape")
    cut = None if reshape is None else made_by(reshape.operands[0], "slice")
    if reshape is None or cut is None or not _cuts_last_axis(cut) or not _cuts_last_axis(op):
        return None
    whole, shape = cut.operands[0].shape, reshape.result.shape
    groups = axis_groups(cut.result.shape, shape)
    if not groups or groups[-1] != ((len(whole) - 1,), (len(shape) - 1,)):
        return None
    start = cut.dims("starts")[-1] + op.dims("starts")[-1]
    wide = build.with_shape(cut.operands[0], (*shape[:-1], whole[-1]))
    return build.slice_axis(wide, wide.rank - 1, start, op.result.shape[-1])


def _is_shared(value: Value, build: Rewriter) -> bool:
    """Whether others read the memory of a value, under its shape or another."""
    while build.uses(value) == 1 and (reshape := made_by(value, "reshape")) is not None:
        value = reshape.operands[0]
    return build.uses(value) > 1


def _cuts_last_axis(cut: Op) -> bool:
    """Whether a slice takes neighbours of its last axis and all of the others."""
    others = zip(cut.operands[0].shape[:-1], cut.result.shape[:-1], strict=True)
    return cut.result.rank > 0 and set(cut.ints("steps")) == {1} and all(whole == size for whole, size in others)
