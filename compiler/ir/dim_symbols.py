"""The symbols in sizes: which there are, and what sizes are with others or with integers, or with more, for them."""

from collections.abc import Mapping, Set

from onnxc.compiler.ir.dim_functions import FUNCTIONS
from onnxc.compiler.ir.dims import Apply, Atom, Dim, Monomial, Size, sum_of, terms_of


def symbols_of(dim: Dim) -> frozenset[str]:
    """The names of the symbols in `dim`."""
    return dim.symbols if isinstance(dim, Size) else frozenset()


def depends(dim: Dim, names: Set[str]) -> bool:
    """Whether one of these symbols is in `dim`."""
    return not names.isdisjoint(symbols_of(dim))


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
    return _evaluated(dim, values, {})


def _evaluated(dim: Dim, values: Mapping[str, int], known: dict[Apply, int]) -> int:
    """`known`: the values of functions that stand in it, where one may stand many times."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, factor in dim.terms:
        for atom in monomial:
            factor *= values[atom] if isinstance(atom, str) else _applied(atom, values, known)
        total += factor
    return total


def _applied(atom: Apply, values: Mapping[str, int], known: dict[Apply, int]) -> int:
    result = known.get(atom)
    if result is None:
        made = FUNCTIONS[atom.function](*(_evaluated(argument, values, known) for argument in atom.arguments))
        assert isinstance(made, int), (atom, made)
        result = known[atom] = made
    return result


def never_falls(dim: Dim, growing: Set[str]) -> bool:
    """Whether a size is at least as much wherever growing symbols are; as far as its form shows it."""
    for monomial, factor in terms_of(dim):
        moving = [atom for atom in monomial if _depends_atom(atom, growing)]
        # What grows may be of any sign where nothing that grows is multiplied by it.
        others = monomial if len(moving) > 1 else [atom for atom in monomial if atom not in moving]
        if moving and (factor < 0 or not all(map(_is_size, others))):
            return False
        if not all(_atom_never_falls(atom, growing) for atom in moving):
            return False
    return True


def is_sum_of_sizes(dim: Dim) -> bool:
    """Whether every term of `dim` is at least 0, as far as its form shows it."""
    return all(factor > 0 and all(map(_is_size, monomial)) for monomial, factor in terms_of(dim))


def _depends_atom(atom: Atom, growing: Set[str]) -> bool:
    if isinstance(atom, str):
        return atom in growing
    return any(depends(argument, growing) for argument in atom.arguments)


def _is_size(atom: Atom) -> bool:
    """Whether what a factor stands for is at least 0."""
    if isinstance(atom, str):
        return not atom.startswith("?")
    are_sizes = map(is_sum_of_sizes, atom.arguments)
    return any(are_sizes) if atom.function == "max" else all(are_sizes)


def _atom_never_falls(atom: Atom, growing: Set[str]) -> bool:
    if not isinstance(atom, Apply):
        return True
    first, *others = atom.arguments
    match atom.function:
        case "min" | "max":
            return all(never_falls(argument, growing) for argument in atom.arguments)
        case "floordiv":
            (divisor,) = others
            return never_falls(first, growing) and not depends(divisor, growing) and is_sum_of_sizes(divisor)
    return False
