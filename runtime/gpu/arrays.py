"""Arrays on a device: what calls give and take there, shared with other libraries without a copy.

`__cuda_array_interface__` is version 3 of the interface that CuPy, Numba and PyTorch know; DLPack is in
runtime/gpu/dlpack.py.
"""

from math import prod
from typing import NoReturn, Protocol

import numpy as np

from onnxc.runtime.arrays import describe
from onnxc.runtime.device_value import DeviceValue
from onnxc.runtime.dtypes import STRING, DType
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.dlpack import CUDA_DEVICE, export_capsule

__all__ = ["ALIGNMENT", "LEGACY_STREAM", "DeviceArray", "Work"]

# What kernels assume of every address, in bytes.
ALIGNMENT = 16

# CU_STREAM_LEGACY: the default stream, by a handle that is not 0.
LEGACY_STREAM = 1


class Work(Protocol):
    """What makes an array and may not be done: a call, in the order of a stream."""

    stream: int
    event: int

    def wait(self) -> None:
        """Returns when it is done; raises InputError where its data was not legal. The context must be current."""


class DeviceArray(DeviceValue):
    """A contiguous array on a CUDA device.

    `owner` keeps its memory alive. `work` is what makes it, None if that is done: the elements of a call that was
    given a stream are there in the order of that stream.
    """

    __slots__ = ("__weakref__", "_host", "address", "device", "dtype", "nbytes", "owner", "shape", "work")

    def __init__(
        self,
        device: Device,
        address: int,
        shape: tuple[int, ...],
        dtype: DType,
        owner: object,
        work: Work | None = None,
        host: np.ndarray | None = None,
        nbytes: int | None = None,
    ) -> None:
        self.device, self.address, self.shape, self.dtype = device, address, shape, dtype
        self.owner, self.work, self._host = owner, work, host
        self.nbytes = prod(shape) * dtype.itemsize if nbytes is None else nbytes

    def __repr__(self) -> str:
        return f"<DeviceArray {describe(self)} {self.device.properties.ordinal}>"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def numpy(self) -> np.ndarray:
        """A copy in the memory of the host; waits for the call that makes the array.

        Raises InputError where the data of that call, or of one before it that nobody waited for, was not legal.
        """
        return self._download()

    def wait(self) -> None:
        """Returns when the array is there; raises as `numpy` does."""
        with self.device.current():
            self._finish_work()

    def host(self) -> np.ndarray:
        """The elements on the host, copied the first time."""
        if self._host is None:
            self._host = self._download()
        return self._host

    def first(self, shape: tuple[int, ...]) -> "DeviceArray":
        if shape == self.shape:
            return self
        return DeviceArray(self.device, self.address, shape, self.dtype, self.owner, self.work)

    def within(self, work: Work) -> "DeviceArray":
        """The array as a call sees it while it lasts; what it held before is not what the call finds."""
        return DeviceArray(self.device, self.address, self.shape, self.dtype, self, work, nbytes=self.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        if self.dtype.kind == "V" or self.dtype == STRING:
            raise AttributeError(f"{describe(self)} has no type in __cuda_array_interface__; use DLPack")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            "stream": None if self.work is None else self.work.stream or LEGACY_STREAM,
        }

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        """Raises TypeError: a copy to the host is never made in passing."""
        raise TypeError(f"{describe(self)}: numpy() copies it to the host")

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA_DEVICE, self.device.properties.ordinal

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """The array in a capsule; what follows on `stream` finds the elements there (-1: the consumer cares for that).

        `max_version` may be anything: the capsule is of the form that all consumers read.
        """
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("a DeviceArray is exported without a copy, on its own device")
        if self.work is not None and stream != -1:
            with self.device.current():
                purpose = "to make a stream wait for an array"
                self.device.driver.call(purpose, "cuStreamWaitEvent", stream or LEGACY_STREAM, self.work.event, 0)
        return export_capsule(self.address, self.shape, self.dtype, self.device.properties.ordinal, self)

    def _finish_work(self) -> None:
        if self.work is not None:
            self.work.wait()

    def _download(self) -> np.ndarray:
        array = np.empty(self.shape, self.dtype)
        with self.device.current():
            self._finish_work()
            if self.nbytes:
                self.device.download(array.ctypes.data, self.address, self.nbytes)
        return array
