"""Slice: every step-th element between two positions of some axes.

Positions known in sizes give closed forms, so that the result's sizes stay exact; other positions are clamped by
arithmetic on the run-time values, and only the clamped results become sizes.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import (
    as_vector,
    element,
    known_integers,
    read_lengths,
    spread_over_axes,
    vector_input,
    vector_length,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, at_least, floordiv
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.known_elements import partly_known
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

# What the standard recommends for "to the end"; its negative means "to the start", going backward.
INT_MAX = 2**31 - 1


@operator("Slice", since=(1,))
def slice_by_attributes(node: Node, ir: Builder) -> Value:
    """data: T[...]  ->  T[...] between the attributes starts and ends of axes.

    Source: https://onnx.ai/onnx/operators/onnx__Slice.html
    """
    starts, ends = node.ints("starts"), node.ints("ends")
    axes = node.ints("axes", range(len(starts)))
    _expect_lengths(len(starts), {"ends": len(ends), "axes": len(axes)}, node)
    return _slice_known(node.input("data"), axes, starts, ends, (1,) * len(starts), node, ir)


@operator("Slice", since=(10, 11, 13))
def slice_by_inputs(node: Node, ir: Builder) -> Value:
    """data: T[...], starts: I[n], ends: I[n], axes: I[n]?, steps: I[n]?  ->  T[...]; a negative step goes backward.

    Source: https://onnx.ai/onnx/operators/onnx__Slice.html
    """
    data, given = node.input("data"), _vectors(node)
    known = (vector.shape[0] for vector in given.values())
    count = next((length for length in known if isinstance(length, int)), None)
    if count is None:
        return _slice_of_open_count(data, given, node, ir)
    starts = vector_input("starts", node, ir, _if_unknown("starts", count, node))
    count = vector_length(starts)
    ends = vector_input("ends", node, ir, _if_unknown("ends", count, node))
    axes = _optional("axes", range(count), node, ir)
    steps = _optional("steps", [1] * count, node, ir)
    lengths = {name: vector_length(value) for name, value in (("ends", ends), ("axes", axes), ("steps", steps))}
    _expect_lengths(count, lengths, node)
    known_axes, known_steps = known_integers(axes, ir), known_integers(steps, ir)
    _expect_steps(known_steps or (), node)
    if known_axes is None:
        spread = None if known_steps is not None and set(known_steps) <= {1} else steps
        starts, ends, steps = _for_all_axes(data.rank, axes, starts, ends, spread, ir)
        return _slice_by_data(data, range(data.rank), starts, ends, steps, node, ir)
    known_starts, known_ends = ir.known(starts), ir.known(ends)
    if known_starts is None or known_ends is None or known_steps is None:
        return _slice_by_data(data, node.axes_list(known_axes, data.rank), starts, ends, steps, node, ir)
    return _slice_known(data, known_axes, known_starts, known_ends, known_steps, node, ir)


def _vectors(node: Node) -> dict[str, Value]:
    """The inputs that are vectors, those that are given."""
    given = {name: node.optional(name) for name in ("starts", "ends", "axes", "steps")}
    vectors = {name: value for name, value in given.items() if value is not None}
    for name, value in vectors.items():
        if value.rank != 1:
            node.fail("not-a-vector", f"{name} is {value.type}, not a vector", rule=f"ONNX Slice, {name}")
    return vectors


def _slice_of_open_count(data: Value, given: Mapping[str, Value], node: Node, ir: Builder) -> Value:
    """Where only data tells how many axes are sliced: all that may be are, those that are not named as a whole."""
    count, rank = given["starts"].shape[0], data.rank
    if "axes" not in given:
        rank = next((most for most in range(rank) if at_least(most, count)), rank)
    for name, vector in given.items():
        ir.guard(vector.shape[0], count, "equal", f"starts of Slice has another number of entries than {name}")
    ir.guard(data.rank, count, "at_least", f"starts of Slice has more entries than data has axes, {data.rank}")
    vectors = {name: ir.cast(ir.with_shape(vector, (count,)), I64) for name, vector in given.items()}
    axes = vectors.get("axes", ir.iota((count,), 0, I64))
    starts, ends, steps = _for_all_axes(rank, axes, vectors["starts"], vectors["ends"], vectors.get("steps"), ir)
    return _slice_by_data(data, range(rank), starts, ends, steps, node, ir)


def _optional(name: str, default: Sequence[int], node: Node, ir: Builder) -> Value:
    value = node.optional(name)
    if value is None:
        return ir.sizes(tuple(default))
    return as_vector(value, name, node, ir, _if_unknown(name, len(default), node))


def _if_unknown(name: str, count: int, node: Node) -> int | None:
    """The number of entries of starts, which a vector of unknown length must have too."""
    value = node.optional(name)
    is_unknown = value is not None and value.rank == 1 and not isinstance(value.shape[0], int)
    return count if is_unknown else None


def _expect_lengths(count: int, lengths: dict[str, int], node: Node) -> None:
    for name, length in lengths.items():
        if length != count:
            node.fail("slice-lengths", f"starts has {count} entries, {name} has {length}", rule=f"ONNX Slice, {name}")


def _expect_steps(steps: Sequence[int], node: Node) -> None:
    if 0 in steps:
        node.fail("slice-step", f"steps {list(steps)} has a 0", rule="ONNX Slice, steps")


# Positions known in sizes


def _slice_known(
    data: Value,
    axes: Sequence[int],
    starts: Sequence[Dim],
    ends: Sequence[Dim],
    steps: Sequence[int],
    node: Node,
    ir: Builder,
) -> Value:
    _expect_steps(steps, node)
    named = node.axes_list(axes, data.rank)
    rows = zip(named, starts, ends, steps, strict=True)
    extents = [extent(data.shape[axis], start, end, step) for axis, start, end, step in rows]
    return _sliced(data, named, extents, steps, ir)


def _sliced(
    data: Value, axes: Sequence[int], extents: Sequence[tuple[Dim, Dim]], steps: Sequence[int], ir: Builder
) -> Value:
    firsts: list[Dim] = [0] * data.rank
    shape, strides = list(data.shape), [1] * data.rank
    for axis, (first, count), step in zip(axes, extents, steps, strict=True):
        firsts[axis], shape[axis], strides[axis] = first, count, step
    return ir.slice(data, firsts, shape, strides)


def extent(size: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """The first element that a slice of an axis takes, and how many it takes."""
    if step > 0:
        first = _position(start, size)
        return first.offset(size), _ceildiv(_span(first, _position(end, size), size), step)
    # Backward is forward on the reversed axis, where position p, from whichever end, is position -1 - p.
    first = _position(-1 - start, size)
    first = _Position(1, True) if first == _Position(0, True) else first
    if not first.from_end and first.distance != 0:
        first = _Position(minimum(first.distance, maximum(size - 1, 0)), False)
    return size - 1 - first.offset(size), _ceildiv(_span(first, _position(-1 - end, size), size), -step)


@record
class _Position:
    """A position within an axis: `distance` from its start or its end, but not beyond the other."""

    distance: Dim
    from_end: bool

    def offset(self, size: Dim) -> Dim:
        """The distance from the start."""
        inside = minimum(self.distance, size) if self.distance else 0
        return size - inside if self.from_end else inside


def _position(value: Dim, size: Dim) -> _Position:
    """Where `value` is, which counts from the end where it is negative; `size` itself, of an axis, is never that."""
    if value == size:
        return _Position(0, from_end=True)
    if isinstance(value, int) and abs(value) >= INT_MAX:
        return _Position(0, from_end=value > 0)
    if at_least(value, 0):
        return _Position(value, False)
    if at_least(-1, value):
        return _Position(-value, True)
    is_negative = minimum(1, maximum(0, -value))
    return _Position(maximum(0, value + size * is_negative), False)


def _span(first: _Position, last: _Position, size: Dim) -> Dim:
    """The number of elements from `first` up to `last`, 0 where they are in the other order."""
    if first.from_end and last.from_end:
        if at_least(last.distance, first.distance):
            return 0
        taken = minimum(size, first.distance) - minimum(size, last.distance)
        return taken if at_least(first.distance, last.distance) else maximum(0, taken)
    if last.from_end:
        left = size - last.distance - first.distance
        return size if left == size else maximum(0, left)
    return maximum(0, minimum(last.distance, size) - (first.offset(size) if first.from_end else first.distance))


def _ceildiv(count: Dim, step: int) -> Dim:
    return floordiv(count + step - 1, step)


# Positions that only data tells


def _for_all_axes(
    rank: int, axes: Value, starts: Value, ends: Value, steps: Value | None, ir: Builder
) -> tuple[Value, Value, Value]:
    """starts, ends and steps for every axis, where only data tells which axes they are for; steps of None are 1."""
    return (
        spread_over_axes(starts, axes, [0] * rank, ir),
        spread_over_axes(ends, axes, [2**63 - 1] * rank, ir),
        ir.sizes((1,) * rank) if steps is None else spread_over_axes(steps, axes, [1] * rank, ir),
    )


def _slice_by_data(
    data: Value, axes: Sequence[int], starts: Value, ends: Value, steps: Value, node: Node, ir: Builder
) -> Value:
    known_steps = known_integers(steps, ir)
    if not axes:
        return data
    firsts, counts = _extents(ir.sizes([data.shape[axis] for axis in axes]), starts, ends, steps, ir)
    bound = read_lengths(ir.concatenate([firsts, counts], 0), "a number of elements (-1 for a step of 0)", node, ir)
    if known_steps is None:
        for ordinal, axis in enumerate(axes):
            data = ir.gather(data, _progression(bound[len(axes) + ordinal], firsts, steps, ordinal, ir), axis)
        return data
    known = zip(partly_known(starts), partly_known(ends), known_steps, strict=True)
    apart = _apart(starts, ends)
    extents = [
        (bound[ordinal], _at_most(apart[ordinal], step, bound[len(axes) + ordinal]))
        if start is None or end is None
        else extent(data.shape[axes[ordinal]], start, end, step)
        for ordinal, (start, end, step) in enumerate(known)
    ]
    return _sliced(data, axes, extents, known_steps, ir)


def _apart(starts: Value, ends: Value) -> Sequence[int | None]:
    """How far apart each end is from its start, where both are one value plus constants."""
    (base, before), (other, behind) = map(_without_constant, (starts, ends))
    if base != other:
        return [None] * vector_length(starts)
    return [int(distance) for distance in np.broadcast_to(behind - before, (vector_length(starts),))]


def _without_constant(vector: Value) -> tuple[Value, np.ndarray]:
    """A value and the constant that is added to it."""
    if vector.op is not None and vector.op.name == "add":
        for value, added in (vector.op.operands, vector.op.operands[::-1]):
            if added.op is not None and added.op.name == "constant":
                return value, added.op.array()
    return vector, np.zeros(1, np.int64)


def _at_most(apart: int | None, step: int, count: Dim) -> Dim:
    """A count with the bound that it has: from a position on to one so far behind it lie no more elements.

    That holds too where the positions count from different ends. It does not for steps backward.
    """
    return count if apart is None or apart < 0 or step < 1 else minimum(count, _ceildiv(apart, step))


def _extents(sizes: Value, starts: Value, ends: Value, steps: Value, ir: Builder) -> tuple[Value, Value]:
    """As `extent`, for a vector of axes; a step of 0 gives a count of -1."""
    forward = ir.less(0, steps)
    lowest, highest = ir.select(forward, 0, ir.full(sizes.shape, -1, I64)), ir.select(forward, sizes, ir.sub(sizes, 1))
    firsts = ir.clamp(_wrapped(starts, sizes, ir), 0, highest)
    lasts = ir.clamp(_wrapped(ends, sizes, ir), lowest, highest)
    span = ir.select(forward, ir.sub(lasts, firsts), ir.sub(firsts, lasts))
    counts = ir.select(ir.less(0, span), ir.add(ir.div(ir.sub(span, 1), ir.abs(steps)), 1), 0)
    return ir.max(firsts, 0), ir.select(ir.equal(steps, 0), -1, counts)


def _wrapped(positions: Value, sizes: Value, ir: Builder) -> Value:
    return ir.select(ir.less(positions, 0), ir.add(positions, sizes), positions)


def _progression(count: Dim, firsts: Value, steps: Value, ordinal: int, ir: Builder) -> Value:
    steps_taken = ir.mul(ir.iota((count,), 0, I64), element(steps, ordinal, ir))
    return ir.add(steps_taken, element(firsts, ordinal, ir))
