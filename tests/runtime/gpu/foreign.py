"""Arrays of another library on the fake device, as PyTorch and CuPy show theirs."""

import ctypes
from math import prod

import numpy as np

from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.gpu.dlpack import export_capsule, read_capsule
from tests.support.fake_driver import FakeDriver


class WithInterface:
    """`__cuda_array_interface__`; strides in elements, None for a contiguous array."""

    def __init__(
        self,
        fake: FakeDriver,
        array: np.ndarray,
        *,
        offset: int = 0,
        shape: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
        stream: int | None = None,
        read_only: bool = False,
    ) -> None:
        self.fake, self.dtype, self.storage = fake, array.dtype, array.shape
        self.address = fake.place(array, offset)
        self.interface: dict[str, object] = {
            "shape": array.shape if shape is None else shape,
            "typestr": array.dtype.str,
            "data": (self.address, read_only),
            "strides": None if strides is None else tuple(step * array.itemsize for step in strides),
            "version": 3,
            "stream": stream,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return self.interface

    def numpy(self) -> np.ndarray:
        return self.fake.view(self.address, self.dtype, self.storage).copy()


class WithDLPack:
    """DLPack alone; `streams` are those that consumers have named."""

    def __init__(self, fake: FakeDriver, array: np.ndarray, device: int = 0) -> None:
        self.array, self.device = array, device
        self.address = fake.place(array)
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, *, stream: int | None = None) -> object:
        self.streams.append(stream)
        return export_capsule(self.address, self.array.shape, self.array.dtype, self.device, self)


class Consumer:
    """What a library sees of an array on a device that it is given through DLPack."""

    def __init__(self, array: object, stream: int | None = None) -> None:
        self.found = read_capsule(array.__dlpack__(stream=stream), "the array")

    def numpy(self, fake: FakeDriver) -> np.ndarray:
        return fake.view(self.found.address, self.found.dtype, self.found.shape).copy()


def take_capsule(capsule: object) -> tuple[int, ctypes._CFuncPtr]:
    """Takes what is in a capsule, as a consumer in C does: its address, and the function that gives it back."""
    api = ctypes.pythonapi
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", api))
    address = pointer(capsule, b"dltensor")
    rename(capsule, USED)
    deleter = ctypes.c_void_p.from_address(address + DELETER).value
    return address, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)


# The capsule keeps the pointer to its name; the deleter lies behind a DLTensor of 48 bytes and a pointer.
USED, DELETER = b"used_dltensor", 56

EXCHANGED = [name for name in DTYPES if name[:2] not in ("f4", "f6", "i4", "i2", "u4", "u2") and name != "string"]


def sample(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array of any type; its elements are all different as far as the type allows."""
    dtype = DTYPES[name]
    if name == "bool":
        return np.arange(prod(shape)).reshape(shape) % 2 == 1
    return np.arange(prod(shape) * dtype.itemsize, dtype=np.uint8).view(dtype).reshape(shape)
