"""What a model has and a text form cannot say: a comment for each field, which makes the text exact.

    #| graph.node[2].metadata_props[0] = {key: "scope" value: "encoder"}
    #| graph.initializer[0].raw_data = elements
    #| graph.doc_string = "as exported"
    #| graph.node[0].attribute[0].f = nan(0xfff8000000000000)

They stand behind the last graph or function, and other readers skip them. A value is an integer, a float, a NaN with
its bits in f64, a quoted text with the escapes of protobuf, a list of those, a message in protobuf's text format,
`none` for a field that is absent, or `elements`: those that the tensor has in its typed field, packed. An element
behind the last is added.
"""

import re
import struct
from collections.abc import Iterator, Sequence

from google.protobuf import text_encoding, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, TensorProto
from onnxc.compiler.frontend.text_forms.cursor import fail_at
from onnxc.compiler.frontend.text_forms.fields import fields_of
from onnxc.compiler.frontend.text_forms.packed_elements import packed
from onnxc.compiler.frontend.text_forms.protobuf_text import nesting_beyond
from onnxc.compiler.frontend.text_forms.syntax import RULE

__all__ = ["apply_fields", "missing_fields"]

_MARK = "#| "
_LINE = re.compile(r"^[ \t]*#\| *(?P<path>[a-z_0-9.\[\]]+) = (?P<value>.*)$", re.MULTILINE)
_STEP = re.compile(r"([a-z_0-9]+)(?:\[([0-9]{1,9})\])?(\.|\Z)")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^",\[\] ]+')
_QUOTE = '"'
_NAN = re.compile(r"nan\(0x([0-9a-f]{16})\)")

_TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_FLOATS = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)

Scalar = int | float | str | bytes


def missing_fields(model: ModelProto, said: ModelProto) -> Iterator[str]:
    """The comments that make the model `said`, which changes with them, into `model`."""
    yield from _differences(model, said, "")


def apply_fields(text: str, start: int, model: ModelProto) -> None:
    """Changes the model by the comments of a text from `start` on; ModelError for one that fits no field."""
    for line in _LINE.finditer(text, start):
        try:
            _apply(line["path"], line["value"].strip(), model)
        except (ValueError, TypeError, LookupError, AttributeError, StopIteration, text_format.ParseError):
            message = f"{line['path']} takes no {line['value'].strip()[:40]}"
            fail_at("text-syntax", message, text, line.start("path"), RULE)


# What differs


def _differences(whole: Message, said: Message, path: str) -> Iterator[str]:
    if isinstance(whole, TensorProto) and isinstance(said, TensorProto) and _holds_packed(whole, said):
        yield f"{_MARK}{path}raw_data = elements"
        _pack(said)
    for field in fields_of(whole):
        name = f"{path}{field.name}"
        if field.message_type is None:
            if _shown(whole, field) != _shown(said, field):
                yield f"{_MARK}{name} = {_shown(whole, field)}"
        elif field.is_repeated:
            yield from _several(getattr(whole, field.name), getattr(said, field.name), name)
        else:
            yield from _one(whole, said, field, name)


def _holds_packed(whole: TensorProto, said: TensorProto) -> bool:
    """Whether the elements that were said lie in the raw_data of the whole."""
    return whole.HasField("raw_data") and not said.HasField("raw_data") and packed(said) == whole.raw_data


def _one(whole: Message, said: Message, field: FieldDescriptor, name: str) -> Iterator[str]:
    if not whole.HasField(field.name):
        if said.HasField(field.name):
            yield f"{_MARK}{name} = none"
        return
    if said.HasField(field.name):
        yield from _differences(getattr(whole, field.name), getattr(said, field.name), f"{name}.")
    else:
        yield from _added_message(getattr(whole, field.name), name)


def _several(ours: Sequence[Message], theirs: Sequence[Message], name: str) -> Iterator[str]:
    """Those behind what was said are added; where too many were said, all are."""
    if len(ours) < len(theirs):
        yield f"{_MARK}{name} = none"
        theirs = ()
    for index, each in enumerate(ours):
        if index < len(theirs):
            yield from _differences(each, theirs[index], f"{name}[{index}].")
        else:
            yield from _added_message(each, f"{name}[{index}]")


def _added_message(message: Message, name: str) -> Iterator[str]:
    """A message that was not said, and the NaN in it, whose bits protobuf's text format does not tell."""
    text = text_format.MessageToString(message, as_one_line=True)
    yield f"{_MARK}{name} = {{{text}}}"
    if "nan" in text:
        yield from _differences(message, text_format.Parse(text, type(message)()), f"{name}.")


def _shown(message: Message, field: FieldDescriptor) -> str:
    """The value of a field that is no message, as a comment writes it."""
    value = getattr(message, field.name)
    if field.is_repeated:
        return f"[{', '.join(_scalar(each) for each in value)}]" if value else "none"
    return _scalar(value) if message.HasField(field.name) else "none"


def _scalar(value: Scalar) -> str:
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return f'"{text_encoding.CEscape(value, False)}"'
    return f"nan(0x{struct.pack('>d', value).hex()})" if value != value else repr(value)


# Reading


def _apply(path: str, value: str, message: Message) -> None:
    """Sets what a path leads to; ValueError and its like where it leads nowhere, or to what takes no such value."""
    position = 0
    while True:
        step = _STEP.match(path, position)
        if step is None:
            raise ValueError(path)
        field = next(field for field in fields_of(message) if field.name == step[1])
        if not step[3]:
            _set(message, field, value, step[2])
            return
        inner = getattr(message, field.name)
        message = inner if step[2] is None else inner[int(step[2])]
        position = step.end()


def _set(message: Message, field: FieldDescriptor, value: str, index: str | None) -> None:
    if value == "none" and index is None:
        message.ClearField(field.name)
    elif value == "elements":
        _pack(message)
    elif field.message_type is not None:
        _fill(_added(message, field, index), value)
    elif field.is_repeated:
        message.ClearField(field.name)
        getattr(message, field.name).extend(_read_list(value, field))
    else:
        setattr(message, field.name, _read(value, field))


def _added(message: Message, field: FieldDescriptor, index: str | None) -> Message:
    """The message that a field holds; of several a new one, which must be the next."""
    held = getattr(message, field.name)
    if index is not None and int(index) != len(held):
        raise ValueError(index)
    added: Message = held if index is None else held.add()
    return added


def _fill(message: Message, value: str) -> None:
    """Reads a message in protobuf's text format, which may be empty."""
    if not (value.startswith("{") and value.endswith("}")) or nesting_beyond(value) is not None:
        raise ValueError(value)
    message.SetInParent()
    text_format.Parse(value[1:-1], message)


def _pack(message: Message) -> None:
    """Moves the elements of a tensor into raw_data."""
    data = packed(message) if isinstance(message, TensorProto) else None
    if data is None or not isinstance(message, TensorProto):
        raise ValueError("no elements")
    for name in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        message.ClearField(name)
    message.raw_data = data


def _read_list(value: str, field: FieldDescriptor) -> list[Scalar]:
    if not (value.startswith("[") and value.endswith("]")):
        raise ValueError(value)
    return [_read(item, field) for item in _SCALAR.findall(value)]


def _read(value: str, field: FieldDescriptor) -> Scalar:
    if field.type in _FLOATS:
        return _read_float(value)
    if field.type not in _TEXTS:
        return int(value)
    if not (value.startswith(_QUOTE) and value.endswith(_QUOTE)) or len(value) == 1:
        raise ValueError(value)
    data = text_encoding.CUnescape(value[1:-1])
    return data if field.type == FieldDescriptor.TYPE_BYTES else data.decode()


def _read_float(text: str) -> float:
    bits = _NAN.fullmatch(text)
    if bits is None:
        return float(text)
    (value,) = struct.unpack(">d", bytes.fromhex(bits[1]))
    if value == value:
        raise ValueError(text)
    return float(value)
