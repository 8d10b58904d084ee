"""The memory of the caches of a session on a device: calls write into it, and read it where it is."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from onnxc.runtime.decoding.cache_memory import CacheMemory, HostCacheMemory, MakeCacheMemory
from onnxc.runtime.executable import Executable
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.executable import DeviceExecutable
from onnxc.runtime.gpu.memory import Buffer
from onnxc.runtime.signature import TensorInfo

__all__ = ["DeviceCacheMemory", "memory_beside"]

_Copy = tuple[int, int, int]
"""The address that is written, the one that is read, and the bytes."""


class DeviceCacheMemory(CacheMemory):
    """Caches in the memory of a device. No call may be running that uses them while they grow or change order."""

    def __init__(
        self, device: Device, infos: Sequence[TensorInfo], axes: Mapping[str, int], batch: int, capacity: int
    ) -> None:
        super().__init__(infos, axes, batch, capacity)
        self._device = device
        # As large as the largest array, once sequences of it have changed their order.
        self._spare: Buffer | None = None
        with device.current():
            self.arrays = self._allocated(capacity)

    @property
    def values(self) -> Sequence[DeviceArray]:
        return self.arrays

    def _grow(self, capacity: int, used: int) -> None:
        with self._device.current():
            arrays = self._allocated(capacity)
            triples = zip(self.arrays, arrays, self.axes, strict=True)
            self._copy(each for before, after, axis in triples for each in _rows(before, after, axis, used))
        self.arrays, self._spare = arrays, None

    def _reorder(self, rows: np.ndarray, used: int) -> None:
        # Whole sequences, each of which is one copy: the rows in use would be one for each head.
        moving = [(k, row) for k, row in enumerate(rows.tolist()) if k != row]
        if not moving or not used:
            return
        with self._device.current():
            if self._spare is None:
                nbytes = max((array.nbytes for array in self.arrays), default=0)
                self._spare = Buffer(self._device, nbytes, "sequences that change their order")
            for array in self.arrays:
                spare, nbytes = self._spare.address, array.nbytes // len(rows)
                self._copy((spare + k * nbytes, array.address + row * nbytes, nbytes) for k, row in moving)
                self._copy((array.address + k * nbytes, spare + k * nbytes, nbytes) for k, _ in moving)

    def _copy(self, copies: Iterable[_Copy]) -> None:
        """Copies in order; done on return."""
        device, purpose = self._device, "to copy a cache"
        for to, origin, nbytes in copies:
            device.driver.call(purpose, "cuMemcpyDtoDAsync_v2", to, origin, nbytes, device.copy_stream)
        device.driver.call(purpose, "cuStreamSynchronize", device.copy_stream)

    def _allocated(self, capacity: int) -> tuple[DeviceArray, ...]:
        arrays = []
        for shape, dtype in zip(self.shapes(capacity), self.dtypes, strict=True):
            buffer = Buffer(self._device, prod(shape) * dtype.itemsize, "a cache")
            arrays.append(DeviceArray(self._device, buffer.address, shape, dtype, buffer))
        return tuple(arrays)


def memory_beside(executable: Executable) -> MakeCacheMemory:
    """What makes the memory of caches on the device that an executable is on; on the host where it is on none."""
    return partial(DeviceCacheMemory, executable.cuda) if isinstance(executable, DeviceExecutable) else HostCacheMemory


def _rows(before: DeviceArray, after: DeviceArray, axis: int, used: int) -> Iterable[_Copy]:
    """The copies of the first `used` rows along an axis: one for each index of the axes before it."""
    row = prod(before.shape[axis + 1 :]) * before.dtype.itemsize
    for index in range(prod(before.shape[:axis]) if used and row else 0):
        yield (
            after.address + index * after.shape[axis] * row,
            before.address + index * before.shape[axis] * row,
            used * row,
        )
