"""Slices of a product's columns become slices of its heads, so that the product is read in place.

Splitting an axis of a slice goes through the elements of the slice one after another, which wants them written. What
the slice is cut from is dense already: under a shape with one more axis, the slice is a view of it.
"""

from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import axis_groups, made_by


def split_slices(module: Module) -> Module:
    """Splits the axes of a tensor before it is sliced."""
    return rewrite(module, [split_before_slicing])


@rule("reshape")
def split_before_slicing(op: Op, build: Rewriter) -> Outcome:
    """reshape(slice(x)) = slice(reshape(x)) where the slice is of whole parts into which its last axis is split

    x is read by others too, so that it is in memory anyway.
    """
    cut = made_by(op.operands[0], "slice")
    if cut is None or not _cuts_last_axis(cut) or build.uses(cut.operands[0]) == 1:
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


def _cuts_last_axis(cut: Op) -> bool:
    """Whether a slice takes neighbours of its last axis and all of the others."""
    others = zip(cut.operands[0].shape[:-1], cut.result.shape[:-1], strict=True)
    return cut.result.rank > 0 and set(cut.ints("steps")) == {1} and all(whole == size for whole, size in others)
