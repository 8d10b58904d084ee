"""Products of what is flattened: constant rows take the order in which the other operand lies.

Classifiers flatten the last feature maps, [N, C, H, W] to [N, C * H * W]; where the channels lie last, that would move
every element of them at every call, and so it is the weights that are moved, once.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.makers import constant_of, made_by, unbroadcast
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.rewriter import Rewriter, rule
from onnxc.compiler.passes.analysis.matching import axis_groups
from onnxc.compiler.passes.layout.moved_layouts import layout_of
from onnxc.runtime.records import record


@record
class Flattened:
    """A value that is reshape(transpose(x)) and joins axes that lie side by side in x, but in another order.

    axis: the joined one. sizes: those of its parts, as the program sees them; order: which of them lie first, second...
    lying, shape: the axes of the value in the order in which they lie, and their sizes.
    """

    x: Value
    axis: int
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    lying: tuple[int, ...]
    shape: tuple[Dim, ...]


@rule("dot")
def contract_as_it_lies(op: Op, build: Rewriter) -> Value | None:
    """dot(flatten(transpose(x)), w) = dot(flatten(x), w with its rows in that order) for a constant w"""
    left, right, result = parse_equation(op.text("equation"))
    terms = (left, right)
    for side, operand in enumerate(op.operands):
        flat = _flattened(operand)
        if flat is None:
            continue
        letter, other = terms[side][flat.axis], terms[1 - side]
        if letter not in other or letter in result:
            continue
        rows = _reordered(op.operands[1 - side], other.index(letter), flat, build)
        if rows is None:
            continue
        x, letters = build.with_shape(flat.x, flat.shape), "".join(terms[side][axis] for axis in flat.lying)
        if side == 0:
            return build.dot(x, rows, f"{letters},{right}->{result}", op.dtype())
        return build.dot(rows, x, f"{left},{letters}->{result}", op.dtype())
    return None


def _flattened(value: Value) -> Flattened | None:
    reshape = made_by(value, "reshape")
    moved = None if reshape is None else made_by(reshape.operands[0], "transpose")
    if moved is None or layout_of(moved.result) is None:
        return None
    seen, permutation = moved.result.shape, moved.ints("permutation")
    groups = axis_groups(seen, value.shape) or ()
    joined = [(before, after[0]) for before, after in groups if len(before) > 1]
    if len(joined) != 1 or any(len(after) != 1 for _, after in groups):
        return None
    ((before, axis),) = joined
    dense = sorted(permutation[old] for old, size in enumerate(seen) if size != 1)
    positions = [dense.index(permutation[old]) for old in before]
    sizes = tuple(size for size in (seen[old] for old in before) if isinstance(size, int))
    if len(sizes) != len(before) or max(positions) - min(positions) >= len(positions):
        return None
    starts = {after[0]: min(permutation[old] for old in group) for group, after in groups}
    # An axis of size 1 is anywhere.
    lying = sorted(range(value.rank), key=lambda each: starts.get(each, -1))
    order = tuple(int(each) for each in np.argsort(positions))
    shape = tuple(value.shape[each] for each in lying)
    return Flattened(moved.operands[0], axis, sizes, order, tuple(lying), shape)


def _reordered(value: Value, axis: int, flat: Flattened, build: Builder) -> Value | None:
    """`value` with the elements along `axis` in the order of `flat`; None for what is no constant."""
    source, axes = unbroadcast(value)
    array = constant_of(source)
    if array is None:
        return None
    if axis not in axes or source.shape[axes.index(axis)] == 1:
        return value
    moved = build.constant(_with_rows(array, axes.index(axis), flat.sizes, flat.order))
    return build.broadcast(moved, axes, value.shape)


def _with_rows(array: np.ndarray, axis: int, sizes: Sequence[int], order: Sequence[int]) -> np.ndarray:
    before, after = array.shape[:axis], array.shape[axis + 1 :]
    split = array.reshape(prod(before), *sizes, prod(after))
    moved = split.transpose(0, *(1 + position for position in order), 1 + len(sizes))
    return np.ascontiguousarray(moved).reshape(array.shape)
