"""Arrays that callers pass: those on the device as they are, in the order of the streams, all others from the host.

DLPack tells the element types that the array interface does not have, and orders streams itself, so it comes first.
"""

import ctypes
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Protocol

import numpy as np

from onnxc.runtime.arrays import import_array, type_text, unreadable
from onnxc.runtime.dtypes import DType, dtype_name
from onnxc.runtime.errors import InputError, OnnxcError
from onnxc.runtime.gpu.arrays import ALIGNMENT, LEGACY_STREAM, DeviceArray
from onnxc.runtime.gpu.dlpack import CUDA_DEVICE, Described, read_capsule
from onnxc.runtime.gpu.workspaces import Call

__all__ = ["import_output", "import_tensor", "readable_arrays"]

# CUpointer_attribute.
_DEVICE_ORDINAL = 9

# A copy of an array that is not contiguous takes one copy for each contiguous part of it.
_PARTS_LIMIT = 1024


class StreamedDLPack(Protocol):
    """Arrays of other libraries on a device, which share memory through DLPack in the order of a stream."""

    def __dlpack__(self, *, stream: int) -> object: ...


def readable_arrays(
    values: Sequence[object], expected: Sequence[tuple[DType | None, int]], call: Call
) -> list[DeviceArray | None]:
    """Of each value itself, if it is an array of ours that the call can read where it lies; None for all others.

    expected: the element type and rank of each. The call follows what makes the arrays.
    """
    device, readable = call.device, list[DeviceArray | None]()
    ordinal = device.properties.ordinal
    # Calls in a row, as when tokens are generated, have tens of such arrays: a function for each would take most of it.
    for value, (dtype, rank) in zip(values, expected, strict=True):
        if (
            type(value) is not DeviceArray
            or value.dtype is not dtype
            or len(value.shape) != rank
            or not value.nbytes
            or value.address % ALIGNMENT
            or (value.device is not device and value.device.properties.ordinal != ordinal)
        ):
            readable.append(None)
            continue
        if value.work is not None:
            call.follow_work(value)
        readable.append(value)
    if any(readable):
        call.follow_default()
    return readable


def import_tensor(value: object, dtype: DType, what: str, expected: str, call: Call) -> np.ndarray | DeviceArray:
    """A tensor that a caller passes to the call: on the device if it is there, else in the memory of the host.

    Memory is shared where it is contiguous and aligned. Raises InputError.
    """
    described = _describe(value, what, expected, call)
    if described is None:
        return import_array(value, dtype, what, expected)
    _expect_type(described, dtype, what, expected, call)
    if prod(described.shape) == 0:
        return call.new_array(described.shape, dtype, "an empty array")
    if _is_contiguous(described) and described.address % ALIGNMENT == 0:
        return DeviceArray(call.device, described.address, described.shape, dtype, described.owner)
    return _copied(described, what, call)


def import_output(value: object, dtype: DType, what: str, expected: str, call: Call) -> DeviceArray | None:
    """An array on the device that the call is to write into; None for what lies on the host. Raises InputError."""
    described = _describe(value, what, expected, call)
    if described is None:
        return None
    _expect_type(described, dtype, what, expected, call)
    if isinstance(value, DeviceArray):
        return value
    if described.is_read_only or not _is_contiguous(described) or described.address % ALIGNMENT:
        state = (
            "that cannot be written to"
            if described.is_read_only
            else f"at {described.address:#x} with {described.strides}"
        )
        message = f"{what} is an array {state}, expected a contiguous one on a boundary of {ALIGNMENT} bytes"
        raise InputError(message, code="output-layout")
    return DeviceArray(call.device, described.address, described.shape, dtype, described.owner)


def _describe(value: object, what: str, expected: str, call: Call) -> Described | None:
    """What is known of an array on a device, which the call follows then; None for what lies on the host."""
    if isinstance(value, np.ndarray):
        return None
    if isinstance(value, DeviceArray):
        call.follow_work(value)
        call.follow_default()
        ordinal = value.device.properties.ordinal
        return Described(value.address, ordinal, value.shape, None, value.dtype, value)
    try:
        return _describe_foreign(value, what, expected, call)
    except (OnnxcError, MemoryError):
        raise
    except Exception as problem:
        # The other library may raise anything, as in runtime/arrays.py.
        raise unreadable(value, problem, what, expected) from problem


def _describe_foreign(value: object, what: str, expected: str, call: Call) -> Described | None:
    # Protocols that are checked at run time would take longer than all of the rest.
    device_of = getattr(value, "__dlpack_device__", None)
    if device_of is not None and device_of()[0] == CUDA_DEVICE:
        return _from_dlpack(value, what, call)  # type: ignore[arg-type]
    interface = getattr(value, "__cuda_array_interface__", None)
    return None if interface is None else _from_interface(value, interface, what, expected, call)


def _from_dlpack(value: StreamedDLPack, what: str, call: Call) -> Described:
    # The number 0 is not allowed here.
    stream = call.stream or LEGACY_STREAM
    call.follow_default()
    return read_capsule(value.__dlpack__(stream=stream), what)


def _from_interface(value: object, interface: Mapping[str, object], what: str, expected: str, call: Call) -> Described:
    data, shape, strides = interface["data"], interface["shape"], interface.get("strides")
    assert isinstance(data, tuple)
    assert isinstance(shape, tuple)
    assert strides is None or isinstance(strides, tuple)
    dtype, (address, is_read_only) = np.dtype(str(interface["typestr"])), data
    steps = None if strides is None else tuple(step // dtype.itemsize for step in strides)
    if interface.get("mask") is not None:
        raise InputError(f"{what} has a mask, expected {expected}", code="input-type")
    stream = interface.get("stream")
    if isinstance(stream, int):
        call.follow_stream(stream)
    call.follow_default()
    device = _device_of(address, call) if address and prod(shape) else call.device.properties.ordinal
    if device is None:
        raise InputError(f"{what} has an address that is on no CUDA device, expected {expected}", code="input-device")
    return Described(address or 0, device, shape, steps, dtype, value, bool(is_read_only))


def _device_of(address: int, call: Call) -> int | None:
    """The number of the device that an address is on."""
    ordinal = ctypes.c_int()
    ask = call.device.driver.functions["cuPointerGetAttribute"]
    return None if ask(ctypes.byref(ordinal), _DEVICE_ORDINAL, address) else ordinal.value


def _expect_type(described: Described, dtype: DType, what: str, expected: str, call: Call) -> None:
    """InputError unless the array is of the element type and on the device of the call."""
    is_here = described.device == call.device.properties.ordinal
    if described.dtype == dtype and is_here:
        return
    came = type_text(dtype_name(described.dtype), described.shape)
    if is_here:
        raise InputError(f"{what} is {came} on the device, expected {expected}", code="input-dtype")
    message = f"{what} is {came} on CUDA device {described.device}, and the model is on {call.device}"
    raise InputError(message, code="input-device")


def _copied(given: Described, what: str, call: Call) -> DeviceArray:
    """A contiguous copy on the device, in parts that are contiguous."""
    inner, itemsize, strides = len(given.shape), given.dtype.itemsize, given.strides or _dense(given.shape)
    run = 1
    while inner and (given.shape[inner - 1] == 1 or strides[inner - 1] == run):
        inner -= 1
        run *= given.shape[inner]
    parts = prod(given.shape[:inner])
    if parts > _PARTS_LIMIT:
        message = (
            f"{what} is {type_text(dtype_name(given.dtype), given.shape)} on the device with strides {list(strides)}, "
            f"which lies in {parts} parts: pass a contiguous array"
        )
        raise InputError(message, code="input-layout")
    made = call.new_array(given.shape, given.dtype, f"a copy of {what}")
    for part, at in enumerate(product(*map(range, given.shape[:inner]))):
        offset = sum(index * step for index, step in zip(at, strides, strict=False))
        call.copy(made.address + part * run * itemsize, given.address + offset * itemsize, run * itemsize)
    # What is copied must be alive until the copy is done.
    made.owner = (made.owner, given.owner)
    return made


def _is_contiguous(described: Described) -> bool:
    return described.strides is None or all(
        size == 1 or step == dense
        for size, step, dense in zip(described.shape, described.strides, _dense(described.shape), strict=True)
    )


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous array."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
