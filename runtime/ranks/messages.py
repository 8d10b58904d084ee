"""Messages between ranks: an array, with the exchange that it is for.

    header bytes, padded to cache lines     elements

The header is JSON behind its length; whoever receives a message takes nothing for granted but that it came whole.
"""

import json

import numpy as np
import numpy.typing as npt

from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.records import record

__all__ = ["Message", "Stamp", "pack", "unpack"]

_LENGTH_BYTES = 4

_DTYPES = {dtype.name: dtype for dtype in DTYPES.values()}


@record
class Stamp:
    """The exchange that a message is for: the ordinal of the call, the round of its group in it, and what it is."""

    call: int
    round: int
    what: str


@record
class Message:
    """An array that came."""

    stamp: Stamp
    array: np.ndarray


def pack(stamp: Stamp, array: np.ndarray) -> npt.NDArray[np.uint8]:
    """The bytes of a message; texts go as JSON."""
    is_text = array.dtype == np.object_
    data = np.frombuffer(json.dumps(array.reshape(-1).tolist()).encode(), np.uint8) if is_text else _bytes(array)
    header = json.dumps([stamp.call, stamp.round, stamp.what, array.dtype.name, array.shape]).encode()
    start = -(-(_LENGTH_BYTES + len(header)) // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
    packed = allocate_aligned(start + data.nbytes)
    packed[:start] = 0
    packed[: _LENGTH_BYTES + len(header)] = np.frombuffer(len(header).to_bytes(_LENGTH_BYTES, "little") + header, "u1")
    packed[start:] = data
    return packed


def unpack(data: npt.NDArray[np.uint8]) -> Message:
    """The message of these bytes, which it shares; DeviceError for what is none."""
    try:
        length = int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
        call, round, what, name, shape = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length].tobytes())
        start = -(-(_LENGTH_BYTES + length) // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
        return Message(Stamp(call, round, what), _array(data[start:], name, tuple(shape)))
    except (ValueError, TypeError, KeyError) as problem:
        raise DeviceError(f"a message of another rank is malformed ({problem})", code="collectives-differ") from problem


def _array(data: npt.NDArray[np.uint8], name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name == "object":
        texts = json.loads(data.tobytes())
        array = np.empty(len(texts), object)
        array[:] = texts
        return array.reshape(shape)
    return data.view(_DTYPES[name]).reshape(shape)


def _bytes(array: np.ndarray) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
