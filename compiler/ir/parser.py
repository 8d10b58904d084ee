"""The program that a text says, in the form of `printer.py`; nothing in the text is ever executed.

Every op is checked as it is read: its attributes, and that its type rule gives the types that stand there. What only
the whole function shows (symbols, blocks of control flow) is `verify_module`'s to find. Lines may be laid out in any
way; a comment that is not a location is skipped.
"""

import math
import re
from collections.abc import Mapping

import numpy as np

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dim_text import DimSyntaxError, parse_dim
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BOOL, DTYPES, F64, DType, dtype_of
from onnxc.compiler.ir.module import Attribute, Block, Function, Module, Op, Parameter, Value
from onnxc.compiler.ir.op_verifier import op_findings
from onnxc.compiler.ir.printer import PLAIN_WORD, digest_of, read_float
from onnxc.compiler.ir.text_cursor import INTEGER, STRING, TextCursor, end_of
from onnxc.compiler.ir.types import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, Type

Scope = dict[str, Value]


def parse_module(text: str, constants: Mapping[str, np.ndarray] | None = None) -> Module:
    """The module that `text` says; `constants` holds the arrays that it names by digest.

    Raises IrSyntaxError where the text is malformed, a type is wrong, or an array is not given.
    """
    return _Parser(text, constants or {}).module()


_BLANK = re.compile(r"[ \t]*")
_VALUE = re.compile(r"%[A-Za-z0-9_.]+")
_FLOAT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|-?inf|nan|0x[0-9a-f]+")
_DIGEST = re.compile(r"#[0-9a-f]{16}")
_ARRAY = re.compile(rf"({'|'.join(DTYPES)})\[")
_QUOTED = STRING.pattern
_LOCATION = re.compile(
    rf"// (-|[0-9]+)(?: ({_QUOTED}))?(?: \(([A-Za-z0-9_.\-]+|{_QUOTED})\))?(?: in ({_QUOTED}))?[ \t]*(?=\n|$)"
)


class _Parser(TextCursor):
    """One method for each thing that may stand in a text; nesting is bounded."""

    LIMIT = 100

    def __init__(self, text: str, constants: Mapping[str, np.ndarray]) -> None:
        super().__init__(text)
        self.constants = constants

    # Modules, functions, blocks

    def module(self) -> Module:
        """module "name" { function ... }"""
        self._expect("module")
        name = self._string()
        self._expect("{")
        functions = []
        while not self._takes("}"):
            functions.append(self._function())
        if self._start() < len(self.text):
            self._fail("the text goes on after the module")
        if not functions:
            self._fail("the module has no function")
        return Module(name, tuple(functions))

    def _function(self) -> Function:
        self._expect("function")
        name = self._name()
        scope: Scope = {}
        defaults: dict[str, np.ndarray] = {}
        parameters = self._listed("(", ")", lambda: self._parameter(scope, defaults))
        self._expect("->")
        results = self._listed("(", ")", self._string)
        symbols = self._symbols() if self._takes("where") else {}
        self._expect("{")
        body = self._body(tuple(parameters), scope, 0)
        return Function(name, body, tuple(results), symbols, defaults)

    def _parameter(self, scope: Scope, defaults: dict[str, np.ndarray] | None = None) -> Value:
        """%x "exact name": type = default"""
        start = self._start()
        word = self._match(_VALUE, "a parameter such as %x")
        name = self._string() if self._sees('"') else word[1:]
        self._expect(":")
        value = Parameter(name, self._type(0)).value
        self._define(word, value, scope, start)
        if defaults is not None and self._takes("="):
            defaults[name] = self._array()
        return value

    def _symbols(self) -> dict[str, tuple[int, int | None]]:
        """N in [0, ...], M in [1, 8]"""
        symbols: dict[str, tuple[int, int | None]] = {}
        while not symbols or self._takes(","):
            start = self._start()
            dim = self._size(self._chunk(stop=" "), start)
            name = next(iter(symbols_of(dim)), "")
            if dim != Size.symbol(name):
                self._fail("expected a symbol", start)
            self._expect("in")
            self._expect("[")
            low = self._integer()
            self._expect(",")
            symbols[name] = low, None if self._takes("...") else self._integer()
            self._expect("]")
        return symbols

    def _body(self, parameters: tuple[Value, ...], scope: Scope, depth: int) -> Block:
        """Ops, then `return %1, %2 }`."""
        ops = []
        while not self._takes_word("return"):
            ops.append(self._op(scope, depth))
        results = self._values(scope) if self._sees("%") else []
        self._expect("}")
        return Block(parameters, tuple(ops), tuple(results))

    def _block(self, depth: int) -> Block:
        if depth > self.LIMIT:
            self._fail("blocks are nested too deeply")
        scope: Scope = {}
        parameters = self._listed("(", ")", lambda: self._parameter(scope))
        self._expect("{")
        return self._body(tuple(parameters), scope, depth)

    def _op(self, scope: Scope, depth: int) -> Op:
        """%1, %2 = name %0 {axis = 1} : type, type  // location, and its blocks"""
        names = self._results() if self._sees("%") else []
        start = self._start()
        name = self._match(PLAIN_WORD, "an op")
        operands = self._values(scope) if self._sees("%") else []
        attributes = dict(self._listed("{", "}", self._attribute)) if self._sees("{") else {}
        types = self._types() if names else []
        if len(types) != len(names):
            self._fail(f"{len(names)} results and {len(types)} types", start)
        location = self._location()
        blocks = []
        while self._takes_word("block"):
            blocks.append(self._block(depth + 1))
        op = Op(name, tuple(operands), attributes, tuple(blocks), tuple(types), location)
        for finding in op_findings(op):
            self._fail(f"{name}: {finding}", start)
        for (word, ordinal), result in zip(names, op.results, strict=True):
            self._define(word, result, scope, ordinal)
        return op

    def _results(self) -> list[tuple[str, int]]:
        """The names before `=`, and where each stands."""
        names: list[tuple[str, int]] = []
        while not names or self._takes(","):
            start = self._start()
            names.append((self._match(_VALUE, "a result such as %0"), start))
        self._expect("=")
        return names

    def _types(self) -> list[Type]:
        self._expect(":")
        types = [self._type(0)]
        while self._takes(","):
            types.append(self._type(0))
        return types

    def _values(self, scope: Scope) -> list[Value]:
        values: list[Value] = []
        while not values or self._takes(","):
            start = self._start()
            word = self._match(_VALUE, "a value such as %0")
            if word not in scope:
                self._fail(f"{word} is not defined in this block", start)
            values.append(scope[word])
        return values

    def _define(self, word: str, value: Value, scope: Scope, start: int) -> None:
        if word in scope:
            self._fail(f"{word} is defined twice", start)
        scope[word] = value

    def _location(self) -> Location | None:
        """The comment at the end of this line, where it has the form of a location."""
        start = end_of(_BLANK, self.text, self.position)
        match = _LOCATION.match(self.text, start)
        if match is None:
            return None
        self.position = match.end()
        index, name, operator, graph = match.groups()
        if operator is not None and operator.startswith('"'):
            operator = self._unquoted(operator, start)
        return Location(
            "main" if graph is None else self._unquoted(graph, start),
            None if index == "-" else self._to_int(index, start),
            "" if name is None else self._unquoted(name, start),
            operator or "",
        )

    # Types

    def _type(self, depth: int) -> Type:
        if depth > self.LIMIT:
            self._fail("types are nested too deeply")
        start = self._start()
        word = self._match(PLAIN_WORD, "a type")
        if word in DTYPES:
            return TensorType(DTYPES[word], self._shape())
        if word == "sparse":
            self._expect("(")
            tensor = self._type(depth + 1)
            self._expect(")")
            if not isinstance(tensor, TensorType):
                self._fail(f"{tensor} is no type of a tensor", start)
            return SparseTensorType(tensor.dtype, tensor.shape)
        if word in ("sequence", "optional"):
            self._expect("(")
            element = self._type(depth + 1)
            self._expect(")")
            return SequenceType(element) if word == "sequence" else OptionalType(element)
        if word != "map":
            self._fail(f"{word} is no type", start)
        self._expect("(")
        key = DTYPES.get(self._match(PLAIN_WORD, "the type of the keys"))
        if key is None:
            self._fail("the keys have no element type", start)
        self._expect(",")
        value = self._type(depth + 1)
        self._expect(")")
        return MapType(key, value)

    def _shape(self) -> tuple[Dim, ...] | None:
        start = self.position
        if self._takes("["):
            if self._takes("..."):
                self._expect("]")
                return None
            self.position = start
        return tuple(self._listed("[", "]", self._dim))

    def _dim(self) -> Dim:
        start = self._start()
        return self._size(self._chunk(), start)

    def _size(self, text: str, start: int) -> Dim:
        try:
            return parse_dim(text)
        except DimSyntaxError as reason:
            self._fail(str(reason), start)

    # Attributes

    def _attribute(self) -> tuple[str, Attribute]:
        name = self._name()
        self._expect("=")
        return name, self._value(0)

    def _value(self, depth: int) -> Attribute:
        if depth > self.LIMIT:
            self._fail("tuples are nested too deeply")
        if self._sees('"'):
            return self._string()
        if self._sees("["):
            return tuple(self._listed("[", "]", lambda: self._value(depth + 1)))
        start = self._start()
        return self._array() if _ARRAY.match(self.text, start) else self._scalar(self._chunk(), start)

    def _scalar(self, text: str, start: int) -> Attribute:
        if text in ("true", "false"):
            return text == "true"
        if text in DTYPES:
            return DTYPES[text]
        if _FLOAT.fullmatch(text) and not INTEGER.fullmatch(text):
            return float(self._float(text, F64, start))
        return self._size(text, start)

    # Arrays

    def _array(self) -> np.ndarray:
        """f32[2] [1.0, 2.0], or f32[64, 64] #digest"""
        start = self._start()
        dtype = DTYPES.get(self._match(PLAIN_WORD, "an element type"))
        if dtype is None:
            self._fail("expected an element type", start)
        shape = tuple(self._listed("[", "]", self._integer))
        if self._sees("#"):
            return self._given(self._match(_DIGEST, "a digest of 16 digits")[1:], dtype, shape, start)
        elements = self._listed("[", "]", lambda: self._element(dtype)) if shape else [self._element(dtype)]
        if min(shape, default=0) < 0 or math.prod(shape) != len(elements):
            self._fail(f"{len(elements)} elements do not fill the shape {list(shape)}", start)
        array = np.empty(len(elements), dtype.numpy)
        for index, element in enumerate(elements):
            array[index] = element
        return array.reshape(shape)

    def _given(self, digest: str, dtype: DType, shape: tuple[int, ...], start: int) -> np.ndarray:
        array = self.constants.get(digest)
        if array is None:
            self._fail(f"the array #{digest} is not given", start)
        if digest_of(array) != digest or array.shape != shape or dtype_of(array.dtype) != dtype:
            self._fail(f"the array given for #{digest} is another, or not {dtype}{list(shape)}", start)
        return array

    def _element(self, dtype: DType) -> object:
        if dtype.is_string:
            return self._string()
        start = self._start()
        if dtype.is_complex and self._takes("("):
            parts = DTYPES[f"f{dtype.bits // 2}"]
            real = self._element(parts)
            self._expect(",")
            imaginary = self._element(parts)
            self._expect(")")
            return _complex(real, imaginary, dtype)
        text = self._chunk()
        if dtype == BOOL and text in ("true", "false"):
            return text == "true"
        if dtype.is_float and _FLOAT.fullmatch(text):
            return self._float(text, dtype, start)
        if not dtype.is_integer or not INTEGER.fullmatch(text):
            self._fail(f"{text!r} is no {dtype}", start)
        value, width = self._to_int(text, start), dtype.bits
        low, high = (-(1 << width - 1), 1 << width - 1) if dtype.is_signed else (0, 1 << width)
        if not low <= value < high:
            self._fail(f"{text} is outside {dtype}", start)
        return value

    def _float(self, text: str, dtype: DType, start: int) -> np.ndarray:
        try:
            return read_float(text, dtype)
        except (ValueError, OverflowError):
            self._fail(f"{text} is no {dtype}", start)


def _complex(real: object, imaginary: object, dtype: DType) -> np.generic:
    parts = np.array([real, imaginary], f"f{dtype.itemsize // 2}")
    element: np.generic = parts.view(dtype.numpy)[0]
    return element
