"""Names of sizes: what a model calls those that lowering made up, so that they can be written into it.

The symbols of the inputs keep their names. Others get the name that the model gives to the same size, where it gives
one, else a C identifier made of what the size is, numbered in the order of the values.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from onnxc.compiler.ir.dim_symbols import substitute, symbols_of
from onnxc.compiler.ir.dims import Dim, Size, render
from onnxc.compiler.ir.types import ANY_SIZE, MapType, OptionalType, SequenceType, ShapedType, Type

ValueKey = tuple[str, str]
"""The path of a graph, and the name of a value in it."""

# Read back, these would be functions.
_RESERVED = frozenset(("floordiv", "mod", "min", "max", "bcast"))


def lone_symbol(dim: Dim) -> str | None:
    """The symbol that a size is, unless it is an expression or a number."""
    if isinstance(dim, int) or len(dim.terms) != 1:
        return None
    ((monomial, factor),) = dim.terms
    return monomial[0] if factor == 1 and len(monomial) == 1 and isinstance(monomial[0], str) else None


def identifier(text: str) -> str:
    """`text` as a C identifier."""
    plain = re.sub(r"\W", "_", text, flags=re.ASCII)
    return f"_{plain}" if not plain or plain[0].isdigit() or plain.lower() in _RESERVED else plain


def name_sizes(
    types: Mapping[ValueKey, Type], declared: Mapping[ValueKey, Type], bound: frozenset[str], taken: Iterable[str]
) -> dict[ValueKey, Type]:
    """`types` with legal names for the symbols that are not `bound` by an input.

    `declared` is what the model says of some of the values; no new name is one of those `taken`.
    """
    names = _Names(bound, taken)
    for key, type in types.items():
        names.adopt(type, declared.get(key))
    return {key: names.renamed(type, key[1]) for key, type in types.items()}


class _Names:
    def __init__(self, bound: frozenset[str], taken: Iterable[str]) -> None:
        self.bound = bound
        self.taken = {*taken, *bound}
        self.names: dict[str, str] = {}
        self.wholes: dict[Dim, Dim] = {}

    def adopt(self, type: Type, declared: Type | None) -> None:
        """Takes over the names that the model gives to sizes of one value."""
        for dim, said in _paired_sizes(type, declared):
            symbol, name = lone_symbol(dim), lone_symbol(said)
            if symbol is None or name is None or symbol in self.bound or symbol in self.names or dim == ANY_SIZE:
                continue
            if name not in self.bound and name not in self.names.values():
                self.names[symbol] = name
                self.taken.add(name)

    def renamed(self, type: Type, value: str) -> Type:
        match type:
            case ShapedType(shape=shape):
                sizes = None if shape is None else tuple(self._size(d, f"{value}_dim{i}") for i, d in enumerate(shape))
                return type.with_shape(sizes)
            case SequenceType(element):
                return SequenceType(self._element(element, value))
            case OptionalType(element):
                return OptionalType(self._element(element, value))
            case MapType(key, element):
                return MapType(key, self._element(element, value))

    def _element(self, type: Type, value: str) -> Type:
        if not isinstance(type, ShapedType):
            return self.renamed(type, value)
        if type.shape is None:
            return type
        sizes = (dim if dim == ANY_SIZE else self._size(dim, f"{value}_dim{i}") for i, dim in enumerate(type.shape))
        return type.with_shape(tuple(sizes))

    def _size(self, dim: Dim, hint: str) -> Dim:
        if dim == ANY_SIZE:
            return Size.symbol(self._fresh(hint))
        new = {symbol: Size.symbol(self._name(symbol)) for symbol in sorted(symbols_of(dim) - self.bound)}
        if not new:
            return dim
        named = substitute(dim, new)
        # A number read from data may be negative, a name stands for a size: where that makes a difference, the whole
        # expression gets a name.
        if render(dim, lambda symbol: str(new.get(symbol, symbol))) == render(named, str):
            return named
        if dim not in self.wholes:
            self.wholes[dim] = Size.symbol(self._fresh(hint))
        return self.wholes[dim]

    def _name(self, symbol: str) -> str:
        if symbol not in self.names:
            self.names[symbol] = self._fresh(re.sub(r"(_\d+)+$", "", symbol.removeprefix("?")))
        return self.names[symbol]

    def _fresh(self, hint: str) -> str:
        name, count = identifier(hint), 0
        while name in self.taken:
            count += 1
            name = f"{identifier(hint)}_{count}"
        self.taken.add(name)
        return name


def _paired_sizes(type: Type, declared: Type | None) -> Iterator[tuple[Dim, Dim]]:
    """The sizes of a value, each with what is declared of it."""
    match type, declared:
        case ShapedType(shape=tuple() as shape), ShapedType(shape=tuple() as said) if len(shape) == len(said):
            yield from zip(shape, said, strict=True)
