"""Files of LoRA adapters as bytes: ONNX Runtime's own form, which is a FlatBuffer with the mark TORT.

    table Parameter { name: string; dims: [int64]; data_type: int32; raw_data: [uint8]; }
    table Adapter { format_version: int32; adapter_version: int32; model_version: int32; parameters: [Parameter]; }

A table begins with how far before it its vtable is, which says where in the table each field is; strings, vectors and
tables of fields are as far behind their field as it says.
"""

import math
import struct
from collections.abc import Iterator, Mapping

import numpy as np

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES, code_of
from onnxc.compiler.ir.dtypes import dtype_of
from onnxc.runtime.records import record

__all__ = ["FORMAT_VERSION", "AdapterFile", "read_adapter", "write_adapter"]

FORMAT_VERSION = 1
_MARK = b"TORT"


@record
class AdapterFile:
    """What an adapter is made for, and values for inputs of the model."""

    adapter_version: int
    model_version: int
    parameters: Mapping[str, np.ndarray]
    format_version: int = FORMAT_VERSION


class _Reader:
    """Parts of the bytes by their addresses. Raises ValueError for what is not there."""

    def __init__(self, data: bytes) -> None:
        # Parts of it are no copies: a small file may name one part very often.
        self._data = memoryview(data)

    def read(self, form: str, address: int) -> int:
        if not 0 <= address <= len(self._data) - struct.calcsize(form):
            raise ValueError(f"byte {address} of {len(self._data)} is not there")
        return int(struct.unpack_from(form, self._data, address)[0])

    def field(self, table: int, ordinal: int) -> int:
        """The address of a field, 0 where the table has none."""
        vtable = table - self.read("<i", table)
        if 4 + 2 * ordinal >= self.read("<H", vtable):
            return 0
        behind = self.read("<H", vtable + 4 + 2 * ordinal)
        return table + behind if behind else 0

    def integer(self, table: int, ordinal: int) -> int:
        address = self.field(table, ordinal)
        return self.read("<i", address) if address else 0

    def reference(self, address: int) -> int:
        return address + self.read("<I", address)

    def vector(self, table: int, ordinal: int, item_bytes: int) -> tuple[int, int]:
        """The address of the first element, and how many there are."""
        address = self.field(table, ordinal)
        if not address:
            return 0, 0
        start = self.reference(address)
        count = self.read("<I", start)
        if start + 4 + count * item_bytes > len(self._data):
            raise ValueError(f"{count} elements at byte {start} of {len(self._data)} are not there")
        return start + 4, count

    def part(self, table: int, ordinal: int) -> memoryview:
        start, count = self.vector(table, ordinal, 1)
        return self._data[start : start + count]


def read_adapter(data: bytes) -> AdapterFile:
    """The adapter in a file. Raises ValueError where the bytes are none."""
    if data[4:8] != _MARK:
        raise ValueError(f"the bytes are no adapter, whose mark is {_MARK.decode()}")
    reader = _Reader(data)
    root = reader.reference(0)
    start, count = reader.vector(root, 3, 4)
    tables = [reader.reference(start + 4 * ordinal) for ordinal in range(count)]
    return AdapterFile(
        adapter_version=reader.integer(root, 1),
        model_version=reader.integer(root, 2),
        parameters={bytes(reader.part(table, 0)).decode(): _parameter(reader, table) for table in tables},
        format_version=reader.integer(root, 0),
    )


def _parameter(reader: _Reader, table: int) -> np.ndarray:
    start, rank = reader.vector(table, 1, 8)
    shape = [reader.read("<q", start + 8 * axis) for axis in range(rank)]
    code, data = reader.integer(table, 2), reader.part(table, 3)
    if code not in ELEMENT_TYPES or min(shape, default=0) < 0:
        raise ValueError(f"a parameter has the element type {code} and the shape {shape}")
    element = ELEMENT_TYPES[code].dtype.numpy
    if math.prod(shape) * element.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes are no {element}{shape}")
    return np.frombuffer(data, element).reshape(shape)


def write_adapter(adapter: AdapterFile) -> bytes:
    """The bytes of a file, which ONNX Runtime reads."""
    out = bytearray(4) + _MARK
    root = _table(out, 4)
    struct.pack_into("<I", out, 0, root)
    versions = (adapter.format_version, adapter.adapter_version, adapter.model_version)
    struct.pack_into("<3i", out, root + 4, *versions)
    _refer(out, root + 16)
    out += struct.pack("<I", len(adapter.parameters))
    references = len(out)
    out += bytes(4 * len(adapter.parameters))
    for ordinal, (name, array) in enumerate(adapter.parameters.items()):
        table = _table(out, 4)
        struct.pack_into("<I", out, references + 4 * ordinal, table - references - 4 * ordinal)
        struct.pack_into("<i", out, table + 12, code_of(dtype_of(array.dtype)))
        for field, part in zip((4, 8, 16), _vectors(name, array), strict=True):
            _align(out, 8, 4)
            _refer(out, table + field)
            out += part
    return bytes(out)


def _vectors(name: str, array: np.ndarray) -> Iterator[bytes]:
    """The parts of a parameter, each behind its length; a string has a zero behind it."""
    encoded = name.encode()
    yield struct.pack("<I", len(encoded)) + encoded + b"\0"
    yield struct.pack(f"<I{array.ndim}q", array.ndim, *array.shape)
    yield struct.pack("<I", array.nbytes) + array.tobytes()


def _table(out: bytearray, fields: int) -> int:
    """Adds a table whose fields have 4 bytes each, behind its vtable; its address."""
    _align(out, 4, 0)
    size = 4 + 4 * fields
    vtable = len(out)
    out += struct.pack(f"<{2 + fields}H", 4 + 2 * fields, size, *range(4, size, 4))
    _align(out, 4, 0)
    table = len(out)
    out += struct.pack("<i", table - vtable) + bytes(4 * fields)
    return table


def _align(out: bytearray, to: int, remainder: int) -> None:
    out += bytes((remainder - len(out)) % to)


def _refer(out: bytearray, field: int) -> None:
    """The field refers to what comes next."""
    struct.pack_into("<I", out, field, len(out) - field)
