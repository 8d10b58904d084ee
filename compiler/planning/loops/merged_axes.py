"""Axes that a kernel goes through as one, because for every operand the elements along them follow each other.

An index then counts along the last of these axes, beyond its end, and is 0 on the others.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.loops.domain import is_uniform
from onnxc.compiler.planning.loops.views import keeps_axes

Run = tuple[int, ...]


def merged_axes(values: Sequence[Value], first: int) -> int:
    """How many of the last axes of `values`, of one shape, are gone through as one; none is before the axis `first`.

    At least 1; the values have axes.
    """
    count, rank = 1, values[0].rank
    while rank - count > first and all(_goes_on(value, tuple(range(rank - count - 1, rank))) for value in values):
        count += 1
    return count


def _goes_on(value: Value, run: Run) -> bool:
    """Whether an index that leaves the last axis of a `run` of axes means the elements that follow along the run."""
    pending, seen = [(value, run)], set[tuple[Value, Run]]()
    while pending:
        asked = pending.pop()
        if asked in seen:
            continue
        seen.add(asked)
        operands = _rests_on(*asked)
        if operands is None:
            return False
        pending += operands
    return True


def _rests_on(value: Value, run: Run) -> Sequence[tuple[Value, Run]] | None:
    """The operands that have to go on, each along its run, for `value` to do so; None where it does not anyhow."""
    op = value.op
    if op is None:
        is_dense = run == tuple(range(run[0], run[-1] + 1)) and all(size == 1 for size in value.shape[run[-1] + 1 :])
        return () if is_dense else None
    if is_uniform(value):
        return ()
    if PRIMITIVES[op.name].kind == "pointwise":
        return [(operand, run) for operand in op.operands]
    match op.name:
        case "broadcast":
            return _of_broadcast(op, run)
        case "transpose":
            permutation = op.ints("permutation")
            return [(op.operands[0], tuple(permutation[axis] for axis in run))]
        case "reshape":
            return _of_reshape(op, run)
        case "slice":
            return _of_slice(op, run)
        case "gather" | "gather_nd":
            return _of_gather(op, run)
    return None


def _of_broadcast(op: Op, run: Run) -> Sequence[tuple[Value, Run]] | None:
    axes, (operand,), shape = op.ints("axes"), op.operands, op.results[0].shape
    if all(axis not in axes or operand.shape[axes.index(axis)] == 1 != shape[axis] for axis in run):
        return ()
    if any(axis not in axes or operand.shape[axes.index(axis)] != shape[axis] for axis in run):
        return None
    return [(operand, tuple(axes.index(axis) for axis in run))]


def _of_reshape(op: Op, run: Run) -> Sequence[tuple[Value, Run]] | None:
    """Axes of one element come and go; in the operand those between two of a run belong to it."""
    (operand,), shape = op.operands, op.results[0].shape
    if not keeps_axes(op) or shape[run[-1]] == 1:
        return None
    kept = (axis for axis, size in enumerate(operand.shape) if size != 1)
    before = {axis: next(kept) for axis, size in enumerate(shape) if size != 1}
    longer = [before[axis] for axis in run if axis in before]
    between = range(longer[0], longer[-1] + 1)
    # A transpose behind the reshape may have left an axis out of the run, or have turned it.
    return [(operand, tuple(between))] if [axis for axis in between if operand.shape[axis] != 1] == longer else None


def _of_slice(op: Op, run: Run) -> Sequence[tuple[Value, Run]] | None:
    """The first axis may begin anywhere, as long as no element is left out; of the others all is taken."""
    (operand,), starts, steps, shape = op.operands, op.dims("starts"), op.ints("steps"), op.results[0].shape
    is_whole = all(starts[axis] == 0 and shape[axis] == operand.shape[axis] for axis in run[1:])
    return [(operand, run)] if is_whole and all(steps[axis] == 1 for axis in run) else None


def _of_gather(op: Op, run: Run) -> Sequence[tuple[Value, Run]] | None:
    """What follows the axes that data decides on, and has one position on each of these."""
    data, indices = op.operands
    if op.name == "gather":
        behind, same = op.int("axis") + indices.rank, op.int("axis") + 1
    else:
        behind, same = indices.rank - 1, data.rank - (op.results[0].rank - indices.rank + 1)
    return [(data, tuple(axis - behind + same for axis in run))] if min(run) >= behind else None
