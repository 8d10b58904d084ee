"""Filters of one channel whose windows lie beside each other, as products that are summed where the planes lie.

Each element of an image meets one tap of a filter. Lanes are then neighbouring elements of a line, whose taps repeat:
the lines under a window are summed first, and of these sums those under each window. Nothing is turned.
"""

from math import prod

import numpy as np

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.makers import constant_of, made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import Rewriter

__all__ = ["sums_of_windows", "windows_lie_apart"]

FEWEST_PRODUCTS, WHOLE_VECTORS = 16, 16
"""With fewer products of an element, for all filters of a channel, lines are a multiple of so many elements long: the
ends of others take too much. 3 x 3 taps of 32 channels of 144 x 144 pixels take 59 us, and 79 where the image is
turned; of 96 x 96 29 and 62, but of 114 x 114 59 and 49, and of 64 of 57 x 57 33 and 24."""

FEWEST_TAPS = 3
"""Along a line. On one core of Zen 5, 2 x 2 taps of 64 channels of 56 x 56 pixels took 41 us so and 28 where the image
is turned; 3 x 3 of 24 of 96 x 96 by 2 filters each 50 and 144, 4 x 4 of 32 of 128 x 128 37 and 106, 8 x 8 of 64 of 56 x
56 13 and 23, 16 x 16 of 8 images of 64 of 64 x 64 86 and 655."""

WHOLE_LINES = 16
"""Taps along a line that fill the lanes by themselves: 16 x 16 taps of 64 channels of 64 x 64 pixels take 12.0 us so,
and 14.2 where lines are summed first."""

MOST_FILTERS = 4
"""Of a channel, which is read for each of them."""

MOST_TAPS = 1 << 18
"""The most taps, repeated along lines, that a model carries."""


def windows_lie_apart(op: Op) -> bool:
    """Whether the windows of filters [o, 1, *taps] of a convolution, channels last, share no element of stored planes.

    The length of lines is known where their taps are repeated.
    """
    x, w = op.operands
    taps, filters, groups = w.shape[2:], w.shape[0], op.int("groups")
    if constant_of(w) is None or w.shape[1] != 1 or not isinstance(filters, int) or groups == 1:
        return False
    is_apart = taps == op.ints("strides") and {*op.ints("dilations"), *op.ints("input_dilations")} == {1}
    is_padded = any(size != 0 for size in (*op.dims("low"), *op.dims("high")))
    if not is_apart or is_padded or _planes(x) is None or filters > MOST_FILTERS * groups:
        return False
    return op.ints("strides")[-1] >= WHOLE_LINES or _repeats_taps(op, filters)


def _repeats_taps(op: Op, filters: int) -> bool:
    """Whether taps are worth being repeated along lines."""
    columns, taps = op.result.shape[-2], op.ints("strides")
    if not isinstance(columns, int) or columns == 0 or taps[-1] < FEWEST_TAPS:
        return False
    products, elements = filters // op.int("groups") * prod(taps), filters * prod(taps) * columns
    is_worth = products >= FEWEST_PRODUCTS or columns * taps[-1] % WHOLE_VECTORS == 0
    return is_worth and elements <= MOST_TAPS


def _planes(x: Value) -> Value | None:
    """The planes that `x`, whose channels are seen last, is a view of."""
    op = made_by(x, "transpose")
    return op.operands[0] if op is not None and op.ints("permutation") == (0, *range(2, x.rank), 1) else None


def sums_of_windows(op: Op, build: Rewriter) -> Value:
    """The result of such a convolution, as planes."""
    x, taps = _planes(op.operands[0]), constant_of(op.operands[1])
    assert x is not None, op
    assert taps is not None, op
    groups, steps, results = op.int("groups"), op.ints("strides"), op.result.shape[1:-1]
    sizes: list[Dim] = [count * step for count, step in zip(results, steps, strict=True)]
    image = build.slice(x, [0] * x.rank, (*x.shape[:2], *sizes))
    filters = taps.reshape(groups, -1, *(size for step in steps for size in (1, step)))
    windows: list[Dim] = [size for pair in zip(results, steps, strict=True) for size in pair]
    repeats = steps[-1] < WHOLE_LINES
    if repeats:
        # A line is one axis, until the lines of a window are summed.
        windows[-2:] = sizes[-1:]
        columns = results[-1]
        assert isinstance(columns, int), op
        filters = np.concatenate([filters] * columns, axis=-1).reshape(*filters.shape[:-2], -1)
    parts = build.reshape(image, (x.shape[0], groups, *windows))
    shape = (x.shape[0], groups, filters.shape[1], *windows)
    seen = build.broadcast(parts, [axis for axis in range(len(shape)) if axis != 2], shape)
    products = build.mul(seen, build.broadcast_to(build.constant(filters), shape))
    lines = [axis for axis in range(4, len(shape), 2) if not repeats or axis < len(shape) - 1]
    sums = build.reduce(products, "sum", lines)
    if repeats:
        sums = build.reduce(build.reshape(sums, (*sums.shape[:-1], results[-1], steps[-1])), "sum", [sums.rank])
    return build.reshape(sums, (x.shape[0], groups * filters.shape[1], *results))
