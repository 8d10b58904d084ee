"""Symbolic sizes: integer expressions over named symbols, kept in one canonical form.

A `Dim` is an int or a `Size`; two are equal exactly when their canonical forms are. A form is a sum of products of
atoms; an atom is a symbol, or one of floordiv, mod, min, max and bcast applied to dims. A symbol stands for a size and
is at least 0, unless its name starts with `?`: then it is an integer of any sign that was read from data.
Nothing here knows of tensors. Bounds are here too, as a quotient is decided by the bounds of what is divided, and
bounds by quotients that cancel; min, max and bcast are in `dim_functions`, the symbols of a size in `dim_symbols`.

Division is by the positive or, where the divisor is 0, gives 0; but `floordiv(p*q, q)` is `p` whatever `q` is, the one
answer that keeps the number of elements of a Reshape by -1 when another size is 0.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import lcm
from typing import Union
from weakref import WeakValueDictionary

from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.records import record

Dim = Union[int, "Size"]
Range = tuple[int | None, int | None]
Bounds = Mapping[str, tuple[int, int | None]]

FUNCTION_NAMES = ("floordiv", "mod", "min", "max", "bcast")

# Divisors are multiplied no further, so that nothing overflows where a size is computed in i64.
LARGEST_DIVISOR = 1 << 20

FEW_TERMS = 4
"""Of a sum with a maximum in it that is taken apart: what is filled up to a number has two or three. With each of the
maxima of a sum of 200 terms taken apart, one minimum took 19 s."""

LARGEST_SIZE = 20_000
"""Symbols and functions written out in one size, so that chains of Shape, Mul and Max do not grow without end.

The arena of a model whose sizes all come from data has 2200, a size of a transformer of windows of any height 2967.
What stands in a size many times is looked at once, but the text of the size is as long as that.
"""

LARGEST_FACTOR_BITS = 256
"""Of the number before a symbol. No tensor has 2**63 elements, yet with 0 for the symbol such a size is legal; what
estimates times with it wants a float, which ends at 2**1024."""


class SizeTooComplex(UnsupportedError):
    """A size would be longer than LARGEST_SIZE, or one of its factors than LARGEST_FACTOR_BITS."""


@record(eq=False)
class Apply:
    """An atom that is a function of dims: floordiv, mod, min, max or bcast."""

    function: str
    arguments: tuple[Dim, ...]
    _hash: int = field(init=False, repr=False)
    length: int = field(init=False, repr=False)
    """How many symbols and functions it has, written out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.function, self.arguments)))
        object.__setattr__(self, "length", 1 + sum(map(length_of, self.arguments)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Apply)
            and self._hash == other._hash
            and (self.function, self.arguments) == (other.function, other.arguments)
        )

    @cached_property
    def _text(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"

    @cached_property
    def range(self) -> Range:
        """Its bounds where none are known of its symbols."""
        return _applied_range(self, None)

    def __str__(self) -> str:
        return self._text


Atom = str | Apply
Monomial = tuple[Atom, ...]
Terms = tuple[tuple[Monomial, int], ...]


def _order(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    """Higher degrees first, then by text."""
    return (-len(monomial), tuple(map(str, monomial)))


@record(eq=False)
class Size:
    """A sum of products that is not a plain integer; make one with `symbol` and arithmetic, never directly."""

    terms: tuple[tuple[Monomial, int], ...]
    _hash: int = field(init=False, repr=False)
    length: int = field(init=False, repr=False)
    """How many symbols and functions it has, written out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))
        atoms = [atom for monomial, _ in self.terms for atom in monomial]
        length = sum(1 if isinstance(atom, str) else atom.length for atom in atoms)
        object.__setattr__(self, "length", length)
        _expect_short(length)
        _expect_small(max(abs(factor) for _, factor in self.terms))

    @staticmethod
    def symbol(name: str) -> "Size":
        """The size that `name` stands for."""
        return _size((((name,), 1),))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Size) and self._hash == other._hash and self.terms == other.terms)

    def __add__(self, other: Dim) -> Dim:
        return self if isinstance(other, int) and not other else sum_of((self, other))

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return sum_of((self, -other))

    def __rsub__(self, other: Dim) -> Dim:
        return sum_of((other, -self))

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            return self._times(other)
        _expect_short(self.length * len(other.terms) + other.length * len(self.terms))
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted(left + right, key=str))
                total[monomial] = total.get(monomial, 0) + a * b
        return _collect(total)

    __rmul__ = __mul__

    def _times(self, scale: int) -> Dim:
        """The order of terms depends on no factor."""
        if scale in (0, 1):
            return self if scale else 0
        return _size(tuple((monomial, factor * scale) for monomial, factor in self.terms))

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols in it."""
        atoms = {atom for monomial, _ in self.terms for atom in monomial}
        inner = (argument for atom in atoms if isinstance(atom, Apply) for argument in atom.arguments)
        direct = frozenset(atom for atom in atoms if isinstance(atom, str))
        return direct.union(*(size.symbols for size in inner if isinstance(size, Size)))

    @cached_property
    def range(self) -> Range:
        """Its bounds where none are known of its symbols."""
        return _sum_range(self, None)

    @cached_property
    def _text(self) -> str:
        return render(self, _symbol_text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text


_SIZES: WeakValueDictionary[tuple[tuple[Monomial, int], ...], Size] = WeakValueDictionary()
"""The sizes that are alive. Of equal ones there is one: a sum of 90 symbols is 90 pairs, and stands in many types."""


def _size(terms: tuple[tuple[Monomial, int], ...]) -> Size:
    """The size of canonical `terms`."""
    size = _SIZES.get(terms)
    if size is None:
        size = _SIZES[terms] = Size(terms)
    return size


def _expect_short(length: int) -> None:
    if length > LARGEST_SIZE:
        message = f"a size is computed from others with {length} symbols and functions; at most {LARGEST_SIZE} are"
        raise SizeTooComplex(f"{message} supported", code="size-too-complex")


def _expect_small(factor: int) -> None:
    bits = factor.bit_length()
    if bits > LARGEST_FACTOR_BITS:
        message = f"a size is computed from others with a factor of {bits} bits; at most {LARGEST_FACTOR_BITS} are"
        raise SizeTooComplex(f"{message} supported", code="size-too-complex")


def _collect(total: Mapping[Monomial, int]) -> Dim:
    terms = [(monomial, factor) for monomial, factor in total.items() if factor]
    if not terms:
        return 0
    if len(terms) == 1:
        return _size(tuple(terms)) if terms[0][0] else terms[0][1]
    return _size(tuple(sorted(terms, key=lambda term: _order(term[0]))))


def length_of(dim: Dim) -> int:
    """How many symbols and functions `dim` has, written out."""
    return dim.length if isinstance(dim, Size) else 0


def terms_of(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    """The products that `dim` is the sum of, each with its factor; none for 0."""
    if isinstance(dim, Size):
        return dim.terms
    return (((), dim),) if dim else ()


def constant_of(dim: Dim) -> int:
    """The number among the terms of `dim`."""
    return dict(terms_of(dim)).get((), 0)


def sum_of(dims: Iterable[Dim]) -> Dim:
    """The sum of `dims`; 0 of none. Added one by one, n symbols take the square of n."""
    total: dict[Monomial, int] = {}
    for dim in dims:
        for monomial, factor in terms_of(dim):
            total[monomial] = total.get(monomial, 0) + factor
    return _collect(total)


def apply(function: str, arguments: Iterable[Dim]) -> Size:
    """The function of `arguments` as an atom, nothing decided."""
    return _size((((Apply(function, tuple(arguments)),), 1),))


def product(dims: Iterable[Dim]) -> Dim:
    """The product of `dims`; 1 of none."""
    total: Dim = 1
    atoms: list[Atom] = []
    for dim in dims:
        if isinstance(dim, Size) and len(dim.terms) == 1:
            ((monomial, factor),) = dim.terms
            atoms += monomial
            dim = factor
        total = total * dim
    return total * _size(((tuple(sorted(atoms, key=str)), 1),)) if atoms else total


def _exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """`a / b` where `b` is one product that divides every term of `a`, else None."""
    terms = terms_of(b)
    if len(terms) != 1:
        return 1 if a == b else _polynomial_quotient(a, b)
    (divisor, factor), quotient = terms[0], {}
    for monomial, coefficient in terms_of(a):
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % factor:
            return None
        quotient[tuple(rest)] = coefficient // factor
    return _collect(quotient)


def _polynomial_quotient(a: Dim, b: Dim) -> Dim | None:
    """`a / b` by long division on leading terms, or None where a remainder is left."""
    (lead, factor), quotient, rest = terms_of(b)[0], 0, a
    quotient_sum: Dim = quotient
    for _ in range(len(terms_of(a))):
        if rest == 0:
            break
        monomial, coefficient = terms_of(rest)[0]
        step = _exact_quotient(_collect({monomial: coefficient}), _collect({lead: factor}))
        if step is None:
            return None
        quotient_sum = quotient_sum + step
        rest = rest - step * b
    return quotient_sum if rest == 0 else None


def floordiv(a: Dim, b: Dim) -> Dim:
    """The floor of `a / b`; 0 where `b` is 0, but a factor that cancels is taken to be above 0."""
    if b == 0:
        return 0
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    exact = _exact_quotient(a, b)
    if exact is not None:
        return exact
    if isinstance(b, int):
        whole = {monomial: factor // b for monomial, factor in terms_of(a) if factor % b == 0}
        rest = _collect({monomial: factor for monomial, factor in terms_of(a) if factor % b})
        if whole:
            return sum_of((_collect(whole), floordiv(rest, b)))
        constant = constant_of(rest)
        if constant and constant // b:
            return floordiv(rest - constant // b * b, b) + constant // b
        if b > 0 and all(factor < 0 for monomial, factor in terms_of(a) if monomial):
            # The ceiling as exporters write it, -(-p // b), is that of (p + b - 1) // b.
            return -floordiv(b - 1 - a, b)
        if b > 0:
            return _divided_again(a, b)
    return apply("floordiv", (a, b))


def _divided_again(a: Dim, b: int) -> Dim:
    """floordiv(floordiv(p, n) + r, b) = floordiv(p + n*r, n*b) for numbers n and b above 0; 0 where 0 <= a < b."""
    quotients = [(monomial[0], factor) for monomial, factor in terms_of(a) if _is_quotient(monomial)]
    if len(quotients) == 1 and quotients[0][1] == 1:
        quotient = quotients[0][0]
        assert isinstance(quotient, Apply), quotient
        inner, divisor = quotient.arguments
        if isinstance(divisor, int) and divisor * b <= LARGEST_DIVISOR:
            return floordiv(inner + divisor * (a - _size((((quotient,), 1),))), divisor * b)
    low, high = _range(a, None)
    return 0 if low is not None and low >= 0 and high is not None and high < b else apply("floordiv", (a, b))


def _is_quotient(monomial: Monomial) -> bool:
    """Whether the product is one size divided by one number above 0."""
    if len(monomial) != 1 or not isinstance(monomial[0], Apply) or monomial[0].function != "floordiv":
        return False
    divisor = monomial[0].arguments[1]
    return isinstance(divisor, int) and divisor > 0


def mod(a: Dim, b: Dim) -> Dim:
    """`a - b * floordiv(a, b)`: the remainder with the sign of `b`; `a` where `b` is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else a
    quotient = _exact_quotient(a, b) if b != 0 else None
    if quotient is not None:
        return 0
    if isinstance(b, int):
        if b == 0:
            return a
        rest = _collect({monomial: factor % b for monomial, factor in terms_of(a)})
        return rest if isinstance(rest, int) else apply("mod", (rest, b))
    return apply("mod", (a, b))


def only_atom(dim: Dim) -> Atom | None:
    """The atom that `dim` is, or None where it is a sum, a product or a number."""
    if isinstance(dim, Size) and len(dim.terms) == 1:
        monomial, factor = dim.terms[0]
        if factor == 1 and len(monomial) == 1:
            return monomial[0]
    return None


def lower_bound(dim: Dim, bounds: Bounds | None = None) -> int | None:
    """A number that `dim` is never below, or None where none is known."""
    return _range(dim, _Within(bounds) if bounds else None)[0]


def upper_bound(dim: Dim, bounds: Bounds | None = None) -> int | None:
    """A number that `dim` is never above, or None where none is known."""
    return _range(dim, _Within(bounds) if bounds else None)[1]


class _Within:
    """Bounds of symbols, and those of what was looked at within them: one size may stand in another many times."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.known: dict[Size | Apply, Range] = {}


def _range(dim: Dim, within: _Within | None) -> Range:
    """Both bounds at once: asked for one by one, they would cost twice as much for each level of nesting."""
    if isinstance(dim, int):
        return dim, dim
    if within is None or dim.symbols.isdisjoint(within.bounds):
        return dim.range
    if dim not in within.known:
        within.known[dim] = _sum_range(dim, within)
    return within.known[dim]


def _sum_range(size: Size, within: _Within | None) -> Range:
    """The bounds of a sum: those of its parts, added."""
    parts = _parts(size.terms) if len(size.terms) > 1 else (size.terms,)
    lows, highs = zip(*(_part_range(part, within) for part in parts), strict=True)
    return _total(lows), _total(highs)


def _total(bounds: Iterable[int | None]) -> int | None:
    total = 0
    for bound in bounds:
        if bound is None:
            return None
        total += bound
    return total


def _parts(terms: Terms) -> Sequence[Terms]:
    """The terms in groups: those may cancel that have a product in common, as terms or in their dividends."""
    parts: list[tuple[set[Monomial], Terms]] = []
    for monomial, factor in terms:
        products = {monomial}
        if _is_quotient(monomial):
            products.update(inner for inner, _ in terms_of(_divided(monomial)[0]) if inner)
        joined = [part for part in parts if not part[0].isdisjoint(products)]
        parts = [part for part in parts if part[0].isdisjoint(products)]
        group = (*(term for _, part in joined for term in part), (monomial, factor))
        parts.append((products.union(*(others for others, _ in joined)), group))
    return [part for _, part in parts]


def _part_range(part: Terms, within: _Within | None) -> Range:
    """The bounds of some terms: each term by itself, or without the floors, by which terms may cancel."""
    lows, highs = zip(*(_term_range(monomial, factor, within) for monomial, factor in part), strict=True)
    low, high = _total(lows), _total(highs)
    exact = _without_floors(part) if len(part) > 1 else None
    if exact is None:
        return low, high
    rest, scale, below, above = exact
    least, greatest = _range(rest, within)
    if least is not None:
        least = -((below - least) // scale)
        low = least if low is None else max(low, least)
    if greatest is not None:
        greatest = (greatest + above) // scale
        high = greatest if high is None else min(high, greatest)
    return low, high


def _term_range(monomial: Monomial, factor: int, within: _Within | None) -> Range:
    least, greatest = _product_range([_atom_range(atom, within) for atom in monomial])
    if factor < 0:
        least, greatest = greatest, least
    return None if least is None else factor * least, None if greatest is None else factor * greatest


def _without_floors(part: Terms) -> tuple[Dim, int, int, int] | None:
    """(r, n, a, b) where n times the sum of the terms is between r - a and r + b; None where nothing cancels in r.

    r has p in the place of d * floordiv(p, d), which is from p - d + 1 to p.
    """
    divisors = [_divided(monomial)[1] for monomial, _ in part if _is_quotient(monomial)]
    scale = lcm(*divisors)
    if not divisors or scale > LARGEST_DIVISOR:
        return None
    total: dict[Monomial, int] = {}
    below, above = 0, 0
    for monomial, factor in part:
        dividend, divisor = _divided(monomial) if _is_quotient(monomial) else (_size(((monomial, 1),)), 1)
        weight = factor * scale // divisor
        below += max(weight, 0) * (divisor - 1)
        above += max(-weight, 0) * (divisor - 1)
        for inner, times in terms_of(dividend):
            total[inner] = total.get(inner, 0) + weight * times
    left = sum(1 for monomial, factor in total.items() if monomial and factor)
    is_small = max(map(abs, total.values())).bit_length() <= LARGEST_FACTOR_BITS
    return (_collect(total), scale, below, above) if left < len(part) and is_small else None


def _divided(monomial: Monomial) -> tuple[Dim, int]:
    """The dividend and the divisor of a quotient."""
    (atom,) = monomial
    assert isinstance(atom, Apply), atom
    dividend, divisor = atom.arguments
    assert isinstance(divisor, int), atom
    return dividend, divisor


def _product_range(factors: list[Range]) -> Range:
    """Known where there is one factor, or all are at least 0."""
    if len(factors) == 1:
        return factors[0]
    low, high = 1, 1
    unbounded = False
    for least, greatest in factors:
        if least is None or least < 0:
            return None, None
        low *= least
        unbounded = unbounded or greatest is None
        high *= greatest or 0
    return low, None if unbounded else high


def _atom_range(atom: Atom, within: _Within | None) -> Range:
    if isinstance(atom, str):
        if within is not None and atom in within.bounds:
            return within.bounds[atom]
        return (None, None) if atom.startswith("?") else (0, None)
    if within is None:
        return atom.range
    if atom not in within.known:
        within.known[atom] = _applied_range(atom, within)
    return within.known[atom]


def _applied_range(atom: Apply, within: _Within | None) -> Range:
    lows, highs = zip(*(_range(argument, within) for argument in atom.arguments), strict=True)
    known_lows = [low for low in lows if low is not None]
    known_highs = [high for high in highs if high is not None]
    match atom.function:
        case "min":
            low = min(known_lows) if len(known_lows) == len(lows) else None
            return low, min(known_highs, default=None)
        case "max":
            high = max(known_highs) if len(known_highs) == len(highs) else None
            return max(known_lows, default=None), high
        case "bcast":
            return 0, max(known_highs) if len(known_highs) == len(highs) else None
        case "mod":
            if lows[1] is not None and lows[1] > 0:
                return 0, highs[1] - 1 if highs[1] is not None else None
            # By 0 what is divided remains.
            are_sizes = all(low is not None and low >= 0 for low in lows)
            return (0, highs[0]) if are_sizes else (None, None)
    divisor = atom.arguments[1]
    if isinstance(divisor, int) and divisor > 0:
        return None if lows[0] is None else lows[0] // divisor, None if highs[0] is None else highs[0] // divisor
    if lows[0] is not None and lows[0] >= 0 and lows[1] is not None and lows[1] >= 0:
        return 0, highs[0]
    return None, None


def at_least(a: Dim, b: Dim, bounds: Bounds | None = None) -> bool:
    """Whether `a >= b` is certain for all values of the symbols within `bounds`: not where `a - b` is too long."""
    least = only_atom(b)
    if isinstance(least, Apply) and least.function == "min" and a in least.arguments:
        return True
    try:
        lows = (lower_bound(known - b, bounds) for known in (a, *_never_above(a)))
        return any(low is not None and low >= 0 for low in lows)
    except SizeTooComplex:
        return False


def _never_above(a: Dim) -> Iterable[Dim]:
    """Sizes that are never above `a`, if it is short: p + r and q + r of max(p, q) + r, where some of r may cancel."""
    for monomial, factor in terms_of(a) if len(terms_of(a)) <= FEW_TERMS else ():
        atom, greatest = monomial[0] if len(monomial) == 1 else None, _collect({monomial: 1})
        if factor == 1 and isinstance(atom, Apply) and atom.function == "max" and isinstance(greatest, Size):
            rest = a - greatest
            if isinstance(rest, Size) and not rest.symbols.isdisjoint(greatest.symbols):
                yield from (argument + rest for argument in atom.arguments)


_PLAIN_SYMBOL = re.compile(r"[A-Za-z_?][A-Za-z0-9_.?$:/]*")


def _symbol_text(name: str) -> str:
    plain = _PLAIN_SYMBOL.fullmatch(name) and "//" not in name and name.lower() not in FUNCTION_NAMES
    return name if plain else f"`{name.replace('`', '``')}`"


def render(dim: Dim, symbol: Callable[[str], str]) -> str:
    """The canonical text of `dim`, with each symbol written by `symbol`."""
    return _rendered(dim, symbol, {})


def _rendered(dim: Dim, symbol: Callable[[str], str], known: dict[Apply, str]) -> str:
    """`known`: the texts of functions that stand in what is rendered, where one may stand many times."""
    if isinstance(dim, int):
        return str(dim)
    parts: list[str] = []
    for monomial, factor in dim.terms:
        atoms = [symbol(atom) if isinstance(atom, str) else _applied_text(atom, symbol, known) for atom in monomial]
        magnitude = [str(abs(factor))] if abs(factor) != 1 or not atoms else []
        sign = ("-" if factor < 0 else "") if not parts else (" - " if factor < 0 else " + ")
        parts.append(sign + "*".join(magnitude + atoms))
    return "".join(parts)


def _applied_text(atom: Apply, symbol: Callable[[str], str], known: dict[Apply, str]) -> str:
    if atom not in known:
        arguments = ", ".join(_rendered(argument, symbol, known) for argument in atom.arguments)
        known[atom] = f"{atom.function}({arguments})"
    return known[atom]
