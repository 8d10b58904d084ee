"""The header of a safetensors file: where each tensor lies, or why the bytes are no such file.

Eight bytes, little-endian, say how long the header is; it is JSON, and the elements follow, packed without gaps. A file
may come from anyone: nothing is believed of it that was not looked at, and what is asked for is bounded.
Source: the format of https://github.com/huggingface/safetensors
"""

import json
from collections.abc import Mapping, Sequence

from onnxc.runtime.records import record

__all__ = ["SafetensorsError", "StoredTensor", "read_header"]

LENGTH_BYTES = 8

MOST_HEADER_BYTES = 32 << 20
"""An entry takes about 120 bytes, so that this is 280,000 tensors; the largest published models have some 10,000."""

_METADATA = "__metadata__"
_FIELDS = {"dtype", "shape", "data_offsets"}
_MOST_AXES, _MOST_ELEMENTS = 64, 1 << 60

_TYPES = {
    "F64": ("f64", 64), "F32": ("f32", 32), "F16": ("f16", 16), "BF16": ("bf16", 16), "F8_E4M3": ("f8e4m3fn", 8),
    "F8_E5M2": ("f8e5m2", 8), "F8_E8M0": ("f8e8m0", 8), "F6_E2M3": ("f6e2m3", 6), "F6_E3M2": ("f6e3m2", 6),
    "F4": ("f4e2m1", 4), "I64": ("i64", 64), "I32": ("i32", 32), "I16": ("i16", 16), "I8": ("i8", 8),
    "U64": ("u64", 64), "U32": ("u32", 32), "U16": ("u16", 16), "U8": ("u8", 8), "BOOL": ("bool", 8),
    "C64": ("c64", 64),
}  # fmt: skip
"""For each element type its name, which is that of the IR where it has the type, and the bits of an element."""


class SafetensorsError(ValueError):
    """The bytes are no safetensors file; the text says why."""


@record
class StoredTensor:
    """A tensor: its element type, its shape, and the bytes of the file that hold it."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def read_header(data: memoryview) -> Mapping[str, StoredTensor]:
    """Each tensor of the file by name. Raises SafetensorsError."""
    header = _header(data)
    begin = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    tensors = {name: _tensor(name, entry, begin) for name, entry in header.items() if name != _METADATA}
    position = begin
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if tensor.start != position:
            raise SafetensorsError(
                f'tensor "{name}" begins at byte {tensor.start}, and {position} is the next free one'
            )
        position = tensor.end
    if position != len(data):
        raise SafetensorsError(f"its tensors end at byte {position}, and the file has {len(data)}")
    return tensors


def _header(data: memoryview) -> Mapping[str, object]:
    if len(data) < LENGTH_BYTES:
        raise SafetensorsError(f"it has {len(data)} bytes, fewer than the length of a header takes")
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    if length > min(MOST_HEADER_BYTES, len(data) - LENGTH_BYTES):
        message = (
            f"its header would have {length} bytes; the file has {len(data)}, and {MOST_HEADER_BYTES} are the most"
        )
        raise SafetensorsError(message)
    try:
        text = bytes(data[LENGTH_BYTES : LENGTH_BYTES + length]).decode()
        header: object = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as problem:
        raise SafetensorsError(f"its header is no JSON: {problem}") from problem
    if not isinstance(header, dict):
        raise SafetensorsError("its header is no object of JSON")
    return header


def _distinct(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("an object has a key twice")
    return entries


def _tensor(name: str, entry: object, begin: int) -> StoredTensor:
    """What an entry of the header says; offsets count from `begin`."""
    if not isinstance(entry, dict) or entry.keys() != _FIELDS:
        raise SafetensorsError(f'the entry "{name}" does not have the fields {", ".join(sorted(_FIELDS))} alone')
    dtype, shape, offsets = entry["dtype"], _counts(entry["shape"]), _counts(entry["data_offsets"])
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise SafetensorsError(f'the element type of "{name}" is {str(dtype)[:40]!r}, known are {", ".join(_TYPES)}')
    if shape is None or len(shape) > _MOST_AXES or offsets is None or len(offsets) != 2:
        raise SafetensorsError(f'the shape or the offsets of "{name}" are no lists of sizes')
    known, bits = _TYPES[dtype]
    elements = 1
    for size in shape:
        # Step by step, as a product of many large sizes is a number of any length.
        elements = min(elements * size, _MOST_ELEMENTS)
    start, end = offsets
    if 8 * (end - start) != elements * bits:
        raise SafetensorsError(f'"{name}" is {dtype}{list(shape)}, and its offsets are {start} and {end}')
    return StoredTensor(known, shape, begin + start, begin + end)


def _counts(value: object) -> tuple[int, ...] | None:
    """A list of numbers that count something; None for what is none."""
    if not isinstance(value, list) or not all(type(item) is int and 0 <= item <= _MOST_ELEMENTS for item in value):
        return None
    return tuple(value)
