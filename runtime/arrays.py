"""What callers pass, as arrays that native code can read: contiguous, aligned, in the element type that is expected.

Memory is shared where it can be. A value is converted only where nothing is lost: an array keeps its element type,
and a Python number or list, which has none, takes the one that is expected if it can hold every element. Floats are
rounded, as NumPy does it, but a finite one never becomes infinite. A mask is never dropped.

Code of the caller's runs where a value is no array of NumPy: whatever Exception it raises becomes an InputError, whose
`__cause__` it is. KeyboardInterrupt and SystemExit pass through; for MemoryError see runtime/executable.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from onnxc.runtime.device_value import DeviceValue
from onnxc.runtime.dtypes import STRING, DType, dtype_kind, dtype_name
from onnxc.runtime.errors import InputError, OnnxcError
from onnxc.runtime.sparse_tensor import SparseTensor

__all__ = ["describe", "import_array", "is_masked", "is_ready", "plain_mapping", "type_text", "unreadable"]

# NumPy's flags C_CONTIGUOUS and ALIGNED.
READY_FLAGS = 0x0101

# The device types of DLPack whose memory the processor can read: kDLCPU, kDLCUDAHost.
_HOST_MEMORY = (1, 3)

# Names, or the keys of a map.
Key = TypeVar("Key")

_PYTHON_VALUES = (bool, int, float, complex, str, list, tuple)


@runtime_checkable
class SupportsDLPack(Protocol):
    """Arrays of other libraries that share memory through DLPack."""

    def __dlpack__(self) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


def import_array(value: object, dtype: DType, what: str, expected: str) -> np.ndarray:
    """`value` as an array that native code can read; `what` and `expected` are for the message where it cannot be one.

    Raises InputError.
    """
    if type(value) is np.ndarray and value.dtype == dtype and dtype != STRING and is_ready(value):
        return value
    array = _as_array(value, dtype, what, expected)
    if dtype == STRING:
        return _strings(array, what, expected)
    if array.dtype != dtype:
        if array.dtype.newbyteorder("=") != dtype:
            message = f"{what} is {describe(array)}, expected {expected}{_advice(array, dtype)}"
            raise InputError(message, code="input-dtype")
        return array.astype(dtype, order="C")
    return array if is_ready(array) else array.copy(order="C")


def _advice(array: np.ndarray, dtype: DType) -> str:
    """How to convert numbers, which is not done unasked: values and precision may be lost."""
    is_numeric = array.dtype.kind in "biuf" and dtype != STRING
    return f': convert it with .astype("{dtype.name}")' if is_numeric else ""


def plain_mapping(value: Mapping[Key, object], what: str, expected: str, code: str) -> Mapping[Key, object]:
    """What a mapping of the caller's holds; InputError where it fails to say."""
    if type(value) is dict:
        return value
    try:
        return dict(value.items())
    except (OnnxcError, MemoryError):
        raise
    except Exception as problem:
        raise unreadable(value, problem, what, expected, code) from problem


def unreadable(value: object, problem: Exception, what: str, expected: str, code: str = "input-type") -> InputError:
    """The error for a value whose own code, or NumPy's for it, has raised `problem`."""
    reason = f"{type(problem).__name__}: {problem}"
    return InputError(f"{what} is {describe(value)} that cannot be read ({reason}), expected {expected}", code=code)


def is_masked(value: object) -> bool:
    """Whether elements of an array are masked out, for which nothing but its own library has a meaning."""
    return isinstance(value, np.ndarray) and type(value) is not np.ndarray and np.ma.is_masked(value)


def is_ready(array: np.ndarray) -> bool:
    """Whether native code can read the array as it is."""
    return array.flags.num & READY_FLAGS == READY_FLAGS


def describe(value: object) -> str:
    """The type of what came: f32[2, 3] for an array, else the name of its class."""
    if isinstance(value, np.ndarray):
        order = "" if value.dtype.isnative else " in foreign byte order"
        return type_text(dtype_name(value.dtype.newbyteorder("=")), value.shape) + order
    if isinstance(value, DeviceValue):
        return f"{type_text(dtype_name(value.dtype), value.shape)} on the device"
    if isinstance(value, SparseTensor) and isinstance(value.values, np.ndarray):
        return f"sparse({type_text(dtype_name(value.dtype), value.shape)})"
    name = type(value).__qualname__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def type_text(name: str, shape: Sequence[int | str] | None) -> str:
    """An element type and a shape as f32[N, 4], or f32[...] where there is no shape."""
    return f"{name}[{'...' if shape is None else ', '.join(map(str, shape))}]"


def _as_array(value: object, dtype: DType, what: str, expected: str) -> np.ndarray:
    if is_masked(value) or (isinstance(value, list | tuple) and any(map(is_masked, value))):
        message = f"{what} is {describe(value)} with a mask, expected {expected}: fill what is masked out, x.filled(0)"
        raise InputError(message, code="input-type")
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    try:
        if isinstance(value, _PYTHON_VALUES):
            return _from_python(value, dtype, what, expected)
        if isinstance(value, SupportsDLPack):
            return _from_dlpack(value, what, expected)
        if any(hasattr(value, name) for name in ("__array_interface__", "__array__")) or _has_buffer(value):
            return np.asarray(value)
    except (OnnxcError, MemoryError):
        raise
    except Exception as problem:
        raise unreadable(value, problem, what, expected) from problem
    raise InputError(f"{what} is {describe(value)}, expected {expected}", code="input-type")


def _has_buffer(value: object) -> bool:
    try:
        memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return not isinstance(value, bytes | bytearray)


def _from_dlpack(value: SupportsDLPack, what: str, expected: str) -> np.ndarray:
    device, _ = value.__dlpack_device__()
    if device not in _HOST_MEMORY:
        message = f"{what} is {describe(value)} on a device (DLPack device type {int(device)}), expected one in memory"
        raise InputError(message, code="input-device")
    return np.from_dlpack(value)  # type: ignore[arg-type]


def _from_python(value: object, dtype: DType, what: str, expected: str) -> np.ndarray:
    """A number, a text, or nested lists of them."""
    array = np.asarray(value)
    if dtype == STRING or _holds_arrays(value):
        return array
    if array.size == 0:
        return array.astype(dtype)
    order = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}.get(array.dtype.kind)
    if order is None or order > _rank(dtype) or (order == 0) != (_rank(dtype) == 0):
        message = f"{what} is {describe(value)} of {dtype_name(array.dtype)}, expected {expected}"
        raise InputError(message, code="input-dtype")
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        if not _fits(converted, array):
            message = f"{what} has elements from {array.min()} to {array.max()}, outside {dtype_name(dtype)}"
            raise InputError(message, code="input-range")
    return converted


def _fits(converted: np.ndarray, array: np.ndarray) -> bool:
    """Whether no element has become another integer, or has ceased to be finite."""
    if dtype_kind(converted.dtype) == "integer":
        return np.array_equal(converted.astype(array.dtype), array)
    return np.array_equal(np.isfinite(converted), np.isfinite(array))


def _holds_arrays(value: object) -> bool:
    """Whether a list has elements that have a type of their own."""
    return isinstance(value, list | tuple) and any(isinstance(item, np.ndarray | np.generic) for item in value)


def _rank(dtype: DType) -> int:
    """Numbers of a lower rank have an exact place in every higher one, bools excepted."""
    return ("bool", "integer", "float", "complex").index(dtype_kind(dtype))


def _strings(array: np.ndarray, what: str, expected: str) -> np.ndarray:
    """The texts of any of NumPy's string types, or of an array of objects, as `str` objects."""
    if array.size and array.dtype.kind not in "UTSO":
        raise InputError(f"{what} is {describe(array)}, expected {expected}", code="input-dtype")
    texts = array.reshape(-1).tolist()
    if list(map(type, texts)).count(str) == array.size:
        # A copy of objects takes a fifth of the time that it takes to fill an array from a list.
        return array.astype(object, order="C")
    strings = np.empty(array.size, object)
    strings[:] = _as_str(texts, array, what, expected)
    return strings.reshape(array.shape)


def _as_str(texts: Iterable[object], array: np.ndarray, what: str, expected: str) -> list[str]:
    """Texts of other types, as those of NumPy and bytes, as `str` objects."""
    try:
        decoded = [text.decode() if isinstance(text, bytes) else text for text in texts]
    except UnicodeDecodeError as problem:
        raise unreadable(array, problem, what, expected) from problem
    for text in decoded:
        if not isinstance(text, str):
            raise InputError(f"{what} has an element that is {describe(text)}, expected {expected}", code="input-dtype")
    return list(map(str, decoded))
