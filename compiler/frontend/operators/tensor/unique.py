"""Unique: the distinct elements of a tensor, or its distinct slices."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.loops import while_loop
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import BOOL, I64, STRING
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.records import record

LEADING = 16
"""Columns by which rows are sorted without a loop around the sorts, which share a kernel. Of longer rows the others are
looked at only where these do not decide: 100 rows of 100 f32 took 690 us where each was compared with each, and 110 by
all columns."""


@operator("Unique", since=(11, 28))
def unique(node: Node, ir: Builder) -> tuple[Value, ...]:
    """X: T[d...]  ->  Y: T[u] or along `axis` T[... u ...], indices: i64[u], inverse_indices: i64[n], counts: i64[u]

    Y is in ascending order, slices in that of their elements; with `sorted` 0 in the order of first occurrence. NaN
    equals NaN and comes last, in slices too.
    Source: https://onnx.ai/onnx/operators/onnx__Unique.html
    """
    x = node.input("X")
    keys = _ranks_of_texts(x, ir) if x.dtype == STRING else x
    if node.has("axis"):
        axis = node.axis("axis", rank=x.rank)
        others = [other_axis for other_axis in range(x.rank) if other_axis != axis]
        count, width = x.shape[axis], product(x.shape[other_axis] for other_axis in others)
        rows = ir.reshape(ir.transpose(keys, (axis, *others)), (count, width))
        order = _order_of_rows(node, rows, ir)
        same = ir.reduce(_same_as_before(ir.gather(rows, order, 0), ir), "and", (1,))
    else:
        axis, x = 0, ir.reshape(x, (product(x.shape),))
        ordered, order = ir.sort(ir.reshape(keys, x.shape), 0)
        same = _same_as_before(ordered, ir)
    groups = _groups(order, same, ir)
    if not node.flag("sorted"):
        groups = _by_occurrence(groups, ir)
    return ir.gather(x, groups.first, axis), groups.first, groups.inverse, groups.counts


def _ranks_of_texts(x: Value, ir: Builder) -> Value:
    """i64[...]: where each text is among the distinct ones in ascending order: numbers, which have kernels."""
    return ir.host("text_ranks", (x,), (TensorType(I64, x.shape),), {})[0]


@record
class _Groups:
    """Equal keys as groups: the first index of each, the group of each index, and how many indices each has."""

    first: Value
    inverse: Value
    counts: Value


def _order_of_rows(node: Node, rows: Value, ir: Builder) -> Value:
    """i64[n]: the rows of a matrix [n, m] in the order of their elements, equal ones in that of their indices.

    They are sorted by one column after another, from the last: what a column does not decide stays as it was. Of long
    rows the first columns mostly decide, and the others are looked at only where these do not.
    """
    columns, width = ir.transpose(rows, (1, 0)), rows.shape[1]
    first = ir.iota(rows.shape[:1], 0, I64)

    def sorted_by(column: Value, order: Value, ir: Builder) -> Value:
        _, moved = ir.sort(ir.gather(ir.gather(columns, column, 0), order, 0), 0)
        return ir.gather(order, moved, 0)

    order, written = first, 0
    if isinstance(width, int):
        written = min(width, LEADING)
    for column in reversed(range(written)):
        order = sorted_by(ir.scalar(column, I64), order, ir)
    if width == written:
        return order

    def build(ir: Builder, turn: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        column = ir.sub(ir.sub(ir.size(width), 1), turn)
        return ir.scalar(True, BOOL), sorted_by(column, carried[0], ir)

    rounds = ir.select(_is_decided(rows, order, written, ir), ir.scalar(0, I64), ir.size(width))
    (order,) = while_loop(node, ir, rounds, ir.scalar(True, BOOL), [order], build)
    return ir.with_shape(order, first.shape)


def _is_decided(rows: Value, order: Value, columns: int, ir: Builder) -> Value:
    """bool[]: whether rows that are in order by their first columns are so by all: those that share these are equal."""
    same = _same_as_before(ir.gather(rows, order, 0), ir)
    begin = ir.slice_axis(same, 1, 0, columns)
    decided = ir.or_(ir.not_(ir.reduce(begin, "and", (1,))), ir.reduce(same, "and", (1,)))
    return ir.reduce(decided, "and", (0,))


def _same_as_before(ordered: Value, ir: Builder) -> Value:
    """bool: whether elements equal those one before them along the first axis, NaN NaN; the first ones are the same."""
    index = ir.iota(ordered.shape[:1], 0, I64)
    before = ir.gather(ordered, ir.max(ir.sub(index, 1), 0), 0)
    same = ir.equal(ordered, before)
    if not ordered.dtype.is_float:
        return same
    return ir.or_(same, ir.and_(ir.is_nan(ordered), ir.is_nan(before)))


def _groups(order: Value, same: Value, ir: Builder) -> _Groups:
    """The groups of an order in which equal ones follow each other: `same` tells where one equals the one before."""
    index = ir.iota(order.shape, 0, I64)
    begins = ir.or_(ir.equal(index, 0), ir.not_(same))
    first = ir.gather(order, ir.squeeze(ir.non_zero(begins), (0,)), 0)
    group = ir.sub(ir.scan_axis(ir.cast(begins, I64), "sum", 0), 1)
    inverse = ir.scatter_along(ir.full(order.shape, 0, I64), order, group, 0, "set")
    ones = ir.full(order.shape, 1, I64)
    counts = ir.scatter_along(ir.full(first.shape, 0, I64), group, ones, 0, "add")
    return _Groups(first, inverse, counts)


def _by_occurrence(groups: _Groups, ir: Builder) -> _Groups:
    """`groups` in the order of their first indices."""
    first, order = ir.sort(groups.first, 0)
    ranks = ir.iota(first.shape, 0, I64)
    moved = ir.scatter_along(ir.full(first.shape, 0, I64), order, ranks, 0, "set")
    return _Groups(first, ir.gather(moved, groups.inverse, 0), ir.gather(groups.counts, order, 0))
