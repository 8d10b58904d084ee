"""Gathers whose indices are known, or count in order: they are movement."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least, product
from onnxc.compiler.ir.makers import constant_of, made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import Rewriter, rule
from onnxc.compiler.passes.analysis.counters import counter_of, counts_along, made_of_counters
from onnxc.compiler.passes.analysis.matching import axis_groups, moved_axes


@rule("gather")
def gather_at_constants(op: Op, build: Builder) -> Value | None:
    """gather(x, [a, a + s, a + 2 s, ...]) = slice(x, from a, step s), for indices inside the axis"""
    data, indices = op.operands
    axis, array = op.int("axis"), constant_of(indices)
    size = data.shape[axis]
    if array is None or not array.size or not isinstance(size, int):
        return None
    wanted = array.reshape(-1)
    step = int(wanted[1] - wanted[0]) if wanted.size > 1 else 1
    counted = wanted[0] + step * np.arange(wanted.size)
    if step == 0 or not np.array_equal(wanted, counted) or not 0 <= wanted.min() <= wanted.max() < size:
        return None
    return build.with_shape(build.slice_axis(data, axis, int(wanted[0]), int(wanted.size), step), op.result.shape)


MOST_RUNS = 3
"""Indices of padding that copies elements count up, between what they do before and behind."""

LEAST_RUN = 16
"""Where the longest run is shorter than a vector, or than half of the row, elements are as well picked one by one."""


@rule("gather")
def gather_runs(op: Op, build: Builder) -> Value | None:
    """gather(x, [a, a, b, b + 1, ..., c, c - 1]) = concatenate(x[a, a], x[b:], x[c::-1]) along the last axis"""
    data, indices = op.operands
    axis, array = op.int("axis"), constant_of(indices)
    size = data.shape[axis]
    if array is None or array.ndim != 1 or axis != data.rank - 1 or not isinstance(size, int):
        return None
    if array.size < LEAST_RUN or not 0 <= array.min() <= array.max() < size:
        return None
    runs = _runs(array)
    if not 1 < len(runs) <= MOST_RUNS or 2 * max(map(len, runs)) < max(array.size, 2 * LEAST_RUN):
        return None
    return build.concatenate([_run_of(data, axis, run, build) for run in runs], axis)


def _runs(array: np.ndarray) -> list[np.ndarray]:
    """Parts in which neighbours differ by the same -1, 0 or 1, each as long as it can be; of many only the first."""
    runs: list[np.ndarray] = []
    while array.size and len(runs) <= MOST_RUNS:
        steps = np.diff(array)
        ends = np.flatnonzero((steps != steps[:1]) | (np.abs(steps) > 1))
        length = int(ends[0]) + 1 if ends.size else array.size
        runs.append(array[:length])
        array = array[length:]
    return runs


def _run_of(data: Value, axis: int, run: np.ndarray, build: Builder) -> Value:
    step = int(run[1] - run[0]) if run.size > 1 else 1
    if step != 0:
        return build.slice_axis(data, axis, int(run[0]), run.size, step)
    first = build.slice_axis(data, axis, int(run[0]), 1)
    return build.broadcast(first, range(data.rank), (*data.shape[:axis], run.size))


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
        moves = moved_axes(inner.shape, indices.shape)
        return None if moves is None else build.with_shape(build.gather(data, inner, axis), shape)
    before, after = range(axis), range(axis + indices.rank, len(shape))
    axes = (*before, *(axis + own for own in moved.ints("axes")), *after)
    return build.broadcast(build.gather(data, inner, axis), axes, shape)


@rule("gather")
def gather_in_order(op: Op, build: Rewriter) -> Value | None:
    """gather(x, [a, a + 1, ...]) = slice(x, from a) where that is certainly inside"""
    data, indices = op.operands
    axis, counter, bounds = op.int("axis"), counter_of(indices), build.symbols.ranges
    if counter is None or indices.rank != 1 or list(counter.strides.values()) != [1]:
        return None
    size = data.shape[axis]
    inside = counter.limit is not None and at_least(size, counter.limit, bounds)
    if not inside and not at_least(size, counter.start + indices.shape[0], bounds):
        return None
    return build.slice_axis(data, axis, counter.start, indices.shape[0]) if at_least(counter.start, 0, bounds) else None


@rule("gather")
def gather_flat_grid(op: Op, build: Builder) -> Value | None:
    """gather(merge(x), every i * n + j in order) = x moved to the axes along which i and j count

    Exporters pick elements of a mask so, by their offset in the flattened one.
    """
    data, indices = op.operands
    axis, merged, counter = op.int("axis"), made_by(data, "reshape"), counter_of(indices)
    if merged is None or counter is None or counter.start != 0:
        return None
    x = merged.operands[0]
    runs = {after: before for before, after in axis_groups(x.shape, data.shape) or ()}
    if (axis,) not in runs or any(len(after) != 1 for after in runs):
        return None
    if any(len(before) != 1 for after, before in runs.items() if after != (axis,)):
        return None
    shift = indices.rank - 1
    targets = {before[0]: after[0] + shift * (after[0] > axis) for after, before in runs.items()}
    stride: Dim = 1
    rest = dict(counter.strides)
    for x_axis in reversed(runs[axis,]):
        counting = next((each for each, step in rest.items() if step == stride), None)
        if counting is None or indices.shape[counting] != x.shape[x_axis]:
            return None
        del rest[counting]
        targets[x_axis] = axis + counting
        stride = stride * x.shape[x_axis]
    if rest:
        return None
    kept = [x_axis for x_axis, size in enumerate(x.shape) if size != 1]
    dense = build.with_shape(x, [x.shape[x_axis] for x_axis in kept])
    return build.broadcast(dense, [targets[x_axis] for x_axis in kept], op.result.shape)


ELEMENTS_OF_A_LINE = 16
"""The f32 in a line of the cache: all that is read for one of them where they are picked across their order."""


@rule("gather")
def gather_transposed(op: Op, build: Builder) -> Value | None:
    """gather(transpose(x), i) = transpose(gather(x, i)) where so few elements are picked that most of x is not read"""
    data, indices = op.operands
    turned = made_by(data, "transpose")
    if turned is None or not at_least(product(data.shape), ELEMENTS_OF_A_LINE * product(op.result.shape)):
        return None
    permutation = turned.ints("permutation")
    axis = permutation[op.int("axis")]
    behind = indices.rank - 1
    order: list[int] = []
    for old in permutation:
        order += range(axis, axis + indices.rank) if old == axis else [old + behind * (old > axis)]
    return build.transpose(build.gather(turned.operands[0], indices, axis), order)


@rule("gather_nd")
def gather_grid(op: Op, build: Rewriter) -> Value | None:
    """gather_nd(x, every (i, j) of x) = x moved to the axes along which i and j count"""
    data, indices = op.operands
    coordinates = made_of_counters(indices)
    if coordinates is None or op.int("batch_dims"):
        return None
    axes: list[int] = []
    for coordinate, size in zip(coordinates, data.shape, strict=False):
        axis = counts_along(coordinate, size)
        if axis is None or axis in axes:
            return None
        axes.append(axis)
    return build.broadcast(data, (*axes, *range(indices.rank - 1, op.result.rank)), op.result.shape)


@rule("gather_nd")
def gather_of_one_axis(op: Op, build: Builder) -> Value | None:
    """gather_nd(x, i) = gather(x, i[..., 0], 0) for coordinates of one axis"""
    data, indices = op.operands
    if op.int("batch_dims") or indices.shape[-1] != 1:
        return None
    return build.gather(data, build.reshape(indices, indices.shape[:-1]), 0)
