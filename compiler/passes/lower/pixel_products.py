"""Convolutions of single pixels whose filters only a call knows, as products of matrices.

Filters are packed for the kernel of convolutions when they are compiled; those of a call would have to be for each, and
images and results turned. A product reads the pixels of all channels where they lie. The same goes for transposed
convolutions whose taps are as many as their steps: each pixel of the image is multiplied for a block of the result.
Of these few filters are multiplied so, too, when they are constants: a product has pixels in its lanes.
"""

from collections.abc import Sequence
from math import prod

from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import channels_first
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule

ONE_GROUP, OF_GROUPS = "oc,ncp->nop", "goc,ngcp->ngop"
"""How products of single pixels are summed."""

MOST_CONSTANT_ROWS = 64
"""Taps of all constant filters up to which a product of blocks is faster than the kernel of convolutions.

With AVX-512 behind a convolution of 1 x 1 and ReLU, against phases as filters: 4 taps of 24 channels of 160 x 160
pixels took 0.79 of the time, 12 of 64 of 28 x 28 0.89, 32 of 16 of 64 x 64 0.80, 64 of 64 and of 32 channels
of 40 x 40 0.94 and 0.85; 128 of 64 of 28 x 28 1.04, 256 of 128 1.10."""


def pixel_products(module: Module) -> Module:
    """Multiplies where a window is one pixel and filters are no constants, or few that make blocks."""
    return rewrite(module, [multiply_pixels, multiply_spread_pixels])


@rule("convolution")
def multiply_pixels(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w)[n, o, p] = the sum of w[o, c] x[n, c, p] over c"""
    x, w = op.operands
    if build.known_array(w) is not None or not _is_of_floats(op) or not is_of_pixels(op):
        return None
    return multiplied_pixels(x, op, op.result.shape, build)


@rule("convolution")
def multiply_spread_pixels(op: Op, build: Rewriter) -> Outcome:
    """convolution(spread(x), w)[n, o, d p + r] = the sum of w[o, c, d - 1 - r] x[n, c, p] over c, of d taps

    The zeros between the pixels are not multiplied, as they are not by kernels of convolutions: an infinite filter
    makes no NaN of them.
    """
    x, w = op.operands
    taps = op.ints("input_dilations")
    if not _is_of_floats(op) or not _spreads_pixels(op, taps):
        return None
    if build.known_array(w) is not None and not _are_few(op, taps):
        return None
    filters, count = w, len(taps)
    for axis in range(2, w.rank):
        filters = build.reverse(filters, axis)
    rows = build.reshape(build.transpose(filters, (0, *range(2, w.rank), 1)), (w.shape[0] * prod(taps), w.shape[1]))
    y = build.reshape(_multiplied(rows, x, op, build), (x.shape[0], w.shape[0], *taps, *x.shape[2:]))
    pairs = (axis for each in range(2, 2 + count) for axis in (each + count, each))
    return build.reshape(build.transpose(y, (0, 1, *pairs)), op.result.shape)


def multiplied_pixels(x: Value, op: Op, shape: Sequence[Dim], build: Rewriter) -> Value:
    """The convolution of single pixels of `x`: T[N, C, *S] as a product, of this shape: [N, O, *P]

    Groups are matrices of their own; where windows have steps, what they read is taken first.
    """
    w, groups = op.operands[1], op.int("groups")
    read = (*x.shape[:2], *shape[2:])
    x = build.slice(x, (0,) * x.rank, read, (1, 1, *op.ints("strides")))
    if groups == 1:
        return build.reshape(_multiplied(build.reshape(w, w.shape[:2]), x, op, build), shape)
    lines = build.reshape(x, (x.shape[0], groups, w.shape[1], product(x.shape[2:])))
    rows = build.reshape(w, (groups, floordiv(w.shape[0], groups), w.shape[1]))
    return build.reshape(build.dot(rows, lines, OF_GROUPS, op.dtype()), shape)


def _multiplied(rows: Value, x: Value, op: Op, build: Rewriter) -> Value:
    """The sums of rows[o, c] x[n, c, ...] over c, all pixels along one axis."""
    lines = build.reshape(x, (*x.shape[:2], product(x.shape[2:])))
    return build.dot(rows, lines, ONE_GROUP, op.dtype())


def _is_of_floats(op: Op) -> bool:
    """Whether floats are convolved, channels first."""
    x, w = op.operands
    is_of_floats = all(dtype.is_float for dtype in (x.dtype, w.dtype, op.dtype()))
    return is_of_floats and op.text("dimensions") == channels_first(w.rank - 2)


def _are_few(op: Op, taps: Sequence[int]) -> bool:
    """Whether constant filters of so many taps along each axis are few enough to be rows of a product."""
    filters = op.operands[1].shape[0]
    return isinstance(filters, int) and filters * prod(taps) <= MOST_CONSTANT_ROWS


def is_of_pixels(op: Op) -> bool:
    """Whether windows are single pixels, without padding."""
    sizes = {*op.operands[1].shape[2:], *op.ints("input_dilations")}
    is_padded = any(size != 0 for size in (*op.dims("low"), *op.dims("high")))
    return sizes <= {1} and not is_padded


def is_pixel_product(op: Op) -> bool:
    """Whether an op is what a convolution of single pixels became."""
    return op.name == "dot" and op.text("equation") in (ONE_GROUP, OF_GROUPS)


def _spreads_pixels(op: Op, taps: Sequence[int]) -> bool:
    """Whether each pixel of the image becomes a block of the result, of as many as there are taps along each axis."""
    x, w = op.operands
    others = {*op.ints("strides"), *op.ints("dilations"), op.int("groups")}
    padding = [size - 1 for size in taps]
    is_whole = all(
        size * spread == result for size, spread, result in zip(x.shape[2:], taps, op.result.shape[2:], strict=True)
    )
    is_padded = list(op.dims("low")) == padding == list(op.dims("high"))
    return (
        others == {1}
        and any(size > 1 for size in taps)
        and tuple(w.shape[2:]) == tuple(taps)
        and is_padded
        and is_whole
    )
