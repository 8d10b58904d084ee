"""Slices picked and replaced by index, of tensors whose ranks only data tells."""

from collections.abc import Sequence

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.runtime.host import indexed
from onnxc.runtime.host.attributes import integer
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array


@function("gather_nd_any_rank")
def gather_nd_any_rank(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """data: T[*B, *P, *R], indices: i64[*B, *I, k]  ->  T[*B, *I, *R], B the first batch_dims axes, P the next k

    Negative coordinates count from the end of their axis.
    """
    data, indices = map(as_array, operands)
    batch = integer(attributes, "batch_dims")
    fits = _names_axes(indices, data, batch, least=1) and indices.shape[:batch] == data.shape[:batch]
    if not fits:
        raise _unfit("GatherND", data=data, indices=indices)
    depth = indices.shape[-1]
    is_read = 0 not in data.shape[batch + depth :]
    coordinates = _coordinates(indices, data.shape[batch : batch + depth], is_read=is_read)
    return indexed.gather_nd((data, coordinates), attributes)


@function("scatter_nd_any_rank")
def scatter_nd_any_rank(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """data: T[*P, *R], indices: i64[*I, k], updates: T[*I, *R]  ->  T[*P, *R], P the first k axes

    kind: set, add, mul, min, max, how an update meets the slice that its index names. Negative coordinates count from
    the end of their axis.
    """
    data, indices, updates = map(as_array, operands)
    fits = _names_axes(indices, data, 0, least=0)
    if not fits or updates.shape != indices.shape[:-1] + data.shape[indices.shape[-1] :]:
        raise _unfit("ScatterND", data=data, indices=indices, updates=updates)
    coordinates = _coordinates(indices, data.shape[: indices.shape[-1]], is_read=updates.size > 0)
    return indexed.scatter_nd((data, coordinates, updates), attributes)


def _names_axes(indices: np.ndarray, data: np.ndarray, batch: int, least: int) -> bool:
    """Whether both have an axis beyond those of the batch, and a row names at least `least` axes that there are."""
    return batch < min(indices.ndim, data.ndim) and least <= indices.shape[-1] <= data.ndim - batch


def _coordinates(indices: np.ndarray, sizes: Sequence[int], *, is_read: bool) -> np.ndarray:
    """Rows of coordinates counted from the start; an InputError where one that is read is outside of its axis."""
    limits = np.array(sizes, np.int64)
    outside = np.argwhere((indices < -limits) | (indices >= limits))
    if is_read and len(outside):
        first = tuple(outside[0])
        message = f"index {indices[first]} is outside of an axis of size {limits[first[-1]]}"
        raise InputError(message, code="index-out-of-range")
    return np.where(indices < 0, indices + limits, indices)


def _unfit(operator: str, **given: np.ndarray) -> InputError:
    shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in given.items())
    return InputError(f"the shapes do not fit together in {operator}: {shapes}", code="illegal-data")
