"""Windows before few channels: a kernel goes along the last axis, and short rows leave most of its lanes empty.

Where images lie channels last, as convolutions want them, they are turned back for windows of several columns; for
those of one, columns and channels are one axis.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.simplify.rules.reshapes import merge_reshapes, reshape_nothing

FEW_CHANNELS = 24
"""Between two convolutions of 1 x 1 over 64 x 64 pixels, on Zen 5, as images lie and turned: maxima of 3 x 3 of 1, 8,
16 and 24 channels 138, 55, 34, 54 and 6, 14, 25, 37 us; sums of 2 x 2 2 apart 17, 20, 20, 27 and 4, 9, 14, 20. Where
lines are shorter than channels are many, these fill lanes better: 16 of 4 x 4 pixels 3.8 and 4.9."""


def windows_of_few_channels(module: Module) -> Module:
    """Folds windows along columns where channels are few."""
    return rewrite(module, [fold_along_columns, fold_merged_columns, merge_reshapes, reshape_nothing])


@rule("reduce_window")
def fold_along_columns(op: Op, build: Rewriter) -> Outcome:
    """reduce_window(x[n, s, w, c]) = transpose(reduce_window(transpose(x)[n, c, s, w])), c few, w folded"""
    x, shape = op.operands[0], op.result.shape
    if not _has_few_channels(op) or op.ints("window")[-2] == 1 or _is_short(x):
        return None
    last = x.rank - 1
    order, back = (0, last, *range(1, last)), (0, *range(2, last + 1), 1)
    if shape[-1] == 1:
        return build.reshape(_folded(op, build.reshape(x, [x.shape[axis] for axis in order]), order, build), shape)
    return build.transpose(_folded(op, build.transpose(x, order), order, build), back)


@rule("reduce_window")
def fold_merged_columns(op: Op, build: Rewriter) -> Outcome:
    """reduce_window(x[n, s, w, c]) = reduce_window(x[n, s, w * c])[n, s, w, c], c few, neither w nor c folded"""
    if not _has_few_channels(op) or not _is_left(op, -2):
        return None
    x = op.operands[0]
    merged = build.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    return build.reshape(_folded(op, merged, range(x.rank - 1), build), op.result.shape)


def _has_few_channels(op: Op) -> bool:
    """Whether the last axis is a short one that no window folds, behind others."""
    size = op.result.shape[-1]
    return op.result.rank > 2 and isinstance(size, int) and 0 < size <= FEW_CHANNELS and _is_left(op, -1)


def _is_short(x: Value) -> bool:
    """Whether there are known to be no more columns than channels, of which there are several."""
    columns, channels = x.shape[-2:]
    return channels != 1 and isinstance(columns, int) and isinstance(channels, int) and columns <= channels


def _is_left(op: Op, axis: int) -> bool:
    """Whether windows are one element along an axis, and each has one."""
    return (
        op.ints("window")[axis] == op.ints("strides")[axis] == 1 and op.dims("low")[axis] == op.dims("high")[axis] == 0
    )


def _folded(op: Op, x: Value, axes: Sequence[int], build: Rewriter) -> Value:
    """The windows of an op over `x`, whose axes were those."""
    window, strides, dilations = ([op.ints(name)[axis] for axis in axes] for name in ("window", "strides", "dilations"))
    low, high = ([op.dims(name)[axis] for axis in axes] for name in ("low", "high"))
    return build.reduce_window(x, op.text("kind"), window, strides, low, high, dilations)
