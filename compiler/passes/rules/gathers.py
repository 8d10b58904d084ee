"""Gathers whose indices are known, or count in order: they are movement."""

from collections.abc import Sequence

import numpy as np

from compiler.ir.builder import Builder
from compiler.ir.dims import Dim, at_least
from compiler.ir.module import Op, Value
from compiler.ir.rewriter import Rewriter, rule
from compiler.passes.matching import constant_of, made_by, moved_axes, number_of, unbroadcast


@rule("gather")
def gather_at_constants(op: Op, build: Builder) -> Value | None:
    """gather(x, [a, a + s, a + 2 s, ...]) = slice(x, from a, step s), for indices inside the axis"""
    data, indices = op.operands
    axis, array = op.int("axis"), constant_of(indices)
    size = data.shape[axis]
    if array is None or not array.size or not isinstance(size, int):
        return None
    places = array.reshape(-1)
    step = int(places[1] - places[0]) if places.size > 1 else 1
    counted = places[0] + step * np.arange(places.size)
    if step == 0 or not np.array_equal(places, counted) or not 0 <= places.min() <= places.max() < size:
        return None
    return build.with_shape(build.slice_axis(data, axis, int(places[0]), int(places.size), step), op.result.shape)


@rule("gather")
def gather_moved_indices(op: Op, build: Builder) -> Value | None:
    """gather(x, move(i)) = move(gather(x, i)) for indices that are reshaped by units or broadcast"""
    data, indices = op.operands
    axis, shape = op.int("axis"), op.result.shape
    moved = made_by(indices, "broadcast", "reshape")
    if moved is None:
        return None
    inner = moved.operands[0]
    if moved.name == "reshape":
        places = moved_axes(inner.shape, indices.shape)
        return None if places is None else build.with_shape(build.gather(data, inner, axis), shape)
    before = range(axis)
    after = range(axis + indices.rank, len(shape))
    axes = (*before, *(axis + place for place in moved.ints("axes")), *after)
    return build.broadcast(build.gather(data, inner, axis), axes, shape)


def _counter(indices: Value) -> tuple[Dim, Dim] | None:
    """(start, size) where `indices` are start, start + 1, ... of rank 1."""
    counted = made_by(indices, "add")
    start: Dim = 0
    if counted is not None:
        source = unbroadcast(counted.operands[1])[0]
        sizes = made_by(source, "sizes")
        number = number_of(counted.operands[1])
        if number is None and (sizes is None or source.rank != 0):
            return None
        start = sizes.dims("values")[0] if sizes is not None else int(number or 0)
        indices = counted.operands[0]
    iota = made_by(indices, "iota")
    return None if iota is None or indices.rank != 1 else (start, indices.shape[0])


@rule("gather")
def gather_in_order(op: Op, build: Rewriter) -> Value | None:
    """gather(x, start + iota(n)) = slice(x, from start, n) where that is certainly inside"""
    data, indices = op.operands
    axis, counter, bounds = op.int("axis"), _counter(indices), build.symbols.ranges
    if counter is None:
        return None
    start, size = counter
    if not at_least(start, 0, bounds) or not at_least(data.shape[axis], start + size, bounds):
        return None
    return build.slice_axis(data, axis, start, size)


@rule("gather_nd")
def gather_grid(op: Op, build: Rewriter) -> Value | None:
    """gather_nd(x, every (i, j) of x) = x moved to the axes along which i and j count

    Exporters write masks so: each coordinate is a counter along an axis of its own, as long as that axis of x.
    """
    data, indices = op.operands
    joined = made_by(indices, "concatenate")
    if joined is None or op.int("batch_dims") or joined.int("axis") != indices.rank - 1:
        return None
    axes: list[int] = []
    for place, coordinate in enumerate(joined.operands):
        axis = _counting_axis(coordinate, data.shape[place]) if place < data.rank else None
        if axis is None or axis in axes:
            return None
        axes.append(axis)
    tail = range(indices.rank - 1, op.result.rank)
    return build.broadcast(data, (*axes, *tail), op.result.shape)


def _counting_axis(coordinate: Value, size: Dim) -> int | None:
    """The axis of `coordinate`, whose last is 1, along which it counts from 0 to `size`, repeating along the others."""
    source, axes = unbroadcast(coordinate)
    shape: Sequence[Dim] = source.shape
    reshaped = made_by(source, "reshape")
    places = {axis: axis for axis in range(source.rank)}
    if reshaped is not None:
        moved = moved_axes(reshaped.operands[0].shape, shape)
        if moved is None:
            return None
        source, places = reshaped.operands[0], moved
    iota = made_by(source, "iota")
    if iota is None or source.rank != 1 or source.shape[0] != size or coordinate.shape[-1] != 1:
        return None
    return axes[places[0]] if 0 in places else None
