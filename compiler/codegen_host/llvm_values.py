"""LLVM types and literals as text: registers, the shape of a type, constants written exactly.

Nothing here knows of functions or instructions.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import ml_dtypes
import numpy as np

FLOAT_TYPES = ("float", "double", "half", "bfloat")

# The suffix of an element type in the name of an overloaded intrinsic.
_SUFFIXES = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}


@dataclass(frozen=True, slots=True)
class Reg:
    """A typed operand: a register "%.1", a symbol "@name" or a literal "splat (i32 7)"."""

    text: str
    type: str

    @property
    def lanes(self) -> int:
        """The number of elements of a vector, 1 for a scalar."""
        return vector_shape(self.type)[0]

    @property
    def element(self) -> str:
        """The element type of a vector, the type itself of a scalar."""
        return vector_shape(self.type)[1]

    @property
    def is_float(self) -> bool:
        return vector_shape(self.type)[1] in FLOAT_TYPES

    @property
    def is_literal(self) -> bool:
        return self.text[0] not in "%@"


TRUE = Reg("true", "i1")
FALSE = Reg("false", "i1")


# An integer operand: a register, or a constant known while the code is written.
Int = Reg | int
# An operand of a floating-point instruction; constants take the type of the other operand.
Float = Reg | float


def register(value: Int) -> Reg:
    """The operand, where it cannot be a constant: arithmetic on registers gives registers."""
    assert isinstance(value, Reg), value
    return value


@cache
def vector_shape(type: str) -> tuple[int, str]:
    """(lanes, element type) of a type: (16, "float") for "<16 x float>", (1, "ptr") for "ptr"."""
    if not type.startswith("<"):
        return 1, type
    lanes, element = type[1:-1].split(" x ", 1)
    return int(lanes), element


@cache
def vector_type(element: str, lanes: int) -> str:
    """The type of `lanes` elements; one lane is the scalar."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def intrinsic_suffix(type: str) -> str:
    """A type as overloaded intrinsics spell it: "v16f32", "i64", "p0"."""
    lanes, element = vector_shape(type)
    suffix = _SUFFIXES.get(element, element)
    return suffix if lanes == 1 else f"v{lanes}{suffix}"


@cache
def boolean_type(type: str) -> str:
    """The type of a comparison of two values of `type`."""
    return vector_type("i1", vector_shape(type)[0])


@lru_cache(maxsize=4096)
def _integer_literal(element: str, value: int) -> str:
    if element == "i1":
        return "true" if value & 1 else "false"
    bits = int(element[1:])
    value &= (1 << bits) - 1
    return str(value - (1 << bits) if value >> (bits - 1) else value)


def _float_literal(element: str, value: float) -> str:
    """The value rounded to the type, as the bits that LLVM reads back exactly (NaN as the quiet one)."""
    return _literal_of_bits(element, struct.pack("<d", value))


@lru_cache(maxsize=4096)
def _literal_of_bits(element: str, bits: bytes) -> str:
    """By the bits of an f64, among which 0.0 and -0.0 differ."""
    (value,) = struct.unpack("<d", bits)
    with np.errstate(over="ignore", invalid="ignore"):
        if element == "half":
            return f"0xH{int(np.array(value, np.float16).view(np.uint16)):04X}"
        if element == "bfloat":
            return f"0xR{int(np.array(value, ml_dtypes.bfloat16).view(np.uint16)):04X}"
        rounded = float(np.float32(value)) if element == "float" else value
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def scalar_literal(element: str, value: float) -> str:
    """The text of one element; integers wrap to the width of the type, floats round to the nearest even."""
    if element in FLOAT_TYPES:
        return _float_literal(element, value)
    if element == "ptr":
        assert value == 0, f"the only literal pointer is null, not {value}"
        return "null"
    assert isinstance(value, (int, np.integer, np.bool_)), f"{value!r} is no integer, and the type is {element}"
    return _integer_literal(element, int(value))


def literal(type: str, value: float | Sequence[float]) -> str:
    """The text of a constant of any type: a scalar is repeated in every lane, a sequence gives them one by one."""
    lanes, element = vector_shape(type)
    if isinstance(value, Sequence):
        assert len(value) == lanes, f"{len(value)} values for {type}"
        return "<" + ", ".join(f"{element} {scalar_literal(element, x)}" for x in value) + ">"
    text = scalar_literal(element, value)
    return text if lanes == 1 else f"splat ({element} {text})"


def constant(type: str, value: float | Sequence[float]) -> Reg:
    """A literal operand; a scalar given for a vector type is repeated in every lane."""
    return Reg(literal(type, value), type)


def as_reg(value: Int) -> Reg:
    """The operand as a register; a constant becomes an i64 literal."""
    return value if isinstance(value, Reg) else constant("i64", value)
