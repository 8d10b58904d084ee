"""Convolutions of single pixels whose filters only a call knows, as products of matrices.

Filters are packed for the kernel of convolutions when they are compiled; those of a call would have to be for each, and
images and results turned. A product reads the pixels of all channels where they lie.
"""

from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.primitives.contractions import channels_first
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def pixel_products(module: Module) -> Module:
    """Multiplies where a window is one pixel and filters are no constants."""
    return rewrite(module, [multiply_pixels])


@rule("convolution")
def multiply_pixels(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w)[n, o, p] = the sum of w[o, c] x[n, c, p] over c"""
    x, w = op.operands
    is_of_floats = all(dtype.is_float for dtype in (x.dtype, w.dtype, op.dtype()))
    if build.known_array(w) is not None or not is_of_floats or not _is_of_pixels(op):
        return None
    lines = build.reshape(x, (*x.shape[:2], product(x.shape[2:])))
    y = build.dot(build.reshape(w, w.shape[:2]), lines, "oc,ncp->nop", op.dtype())
    return build.reshape(y, op.result.shape)


def _is_of_pixels(op: Op) -> bool:
    """Whether channels come first, and a result is of the channels of one pixel: without padding, and without steps."""
    w = op.operands[1]
    steps = {*op.ints("strides"), *op.ints("input_dilations"), op.int("groups"), *w.shape[2:]}
    is_padded = any(size != 0 for size in (*op.dims("low"), *op.dims("high")))
    return op.text("dimensions") == channels_first(w.rank - 2) and steps <= {1} and not is_padded
