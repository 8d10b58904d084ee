"""Products that mix pixels, each channel by itself: where channels lie last, those of the result do too.

Graph convolutions multiply maps [N, C, T, V] by a matrix [V, W] of the graph, so that neighbours along V are summed. As
the channels lie side by side, they are the columns of the product, and the matrix has its rows.
"""

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rule
from onnxc.compiler.passes.layout.moved_layouts import Layout, layout_of

FEW_CHANNELS = 16
"""Fewer columns do not fill a vector."""


@rule("dot")
def mix_pixels_as_they_lie(op: Op, build: Rewriter) -> Value | Refusal | None:
    """dot(transpose(x), y) = transpose(dot(x, y)) where x has its channels last, and the result as its second axis"""
    *terms, result = parse_equation(op.text("equation"))
    layouts = [layout_of(operand) for operand in op.operands]
    for layout, letters, other_layout, other in zip(layouts, terms, reversed(layouts), reversed(terms), strict=True):
        if layout is None or other_layout is not None:
            continue
        mixed = _mixed_layout(layout, letters, other, result)
        if mixed is not None:
            a, b = op.operands
            columns = op.result.shape[mixed.order[-1]]
            if isinstance(columns, int) and columns < FEW_CHANNELS:
                return Refusal("channels would be the columns of a product, and are few")
            lying = "".join(result[axis] for axis in mixed.order)
            return mixed.seen(build.dot(a, b, f"{terms[0]},{terms[1]}->{lying}", op.dtype()), build)
    return None


def _mixed_layout(layout: Layout, letters: str, other: str, result: str) -> Layout | None:
    """How the result lies whose columns lie side by side in the operand of `letters`; None where they cannot."""
    columns = letters[layout.channels]
    if columns in other or columns not in result or result[0] != letters[0]:
        return None
    mixed = Layout(len(result), result.index(columns))
    # Of three axes either of the last two may be the channels: a product of such a view may be one of tokens.
    return mixed if mixed.turns else None
