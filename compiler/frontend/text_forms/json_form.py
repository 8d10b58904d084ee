"""JSON as protobuf defines it for messages, read with the position of every value, and written with ONNX's names.

Fields may be named as in the standard or in lower camel case. protobuf's own reader tells no positions.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.text_forms.cursor import TextCursor
from onnxc.compiler.frontend.text_forms.fields import fields_of

__all__ = ["parse_json", "print_json"]

_SPACE = re.compile(r"[ \t\n\r]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![0-9.eE])")
_DECODER = json.JSONDecoder()
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_WORDS = ("NaN", "Infinity", "-Infinity")

_NESTED_MESSAGES = 100
"""Levels of messages that protobuf reads."""

_FLOATS = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)

Scalar = int | float | str | bytes


def print_json(model: ModelProto) -> str:
    """The model as JSON, one value a line."""
    return json_format.MessageToJson(model, preserving_proto_field_name=True, indent=1, ensure_ascii=False) + "\n"


def parse_json(text: str) -> ModelProto:
    """The model that the text is; ModelError tells line and column of what is wrong."""
    model = ModelProto()
    cursor = _JsonParser(text)
    cursor.message(model, 1)
    if cursor.next():
        cursor.fail(f"expected the end of the text{cursor.instead()}")
    return model


class _JsonParser(TextCursor):
    """Reads the fields of a message from a JSON object."""

    def __init__(self, text: str) -> None:
        super().__init__(text, _SPACE, "json-syntax", "protobuf, the JSON mapping")

    def message(self, message: Message, depth: int) -> None:
        if depth > _NESTED_MESSAGES:
            self.fail(f"messages are nested more than {_NESTED_MESSAGES} deep", code="nesting-too-deep")
        fields = {name: field for field in fields_of(message) for name in (field.name, field.json_name)}
        self.expect("{")
        seen: set[int] = set()
        while not self.takes("}"):
            if seen:
                self.expect(",")
            start = self.start()
            name = self._string()
            if name not in fields:
                self.fail(f"{message.DESCRIPTOR.name} has no field {name}", start)
            field = fields[name]
            if field.number in seen:
                self.fail(f"the field {name} is here twice", start)
            seen.add(field.number)
            self.expect(":")
            if not self.takes("null"):
                self._field(message, field, depth)

    def _field(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        if field.is_repeated:
            held = getattr(message, field.name)
            if field.message_type is None:
                self._list(lambda: held.append(self._scalar(field)), field)
            else:
                self._list(lambda: self.message(held.add(), depth + 1), field)
        elif field.message_type is None:
            start, value = self.start(), self._scalar(field)
            self._accepted(lambda: setattr(message, field.name, value), field, start)
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
            self.message(inner, depth + 1)

    def _list(self, read: Callable[[], None], field: FieldDescriptor) -> None:
        self.expect("[")
        is_first = True
        while not self.takes("]"):
            if not is_first:
                self.expect(",")
            is_first = False
            self._accepted(read, field, self.start())

    def _accepted(self, store: Callable[[], None], field: FieldDescriptor, start: int) -> None:
        """Stores a value, whose range protobuf knows."""
        try:
            store()
        except (ValueError, TypeError):
            self.fail(f"{field.name} does not take this value", start)

    def _string(self) -> str:
        start = self.start()
        if not self.sees('"'):
            self.fail(f"expected a quoted text{self.instead()}")
        try:
            text, self.offset = _DECODER.raw_decode(self.text, start)
        except json.JSONDecodeError as problem:
            self.fail(problem.msg[:1].lower() + problem.msg[1:], problem.pos)
        return str(text)

    def _scalar(self, field: FieldDescriptor) -> Scalar:
        start = self.start()
        text = self._string() if self.sees('"') else None
        if field.type == FieldDescriptor.TYPE_STRING and text is not None:
            return text
        if field.type == FieldDescriptor.TYPE_BYTES and text is not None:
            return self._bytes(text, start)
        if field.enum_type is not None and text is not None and text in field.enum_type.values_by_name:
            return int(field.enum_type.values_by_name[text].number)
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            self.fail(f"{field.name} is a quoted text", start)
        written = self.match(_NUMBER, "a number") if text is None else text
        return self._number(written, start, field)

    def _bytes(self, text: str, start: int) -> bytes:
        padded = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
        try:
            return base64.b64decode(padded, validate=True)
        except (binascii.Error, ValueError):
            self.fail("the text is not base64", start)

    def _number(self, text: str, start: int, field: FieldDescriptor) -> int | float:
        is_float = field.type in _FLOATS
        if not (text in _WORDS or _NUMBER.fullmatch(text) if is_float else _INTEGER.fullmatch(text)):
            self.fail(f"{field.name} is {'a number' if is_float else 'an integer'}", start)
        return float(text) if is_float else int(text)
