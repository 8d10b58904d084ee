"""Filters of bytes that only the call knows lie with the channels of each tap side by side, as a row of a window does.

The CPU multiplies four neighbouring channels of a tap at once. Constant filters are packed when a model is compiled;
others are packed in the call, a filter at a time, where what it is made of lies in one piece.
"""

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I8, I32, U8
from onnxc.compiler.ir.module import Attribute, Module, Op
from onnxc.compiler.ir.primitives.contractions import all_channels_innermost, channels_innermost
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def turn_byte_filters(module: Module) -> Module:
    """Turns filters of bytes that are no constants."""
    return rewrite(module, [turn])


@rule("convolution")
def turn(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w: [o, i, *taps]) = convolution(x, transpose(w): [o, *taps, i])"""
    x, w = op.operands
    rank = x.rank - 2
    if rank < 1 or op.text("dimensions") != channels_innermost(rank) or build.known_array(w) is not None:
        return None
    is_of_bytes = op.dtype() == I32 and {x.dtype, w.dtype} <= {I8, U8}
    if not is_of_bytes or not all(map(_is_some, w.shape[1:])) or max(op.ints("input_dilations")) > 1:
        return None
    # The filters of several groups are counted, and those that read one channel each have a kernel of their own.
    if op.int("groups") > 1 and (w.shape[1] == 1 or not _is_some(w.shape[0])):
        return None
    attributes: dict[str, Attribute] = {**op.attributes, "dimensions": all_channels_innermost(rank)}
    turned = build.transpose(w, (0, *range(2, w.rank), 1))
    return build.op("convolution", [x, turned], attributes)[0]


def _is_some(size: Dim) -> bool:
    return isinstance(size, int) and size > 0
