"""The text of a program, exact: `parse_module(print_module(m), constants_of(m))` prints the same text again.

    module "head" {
    function main(%x: f32[N, 64], %w: f32[2] = f32[2] [1.0, 0.5]) -> ("y") where N in [0, ...] {
      %0 = neg %x : f32[N, 64]                                      // 3 "block1/Neg" (ai.onnx.Neg-13)
      %1, %2 = sort %0 {axis = 1, descending = false} : f32[N, 64], i64[N, 64]
      return %1
    }
    }

Results are numbered; a parameter has its own name, followed by the exact one in quotes where that is no plain word.
Blocks follow the op that owns them, as `block(%a: f32[]) { ... }`. A trailing comment is the location: the index of
the node or `-`, its name, its operator, and its graph unless that is "main". An array of more than 16 elements is
`f32[64, 128] #<digest>`. `0x7fc00001` is a float by its bits, for the NaN that no decimal names.
"""

import hashlib
import json
import re
import struct
import weakref
from collections.abc import Iterator, Mapping

import numpy as np

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import DTYPES, F16, F32, DType, dtype_of
from onnxc.compiler.ir.module import Attribute, Attributes, Block, Function, Module, Op, Parameter, Value, walk

INLINE_LIMIT = 16
"""The most elements of an array that stand in the text: so many of a shape or a permutation fit one line."""

RESERVED = frozenset({*DTYPES, "true", "false", "inf", "nan"})
"""What means something else than a symbol where an attribute is read; a symbol of that name is quoted there."""

PLAIN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

_COMMENT_COLUMN = 72
_LONGEST_HEADER = 120
_PLAIN_OPERATOR = re.compile(r"[A-Za-z0-9_.\-]+")


def print_module(module: Module) -> str:
    """The text of `module`, without a final line break."""
    functions = (print_function(function) for function in module.functions)
    return "\n".join((f"module {_quoted(module.name)} {{", *functions, "}"))


def print_function(function: Function) -> str:
    """The text of one function."""
    names = ValueNames()
    parameters = [_parameter_text(value, names, function.defaults) for value in function.body.parameters]
    results = ", ".join(map(_quoted, function.result_names))
    tail = f") -> ({results}){_symbols_text(function.symbols)} {{"
    start = f"function {_word(function.name)}("
    header = start + ", ".join(parameters) + tail
    if len(header) > _LONGEST_HEADER and parameters:
        header = "\n".join((start, *(f"    {parameter}," for parameter in parameters)))[:-1] + "\n" + tail
    return "\n".join((header, *_body_lines(function.body, names, "  "), "}"))


def print_block(block: Block) -> str:
    """The text of a block on its own; values from outside are numbered as they come."""
    return "\n".join(_block_lines(block, ValueNames(), ""))


def print_op(op: Op) -> str:
    """The text of an op on its own, with its blocks; operands are numbered as they come."""
    return "\n".join(_op_lines(op, ValueNames(), ""))


def constants_of(module: Module) -> Mapping[str, np.ndarray]:
    """The arrays that the text of `module` names by digest."""
    arrays = [array for function in module.functions for array in _arrays(function)]
    return {digest_of(array): array for array in arrays if array.size > INLINE_LIMIT}


def _arrays(function: Function) -> Iterator[np.ndarray]:
    yield from function.defaults.values()
    for op in walk(function.body):
        for value in op.attributes.values():
            yield from _arrays_in(value)


def _arrays_in(value: Attribute) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _arrays_in(item)


class ValueNames:
    """The name of each value in one text; made when it is first asked for."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._ordinals_used = 0

    def __getitem__(self, value: Value) -> str:
        if value not in self._names:
            producer = value.producer
            self._names[value] = self._own(producer.name) if isinstance(producer, Parameter) else self._next_ordinal()
        return self._names[value]

    def _next_ordinal(self) -> str:
        self._ordinals_used += 1
        return f"%{self._ordinals_used - 1}"

    def _own(self, name: str) -> str:
        word = re.sub(r"[^A-Za-z0-9_.]", "_", name)
        base = word if PLAIN_WORD.fullmatch(word) else f"_{word}"
        free, count = base, 0
        while free in self._taken:
            count += 1
            free = f"{base}_{count}"
        self._taken.add(free)
        return f"%{free}"


# Blocks and ops


def _block_lines(block: Block, names: ValueNames, indent: str) -> Iterator[str]:
    parameters = ", ".join(_parameter_text(value, names, {}) for value in block.parameters)
    yield f"{indent}block({parameters}) {{"
    yield from _body_lines(block, names, indent + "  ")
    yield f"{indent}}}"


def _body_lines(block: Block, names: ValueNames, indent: str) -> Iterator[str]:
    for op in block.ops:
        yield from _op_lines(op, names, indent)
    yield f"{indent}return {', '.join(names[result] for result in block.results)}".rstrip()


def _op_lines(op: Op, names: ValueNames, indent: str) -> Iterator[str]:
    operands = ", ".join(names[operand] for operand in op.operands)
    results = ", ".join(names[result] for result in op.results)
    line = f"{indent}{results} = {op.name}" if results else f"{indent}{op.name}"
    if operands:
        line += f" {operands}"
    if op.attributes:
        line += f" {attributes_text(op.attributes)}"
    if results:
        line += f" : {', '.join(map(str, op.result_types))}"
    yield line if op.location is None else f"{line.ljust(_COMMENT_COLUMN - 2)}  // {location_text(op.location)}"
    for block in op.blocks:
        yield from _block_lines(block, names, indent + "  ")


def _parameter_text(value: Value, names: ValueNames, defaults: Mapping[str, np.ndarray]) -> str:
    name, exact = names[value], value.producer.name
    text = f"{name}: {value.type}" if name == f"%{exact}" else f"{name} {_quoted(exact)}: {value.type}"
    return text if exact not in defaults else f"{text} = {_array_text(defaults[exact])}"


def _symbols_text(symbols: Mapping[str, tuple[int, int | None]]) -> str:
    if not symbols:
        return ""
    ranges = (
        f"{Size.symbol(name)} in [{low}, {'...' if high is None else high}]"
        for name, (low, high) in sorted(symbols.items())
    )
    return f" where {', '.join(ranges)}"


def location_text(location: Location) -> str:
    """`3 "block1/Gather" (ai.onnx.Gather-13) in "main/body"`: of these, what the location knows."""
    parts = ["-" if location.index is None else str(location.index)]
    if location.name:
        parts.append(_quoted(location.name))
    if location.operator:
        plain = _PLAIN_OPERATOR.fullmatch(location.operator)
        parts.append(f"({location.operator if plain else _quoted(location.operator)})")
    if location.graph != "main":
        parts.append(f"in {_quoted(location.graph)}")
    return " ".join(parts)


# Attributes and arrays


def attributes_text(attributes: Attributes) -> str:
    """`{axis = 1, dtype = f32}`, by name."""
    return f"{{{', '.join(f'{_word(name)} = {attribute_text(value)}' for name, value in sorted(attributes.items()))}}}"


def attribute_text(value: Attribute) -> str:
    """The text of one attribute."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _float_text(float(value))
        case str():
            return _quoted(value)
        case DType():
            return value.name
        case Size():
            text = str(value)
            name = text.removeprefix("-")
            return text.replace(name, f"`{name}`") if name in RESERVED else text
        case np.ndarray():
            return _array_text(value)
        case tuple():
            return f"[{', '.join(map(attribute_text, value))}]"
    raise AssertionError(f"{value!r} is no attribute")


def digest_of(array: np.ndarray) -> str:
    """16 hexadecimal digits that name an array: its element type, shape and elements. Remembered while it lives."""
    remembered = _DIGESTS.get(id(array))
    if remembered is not None and remembered[0]() is array:
        return remembered[1]
    key, digest = id(array), _digest(array)
    _DIGESTS[key] = (weakref.ref(array, lambda _: _DIGESTS.pop(key, None)), digest)
    return digest


_DIGESTS: dict[int, tuple[weakref.ref[np.ndarray], str]] = {}


def _digest(array: np.ndarray) -> str:
    dtype = dtype_of(array.dtype)
    digest = hashlib.sha256(f"{dtype}{list(array.shape)}".encode())
    if dtype.is_string:
        digest.update(json.dumps(array.ravel().tolist()).encode())
    else:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:16]


def _array_text(array: np.ndarray) -> str:
    dtype = dtype_of(array.dtype)
    type = f"{dtype}[{', '.join(map(str, array.shape))}]"
    if array.size > INLINE_LIMIT:
        return f"{type} #{digest_of(array)}"
    elements = [_element_text(element, dtype) for element in array.reshape(-1)]
    return f"{type} {elements[0]}" if array.ndim == 0 else f"{type} [{', '.join(elements)}]"


def _element_text(element: np.generic | str, dtype: DType) -> str:
    """One element; `element` is what iterating over a flat array gives."""
    if dtype.is_string:
        assert isinstance(element, str), element
        return _quoted(element)
    if dtype.is_bool:
        return "true" if element else "false"
    array = np.asarray(element)
    if dtype.is_complex:
        parts = DTYPES[f"f{dtype.bits // 2}"]
        real, imaginary = (_element_text(part.reshape(-1)[0], parts) for part in (array.real, array.imag))
        return f"({real}, {imaginary})"
    if dtype.is_integer:
        return str(int(array))
    decimal = str(element) if dtype in (F16, F32) else repr(float(array))
    return decimal if _bits(read_float(decimal, dtype)) == _bits(array) else f"0x{_bits(array):0{array.itemsize * 2}x}"


def _bits(element: np.ndarray) -> int:
    return int.from_bytes(element.tobytes(), "little")


def read_float(text: str, dtype: DType) -> np.ndarray:
    """The element of rank 0 that a text stands for: a decimal, inf, nan, or `0x` and its bits.

    Raises ValueError or OverflowError where it is neither.
    """
    if text.startswith("0x"):
        return np.frombuffer(int(text, 16).to_bytes(dtype.itemsize, "little"), dtype.numpy).reshape(())
    with np.errstate(over="ignore"):
        return np.asarray(np.float64(float(text)).astype(dtype.numpy))


def _float_text(value: float) -> str:
    bits = struct.pack("<d", value)
    if value == value or bits == struct.pack("<d", float("nan")):
        return repr(value)
    return f"0x{int.from_bytes(bits, 'little'):016x}"


# Words


def _quoted(text: str) -> str:
    return json.dumps(text)


def _word(name: str) -> str:
    return name if PLAIN_WORD.fullmatch(name) else _quoted(name)
