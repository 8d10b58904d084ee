"""Convolutions whose filters have sizes that only a call knows, as products of matrices.

Kernels of convolutions are made for the channels and the taps of filters. Where a call decides on these, what each
window reads is copied side by side, and all windows are multiplied at once.
"""

from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import channels_first
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def window_products(module: Module) -> Module:
    """Multiplies windows that are copied by filters whose sizes only a call knows."""
    return rewrite(module, [multiply_windows])


@rule("convolution")
def multiply_windows(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w)[n, o, p] = the sum of w[o, c, t] x[n, c, p s + t d - low] over c and t"""
    x, w = op.operands
    if op.text("dimensions") != channels_first(x.rank - 2) or not _has_open_sizes(op):
        return None
    groups, each = op.int("groups"), floordiv(w.shape[0], op.int("groups"))
    windows = _windows(op, build)
    depth, pixels = product(w.shape[1:]), product(op.result.shape[2:])
    columns = build.reshape(windows, (x.shape[0], groups, depth, pixels))
    rows = build.reshape(w, (groups, each, depth))
    return build.reshape(build.dot(rows, columns, "gok,ngkp->ngop", op.dtype()), op.result.shape)


def _has_open_sizes(op: Op) -> bool:
    """Whether only a call knows the channels or taps of filters, or how many of them a group has."""
    filters, *inner = op.operands[1].shape
    return not all(isinstance(size, int) for size in (inner if op.int("groups") == 1 else (filters, *inner)))


def _windows(op: Op, build: Rewriter) -> Value:
    """[n, c, *taps, *p]: what the windows read of the image with the zeros between and beside its elements."""
    spatial = op.operands[0].rank - 2
    windows = _padded(op, build)
    for axis in reversed(range(spatial)):
        windows = build.gather(windows, _positions(op, axis, build), 2 + axis)
    taps, results = (range(2 + behind, 2 + 2 * spatial, 2) for behind in (0, 1))
    return build.transpose(windows, (0, 1, *taps, *results))


def _padded(op: Op, build: Rewriter) -> Value:
    """The image with zeros in it: at its end there may be some more than windows meet."""
    x, spread = op.operands[0], op.ints("input_dilations")
    if set(spread) != {1}:
        apart = build.reshape(x, (*x.shape[:2], *(size for each in x.shape[2:] for size in (each, 1))))
        high = (0, 0, *(size for step in spread for size in (0, step - 1)))
        filled = build.pad(apart, (0,) * apart.rank, high)
        x = build.reshape(
            filled, (*x.shape[:2], *(size * step for size, step in zip(x.shape[2:], spread, strict=True)))
        )
    return build.pad(x, (0, 0, *op.dims("low")), (0, 0, *op.dims("high")))


def _positions(op: Op, axis: int, build: Rewriter) -> Value:
    """i64[taps, p]: where each tap of each window reads along a spatial axis of the padded image."""
    shape = (op.operands[1].shape[2 + axis], op.result.shape[2 + axis])
    taps, results = (build.iota(shape, each, I64) for each in (0, 1))
    steps = build.mul(results, op.ints("strides")[axis])
    return build.add(build.mul(taps, op.ints("dilations")[axis]), steps)
