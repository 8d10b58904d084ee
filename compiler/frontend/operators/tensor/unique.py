"""Unique: the distinct elements of a tensor, or its distinct slices."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record


@operator("Unique", since=(11, 28))
def unique(node: Node, ir: Builder) -> tuple[Value, ...]:
    """X: T[d...]  ->  Y: T[u] or along `axis` T[... u ...], indices: i64[u], inverse_indices: i64[n], counts: i64[u]

    Y is in ascending order, slices in that of their elements; with `sorted` 0 in the order of first occurrence. NaN
    equals NaN and comes last, in slices too.
    Source: https://onnx.ai/onnx/operators/onnx__Unique.html
    """
    x = node.input("X")
    if node.has("axis"):
        axis = node.axis("axis", rank=x.rank)
        keys = _slice_keys(x, axis, ir)
    else:
        axis, x = 0, ir.reshape(x, (product(x.shape),))
        keys = x
    groups = _groups(keys, ir)
    if not node.flag("sorted"):
        groups = _by_occurrence(groups, ir)
    return ir.gather(x, groups.first, axis), groups.first, groups.inverse, groups.counts


@record
class _Groups:
    """Equal keys as groups: the first index of each, the group of each index, and how many indices each has."""

    first: Value
    inverse: Value
    counts: Value


def _groups(keys: Value, ir: Builder) -> _Groups:
    """The groups of a vector, by ascending key."""
    ordered, order = ir.sort(keys, 0)
    index = ir.iota(keys.shape, 0, I64)
    before = ir.gather(ordered, ir.max(ir.sub(index, 1), 0), 0)
    same = ir.equal(ordered, before)
    if keys.dtype.is_float:
        same = ir.or_(same, ir.and_(ir.is_nan(ordered), ir.is_nan(before)))
    begins = ir.or_(ir.equal(index, 0), ir.not_(same))
    first = ir.gather(order, ir.squeeze(ir.non_zero(begins), (0,)), 0)
    group = ir.sub(ir.scan_axis(ir.cast(begins, I64), "sum", 0), 1)
    inverse = ir.scatter_along(ir.full(keys.shape, 0, I64), order, group, 0, "set")
    ones = ir.full(keys.shape, 1, I64)
    counts = ir.scatter_along(ir.full(first.shape, 0, I64), group, ones, 0, "add")
    return _Groups(first, inverse, counts)


def _by_occurrence(groups: _Groups, ir: Builder) -> _Groups:
    """`groups` in the order of their first indices."""
    first, order = ir.sort(groups.first, 0)
    ranks = ir.iota(first.shape, 0, I64)
    moved = ir.scatter_along(ir.full(first.shape, 0, I64), order, ranks, 0, "set")
    return _Groups(first, ir.gather(moved, groups.inverse, 0), ir.gather(groups.counts, order, 0))


def _slice_keys(x: Value, axis: int, ir: Builder) -> Value:
    """i64[n]: for each slice along the axis, how many are less than it in the order of their elements."""
    others = [other_axis for other_axis in range(x.rank) if other_axis != axis]
    n, m = x.shape[axis], product(x.shape[other_axis] for other_axis in others)
    rows = ir.reshape(ir.transpose(x, (axis, *others)), (n, m))
    own, other = ir.broadcast(rows, (0, 2), (n, n, m)), ir.broadcast(rows, (1, 2), (n, n, m))
    differs, less = ir.not_(ir.equal(own, other)), ir.less(other, own)
    if x.dtype.is_float:
        differs = ir.and_(differs, ir.not_(ir.and_(ir.is_nan(own), ir.is_nan(other))))
        less = ir.or_(less, ir.is_nan(own))
    earlier = ir.scan_axis(ir.cast(differs, I64), "sum", 2, exclusive=True)
    decides = ir.and_(differs, ir.equal(earlier, 0))
    is_less = ir.reduce(ir.and_(decides, less), "or", (2,))
    return ir.reduce(ir.cast(is_less, I64), "sum", (1,))
