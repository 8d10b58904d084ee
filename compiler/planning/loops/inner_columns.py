"""The columns of a kernel, its positions along the last axis, at which paddings along it are not reached."""

from collections.abc import Sequence

from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.loops.domain import is_uniform
from onnxc.runtime.records import record

__all__ = ["InnerColumns", "inner_columns"]


@record
class _Path:
    """A value whose position along `axis` is the column less `before`; None for an axis that does not follow it so."""

    value: Value
    axis: int | None
    before: Dim


@record
class InnerColumns:
    """At columns from each of `starts` on and before each of `stops` no op of `pads` pads along the axis of these."""

    pads: frozenset[Op]
    starts: tuple[Dim, ...]
    stops: tuple[Dim, ...]

    @property
    def width(self) -> Dim:
        """How many they are; 0 or less where there are none."""
        return minimum(*self.stops) - maximum(*self.starts)


def inner_columns(root: Value) -> InnerColumns | None:
    """Those of a kernel that computes `root` element by element; None where no padding follows the columns."""
    pending, seen = [_Path(root, root.rank - 1, 0)] if root.shape else [], set[_Path]()
    regions, others = dict[Op, list[tuple[Dim, Dim]]](), set[Op]()
    while pending:
        path = pending.pop()
        op, axis = path.value.op, path.axis
        if path in seen or op is None:
            continue
        seen.add(path)
        if op.name == "pad" and axis is None:
            others.add(op)
        elif op.name == "pad" and axis is not None and (op.dims("low")[axis], op.dims("high")[axis]) != (0, 0):
            start = path.before + op.dims("low")[axis]
            regions.setdefault(op, []).append((start, start + op.operands[0].shape[axis]))
        pending += _followed(op, path)
    spans = {op: spans for op, spans in regions.items() if op not in others}
    if not spans:
        return None
    starts, stops = zip(*(span for each in spans.values() for span in each), strict=True)
    return InnerColumns(frozenset(spans), tuple(dict.fromkeys(starts)), tuple(dict.fromkeys(stops)))


def _followed(op: Op, path: _Path) -> Sequence[_Path]:
    """What an op reads, each with the axis that the columns go along."""
    axis, before = path.axis, path.before
    if PRIMITIVES[op.name].kind == "pointwise":
        return [_Path(operand, axis, before) for operand in op.operands]
    if axis is not None and op.operands and not is_uniform(path.value):
        moved = _moved(op, axis, before)
        if moved is not None:
            # The value that a pad fills with is a scalar.
            return [_Path(op.operands[0], *moved)]
    return [_Path(operand, None, 0) for operand in op.operands]


def _moved(op: Op, axis: int, before: Dim) -> tuple[int, Dim] | None:
    """What an axis is of the first operand of a movement, and `before` there; None where positions are not shifted."""
    match op.name:
        case "pad":
            return axis, before + op.dims("low")[axis]
        case "transpose":
            return op.ints("permutation")[axis], before
        case "slice" if op.ints("steps")[axis] == 1:
            return axis, before - op.dims("starts")[axis]
        case "reshape":
            kept = [[k for k, size in enumerate(x.shape) if size != 1] for x in (op.results[0], op.operands[0])]
            sizes = [[x.shape[k] for k in axes] for x, axes in zip((op.results[0], op.operands[0]), kept, strict=True)]
            if sizes[0] == sizes[1] and axis in kept[0]:
                return kept[1][kept[0].index(axis)], before
    return None
