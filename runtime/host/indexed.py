"""Indexed primitives: elements picked and written by integers that are data.

Indices are counted from the start. One outside its axis is clamped to it; from an axis of size 0 comes a zero, and to
one goes nothing. Where a scatter meets an element twice, updates apply in row-major order: the last one set stays.
"""

import math

import numpy as np

from onnxc.runtime.host.attributes import integer, text
from onnxc.runtime.host.elements import narrow, widen
from onnxc.runtime.host.prepared import Constants, HostCall, prepared
from onnxc.runtime.host.registry import Arrays, Attributes, meaning

UPDATE: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


@meaning("gather")
def gather(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """data: T[d0 ... dr-1], indices: i64[i0 ... iq-1]  ->  T[d0 ... da-1, i0 ... iq-1, da+1 ... dr-1], a = axis."""
    data, indices = operands
    axis = integer(attributes, "axis")
    shape = data.shape[:axis] + indices.shape + data.shape[axis + 1 :]
    if data.shape[axis] == 0:
        return (np.zeros(shape, data.dtype),)
    # A flat index keeps a picked Python object inside an array.
    return (np.take(data, indices.reshape(-1), axis=axis, mode="clip").reshape(shape),)


@prepared("gather")
def _gather_from_row(constants: Constants, attributes: Attributes) -> HostCall | None:
    data = constants.get(0)
    if data is None or data.ndim != 1 or data.size == 0:
        return None
    take = data.take
    # An index of rank 0 would give what is in the array, not an array.
    return lambda data, indices: (
        take(indices, mode="clip") if indices.ndim else take([indices], mode="clip").reshape(()),
    )


@meaning("gather_along")
def gather_along(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """data: T[d0 ... dr-1], indices: i64[i0 ... ir-1]  ->  T[i0 ... ir-1], each index replacing its own along axis."""
    data, indices = operands
    if data.size == 0:
        return (np.zeros(indices.shape, data.dtype),)
    return (data[_grid(indices, data.shape, integer(attributes, "axis"))],)


@meaning("scatter_along")
def scatter_along(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """data: T[d0 ... dr-1], indices: i64[i0 ... ir-1], updates: T[i0 ... ir-1]  ->  T[d0 ... dr-1]

    kind: set, add, mul, min, max, how an update meets the element that its index names along axis.
    """
    data, indices, updates = operands
    if data.size == 0:
        return (data.copy(),)
    grid = _grid(indices, data.shape, integer(attributes, "axis"))
    return (_scatter(data, grid, updates, text(attributes, "kind")),)


def _grid(indices: np.ndarray, shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, ...]:
    """The index of each element of `indices` in an array of `shape`: its own index, but along `axis` its value."""
    grid = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    grid[axis] = np.clip(indices, 0, shape[axis] - 1)
    return tuple(grid)


def _scatter(data: np.ndarray, where: tuple[np.ndarray, ...], updates: np.ndarray, kind: str) -> np.ndarray:
    if kind == "set":
        result = data.copy()
        result[where] = updates
        return result
    result = widen(data).copy()
    UPDATE[kind].at(result, where, widen(updates))
    return narrow(result, data.dtype)


@meaning("gather_nd")
def gather_nd(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """data: T[*B, *P, *R], indices: i64[*B, *I, k]  ->  T[*B, *I, *R], B the first batch_dims axes, P the next k."""
    data, indices = operands
    batch_rank, depth = integer(attributes, "batch_dims", 0), indices.shape[-1]
    batch, picked, rest = (
        data.shape[:batch_rank],
        data.shape[batch_rank : batch_rank + depth],
        data.shape[batch_rank + depth :],
    )
    shape = indices.shape[:-1] + rest
    if data.size == 0:
        return (np.zeros(shape, data.dtype),)
    count = math.prod(indices.shape[batch_rank:-1])
    rows = _flat_index(indices, picked).reshape(math.prod(batch), count)
    flat = data.reshape(math.prod(batch), math.prod(picked), math.prod(rest))
    return (flat[np.arange(math.prod(batch))[:, np.newaxis], rows].reshape(shape),)


@meaning("scatter_nd")
def scatter_nd(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """data: T[*P, *R], indices: i64[*I, k], updates: T[*I, *R]  ->  T[*P, *R], P the first k axes.

    kind: set, add, mul, min, max, how an update meets the slice that its index names.
    """
    data, indices, updates = operands
    if data.size == 0:
        return (data.copy(),)
    depth = indices.shape[-1]
    flat = data.reshape(math.prod(data.shape[:depth]), math.prod(data.shape[depth:]))
    rows = _flat_index(indices, data.shape[:depth])
    result = _scatter(flat, (rows,), updates.reshape(rows.size, flat.shape[1]), text(attributes, "kind"))
    return (result.reshape(data.shape),)


def _flat_index(indices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The row-major index in `shape` of each row of `indices`, in one axis."""
    rows = indices.reshape(math.prod(indices.shape[:-1]), len(shape))
    clamped = np.clip(rows, 0, np.array(shape, np.int64) - 1)
    steps = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)
    return np.asarray(clamped @ steps)
