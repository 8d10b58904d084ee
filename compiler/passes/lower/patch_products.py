"""Convolutions of patches of few channels, as vision transformers begin, as products of matrices.

No two results are of the same pixel, so that a copy puts the patches side by side once; tensor cores are given whole
blocks of a matrix then, where a convolution gathers each window.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule

FEW_CHANNELS = 16
"""Patches of fewer are copied side by side: gathered, 16 x 16 of 3 channels took ten times as long on an H200."""

_SPATIAL = "xyzuvw"


def patch_products(module: Module) -> Module:
    """Multiplies matrices where patches lie side by side."""
    return rewrite(module, [multiply_patches])


@rule("convolution")
def multiply_patches(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w)[n, p, o] = the sum of w[o, c, t] x[n, c, p * taps + t] over c and t, of patches"""
    (x, w), labels = op.operands, parse_dimensions(op.text("dimensions"))
    images = build.transpose(_wide(x, build), labels.x.order)
    taps, sizes = ([size for size in shape if isinstance(size, int)] for shape in (_taps(op), images.shape[2:]))
    channels = images.shape[1]
    is_few = isinstance(channels, int) and channels < FEW_CHANNELS
    if not is_few or len(taps) != x.rank - 2 or len(sizes) != len(taps) or len(taps) > len(_SPATIAL):
        return None
    if set(taps) == {1} or not _lie_side_by_side(op, taps) or labels.result.channel != op.result.rank - 1:
        return None
    if any(taps == 0 or size % taps for size, taps in zip(sizes, taps, strict=True)):
        return None
    filters = build.transpose(w, labels.w.order)
    columns = build.reshape(filters, (filters.shape[0], product(filters.shape[1:])))
    spatial = _SPATIAL[: len(taps)]
    patches = build.cast(_patches(images, sizes, taps, build), x.dtype)
    return build.dot(patches, columns, f"n{spatial}c,oc->n{spatial}o", op.dtype())


def _wide(x: Value, build: Rewriter) -> Value:
    """`x` before it was cast, so that the copy of the patches casts."""
    if (turned := made_by(x, "transpose")) is not None:
        return build.transpose(_wide(turned.operands[0], build), turned.ints("permutation"))
    cast = made_by(x, "cast")
    return x if cast is None else cast.operands[0]


def _taps(op: Op) -> Sequence[object]:
    w = op.operands[1]
    return [w.shape[axis] for axis in parse_dimensions(op.text("dimensions")).w.spatial]


def _lie_side_by_side(op: Op, taps: Sequence[int]) -> bool:
    """Whether windows of so many taps follow one another, without padding."""
    is_padded = any(size != 0 for size in (*op.dims("low"), *op.dims("high")))
    steps = {op.int("groups"), *op.ints("input_dilations"), *op.ints("dilations")}
    return not is_padded and steps <= {1} and tuple(taps) == tuple(op.ints("strides"))


def _patches(images: Value, sizes: Sequence[int], taps: Sequence[int], build: Rewriter) -> Value:
    """[N, C, *P * T] -> [N, *P, C * T]"""
    rank, (batch, channels, *_) = len(taps), images.shape
    counts = [size // each for size, each in zip(sizes, taps, strict=True)]
    pairs = (each for pair in zip(counts, taps, strict=True) for each in pair)
    split = build.reshape(images, (batch, channels, *pairs))
    turned = build.transpose(split, (0, *range(2, 2 + 2 * rank, 2), 1, *range(3, 3 + 2 * rank, 2)))
    return build.reshape(turned, (batch, *counts, product((channels, *taps))))
