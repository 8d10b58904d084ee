"""Types of IR values: tensors with symbolic shapes, and the host-only sparse tensors, sequences, optionals and maps."""

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Self, Union

from onnxc.compiler.ir.dim_symbols import substitute, symbols_of
from onnxc.compiler.ir.dims import Dim, Size, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.runtime.records import record

Type = Union["TensorType", "SparseTensorType", "SequenceType", "OptionalType", "MapType"]

ANY_SIZE = Size.symbol("?any")
"""The size of an axis that may differ between the elements of a sequence; it stands nowhere else, and binds nothing."""


@record
class ShapedType:
    """What dense and sparse tensors have in common; `shape` is None where only data decides the rank."""

    dtype: DType
    shape: tuple[Dim, ...] | None
    _symbols: frozenset[str] | None = field(default=None, init=False, repr=False, compare=False)

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[...]"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def with_shape(self, shape: tuple[Dim, ...] | None) -> Self:
        """The same type in another shape."""
        return self.__class__(self.dtype, shape)

    @property
    def rank(self) -> int:
        return len(self.known_shape)

    @property
    def known_shape(self) -> tuple[Dim, ...]:
        """The shape of a tensor whose rank is known; asking it of another is a defect of the caller."""
        assert self.shape is not None, "the rank of this tensor is only known at run time"
        return self.shape

    @property
    def is_static(self) -> bool:
        return self.shape is not None and all(isinstance(dim, int) for dim in self.shape)

    @property
    def elements(self) -> Dim:
        return product(self.known_shape)

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols in its sizes, looked up once: passes ask for those of all types again and again."""
        if self._symbols is None:
            symbols = frozenset().union(*(symbols_of(dim) for dim in self.shape or () if dim != ANY_SIZE))
            object.__setattr__(self, "_symbols", symbols)
            return symbols
        return self._symbols


@record
class TensorType(ShapedType):
    """A dense tensor; one whose rank is not known is a host value."""


@record
class SparseTensorType(ShapedType):
    """A tensor of `shape` of which only some elements are stored; the others are 0, or empty texts."""

    def __str__(self) -> str:
        return f"sparse({super().__str__()})"


@record
class SequenceType:
    """Any number of values of one type."""

    element: Type

    def __str__(self) -> str:
        return f"sequence({self.element})"


@record
class OptionalType:
    """A value that may be absent."""

    element: Type

    def __str__(self) -> str:
        return f"optional({self.element})"


@record
class MapType:
    """A map from integers or strings to values of one type."""

    key: DType
    value: Type

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


def is_host_type(type: Type) -> bool:
    """Whether values of `type` live on the host only: not a dense tensor of numbers of known rank."""
    return not isinstance(type, TensorType) or type.shape is None or type.dtype.is_string


def type_symbols(type: Type) -> frozenset[str]:
    """The symbols in the sizes of `type`."""
    match type:
        case ShapedType():
            return type.symbols
        case SequenceType(element) | OptionalType(element):
            return type_symbols(element)
        case MapType(value=value):
            return type_symbols(value)


def without_symbols(type: Type) -> Type:
    """`type` with any size instead of each that is not an integer: what is known of the elements of a sequence."""
    match type:
        case ShapedType(shape=shape):
            sizes = None if shape is None else tuple(dim if isinstance(dim, int) else ANY_SIZE for dim in shape)
            return type.with_shape(sizes)
        case SequenceType(element):
            return SequenceType(without_symbols(element))
        case OptionalType(element):
            return OptionalType(without_symbols(element))
        case MapType(key, value):
            return MapType(key, without_symbols(value))


def substitute_type(type: Type, replacements: Mapping[str, Dim]) -> Type:
    """`type` with symbols replaced in its sizes."""
    return change_sizes(type, partial(substitute, replacements=replacements))


def change_sizes(type: Type, change: Callable[[Dim], Dim]) -> Type:
    """`type` with what `change` makes of each of its sizes."""
    match type:
        case ShapedType(shape=shape):
            return type.with_shape(None if shape is None else tuple(map(change, shape)))
        case SequenceType(element):
            return SequenceType(change_sizes(element, change))
        case OptionalType(element):
            return OptionalType(change_sizes(element, change))
        case MapType(key, value):
            return MapType(key, change_sizes(value, change))
