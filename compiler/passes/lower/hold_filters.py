"""Filters as constants, which kernels pack and may write planes by, where all of their elements are one number.

Box filters and counts of neighbors have such: a 5 x 5 box over 333 x 255 pixels took 1.1 ms, its filters packed in
every call.
"""

from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.lower.hold_block_weights import held

MOST_ELEMENTS = 1 << 20
"""Filters of more stay a number: a model of a few bytes may ask for any size."""


def hold_filters(module: Module) -> Module:
    """Makes constants of the broadcasts that canonicalisation makes of uniform filters."""
    return rewrite(module, [hold])


@rule("convolution")
def hold(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, broadcast(constant)) = convolution(x, constant)"""
    x, w = op.operands
    elements = product(w.shape)
    if made_by(w, "broadcast") is None or not isinstance(elements, int) or elements > MOST_ELEMENTS:
        return None
    whole = held(w, build)
    return None if whole == w else build.op(op.name, [x, whole], op.attributes)[0]
