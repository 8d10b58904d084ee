"""Values that a caller keeps between runs, and the devices that they are on: the CPU is the one there is."""

import ctypes
import math
import operator
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from onnxc.compat.onnxruntime.node_args import tensor_text
from onnxc.compat.onnxruntime.sparse_tensors import SparseTensor
from onnxc.compiler.frontend.element_types import ELEMENT_TYPES, code_of
from onnxc.compiler.ir.dtypes import dtype_of
from onnxc.runtime.sparse_tensor import SparseTensor as StoredTensor

__all__ = [
    "ElementTypeLike", "OrtDevice", "OrtDeviceVendorId", "OrtMemType", "OrtValue", "OrtValueVector", "array_at",
    "expect_cpu", "ort_outputs",
]  # fmt: skip

ElementTypeLike = npt.DTypeLike | int | None
"""An element type of NumPy, or the number of one of ONNX."""


class OrtDeviceVendorId(IntEnum):
    """Makers of devices, by their numbers on the PCI bus."""

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtMemType(IntEnum):
    """Kinds of memory."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


_KINDS = {"cpu": 0, "cuda": 1, "gpu": 1, "webgpu": 1, "fpga": 2, "cann": 3, "npu": 3, "dml": 4}
_VENDORS = {
    "cuda": OrtDeviceVendorId.NVIDIA, "dml": OrtDeviceVendorId.MICROSOFT, "cann": OrtDeviceVendorId.HUAWEI,
}  # fmt: skip


class OrtDevice:
    """A device, there or not: the numbers of its kind, its kind of memory, and its maker if given, and its index."""

    def __init__(self, kind: int, memory: int, *vendor_and_index: int) -> None:
        *vendor, self._index = vendor_and_index
        self._kind, self._memory, self._vendor = kind, memory, OrtDeviceVendorId(*vendor or (0,))

    @staticmethod
    def make(name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        """The device of that kind. Raises RuntimeError for a kind that there is not."""
        kind = name.lower()
        if kind not in _KINDS:
            raise RuntimeError(f"Unsupported device type: {name}")
        return OrtDevice(_KINDS[kind], 0, _VENDORS.get(kind, 0) if vendor_id < 0 else vendor_id, device_id)

    @staticmethod
    def cpu() -> int:
        """The number of this kind of device, as that of the others."""
        return _KINDS["cpu"]

    @staticmethod
    def cuda() -> int:
        return _KINDS["cuda"]

    @staticmethod
    def dml() -> int:
        return _KINDS["dml"]

    @staticmethod
    def default_memory() -> int:
        """The number of the one kind of memory."""
        return 0

    def _get_c_device(self) -> "OrtDevice":
        """What functions of the extension module take: here the device itself."""
        return self

    def device_id(self) -> int:
        return self._index

    def device_type(self) -> int:
        return self._kind

    def device_mem_type(self) -> int:
        return self._memory

    def device_vendor_id(self) -> OrtDeviceVendorId:
        return self._vendor


def expect_cpu(device: str | OrtDevice) -> None:
    """RuntimeError for another device than the CPU."""
    kind = device.device_type() if isinstance(device, OrtDevice) else _KINDS.get(device.lower())
    if kind != _KINDS["cpu"]:
        message = f"values are kept on the CPU here, not on {device!r}: for GPUs use onnxc.compile(target='cuda')"
        raise RuntimeError(message)


class _Capsule:
    """What a library gave for a tensor on the CPU, as NumPy takes it."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_options: object) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OrtValue:
    """A value of a run. A tensor shares its memory with the array that it was made from."""

    def __init__(self, value: object) -> None:
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray, device_type: str | OrtDevice = "cpu", device_id: int = 0) -> "OrtValue":
        """The array as a value; only what is not contiguous is copied."""
        expect_cpu(device_type)
        # A scalar would become an array of rank 1.
        return OrtValue(array if array.flags.c_contiguous else np.ascontiguousarray(array))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(array: np.ndarray, onnx_element_type: int) -> "OrtValue":
        """The array, its bits read as elements of a type of ONNX by its number."""
        dtype = ELEMENT_TYPES[operator.index(onnx_element_type)].dtype.numpy
        return OrtValue.ortvalue_from_numpy(array if array.dtype == dtype else array.view(dtype))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: ElementTypeLike = None,
        device_type: str = "cpu",
        device_id: int = 0,
    ) -> "OrtValue":
        """A tensor whose elements are whatever was in memory."""
        expect_cpu(device_type)
        return OrtValue(np.empty(tuple(shape), _numpy_type(element_type)))

    @staticmethod
    def ort_value_from_sparse_tensor(sparse: SparseTensor) -> "OrtValue":
        return OrtValue(sparse.stored())

    @staticmethod
    def from_dlpack(source: object, is_bool_tensor: bool = False) -> "OrtValue":
        """What another library shares through DLPack: a tensor of it, or the capsule that it gave.

        is_bool_tensor: the bytes are booleans, which old capsules have no type for.
        """
        array = np.from_dlpack(source if hasattr(source, "__dlpack__") else _Capsule(source))
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    @property
    def _ortvalue(self) -> "OrtValue":
        """The value of the extension module, which programs reach for: here the value itself."""
        return self

    def _get_c_value(self) -> "OrtValue":
        return self

    def _tensor(self) -> np.ndarray:
        if not isinstance(self._value, np.ndarray):
            raise RuntimeError(f"only tensors have this, the value is of type {self.data_type()}")
        return self._value

    def numpy(self) -> np.ndarray:
        """The tensor; the memory is that of this value."""
        return self._tensor()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._tensor(), dtype, copy=copy)

    def __dlpack__(self, **options: object) -> object:
        return self._tensor().__dlpack__(**options)  # type: ignore[arg-type]

    def to_dlpack(self) -> object:
        """The capsule that `from_dlpack` of another library takes."""
        return self.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor().__dlpack_device__()

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._tensor().ctypes.data)

    def device_name(self) -> str:
        return "cpu"

    def shape(self) -> list[int]:
        return list(self._tensor().shape)

    def element_type(self) -> int:
        """The number that ONNX gives the element type."""
        return code_of(dtype_of(self._tensor().dtype)) if self._tensor().dtype != object else _STRING

    def data_type(self) -> str:
        """As "tensor(float)"; of sequences the type of the first element."""
        if isinstance(self._value, np.ndarray):
            return tensor_text(self.element_type())
        if isinstance(self._value, StoredTensor):
            return self.as_sparse_tensor().data_type()
        if isinstance(self._value, list):
            return f"seq({OrtValue(self._value[0]).data_type() if self._value else ''})"
        return "map" if isinstance(self._value, dict) else "optional"

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        return isinstance(self._value, StoredTensor)

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list) and all(isinstance(each, np.ndarray) for each in self._value)

    def as_sparse_tensor(self) -> SparseTensor:
        if isinstance(self._value, StoredTensor):
            return SparseTensor.of_stored(self._value)
        raise RuntimeError(f"this value has no sparse tensor, it is of type {self.data_type()}")

    def tensor_size_in_bytes(self) -> int:
        return int(self._tensor().nbytes)

    def update_inplace(self, array: np.ndarray) -> None:
        """Copies the array into the memory of this value. Raises RuntimeError where type or size differ."""
        mine = self._tensor()
        if array.dtype != mine.dtype or array.size != mine.size:
            raise RuntimeError(f"{array.dtype}{list(array.shape)} does not fit into {mine.dtype}{list(mine.shape)}")
        mine[...] = array.reshape(mine.shape)


_STRING = 8
"""The number of ONNX's element type string, which NumPy has as objects."""


class OrtValueVector(list[OrtValue]):
    """Values in a row, as the functions of the extension module give them."""

    def push_back(self, value: OrtValue) -> None:
        """Adds a value at the end."""
        self.append(value)


def ort_outputs(values: Sequence[object]) -> OrtValueVector:
    """What a run gave, as values."""
    return OrtValueVector(OrtValue(value) for value in values)


def array_at(address: int, shape: Sequence[int], element_type: ElementTypeLike) -> np.ndarray:
    """The memory at an address as an array; its owner must keep it."""
    element = _numpy_type(element_type)
    size = math.prod(shape) * element.itemsize
    if not size:
        return np.empty(tuple(shape), element)
    memory = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
    array: np.ndarray = np.frombuffer(memory, element).reshape(tuple(shape))
    return array


def _numpy_type(element_type: ElementTypeLike) -> np.dtype:
    if isinstance(element_type, int) and element_type not in ELEMENT_TYPES:
        raise RuntimeError(f"tensor type {element_type} is not supported")
    return ELEMENT_TYPES[element_type].dtype.numpy if isinstance(element_type, int) else np.dtype(element_type)
