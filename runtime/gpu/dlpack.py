"""DLPack without a library: capsules that hand out arrays on a device, and those of others read.

Source: dlpack.h, version 0.8 and its later type codes; a capsule named "dltensor" holds a DLManagedTensor.
"""

import ctypes
from collections.abc import Mapping
from math import prod

from onnxc.runtime.dtypes import DTYPES, DType, dtype_name
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["CUDA_DEVICE", "Described", "export_capsule", "read_capsule"]

CUDA_DEVICE = 2

_NAME = b"dltensor"

# Type code and bits of the element types that other libraries know as we do: whole bytes, one element in each place.
_CODES: Mapping[str, tuple[int, int]] = {
    "i8": (0, 8), "i16": (0, 16), "i32": (0, 32), "i64": (0, 64),
    "u8": (1, 8), "u16": (1, 16), "u32": (1, 32), "u64": (1, 64),
    "f16": (2, 16), "f32": (2, 32), "f64": (2, 64), "bf16": (4, 16), "c64": (5, 64), "c128": (5, 128), "bool": (6, 8),
    "f8e4m3fn": (10, 8), "f8e4m3fnuz": (11, 8), "f8e5m2": (12, 8), "f8e5m2fnuz": (13, 8), "f8e8m0": (14, 8),
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _ManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

_api = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
# In a destructor the object must not be touched by Python any more: it is passed as an address.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

# What is handed out, by the address of its structure, until the consumer gives it back.
_exported: dict[int, tuple[object, ...]] = {}


@record
class Described:
    """An array of another library: `strides` in elements, None where it is contiguous."""

    address: int
    device: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: DType
    owner: object
    is_read_only: bool = False


def export_capsule(address: int, shape: tuple[int, ...], dtype: DType, device: int, owner: object) -> object:
    """A capsule for the array; `owner` is kept alive until the consumer gives it back. BufferError for other types."""
    name = dtype_name(dtype)
    if name not in _CODES:
        raise BufferError(f"DLPack has no element type for {name} as onnxc stores it")
    code, bits = _CODES[name]
    axes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    steps = (ctypes.c_int64 * max(len(shape), 1))(*(prod(shape[axis + 1 :]) for axis in range(len(shape))))
    managed = _ManagedTensor()
    managed.tensor = _Tensor(address, CUDA_DEVICE, device, len(shape), code, bits, 1, axes, steps, 0)
    managed.deleter = ctypes.cast(_delete, ctypes.c_void_p).value
    address = ctypes.addressof(managed)
    _exported[address] = (managed, axes, steps, owner)
    capsule: object = _new_capsule(address, _NAME, ctypes.cast(_destroy, ctypes.c_void_p).value)
    return capsule


def read_capsule(capsule: object, what: str) -> Described:
    """The array in a capsule, on whatever CUDA device; it is alive as long as the capsule. Raises InputError."""
    try:
        address = _pointer_of(capsule, _NAME)
    except ValueError as problem:
        raise InputError(f'{what} gave a capsule that is no "dltensor"', code="input-type") from problem
    tensor = _ManagedTensor.from_address(address).tensor
    name = _NAMES.get((tensor.code, tensor.bits))
    if tensor.device_type != CUDA_DEVICE or tensor.lanes != 1 or name is None:
        kind = f"type code {tensor.code} of {tensor.bits} bits"
        message = f"{what} is a DLPack array of device type {tensor.device_type}, {kind}, {tensor.lanes} lanes"
        raise InputError(f"{message}; expected one on a CUDA device of a type that onnxc has", code="input-type")
    rank = tensor.ndim
    strides = tuple(tensor.strides[:rank]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    return Described(address, tensor.device_id, tuple(tensor.shape[:rank]), strides, DTYPES[name], capsule)


def _give_back(address: int) -> None:
    _exported.pop(address, None)


def _close_capsule(capsule: int) -> None:
    """A capsule dies: if nobody has taken what is in it, which renames it, it is given back."""
    if _is_valid(capsule, _NAME):
        _give_back(_pointer_in(capsule, _NAME))


_delete = _Deleter(_give_back)
_destroy = _Destructor(_close_capsule)
