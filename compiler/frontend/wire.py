"""The wire format itself: large tensors lifted out of a model's bytes, and why bytes are not a model.

protobuf copies what it parses, and parses no more than 2 GiB. Weights need neither: `lift_tensors` replaces the
raw_data of large tensors with short tokens and leaves their bytes where they are, so what is parsed is small.
"""

import re
import secrets
from collections.abc import Iterator, Mapping

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.runtime.records import record

__all__ = ["WireError", "explain", "lift_tensors"]

# Shorter data stays in its message: below a page, mapping gains nothing.
LIFT_BYTES = 4096

# protobuf gives up at this depth of messages.
_DEPTH_LIMIT = 100

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)

# Which fields of which message hold, somewhere inside, the raw_data of tensors.
_ROUTES: Mapping[str, Mapping[int, str]] = {
    "ModelProto": {7: "GraphProto", 25: "FunctionProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        5: "TensorProto",
        6: "GraphProto",
        10: "TensorProto",
        11: "GraphProto",
        22: "SparseTensorProto",
        23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: "TensorProto", 2: "TensorProto"},
    "TensorProto": {},
}
_RAW_DATA = 9


def _tags(wire_type: int) -> bytes:
    """A set of the tags of one byte, as patterns have it."""
    return b"[%s]" % b"".join(b"\\x%02x" % (number << 3 | wire_type) for number in range(1, 16))


_SHORT_TEXTS = b"|".join(b"\\x%02x.{%d}" % (length, length) for length in range(16))
_SHORT_FIELDS = re.compile(
    b"(?:%s[\\x80-\\xff]{0,9}[\\x00-\\x7f]|%s.{4}|%s.{8}|%s(?:%s))*+"
    % (_tags(_VARINT), _tags(_FIXED32), _tags(_FIXED64), _tags(_BYTES), _SHORT_TEXTS),
    re.DOTALL,
)
"""Numbers and short texts, one after another. A forest of 80,000 nodes is a million of them: 0.1 s instead of 8."""


class WireError(Exception):
    """Bytes that are no message; `code` is a kebab-case name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@record
class _Field:
    """A field of a message: its number and wire type, where its tag begins, where its value begins and ends."""

    number: int
    wire_type: int
    tag: int
    start: int
    end: int


def lift_tensors(data: memoryview) -> tuple[bytes, Mapping[bytes, memoryview]]:
    """The bytes of a model with the raw_data of large tensors replaced by tokens, and what each token stands for.

    Tokens are drawn at random, so that no model can name one. Raises WireError where the bytes are no message.
    """
    lifted: dict[bytes, memoryview] = {}
    parts = _lift("ModelProto", data, 0, len(data), secrets.token_bytes(16), lifted, _DEPTH_LIMIT)
    return b"".join(parts), lifted


def _lift(
    message: str, data: memoryview, start: int, end: int, key: bytes, lifted: dict[bytes, memoryview], depth: int
) -> list[bytes | memoryview]:
    """The parts whose concatenation is the message without its large tensors."""
    if depth == 0:
        return [data[start:end]]
    parts: list[bytes | memoryview] = []
    kept = start
    for field in _fields(data, start, end, skipped=_SHORT_FIELDS):
        if field.wire_type != _BYTES or field.end - field.start < LIFT_BYTES:
            continue
        if message == "TensorProto" and field.number == _RAW_DATA:
            token = key + len(lifted).to_bytes(8, "little")
            lifted[token] = data[field.start : field.end]
            inside: list[bytes | memoryview] = [token]
        elif field.number in _ROUTES[message]:
            inner = _ROUTES[message][field.number]
            inside = _lift(inner, data, field.start, field.end, key, lifted, depth - 1)
        else:
            continue
        header = _varint(field.number << 3 | _BYTES) + _varint(sum(map(len, inside)))
        parts += [data[kept : field.tag], header, *inside]
        kept = field.end
    return [*parts, data[kept:end]]


def _fields(data: memoryview, start: int, end: int, skipped: re.Pattern[bytes] = re.compile(b"")) -> Iterator[_Field]:
    """The fields of a message, but for those that `skipped` matches."""
    position = start
    while True:
        run = skipped.match(data, position, end)
        position = run.end() if run is not None else position
        if position >= end:
            return
        tag, value = _read_varint(data, position, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise WireError("not-a-model", f"byte {position} begins no field")
        if wire_type == _GROUP:
            after = _skip_group(data, value, end, number)
        else:
            value, after = _bounds(data, position, value, end, wire_type)
        yield _Field(number, wire_type, position, value, after)
        position = after


def _bounds(data: memoryview, tag: int, position: int, end: int, wire_type: int) -> tuple[int, int]:
    """Where a value begins and ends, whose tag is at `tag` and ends at `position`."""
    after = position
    if wire_type == _BYTES:
        length, position = _read_varint(data, position, end)
        after = position + length
    elif wire_type == _VARINT:
        _, after = _read_varint(data, position, end)
    elif wire_type in (_FIXED32, _FIXED64):
        after += 4 if wire_type == _FIXED32 else 8
    else:
        raise WireError("not-a-model", f"byte {tag} begins a field of wire type {wire_type}")
    if after > end:
        code = "truncated-model" if end == len(data) else "not-a-model"
        raise WireError(code, f"byte {tag} begins a field that goes on to byte {after}, and byte {end} is the end")
    return position, after


def _skip_group(data: memoryview, position: int, end: int, number: int) -> int:
    """The position after a group of fields, which ONNX has not and parsers skip as they do unknown fields."""
    opened = [number]
    while opened:
        tag = position
        key, position = _read_varint(data, tag, end)
        inner, wire_type = key >> 3, key & 7
        if inner == 0:
            raise WireError("not-a-model", f"byte {tag} begins no field")
        if wire_type == _GROUP:
            opened.append(inner)
        elif wire_type != _GROUP_END:
            _, position = _bounds(data, tag, position, end, wire_type)
        elif opened.pop() != inner:
            raise WireError("not-a-model", f"byte {tag} ends a group of fields that is not open")
    return position


def _read_varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """The number at `position`, and the position after it."""
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise WireError("not-a-model", f"the number that ends at byte {position} is longer than 64 bits")
    code = "truncated-model" if end == len(data) else "not-a-model"
    raise WireError(code, f"byte {end} is the end, within a number")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def explain(data: memoryview, message: type[Message] = ModelProto, name: str = "model") -> WireError:
    """Why protobuf does not accept `data` as a message, whose `name` begins paths; to be asked when it has not."""
    try:
        _validate(message, data, 0, len(data), name, _DEPTH_LIMIT)
    except WireError as reason:
        return reason
    return WireError("not-a-model", "protobuf does not accept it")


def _validate(message: type[Message], data: memoryview, start: int, end: int, path: str, depth: int) -> None:
    if depth == 0:
        raise WireError("nesting-too-deep", f"its messages are nested more than {_DEPTH_LIMIT} deep")
    counts: dict[int, int] = {}
    for field in _fields(data, start, end):
        known = message.DESCRIPTOR.fields_by_number.get(field.number)
        if known is None or field.wire_type != _BYTES:
            continue
        count = counts.get(field.number, 0)
        counts[field.number] = count + 1
        inner = f"{path}.{known.name}" + (f"[{count}]" if known.default_value == [] else "")
        if isinstance(known.message_type, Descriptor):
            _validate(GetMessageClass(known.message_type), data, field.start, field.end, inner, depth - 1)
        elif known.type == FieldDescriptor.TYPE_STRING and not _is_accepted(message, data[field.tag : field.end]):
            raise WireError("invalid-utf8", f"{inner} is not UTF-8")


def _is_accepted(message: type[Message], encoded: memoryview) -> bool:
    """Whether protobuf takes `encoded` as a field of `message`: names must be UTF-8, free text need not be."""
    try:
        message.FromString(bytes(encoded))
    except DecodeError:
        return False
    return True
