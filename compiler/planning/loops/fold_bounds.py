"""Folds over places that count: how many of a folded axis do, where a mask says so by comparing them with a number.

Of select(k < n, x, 0) a sum along k need not go beyond n, and need not ask for the mask up to there.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.loops.domain import is_uniform
from onnxc.compiler.planning.loops.rows import Rows, identity
from onnxc.runtime.records import record

__all__ = ["Bound", "FoldBounds", "fold_bounds"]


@record
class Bound:
    """The places of a folded `axis` that count are those below `count`: i64, whose own axes are `axes` of the rows."""

    axis: int
    count: Value
    axes: tuple[int, ...]


@record
class FoldBounds:
    """A fold is that of `value` over the places that all bounds let count."""

    value: Value
    bounds: tuple[Bound, ...]


def fold_bounds(rows: Rows) -> FoldBounds | None:
    """Those of the only fold of rows whose last axis is kept; None where its mask says something else.

    No bound depends on a folded axis, or on the last.
    """
    fold = rows.folds[0]
    chosen = made_by(fold.operands[0], "select")
    if len(rows.folds) > 1 or fold.name != "reduce" or rows.last_is_folded or rows.writes_rows or chosen is None:
        return None
    mask, value, outside = chosen.operands
    if not _is_neutral(outside, fold) or _may_be_refused(value):
        return None
    bounds = _bounds_of(mask, tuple(range(mask.rank)), rows)
    return None if bounds is None else FoldBounds(value, bounds)


def _is_neutral(value: Value, fold: Op) -> bool:
    """Whether a value is all of what folding nothing gives."""
    maker = made_by(value, "broadcast")
    scalar = value if maker is None else maker.operands[0]
    constant = made_by(scalar, "constant")
    if constant is None or constant.array().size != 1:
        return False
    return bool(constant.array().item() == identity(fold.text("kind"), value.dtype))


def _may_be_refused(value: Value) -> bool:
    """Whether elements are picked at indices that may be outside of an axis: a call with such is refused."""
    pending, seen = [value], set[Value]()
    while pending:
        value = pending.pop()
        if value.op is None or value in seen:
            continue
        seen.add(value)
        if PRIMITIVES[value.op.name].picks and "known" not in value.op.attributes:
            return True
        pending += value.op.operands
    return False


def _bounds_of(mask: Value, axes: Sequence[int], rows: Rows) -> tuple[Bound, ...] | None:
    """The bounds that all hold where a mask, whose axes are `axes` of the rows, does."""
    op = mask.op
    if op is None:
        return None
    if op.name == "broadcast":
        return _bounds_of(op.operands[0], [axes[axis] for axis in op.ints("axes")], rows)
    if op.name == "and":
        parts = [_bounds_of(operand, axes, rows) for operand in op.operands]
        return None if None in parts else tuple(bound for part in parts if part is not None for bound in part)
    bound = _bound(op, axes, rows) if op.name == "less" else None
    return None if bound is None else (bound,)


def _bound(less: Op, axes: Sequence[int], rows: Rows) -> Bound | None:
    """That of a comparison of the place along a folded axis with a number."""
    position, count = less.operands
    ordinal = _counted_axis(position)
    limit, own = count, tuple(axes)
    while (repeated := made_by(limit, "broadcast")) is not None:
        limit, own = repeated.operands[0], tuple(own[axis] for axis in repeated.ints("axes"))
    varying = {axis for axis, size in zip(own, limit.shape, strict=True) if size != 1}
    if ordinal is None or count.dtype != I64 or is_uniform(limit) or axes[ordinal] not in rows.axes:
        return None
    if less.results[0].shape[ordinal] != rows.shape[axes[ordinal]] or varying & {*rows.axes, len(rows.shape) - 1}:
        return None
    return Bound(axes[ordinal], limit, own)


def _counted_axis(value: Value) -> int | None:
    """The axis along which a value is the place of each element."""
    repeated = made_by(value, "broadcast")
    if repeated is not None:
        inner = _counted_axis(repeated.operands[0])
        return None if inner is None else repeated.ints("axes")[inner]
    counted = made_by(value, "iota")
    return None if counted is None else counted.int("axis")


def bounds_by_axis(bounds: FoldBounds) -> Mapping[int, tuple[Bound, ...]]:
    """The bounds of each axis that has some."""
    by_axis: dict[int, tuple[Bound, ...]] = {}
    for bound in bounds.bounds:
        by_axis[bound.axis] = (*by_axis.get(bound.axis, ()), bound)
    return by_axis
