"""The memory of the caches of a session: as much as is in use and room for more, which grows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from onnxc.runtime.dtypes import DType
from onnxc.runtime.errors import DeviceError, UnsupportedError
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.signature import TensorInfo

__all__ = ["CacheMemory", "HostCacheMemory", "MakeCacheMemory"]

LEAST_ROWS = 64
"""Memory does not grow to fewer rows: those of a short prompt and its answer, at some tens of kilobytes each."""


class CacheMemory(ABC):
    """An array for each cache, all with room for `capacity` rows along the axis that grows.

    Where the arrays lie is for a subclass to say; it makes the first ones.
    """

    def __init__(self, infos: Sequence[TensorInfo], axes: Mapping[str, int], batch: int, capacity: int) -> None:
        self.axes = tuple(axes[info.name] for info in infos)
        self.dtypes = tuple(_dtype(info) for info in infos)
        self._shapes = tuple(_shape(info, axes[info.name], batch) for info in infos)
        self.capacity = capacity

    @property
    @abstractmethod
    def values(self) -> Sequence[object]:
        """The arrays, as a call takes them."""

    @property
    def nbytes(self) -> int:
        """What all arrays take."""
        pairs = zip(self.shapes(self.capacity), self.dtypes, strict=True)
        return sum(prod(shape) * dtype.itemsize for shape, dtype in pairs)

    def shapes(self, capacity: int) -> list[tuple[int, ...]]:
        """Those of the arrays with room for so many rows."""
        pairs = zip(self._shapes, self.axes, strict=True)
        return [(*shape[:axis], capacity, *shape[axis + 1 :]) for shape, axis in pairs]

    def reserve(self, rows: int, used: int, most: int | None) -> None:
        """Makes room for so many rows, of which the first `used` are kept.

        Memory grows by half at least, so that a row is copied twice on average however many come; never beyond `most`
        where fewer are enough.
        """
        if rows <= self.capacity:
            return
        wanted = max(rows, self.capacity + self.capacity // 2, LEAST_ROWS)
        capacity = max(rows, min(wanted, most)) if most is not None else wanted
        self._grow(capacity, used)
        self.capacity = capacity

    def reorder(self, rows: np.ndarray, used: int) -> None:
        """Row k of the batch becomes what row `rows[k]` is; one alone stays, and its cache may have no such axis."""
        if len(rows) > 1:
            self._reorder(rows, used)

    @abstractmethod
    def _grow(self, capacity: int, used: int) -> None:
        """Replaces the arrays by larger ones, with the first `used` rows of each."""

    @abstractmethod
    def _reorder(self, rows: np.ndarray, used: int) -> None:
        """As `reorder`, of several rows."""


MakeCacheMemory = Callable[[Sequence[TensorInfo], Mapping[str, int], int, int], CacheMemory]
"""Memory of caches from their descriptions, their axes that grow by name, the batch and the capacity."""


class HostCacheMemory(CacheMemory):
    """Caches in the memory of the host."""

    def __init__(self, infos: Sequence[TensorInfo], axes: Mapping[str, int], batch: int, capacity: int) -> None:
        super().__init__(infos, axes, batch, capacity)
        self.arrays = self._allocated(capacity)

    @property
    def values(self) -> Sequence[np.ndarray]:
        return self.arrays

    def _grow(self, capacity: int, used: int) -> None:
        arrays = self._allocated(capacity)
        for before, after, axis in zip(self.arrays, arrays, self.axes, strict=True):
            after[_first(axis, used)] = before[_first(axis, used)]
        self.arrays = arrays

    def _reorder(self, rows: np.ndarray, used: int) -> None:
        for array, axis in zip(self.arrays, self.axes, strict=True):
            part = array[_first(axis, used)]
            part[...] = part[rows]

    def _allocated(self, capacity: int) -> tuple[np.ndarray, ...]:
        pairs = zip(self.shapes(capacity), self.dtypes, strict=True)
        return tuple(_empty(shape, dtype) for shape, dtype in pairs)


def _first(axis: int, count: int) -> tuple[slice, ...]:
    """The index of the first so many rows."""
    return (*(slice(None),) * axis, slice(0, count))


def _empty(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    nbytes = prod(shape) * dtype.itemsize
    try:
        return allocate_aligned(nbytes).view(dtype).reshape(shape)
    except (MemoryError, ValueError) as problem:
        # NumPy has a ValueError for more than a process can have at all.
        message = f"a cache of {nbytes} bytes is more memory than there is"
        raise DeviceError(message, code="out-of-memory") from problem


def _dtype(info: TensorInfo) -> DType:
    assert info.dtype is not None, info
    return info.dtype


def _shape(info: TensorInfo, axis: int, batch: int) -> tuple[int, ...]:
    """The shape without rows: the first size is the batch, the others are fixed by the model."""
    assert info.shape is not None, info
    sizes = [batch if other == 0 and isinstance(size, str) else size for other, size in enumerate(info.shape)]
    sizes[axis] = 0
    if not all(isinstance(size, int) for size in sizes):
        message = f'the cache "{info}" has sizes beside the batch and the rows that the model does not say'
        raise UnsupportedError(message, code="unsupported-decoder-cache")
    return tuple(size for size in sizes if isinstance(size, int))
