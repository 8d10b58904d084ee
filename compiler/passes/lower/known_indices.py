"""What is known of indices, written down for kernels, which see them as data."""

import numpy as np

from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.makers import constant_of, made_by, splat_of, unbroadcast
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.indexed import HELD, INSIDE, NEIGHBORS
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def known_indices(module: Module) -> Module:
    """Says of gathers at indices inside of the axis that they are, and of constants whether they are neighbors."""
    return rewrite(module, [know])


@rule("gather")
def know(op: Op, build: Rewriter) -> Outcome:
    """gather(x, indices) = gather(x, indices) with what is known of the indices"""
    data, indices = op.operands
    known = None if "known" in op.attributes else _known(indices, data.shape[op.int("axis")])
    return None if known is None else build.op(op.name, [data, indices], {**op.attributes, "known": known})


def _known(indices: Value, size: Dim) -> str | None:
    array = constant_of(indices)
    if array is None:
        return HELD if _is_held(indices, size) else None
    if not array.size or not isinstance(size, int) or not 0 <= array.min() <= array.max() < size:
        return None
    is_row = array.ndim > 0 and np.isin(np.diff(array.reshape(-1)), (0, 1)).all()
    return NEIGHBORS if is_row else INSIDE


def _is_held(indices: Value, size: Dim) -> bool:
    """Whether indices are min(max(.., low), high) with ends inside of an axis of `size`, if that has elements."""
    outer = made_by(indices, "min")
    inner = None if outer is None else made_by(outer.operands[0], "max")
    if outer is None or inner is None:
        return False
    low, high = splat_of(inner.operands[1]), _number(outer.operands[1])
    if low is None or low < 0 or high is None:
        return False
    return high == size - 1 or (at_least(high, 0) and at_least(size - 1, high))


def _number(value: Value) -> Dim | None:
    """The number that all elements are, known or a size."""
    splat = splat_of(value)
    sizes = made_by(unbroadcast(value)[0], "sizes")
    if splat is not None or sizes is None:
        return None if splat is None else int(splat)
    values = sizes.dims("values")
    return values[0] if len(values) == 1 else None
