"""What is known of constant indices, written down for kernels, which see the indices as data."""

import numpy as np

from onnxc.compiler.ir.makers import constant_of
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.primitives.indexed import INSIDE, NEIGHBORS
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def known_indices(module: Module) -> Module:
    """Says of gathers at constants inside of the axis that they are, and that each is the one before or the next."""
    return rewrite(module, [know])


@rule("gather")
def know(op: Op, build: Rewriter) -> Outcome:
    """gather(x, constant) = gather(x, constant) with what is known of the constant"""
    data, indices = op.operands
    array, size = constant_of(indices), data.shape[op.int("axis")]
    if "known" in op.attributes or array is None or not array.size or not isinstance(size, int):
        return None
    if not 0 <= array.min() <= array.max() < size:
        return None
    is_row = array.ndim > 0 and np.isin(np.diff(array.reshape(-1)), (0, 1)).all()
    known = NEIGHBORS if is_row else INSIDE
    return build.op(op.name, [data, indices], {**op.attributes, "known": known})
