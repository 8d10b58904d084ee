"""The symbols in sizes: which there are, and sizes with other sizes or with integers substituted for them."""

from collections.abc import Mapping

from onnxc.compiler.ir.dim_functions import FUNCTIONS
from onnxc.compiler.ir.dims import Apply, Dim, Monomial, Size, sum_of


def symbols_of(dim: Dim) -> frozenset[str]:
    """The names of the symbols in `dim`."""
    return dim.symbols if isinstance(dim, Size) else frozenset()


def lone_symbol(dim: Dim) -> str | None:
    """The symbol that `dim` is; None where it is anything else."""
    symbols = symbols_of(dim)
    name = next(iter(symbols)) if len(symbols) == 1 else None
    return name if name is not None and dim == Size.symbol(name) else None


def substitute(dim: Dim, replacements: Mapping[str, Dim], known: dict[Size, Dim] | None = None) -> Dim:
    """`dim` with symbols replaced, in canonical form again.

    `known` keeps what sizes became, for later calls with the same replacements.
    """
    if isinstance(dim, int) or not replacements:
        return dim
    known = {} if known is None else known
    if dim not in known:
        known[dim] = sum_of(_replaced(monomial, factor, replacements, known) for monomial, factor in dim.terms)
    return known[dim]


def _replaced(monomial: Monomial, factor: int, replacements: Mapping[str, Dim], known: dict[Size, Dim]) -> Dim:
    term: Dim = factor
    for atom in monomial:
        if isinstance(atom, str):
            term = term * (replacements[atom] if atom in replacements else Size.symbol(atom))
        else:
            arguments = (substitute(argument, replacements, known) for argument in atom.arguments)
            term = term * FUNCTIONS[atom.function](*arguments)
    return term


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The integer that `dim` is when each symbol has its value; KeyError names a symbol that has none."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, factor in dim.terms:
        for atom in monomial:
            factor *= values[atom] if isinstance(atom, str) else _apply(atom, values)
        total += factor
    return total


def _apply(atom: Apply, values: Mapping[str, int]) -> int:
    result = FUNCTIONS[atom.function](*(evaluate(argument, values) for argument in atom.arguments))
    assert isinstance(result, int), (atom, result)
    return result
