"""Element types by the names of the protocol, and tensors as its raw bytes: little-endian, row-major, no padding.

BYTES are texts in UTF-8, each behind its length as uint32. A type of one byte that the protocol has not, such as an
8-bit float, travels bit for bit as UINT8.
"""

import math
import struct
from collections.abc import Sequence

import numpy as np

from onnxc.runtime.dtypes import DTYPES, STRING, DType, dtype_kind, dtype_name
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.signature import TensorInfo

__all__ = [
    "BYTES",
    "DATATYPES",
    "array_of",
    "datatype_of",
    "expect_datatype",
    "expect_shape",
    "raw_bytes",
    "texts_array",
]

BYTES = "BYTES"
_NAMES = {
    "BOOL": "bool", "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "UINT64": "u64", "INT8": "i8", "INT16": "i16",
    "INT32": "i32", "INT64": "i64", "FP16": "f16", "BF16": "bf16", "FP32": "f32", "FP64": "f64", BYTES: "string",
}  # fmt: skip
DATATYPES: dict[str, DType] = {datatype: DTYPES[name] for datatype, name in _NAMES.items()}
_BY_NAME = {name: datatype for datatype, name in _NAMES.items()}

_LENGTH = struct.Struct("<I")
_MAX_RANK, _MAX_ELEMENTS = 32, 2**56
"""What a shape may be: the rank is far above those of models, the bytes of that many elements fit into int64."""


def datatype_of(info: TensorInfo) -> str:
    """The protocol's name of an element type. UnsupportedError for what no tensor of the protocol can hold."""
    if info.dtype == STRING:
        return BYTES
    if info.dtype is not None:
        name = _BY_NAME.get(dtype_name(info.dtype))
        if name is not None:
            return name
        if info.dtype.itemsize == 1 and dtype_kind(info.dtype) != "complex":
            return "UINT8"
    raise UnsupportedError(f"{info} cannot be served: the protocol has no such type", code="unservable-type")


def expect_datatype(name: str, datatype: str) -> DType:
    """The element type; InputError for a name that the protocol has not."""
    if datatype not in DATATYPES:
        listed = ", ".join(DATATYPES)
        raise InputError(f'input "{name}" has datatype {datatype!r}, expected one of {listed}', code="unknown-datatype")
    return DATATYPES[datatype]


def expect_shape(name: str, shape: Sequence[int], available: int) -> int:
    """The number of elements of a shape. InputError for what is none, or asks for more elements than are `available`.

    So a tensor of no elements and absurd sizes goes no further than here, nor one whose product overflows.
    """
    count = math.prod(shape) if len(shape) <= _MAX_RANK and min(shape, default=0) >= 0 else -1
    # Nothing bounds the sizes beside a size of 0 but what addresses can be.
    if count < 0 or (count == 0 and math.prod(size for size in shape if size) > _MAX_ELEMENTS):
        message = f'input "{name}" has shape {list(shape)[:_MAX_RANK]}, expected sizes from 0, {_MAX_RANK} at most'
        raise InputError(message, code="request-shape")
    if count > available:
        message = f'input "{name}" of shape {list(shape)} has {count} elements, {available} came'
        raise InputError(message, code="tensor-bytes")
    return count


def array_of(name: str, datatype: str, shape: Sequence[int], data: bytes | memoryview) -> np.ndarray:
    """The tensor in raw bytes, of which there must be exactly as many as its shape says; they are not copied."""
    dtype = expect_datatype(name, datatype)
    if datatype == BYTES:
        count = expect_shape(name, shape, len(data) // _LENGTH.size)
        return texts_array(name, _split_texts(name, bytes(data), count), shape)
    count = expect_shape(name, shape, len(data) // dtype.itemsize)
    if count * dtype.itemsize != len(data):
        needed = f"{datatype} and shape {list(shape)} takes {count * dtype.itemsize} bytes"
        message = f'input "{name}" of {needed}, {len(data)} came'
        raise InputError(message, code="tensor-bytes")
    if datatype == "BOOL":
        # Any byte but 0 is true; code reads the lowest bit alone.
        truths: np.ndarray = np.frombuffer(data, np.uint8) != 0
        return truths.reshape(shape)
    return np.frombuffer(data, dtype).reshape(shape)


def _split_texts(name: str, data: bytes, count: int) -> list[bytes]:
    """The elements of a BYTES tensor."""
    texts: list[bytes] = []
    start = 0
    for _ in range(count):
        end = start + _LENGTH.size
        stop = end + _LENGTH.unpack_from(data, start)[0] if end <= len(data) else len(data) + 1
        if stop > len(data):
            raise InputError(f'input "{name}": its bytes end within element {len(texts)}', code="tensor-bytes")
        texts.append(data[end:stop])
        start = stop
    if start != len(data):
        message = f'input "{name}": {len(data) - start} bytes follow its {count} elements'
        raise InputError(message, code="tensor-bytes")
    return texts


def texts_array(name: str, texts: Sequence[bytes | str], shape: Sequence[int]) -> np.ndarray:
    """A tensor of texts; InputError where bytes are no UTF-8."""
    array = np.empty(len(texts), object)
    try:
        array[:] = [text if isinstance(text, str) else text.decode() for text in texts]
    except UnicodeDecodeError as problem:
        raise InputError(f'input "{name}" is no UTF-8: {problem}', code="text-encoding") from problem
    return array.reshape(shape)


def raw_bytes(array: np.ndarray) -> bytes:
    """The tensor as the protocol's raw bytes."""
    if array.dtype.kind != "O":
        return array.tobytes()
    encoded = [str(text).encode() for text in array.reshape(-1)]
    return b"".join(part for text in encoded for part in (_LENGTH.pack(len(text)), text))
