"""Reductions: of axes of one element, of reductions, of what is repeated or only regrouped."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import at_least, product
from onnxc.compiler.ir.dtypes import I64, DType
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import Rewriter, rule
from onnxc.compiler.passes.analysis.matching import axis_groups

IDEMPOTENT = ("min", "max", "and", "or")


@rule("reduce")
def reduce_units(op: Op, build: Builder) -> Value | None:
    """reduce(x) over an axis of size 1 drops that axis"""
    x, axes = op.operands[0], op.ints("axes")
    units = [axis for axis in axes if x.shape[axis] == 1]
    if not units and axes:
        return None
    kept = [axis for axis in range(x.rank) if axis not in units]
    dense = build.with_shape(x, [x.shape[axis] for axis in kept])
    return build.reduce(dense, op.text("kind"), [kept.index(axis) for axis in axes if axis not in units])


@rule("arg_reduce")
def search_units(op: Op, build: Builder) -> Value | None:
    """arg_reduce(x) along an axis of size 1 = 0"""
    if op.operands[0].shape[op.int("axis")] != 1:
        return None
    return build.full(op.result.shape, 0, I64)


@rule("softmax", "log_softmax")
def normalize_units(op: Op, build: Builder) -> Value | None:
    """softmax(x) = exp(x - x) and log_softmax(x) = x - x along an axis of size 1: 1 and 0, but of NaN and inf"""
    (x,) = op.operands
    if x.shape[op.int("axis")] != 1:
        return None
    logarithm = build.sub(x, x)
    return logarithm if op.name == "log_softmax" else build.exp(logarithm)


@rule("reduce")
def merge_reductions(op: Op, build: Builder) -> Value | None:
    """reduce(reduce(x)) = reduce(x) over the axes of both, for one kind; sums may be rounded in another order"""
    inner = made_by(op.operands[0], "reduce")
    if inner is None or inner.text("kind") != op.text("kind"):
        return None
    kept = [axis for axis in range(inner.operands[0].rank) if axis not in inner.ints("axes")]
    axes = [*inner.ints("axes"), *(kept[axis] for axis in op.ints("axes"))]
    return build.reduce(inner.operands[0], op.text("kind"), axes)


@rule("reduce")
def reduce_broadcast(op: Op, build: Rewriter) -> Value | None:
    """reduce(broadcast(x)) = broadcast(reduce(x)): over axes that were there always, over repeated ones that cannot be
    empty for min, max, and, or

    The sum of what is repeated a known number of times is so many times as much; it may be rounded in another order.
    """
    inner = made_by(op.operands[0], "broadcast")
    if inner is None:
        return None
    x, axes, shape = inner.operands[0], inner.ints("axes"), inner.result.shape
    own = {axis: x_axis for x_axis, axis in enumerate(axes) if x.shape[x_axis] == shape[axis]}
    repeated = [axis for axis in op.ints("axes") if axis not in own]
    if repeated and op.text("kind") not in (*IDEMPOTENT, "sum"):
        return None
    if len(own) == len(shape) or not all(at_least(shape[axis], 1, build.symbols.ranges) for axis in repeated):
        return None
    if any(x.shape[x_axis] != 1 for x_axis, axis in enumerate(axes) if axis in repeated):
        return None
    times = product(shape[axis] for axis in repeated) if op.text("kind") == "sum" else 1
    if not isinstance(times, int) or (times > 1 and not _multiplies(times, x.dtype)):
        return None
    reduced = {own[axis] for axis in op.ints("axes") if axis in own}
    units = {x_axis for x_axis, axis in enumerate(axes) if axis in repeated}
    left = [axis for axis in range(len(shape)) if axis not in op.ints("axes")]
    rest = [x_axis for x_axis in range(x.rank) if x_axis not in reduced | units]
    value = build.reduce(x, op.text("kind"), sorted(reduced))
    if times > 1:
        value = build.mul(value, build.full(value.shape, times, value.dtype))
    dense = build.with_shape(value, [x.shape[x_axis] for x_axis in rest])
    return build.broadcast(dense, [left.index(axes[x_axis]) for x_axis in rest], op.result.shape)


def _multiplies(count: int, dtype: DType) -> bool:
    """Whether a product is the sum of so many: a number of the type, and not complex, where infinity makes NaN."""
    return not dtype.is_complex and bool(np.array(count).astype(dtype.numpy).item() == count)


@rule("reduce")
def reduce_regrouped(op: Op, build: Rewriter) -> Value | None:
    """reduce(reshape(x)) = reshape(reduce(x)) where whole groups of regrouped axes are reduced, and only there"""
    inner = made_by(op.operands[0], "reshape")
    if inner is None or build.uses(inner.result) > 1:
        return None
    x, axes = inner.operands[0], op.ints("axes")
    groups = axis_groups(x.shape, inner.result.shape)
    if groups is None:
        return None
    reduced: list[int] = []
    for before, after in groups:
        inside = [axis for axis in after if axis in axes]
        if inside and len(inside) != len(after):
            return None
        reduced += before if inside else ()
    return build.with_shape(build.reduce(x, op.text("kind"), reduced), op.result.shape)


WINDOW_STEPS = ("window", "strides", "dilations")
"""The attributes of a window that are one number for each axis, and 1 where nothing is folded."""

SHARED_TAPS = 5
"""Kernels share what windows of so many rows have in common; larger ones they fold each from the beginning."""


@rule("reduce_window")
def split_window(op: Op, build: Builder) -> Value | None:
    """reduce_window over two axes = reduce_window over the outer one, of reduce_window over the inner one

    Of extrema, where the windows are large and overlap, so that there is less to fold.
    """
    window, strides = op.ints("window"), op.ints("strides")
    wide = [axis for axis, taps in enumerate(window) if taps > 1]
    if len(wide) < 2 or op.text("kind") == "sum":
        return None
    *outer, inner = wide
    once, again = window[inner] * prod(strides[axis] for axis in outer), prod(window[axis] for axis in outer)
    if max(window[axis] for axis in outer) <= SHARED_TAPS or prod(window) < 2 * (once + again):
        return None

    def fold(x: Value, axes: Sequence[int]) -> Value:
        steps = ([size if axis in axes else 1 for axis, size in enumerate(op.ints(name))] for name in WINDOW_STEPS)
        window, strides, dilations = steps
        low, high = (
            [size if axis in axes else 0 for axis, size in enumerate(op.dims(name))] for name in ("low", "high")
        )
        return build.reduce_window(x, op.text("kind"), window, strides, low, high, dilations)

    return fold(fold(op.operands[0], [inner]), [axis for axis in range(len(window)) if axis != inner])


LONG_WINDOW = 32
"""Windows of so many taps in a line are extrema of extrema. Maxima of f32[1, 8, 3999], on one core with AVX-512, of 101
neighbours took 161 us and take 57, of 51 100 and 52, of 40 that begin 2 apart 25 and 10; of 25 along the lines of
f32[1, 8, 200, 200] they would take 290 for 218."""


@rule("reduce_window")
def split_long_window(op: Op, build: Builder) -> Value | None:
    """reduce_window of w in a line = reduce_window of n that lie d apart, of reduce_window of d or more, w in all

    Of extrema, of which the same element may be folded twice.
    """
    window, strides, dilations = (op.ints(name) for name in WINDOW_STEPS)
    wide = [axis for axis, taps in enumerate(window) if taps > 1]
    if len(wide) != 1 or op.text("kind") == "sum" or window[wide[0]] < LONG_WINDOW:
        return None
    (axis,) = wide
    few, count, apart = _parts_of_window(window[axis], strides[axis])
    if 2 * (few * strides[axis] + count) > window[axis]:
        return None

    def along(size: int) -> list[int]:
        return [size if each == axis else 1 for each in range(len(window))]

    nothing, rest = [0] * len(window), [1 if each == axis else size for each, size in enumerate(strides)]
    kind, ends = op.text("kind"), (op.dims("low"), op.dims("high"))
    folded = build.reduce_window(op.operands[0], kind, along(few), rest, *ends, dilations)
    wider = along(apart * dilations[axis])
    return build.reduce_window(folded, kind, along(count), along(strides[axis]), nothing, nothing, wider)


def _parts_of_window(window: int, stride: int) -> tuple[int, int, int]:
    """How many taps a part of a window has, how many parts it is, and how far apart these are: least work in all."""

    def parts(few: int) -> Iterator[tuple[int, int, int]]:
        rest = window - few
        return ((few, steps + 1, rest // steps) for steps in range(-(-rest // few), rest + 1) if rest % steps == 0)

    options = (option for few in range(2, window // 2 + 1) for option in parts(few))
    return min(options, key=lambda option: (option[0] * stride + option[1], option))
