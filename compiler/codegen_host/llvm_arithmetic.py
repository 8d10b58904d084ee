"""The arithmetic of the IR builder: constants are computed while writing, the rest becomes instructions."""

from collections.abc import Callable
from typing import Protocol, overload

from onnxc.compiler.codegen_host.llvm_values import Float, Int, Reg, constant, literal


def _wrap(value: int) -> int:
    """The value as a signed 64-bit integer."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _truncated_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_UNSIGNED = (1 << 64) - 1

# What each opcode gives for two constants, as i64.
_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "sdiv": _truncated_quotient,
    "srem": lambda a, b: a - b * _truncated_quotient(a, b),
    "udiv": lambda a, b: (a & _UNSIGNED) // (b & _UNSIGNED),
    "urem": lambda a, b: (a & _UNSIGNED) % (b & _UNSIGNED),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "ashr": lambda a, b: a >> b,
    "lshr": lambda a, b: (a & _UNSIGNED) >> b,
    "smin": min,
    "smax": max,
    "umin": lambda a, b: min(a, b, key=lambda x: x & _UNSIGNED),
    "umax": lambda a, b: max(a, b, key=lambda x: x & _UNSIGNED),
}

# x op n = x.
_RIGHT_IDENTITIES = {
    "add": 0, "sub": 0, "mul": 1, "sdiv": 1, "udiv": 1, "and": -1, "or": 0, "xor": 0, "shl": 0, "ashr": 0, "lshr": 0,
}  # fmt: skip

# x op n = 0.
_RIGHT_ZEROS = {"mul": 0, "and": 0, "srem": 1, "urem": 1}

_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax"})

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "ult": lambda a, b: a & _UNSIGNED < b & _UNSIGNED,
    "ule": lambda a, b: a & _UNSIGNED <= b & _UNSIGNED,
    "ugt": lambda a, b: a & _UNSIGNED > b & _UNSIGNED,
    "uge": lambda a, b: a & _UNSIGNED >= b & _UNSIGNED,
}


class Writer(Protocol):
    """What an operation needs of a function builder."""

    def computed(self, instruction: str, type: str) -> Reg: ...

    def computed_intrinsic(self, name: str, type: str, *arguments: Reg) -> Reg: ...


class IntegerOperation:
    """One integer instruction of a function builder, scalars and vectors alike.

    Two constants fold to a constant, as i64; x op n folds where it is x, and to 0 where that is the result.
    """

    __slots__ = ("_builder", "_fold", "_identity", "_opcode", "_zero")

    def __init__(self, builder: Writer, opcode: str) -> None:
        self._builder = builder
        self._opcode = opcode
        self._fold = _FOLDS[opcode]
        self._identity = _RIGHT_IDENTITIES.get(opcode)
        self._zero = _RIGHT_ZEROS.get(opcode)

    def apply(self, a: Int, b: Int) -> Int:
        if isinstance(b, int):
            if isinstance(a, int):
                return _wrap(self._fold(a, b))
            if b == self._identity:
                return a
            if b == self._zero:
                return 0 if a.type == "i64" else constant(a.type, 0)
            type, left, right = a.type, a.text, literal(a.type, b)
        elif isinstance(a, int):
            if self._opcode in _COMMUTATIVE:
                return self.apply(b, a)
            type, left, right = b.type, literal(b.type, a), b.text
        else:
            type, left, right = a.type, a.text, b.text
        return self._emit(type, left, right)

    def _emit(self, type: str, left: str, right: str) -> Reg:
        return self._builder.computed(f"{self._opcode} {type} {left}, {right}", type)


class ClosedOperation(IntegerOperation):
    """An integer instruction that gives a register as soon as one operand is a register."""

    __slots__ = ()

    @overload
    def __call__(self, a: Reg, b: Int) -> Reg: ...
    @overload
    def __call__(self, a: Int, b: Reg) -> Reg: ...
    @overload
    def __call__(self, a: Int, b: Int) -> Int: ...
    def __call__(self, a: Int, b: Int) -> Int:
        return self.apply(a, b)


class FoldingOperation(IntegerOperation):
    """An integer instruction that may give the constant 0 for an i64 register and a constant: x * 0, x % 1, x & 0."""

    __slots__ = ()

    @overload
    def __call__(self, a: Reg, b: Reg) -> Reg: ...
    @overload
    def __call__(self, a: Int, b: Int) -> Int: ...
    def __call__(self, a: Int, b: Int) -> Int:
        return self.apply(a, b)


class IntrinsicOperation(ClosedOperation):
    """smin, smax, umin, umax."""

    __slots__ = ()

    def _emit(self, type: str, left: str, right: str) -> Reg:
        return self._builder.computed_intrinsic(f"llvm.{self._opcode}.*", type, Reg(left, type), Reg(right, type))


class FloatOperation:
    """One floating-point instruction of a function builder; `flags` are fast-math flags, "contract" for example."""

    __slots__ = ("_builder", "_opcode")

    def __init__(self, builder: Writer, opcode: str) -> None:
        self._builder = builder
        self._opcode = opcode

    def __call__(self, a: Float, b: Float, flags: str = "") -> Reg:
        type = common_type(a, b)
        opcode = flagged(self._opcode, flags)
        return self._builder.computed(f"{opcode} {type} {operand_text(a, type)}, {operand_text(b, type)}", type)


def operand_text(value: Reg | float, type: str) -> str:
    return value.text if isinstance(value, Reg) else literal(type, value)


def flagged(opcode: str, flags: str) -> str:
    return f"{opcode} {flags}" if flags else opcode


def common_type(*values: Reg | float) -> str:
    for value in values:
        if isinstance(value, Reg):
            return value.type
    raise AssertionError(f"no operand carries a type: {values}")
