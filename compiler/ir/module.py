"""The program: modules of functions of blocks of ops, in SSA form and immutable.

A value is (producer, index). Blocks are isolated: a nested block sees its own parameters only, captures are operands
of the op that owns it. Symbols of sizes are names of the whole function.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Union

import numpy as np

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.types import TensorType, Type, type_symbols
from onnxc.runtime.records import record

Scalar = int | float | str | bool | DType | Size
Attribute = Union[Scalar, np.ndarray, tuple["Attribute", ...]]  # noqa: UP007 (a string is no operand of |)
Attributes = Mapping[str, Attribute]


@record(eq=False)
class Parameter:
    """What a block or function receives from outside."""

    name: str
    type: Type
    value: "Value" = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", Value(self, 0))

    @property
    def result_types(self) -> tuple[Type, ...]:
        return (self.type,)


@record(eq=False)
class Op:
    """An application of a primitive; compared by identity."""

    name: str
    operands: tuple["Value", ...]
    attributes: Attributes
    blocks: tuple["Block", ...]
    result_types: tuple[Type, ...]
    location: Location | None = None
    results: tuple["Value", ...] = field(init=False)
    _symbols: frozenset[str] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        results = tuple(Value(self, index) for index in range(len(self.result_types)))
        object.__setattr__(self, "results", results)

    @property
    def result(self) -> "Value":
        assert len(self.result_types) == 1, (self.name, len(self.result_types))
        return self.results[0]

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that it and its blocks mention, looked up once: most passes leave most ops as they are."""
        if self._symbols is None:
            symbols = self._mentioned_symbols()
            object.__setattr__(self, "_symbols", symbols)
            return symbols
        return self._symbols

    def _mentioned_symbols(self) -> frozenset[str]:
        types = (*self.result_types, *(value.type for block in self.blocks for value in block.parameters))
        inner = (op.symbols for block in self.blocks for op in block.ops)
        return frozenset().union(*map(_attribute_symbols, self.attributes.values()), *map(type_symbols, types), *inner)

    def dims(self, name: str) -> tuple[Dim, ...]:
        """An attribute that is a tuple of sizes."""
        value = self.attributes[name]
        assert isinstance(value, tuple), (self.name, name, value)
        return tuple(dim for dim in value if isinstance(dim, int | Size))

    def dim(self, name: str) -> Dim:
        """An attribute that is one size."""
        value = self.attributes[name]
        assert isinstance(value, int | Size), (self.name, name, value)
        return value

    def ints(self, name: str) -> tuple[int, ...]:
        """An attribute that is a tuple of plain integers."""
        value = self.attributes[name]
        assert isinstance(value, tuple), (self.name, name, value)
        return tuple(item for item in value if isinstance(item, int))

    def int(self, name: str) -> int:
        """An attribute that is a plain integer."""
        value = self.attributes[name]
        assert isinstance(value, int), (self.name, name, value)
        return value

    def float(self, name: str) -> float:
        """An attribute that is an integer or a float."""
        value = self.attributes[name]
        assert isinstance(value, int | float), (self.name, name, value)
        return float(value)

    def text(self, name: str) -> str:
        """An attribute that is a text."""
        value = self.attributes[name]
        assert isinstance(value, str), (self.name, name, value)
        return value

    def flag(self, name: str) -> bool:
        """An attribute that is true or false."""
        value = self.attributes[name]
        assert isinstance(value, bool), (self.name, name, value)
        return value

    def dtype(self, name: str = "dtype") -> DType:
        """An attribute that is an element type."""
        value = self.attributes[name]
        assert isinstance(value, DType), (self.name, name, value)
        return value

    def array(self, name: str = "value") -> np.ndarray:
        """An attribute that is a constant tensor."""
        value = self.attributes[name]
        assert isinstance(value, np.ndarray), (self.name, name)
        return value


@record(eq=False)
class Value:
    """A result of an op, or a parameter; compared by identity. `producer` makes it, and alone makes values."""

    producer: Op | Parameter
    index: int

    def __repr__(self) -> str:
        return f"<{self.producer.name}#{self.index}: {self.type}>"

    @property
    def op(self) -> Op | None:
        """The op that makes the value; None for a parameter."""
        return self.producer if isinstance(self.producer, Op) else None

    @property
    def type(self) -> Type:
        return self.producer.result_types[self.index]

    @property
    def tensor(self) -> TensorType:
        """The type of a value that is a tensor; asking it of another is a defect of the caller."""
        type = self.type
        assert isinstance(type, TensorType), f"{type} is not a tensor"
        return type

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.tensor.known_shape

    @property
    def rank(self) -> int:
        return self.tensor.rank


@record(eq=False)
class Block:
    """Parameters, ops in an order in which each comes after what it uses, and results."""

    parameters: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]


@record(eq=False)
class Function:
    """A named block.

    `symbols` holds the range of each symbol its parameters bind: (least, greatest or None). `defaults` are the values
    of parameters that a call may leave out.
    """

    name: str
    body: Block
    result_names: tuple[str, ...]
    symbols: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    defaults: Mapping[str, np.ndarray] = field(default_factory=dict)


@record(eq=False)
class Module:
    """A whole program; `main` is what a call runs."""

    name: str
    functions: tuple[Function, ...]

    @property
    def main(self) -> Function:
        return self.functions[0]

    def __str__(self) -> str:
        return f'module "{self.name}"'


def _attribute_symbols(value: Attribute) -> frozenset[str]:
    if isinstance(value, Size):
        return value.symbols
    if isinstance(value, tuple):
        return frozenset().union(*map(_attribute_symbols, value))
    return frozenset()


def walk(block: Block) -> Iterator[Op]:
    """All ops of `block`, each before those of its own blocks."""
    for op in block.ops:
        yield op
        for inner in op.blocks:
            yield from walk(inner)
