"""The parts of ONNX's text syntax that graphs are made of: names, numbers, types, tensors."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    StringStringEntryProto,
    TensorProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
)
from onnxc.compiler.frontend.text_forms.cursor import TextCursor
from onnxc.compiler.frontend.text_forms.syntax import ELEMENT_CODES, PLAIN, RULE, TYPE_WORDS

__all__ = ["INTEGER", "NUMBER", "ValueParser", "as_float"]

Item = TypeVar("Item")

SPACE = re.compile(r"(?:[ \t\n\v\f\r]++|#[^\n]*+)*+")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
INTEGER = re.compile(r"-?[0-9]+(?![0-9.eE])")
NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|(?:inf|infinity|nan)\b)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_COMMENT = re.compile(r"#[^\n]*")

_NUMBERS = re.compile(rf"\s*(?:{NUMBER.pattern}\s*(?:,\s*|(?=\}})))*+", re.IGNORECASE)
"""All numbers of a tensor at once: read one by one they would take most of the time."""

_NESTED_TYPES = 32
"""Types in types: each is two messages, and protobuf reads a hundred."""


class ValueParser(TextCursor):
    """Reads names, types and tensors; each method reads one thing of the grammar."""

    def __init__(self, text: str) -> None:
        super().__init__(text, SPACE, "text-syntax", RULE)

    # Words and lists

    def name(self) -> str:
        """A name, quoted or not."""
        return self.quoted() if self.sees('"') else self.match(PLAIN, "a name")

    def quoted(self) -> str:
        return _ESCAPE.sub(r"\1", self.match(_QUOTED, "a quoted text")[1:-1])

    def sees_name(self) -> bool:
        return self.sees('"') or bool(self.peek(PLAIN))

    def integer(self) -> int:
        start = self.start()
        return self.to_int(self.match(INTEGER, "an integer"), start)

    def to_int(self, text: str, start: int) -> int:
        """The integer that is written at `start`."""
        if len(text) > 20 or not -(1 << 63) <= int(text) < 1 << 64:
            self.fail("the integer has more than 64 bits", start)
        return int(text)

    def listed(self, opening: str, closing: str, read: Callable[[], Item]) -> list[Item]:
        """What is between two signs, separated by commas."""
        self.expect(opening)
        items: list[Item] = []
        while not self.takes(closing):
            if items:
                self.expect(",")
            items.append(read())
        return items

    def entry(self) -> StringStringEntryProto:
        """A key and its value."""
        key = self.quoted()
        self.expect(":")
        return StringStringEntryProto(key=key, value=self.quoted())

    # Types

    def sees_type(self) -> bool:
        return self.peek(PLAIN) in TYPE_WORDS

    def type(self, depth: int = 0) -> TypeProto:
        start = self.start()
        if depth > _NESTED_TYPES:
            self.fail(f"types are nested more than {_NESTED_TYPES} deep", start, "nesting-too-deep")
        word = self.match(PLAIN, "a type")
        made = TypeProto()
        if word in ELEMENT_CODES:
            self._shaped(made.tensor_type, ELEMENT_CODES[word])
            return made
        if word not in TYPE_WORDS:
            self.fail(f"{word} is no type", start)
        self.expect("(")
        if word == "seq":
            made.sequence_type.elem_type.CopyFrom(self.type(depth + 1))
        elif word == "optional":
            made.optional_type.elem_type.CopyFrom(self.type(depth + 1))
        elif word == "map":
            made.map_type.key_type = self._element_type()
            self.expect(",")
            made.map_type.value_type.CopyFrom(self.type(depth + 1))
        elif word == "sparse_tensor":
            self._shaped(made.sparse_tensor_type, self._element_type())
        else:
            self._opaque(made.opaque_type)
        self.expect(")")
        return made

    def _element_type(self) -> int:
        start = self.start()
        word = self.match(PLAIN, "an element type")
        if word not in ELEMENT_CODES:
            self.fail(f"{word} is no element type", start)
        return ELEMENT_CODES[word]

    def _shaped(self, made: TypeProto.Tensor | TypeProto.SparseTensor, code: int) -> None:
        """A tensor: of no axis without brackets, of unknown rank with empty ones."""
        made.elem_type = code
        if not self.sees("["):
            made.shape.SetInParent()
        else:
            sizes = self.listed("[", "]", self._size)
            if sizes:
                made.shape.dim.extend(sizes)

    def _size(self) -> TensorShapeProto.Dimension:
        if self.takes("?"):
            return TensorShapeProto.Dimension()
        if self.sees_name():
            return TensorShapeProto.Dimension(dim_param=self.name())
        start = self.start()
        value = self.integer()
        if value >= 1 << 63:
            self.fail("the size has more than 63 bits", start)
        return TensorShapeProto.Dimension(dim_value=value)

    def _opaque(self, made: TypeProto.Opaque) -> None:
        made.SetInParent()
        if self.sees(")"):
            return
        words = [self.match(PLAIN, "a name")]
        while self.takes("."):
            words.append(self.match(PLAIN, "a name"))
        if self.takes(","):
            made.domain, words = ".".join(words), [self.match(PLAIN, "a name")]
        made.name = ".".join(words)

    def value_info(self) -> ValueInfoProto:
        """A name, and before it its type where there is one."""
        made = ValueInfoProto()
        if self.sees_type():
            made.type.CopyFrom(self.type())
        made.name = self.name()
        return made

    # Tensors

    def tensor(self, type: TypeProto, start: int, name: str) -> TensorProto:
        """The tensor of that type, which is written at `start`, with the elements that come next."""
        if not type.HasField("tensor_type") or not type.tensor_type.HasField("shape"):
            self.fail("a tensor of known rank is needed for elements", start)
        made = TensorProto(name=name, data_type=type.tensor_type.elem_type)
        for size in type.tensor_type.shape.dim:
            if not size.HasField("dim_value"):
                self.fail("the sizes of a tensor are integers", start)
            made.dims.append(size.dim_value)
        if self.sees("["):
            made.data_location = TensorProto.EXTERNAL
            made.external_data.extend(self.listed("[", "]", self.entry))
        elif self.sees("{"):
            self._elements(made)
        return made

    def _elements(self, made: TensorProto) -> None:
        field = ELEMENT_TYPES[made.data_type].field
        start = self.start()
        if field == "string_data":
            made.string_data.extend(text.encode() for text in self.listed("{", "}", self.quoted))
            return
        texts = self._number_texts()
        try:
            if field in ("float_data", "double_data"):
                getattr(made, field).extend(_floats(texts, np.float32 if field == "float_data" else np.float64))
            else:
                getattr(made, field).extend(map(int, texts))
        except (ValueError, OverflowError):
            # What protobuf says names its own types.
            self.fail(f"an element does not fit {ELEMENT_TYPES[made.data_type]}", start)

    def _number_texts(self) -> list[str]:
        """The numbers between braces, as they are written."""
        self.expect("{")
        start = self.start()
        end = self.text.find("}", start)
        body = self.text[start:end]
        if end >= 0 and "#" not in body:
            match = _NUMBERS.match(self.text, start)
            if match is not None and match.end() == end and not body.rstrip().endswith(","):
                self.offset = end + 1
                return body.split(",") if body.strip() else []
        self.offset = start
        texts: list[str] = []
        while not self.takes("}"):
            if texts:
                self.expect(",")
            texts.append(self.match(NUMBER, "a number"))
        return texts


def as_float(text: str) -> float | None:
    """The f32 that a number is nearest to; None where it is beyond all that there are."""
    try:
        return _floats([text], np.float32)[0]
    except ValueError:
        return None


def _floats(texts: Sequence[str], dtype: type[np.float32] | type[np.float64]) -> list[float]:
    """The numbers; ValueError where one is beyond all that the type has."""
    with np.errstate(over="ignore"):
        values = np.array([*map(float, texts)], np.float64).astype(dtype)
    if any("inf" not in texts[index].lower() for index in np.flatnonzero(np.isinf(values)).tolist()):
        raise ValueError("a number is out of range")
    made: list[float] = values.tolist()
    return made
