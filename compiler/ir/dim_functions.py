"""The functions that stay in a size where they are not decided: min, max and bcast, and the table of all five."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from onnxc.compiler.ir.dims import Apply, Dim, Size, apply, at_least, constant_of, floordiv, mod, only_atom, terms_of

KEPT = 4096
"""Results of each that are kept: sizes are put into others again and again, as kernels rename symbols."""


@lru_cache(KEPT)
def minimum(*dims: Dim) -> Dim:
    """The smallest of `dims`."""
    return _extremum("min", dims, lambda a, b: at_least(b, a))


@lru_cache(KEPT)
def maximum(*dims: Dim) -> Dim:
    """The largest of `dims`."""
    return _extremum("max", dims, at_least)


@lru_cache(KEPT)
def bcast(*dims: Dim) -> Dim:
    """The broadcast of sizes that are equal or 1: a 1 yields to the other, a 0 stays 0.

    min(512, N) and max(1, N) yield to N.
    """
    kept: list[Dim] = []
    for dim in _flatten("bcast", dims):
        if isinstance(dim, int) and dim != 1:
            return dim
        if dim != 1 and dim not in kept:
            kept.append(dim)
    kept = [dim for dim in kept if not _is_capped(dim, kept) and not _is_raised(dim, kept)]
    if not kept:
        return 1
    return kept[0] if len(kept) == 1 else apply("bcast", sorted(kept, key=str))


def always_broadcast(a: Dim, b: Dim) -> bool:
    """Whether the sizes are equal, or one of them is 1, whatever the symbols are."""
    return a == b or 1 in (a, b) or _is_raised(a, (b,)) or _is_raised(b, (a,))


def _extremum(function: str, dims: Iterable[Dim], keeps_first: Callable[[Dim, Dim], bool]) -> Dim:
    """The canonical min or max: of two that are ordered whatever the symbols are, only the winner stays."""
    kept: list[Dim] = []
    # In one order, so that of two that are always equal the same one stays.
    for dim in sorted(_flatten(function, dims), key=lambda dim: (isinstance(dim, Size), str(dim))):
        if any(keeps_first(other, dim) for other in kept):
            continue
        kept = [other for other in kept if not keeps_first(dim, other)] + [dim]
    if len(kept) == 1:
        return kept[0]
    # max(c, x) is written c + max(0, x - c), so that one plus such a maximum is a maximum again.
    offset = sum(dim for dim in kept if isinstance(dim, int)) if function == "max" else 0
    return apply(function, sorted((dim - offset for dim in kept), key=str)) + offset


def _flatten(function: str, dims: Iterable[Dim]) -> list[Dim]:
    flat: list[Dim] = []
    for dim in dims:
        offset = constant_of(dim) if function == "max" else 0
        atom = only_atom(dim - offset)
        if isinstance(atom, Apply) and atom.function == function:
            flat += [argument + offset for argument in atom.arguments]
        else:
            flat.append(dim)
    return flat


def _is_capped(dim: Dim, others: Iterable[Dim]) -> bool:
    """Whether `dim` is min(c, x) with c >= 1 and x one of `others`: broadcast together they are x.

    Either it is x, or it is c < x, which may be broadcast to x only where c is 1, and yields.
    """
    atom = only_atom(dim)
    if not isinstance(atom, Apply) or atom.function != "min":
        return False
    sizes = [argument for argument in atom.arguments if not isinstance(argument, int)]
    caps = [argument for argument in atom.arguments if isinstance(argument, int)]
    return len(sizes) == 1 and sizes[0] in others and min(caps, default=1) >= 1


def _is_raised(dim: Dim, others: Iterable[Dim]) -> bool:
    """Whether `dim` is max(1, x) with x one of `others`: broadcast together they are x, even where x is 0."""
    # It is written 1 + max(0, x - 1).
    return _is_maximum(dim) and any(dim == maximum(1, other) for other in others if other is not dim)


def _is_maximum(dim: Dim) -> bool:
    """Whether `dim` is written as a max, and a number that is added."""
    terms = terms_of(dim)
    atoms = terms[0][0] if terms else ()
    return len(atoms) == 1 and isinstance(atoms[0], Apply) and atoms[0].function == "max"


FUNCTIONS: Mapping[str, Callable[..., Dim]] = {
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
    "bcast": bcast,
}
