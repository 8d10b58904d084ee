"""Symbolic sizes: integer expressions over named symbols, kept in one canonical form.

A `Dim` is an int or a `Size`; two are equal exactly when their canonical forms are. A form is a sum of products of
atoms; an atom is a symbol, or one of floordiv, mod, min, max and bcast applied to dims. A symbol stands for a size and
is at least 0, unless its name starts with `?`: then it is an integer of any sign that was read from data.
Nothing here knows of tensors.

Division is by the positive or, where the divisor is 0, gives 0; but `floordiv(p*q, q)` is `p` whatever `q` is, the one
answer that keeps the number of elements of a Reshape by -1 when another size is 0.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from typing import Union

from onnxc.runtime.errors import UnsupportedError

Dim = Union[int, "Size"]
Range = tuple[int | None, int | None]
Bounds = Mapping[str, tuple[int, int | None]]

# Divisors are multiplied no further, so that nothing overflows where a size is computed in i64.
LARGEST_DIVISOR = 1 << 20

LARGEST_SIZE = 20_000
"""Symbols and functions written out in one size, so that chains of Shape, Mul and Max do not grow without end.

The arena of a model whose sizes all come from data has 2200; a size of 18 000 takes 7 s to compile with.
"""


@dataclass(frozen=True)
class Apply:
    """An atom that is a function of dims: floordiv, mod, min, max or bcast."""

    function: str
    arguments: tuple[Dim, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(str(argument) for argument in self.arguments)})"


Atom = str | Apply
Monomial = tuple[Atom, ...]


def _order(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    """Higher degrees first, then by text."""
    return (-len(monomial), tuple(map(str, monomial)))


@dataclass(frozen=True, eq=False)
class Size:
    """A sum of products that is not a plain integer; make one with `symbol` and arithmetic, never directly."""

    terms: tuple[tuple[Monomial, int], ...]
    _hash: int = field(init=False, repr=False)
    length: int = field(init=False, repr=False)
    """How many symbols and functions it has, written out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))
        length = sum(_length(atom) for monomial, _ in self.terms for atom in monomial)
        object.__setattr__(self, "length", length)
        _expect_short(length)

    @staticmethod
    def symbol(name: str) -> "Size":
        """The size that `name` stands for."""
        return Size((((name,), 1),))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Size) and self._hash == other._hash and self.terms == other.terms)

    def __add__(self, other: Dim) -> Dim:
        return sum_of((self, other))

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return sum_of((self, -other))

    def __rsub__(self, other: Dim) -> Dim:
        return sum_of((other, -self))

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            return _collect({monomial: factor * other for monomial, factor in self.terms})
        _expect_short(self.length * len(other.terms) + other.length * len(self.terms))
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted(left + right, key=str))
                total[monomial] = total.get(monomial, 0) + a * b
        return _collect(total)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    @cached_property
    def _text(self) -> str:
        return render(self, _symbol_text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text


def _expect_short(length: int) -> None:
    if length > LARGEST_SIZE:
        message = f"a size is computed from others with {length} symbols and functions; at most {LARGEST_SIZE} are"
        raise UnsupportedError(f"{message} supported", code="size-too-complex")


def _length(atom: Atom) -> int:
    if isinstance(atom, str):
        return 1
    return 1 + sum(argument.length for argument in atom.arguments if isinstance(argument, Size))


def _collect(total: Mapping[Monomial, int]) -> Dim:
    terms = sorted(((monomial, factor) for monomial, factor in total.items() if factor), key=lambda t: _order(t[0]))
    if not terms:
        return 0
    if len(terms) == 1 and terms[0][0] == ():
        return terms[0][1]
    return Size(tuple(terms))


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, Size):
        return dim.terms
    return (((), dim),) if dim else ()


def constant_of(dim: Dim) -> int:
    """The number among the terms of `dim`."""
    return dict(_terms(dim)).get((), 0)


def sum_of(dims: Iterable[Dim]) -> Dim:
    """The sum of `dims`; 0 of none. Added one by one, n symbols take the square of n."""
    total: dict[Monomial, int] = {}
    for dim in dims:
        for monomial, factor in _terms(dim):
            total[monomial] = total.get(monomial, 0) + factor
    return _collect(total)


def _atom(function: str, arguments: Iterable[Dim]) -> Size:
    return Size((((Apply(function, tuple(arguments)),), 1),))


def product(dims: Iterable[Dim]) -> Dim:
    """The product of `dims`; 1 of none."""
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def _exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """`a / b` where `b` is one product that divides every term of `a`, else None."""
    terms = _terms(b)
    if len(terms) != 1:
        return 1 if a == b else _polynomial_quotient(a, b)
    (divisor, factor), quotient = terms[0], {}
    for monomial, coefficient in _terms(a):
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
    (lead, factor), quotient, rest = _terms(b)[0], 0, a
    quotient_sum: Dim = quotient
    for _ in range(len(_terms(a))):
        if rest == 0:
            break
        monomial, coefficient = _terms(rest)[0]
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
        whole = {monomial: factor // b for monomial, factor in _terms(a) if factor % b == 0}
        rest = _collect({monomial: factor for monomial, factor in _terms(a) if factor % b})
        if whole:
            return sum_of((_collect(whole), floordiv(rest, b)))
        constant = constant_of(rest)
        if constant and constant // b:
            return floordiv(rest - constant // b * b, b) + constant // b
        if b > 0:
            return _divided_again(a, b)
    return _atom("floordiv", (a, b))


def _divided_again(a: Dim, b: int) -> Dim:
    """floordiv(floordiv(p, n) + r, b) = floordiv(p + n*r, n*b) for numbers n and b above 0; 0 where 0 <= a < b."""
    quotients = [(monomial[0], factor) for monomial, factor in _terms(a) if _is_quotient(monomial)]
    if len(quotients) == 1 and quotients[0][1] == 1:
        quotient = quotients[0][0]
        assert isinstance(quotient, Apply), quotient
        inner, divisor = quotient.arguments
        if isinstance(divisor, int) and divisor * b <= LARGEST_DIVISOR:
            return floordiv(inner + divisor * (a - Size((((quotient,), 1),))), divisor * b)
    low, high = _range(a, {})
    return 0 if low is not None and low >= 0 and high is not None and high < b else _atom("floordiv", (a, b))


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
        rest = _collect({monomial: factor % b for monomial, factor in _terms(a)})
        return rest if isinstance(rest, int) else _atom("mod", (rest, b))
    return _atom("mod", (a, b))


def _flatten(function: str, dims: Iterable[Dim]) -> list[Dim]:
    flat: list[Dim] = []
    for dim in dims:
        offset = constant_of(dim) if function == "max" else 0
        atom = _only_atom(dim - offset)
        if isinstance(atom, Apply) and atom.function == function:
            flat += [argument + offset for argument in atom.arguments]
        else:
            flat.append(dim)
    return flat


def _only_atom(dim: Dim) -> Atom | None:
    if isinstance(dim, Size) and len(dim.terms) == 1:
        monomial, factor = dim.terms[0]
        if factor == 1 and len(monomial) == 1:
            return monomial[0]
    return None


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
    return _atom(function, sorted((dim - offset for dim in kept), key=str)) + offset


def minimum(*dims: Dim) -> Dim:
    """The smallest of `dims`."""
    return _extremum("min", dims, lambda a, b: at_least(b, a))


def maximum(*dims: Dim) -> Dim:
    """The largest of `dims`."""
    return _extremum("max", dims, at_least)


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
    return kept[0] if len(kept) == 1 else _atom("bcast", sorted(kept, key=str))


def _is_capped(dim: Dim, others: Iterable[Dim]) -> bool:
    """Whether `dim` is min(c, x) with c >= 1 and x one of `others`: broadcast together they are x.

    Either it is x, or it is c < x, which may be broadcast to x only where c is 1, and yields.
    """
    atom = _only_atom(dim)
    if not isinstance(atom, Apply) or atom.function != "min":
        return False
    sizes = [argument for argument in atom.arguments if not isinstance(argument, int)]
    caps = [argument for argument in atom.arguments if isinstance(argument, int)]
    return len(sizes) == 1 and sizes[0] in others and min(caps, default=1) >= 1


def _is_raised(dim: Dim, others: Iterable[Dim]) -> bool:
    """Whether `dim` is max(1, x) with x one of `others`: broadcast together they are x, even where x is 0."""
    return any(dim == maximum(1, other) for other in others if other is not dim)


def always_broadcast(a: Dim, b: Dim) -> bool:
    """Whether the sizes are equal, or one of them is 1, whatever the symbols are."""
    return a == b or 1 in (a, b) or _is_raised(a, (b,)) or _is_raised(b, (a,))


def lower_bound(dim: Dim, bounds: Bounds | None = None) -> int | None:
    """A number that `dim` is never below, or None where none is known."""
    return _range(dim, bounds or {})[0]


def upper_bound(dim: Dim, bounds: Bounds | None = None) -> int | None:
    """A number that `dim` is never above, or None where none is known."""
    return _range(dim, bounds or {})[1]


def _range(dim: Dim, bounds: Bounds) -> Range:
    """Both bounds at once: asked for one by one, they would cost twice as much for each level of nesting."""
    remainder = _remainder_in(dim)
    if remainder is not None:
        rest, span = remainder
        low, high = _range(rest, bounds)
        return low, None if high is None else high + span
    low, high = 0, 0
    for monomial, factor in _terms(dim):
        least, greatest = _product_range([_atom_range(atom, bounds) for atom in monomial])
        if factor < 0:
            least, greatest = greatest, least
        low = None if low is None or least is None else low + factor * least
        high = None if high is None or greatest is None else high + factor * greatest
    return low, high


def _remainder_in(dim: Dim) -> tuple[Dim, int] | None:
    """(r, m) where `dim` is r + f * (q - n * floordiv(q, n)), the last between 0 and m; None where it is not."""
    for monomial, factor in _terms(dim):
        if factor > -2 or not _is_quotient(monomial):
            continue
        (atom,) = monomial
        assert isinstance(atom, Apply), atom
        inner, divisor = atom.arguments
        assert isinstance(divisor, int), atom
        # floordiv(p, k * n) is floordiv(floordiv(p, k), n).
        number = gcd(factor, divisor)
        quotient = floordiv(inner, divisor // number)
        rest = dim + factor // number * (quotient - number * Size(((monomial, 1),)))
        if number > 1 and _variable_terms(rest) < _variable_terms(dim) - 1:
            return rest, -factor // number * (number - 1)
    return None


def _variable_terms(dim: Dim) -> int:
    return sum(1 for monomial, _ in _terms(dim) if monomial)


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


def _atom_range(atom: Atom, bounds: Bounds) -> Range:
    if isinstance(atom, str):
        if atom in bounds:
            return bounds[atom]
        return (None, None) if atom.startswith("?") else (0, None)
    lows, highs = zip(*(_range(argument, bounds) for argument in atom.arguments), strict=True)
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
    """Whether `a >= b` is certain for all values of the symbols within `bounds`."""
    low = lower_bound(a - b, bounds)
    return low is not None and low >= 0


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The number that `dim` is when each symbol has its value; KeyError names a symbol that has none."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, factor in dim.terms:
        for atom in monomial:
            factor *= values[atom] if isinstance(atom, str) else _apply(atom, values)
        total += factor
    return total


def _apply(atom: Apply, values: Mapping[str, int]) -> int:
    result = _FUNCTIONS[atom.function](*(evaluate(argument, values) for argument in atom.arguments))
    assert isinstance(result, int), (atom, result)
    return result


_FUNCTIONS: dict[str, Callable[..., Dim]] = {
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
    "bcast": bcast,
}


def symbols_of(dim: Dim) -> frozenset[str]:
    """The names of the symbols in `dim`."""
    if isinstance(dim, int):
        return frozenset()
    found: set[str] = set()
    for monomial, _ in dim.terms:
        for atom in monomial:
            if isinstance(atom, str):
                found.add(atom)
            else:
                found.update(*(symbols_of(argument) for argument in atom.arguments))
    return frozenset(found)


def substitute(dim: Dim, replacements: Mapping[str, Dim]) -> Dim:
    """`dim` with symbols replaced, in canonical form again."""
    if isinstance(dim, int) or not replacements:
        return dim
    terms: list[Dim] = []
    for monomial, factor in dim.terms:
        term: Dim = factor
        for atom in monomial:
            if isinstance(atom, str):
                term = term * replacements.get(atom, Size.symbol(atom))
            else:
                arguments = (substitute(argument, replacements) for argument in atom.arguments)
                term = term * _FUNCTIONS[atom.function](*arguments)
        terms.append(term)
    return sum_of(terms)


_PLAIN_SYMBOL = re.compile(r"[A-Za-z_?][A-Za-z0-9_.?$:/]*")


def _symbol_text(name: str) -> str:
    plain = _PLAIN_SYMBOL.fullmatch(name) and "//" not in name and name.lower() not in _FUNCTIONS
    return name if plain else f"`{name.replace('`', '``')}`"


def render(dim: Dim, symbol: Callable[[str], str]) -> str:
    """The canonical text of `dim`, with each symbol written by `symbol`."""
    if isinstance(dim, int):
        return str(dim)
    parts: list[str] = []
    for monomial, factor in dim.terms:
        atoms = [
            symbol(atom)
            if isinstance(atom, str)
            else f"{atom.function}({', '.join(render(argument, symbol) for argument in atom.arguments)})"
            for atom in monomial
        ]
        magnitude = [str(abs(factor))] if abs(factor) != 1 or not atoms else []
        sign = ("-" if factor < 0 else "") if not parts else (" - " if factor < 0 else " + ")
        parts.append(sign + "*".join(magnitude + atoms))
    return "".join(parts)


class DimSyntaxError(ValueError):
    """A text that is not a size expression."""


_TOKEN = re.compile(
    r"\s*(?:(\d+)|([A-Za-z_?][A-Za-z0-9_.?$:/]*?(?=//|[^A-Za-z0-9_.?$:/]|$))|`((?:[^`]|``)*)`|(//|[-+*%(),]))"
)


def parse_dim(text: str) -> Dim:
    """The size that `text` says: integers, symbols, `+ - * // %`, and floordiv, mod, min, max (Min, Max), bcast.

    Raises DimSyntaxError where the text is none.
    """
    parser = _Parser(_tokens(text), text)
    dim = parser.sum(0)
    if parser.peek() is not None:
        raise DimSyntaxError(f"unexpected {parser.peek()!r} in {text!r}")
    return dim


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise DimSyntaxError(f"unexpected {text[position:].strip()[0]!r} in {text!r}")
        number, name, quoted, sign = match.groups()
        if number is not None:
            tokens.append(("number", number))
        elif sign is not None:
            tokens.append(("sign", sign))
        else:
            tokens.append(("name", name) if quoted is None else ("quoted", quoted.replace("``", "`")))
        position = match.end()
    return tokens


class _Parser:
    """Precedence climbing over the tokens of one size; nesting is bounded so that no text exhausts the stack."""

    LIMIT = 100
    LARGEST_PRODUCT = 4096
    LONGEST_NUMBER = 100

    def __init__(self, tokens: list[tuple[str, str]], text: str) -> None:
        self.tokens, self.position, self.text = tokens, 0, text

    def peek(self) -> str | None:
        return self.tokens[self.position][1] if self.position < len(self.tokens) else None

    def take(self) -> tuple[str, str]:
        if self.position >= len(self.tokens):
            raise DimSyntaxError(f"{self.text!r} ends too early")
        self.position += 1
        return self.tokens[self.position - 1]

    def takes(self, *signs: str) -> str | None:
        if self.position < len(self.tokens) and self.tokens[self.position] in [("sign", sign) for sign in signs]:
            return self.take()[1]
        return None

    def expect(self, sign: str) -> None:
        if self.takes(sign) is None:
            raise DimSyntaxError(f"expected {sign!r} in {self.text!r}")

    def sum(self, depth: int) -> Dim:
        if depth > self.LIMIT:
            raise DimSyntaxError("the size is nested too deeply")
        total = self.product(depth)
        while sign := self.takes("+", "-"):
            right = self.product(depth)
            total = total + right if sign == "+" else total - right
        return total

    def product(self, depth: int) -> Dim:
        total = self.factor(depth)
        while sign := self.takes("*", "//", "%"):
            right = self.factor(depth)
            if len(_terms(total)) * len(_terms(right)) > self.LARGEST_PRODUCT:
                raise DimSyntaxError("the size has too many terms")
            total = total * right if sign == "*" else (floordiv if sign == "//" else mod)(total, right)
        return total

    def factor(self, depth: int) -> Dim:
        if self.takes("-"):
            return -self.factor(depth + 1) if depth <= self.LIMIT else self.sum(depth + 1)
        if self.takes("("):
            inner = self.sum(depth + 1)
            self.expect(")")
            return inner
        kind, token = self.take()
        if kind == "number":
            if len(token) > self.LONGEST_NUMBER:
                raise DimSyntaxError("a number of the size is too long")
            return int(token)
        if kind == "sign":
            raise DimSyntaxError(f"unexpected {token!r} in {self.text!r}")
        function = _FUNCTIONS.get(token.lower()) if kind == "name" else None
        if function is None or self.takes("(") is None:
            return Size.symbol(token)
        arguments = [self.sum(depth + 1)]
        while self.takes(","):
            arguments.append(self.sum(depth + 1))
        self.expect(")")
        if token.lower() in ("floordiv", "mod") and len(arguments) != 2:
            raise DimSyntaxError(f"{token} takes two sizes, in {self.text!r}")
        return function(*arguments)
