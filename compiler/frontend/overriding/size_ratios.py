"""Sizes by which other sizes grow, and where axes lie in the order of the elements: pure arithmetic on sizes."""

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.runtime.records import record

__all__ = ["Ratio", "Span", "exact_quotient", "originals", "ratio_of", "scaled", "spans_of", "stand_ins_of"]

_STAND_INS = (1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099, 1_000_117, 1_000_121)
"""Large primes in the place of symbols: products of them are equal where those of the symbols are."""


@record
class Ratio:
    """A size by which others grow: `times` over `over`, which have no common factor that is a number."""

    times: Dim
    over: int


@record
class Span:
    """Where an axis lies: the products of the sizes before it, and of those up to it."""

    begin: int
    end: int

    def encloses(self, inner: "Span") -> bool:
        """Whether the axis is several of another, whole ones; never where sizes come out as 0."""
        is_wider = 0 < self.begin <= inner.begin and inner.end > 0
        return is_wider and inner.begin % self.begin == 0 and self.end % inner.end == 0


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """a / b, or None where that is no size."""
    quotient = floordiv(a, b)
    return quotient if quotient * b == a else None


def ratio_of(new: Dim, old: Dim) -> Ratio | None:
    """new / old, or None where that is no size over a number."""
    if old == 0:
        return None
    common = gcd(_content(new), _content(old))
    times, rest = floordiv(new, common), floordiv(old, common)
    over = _content(rest)
    quotient = exact_quotient(times, floordiv(rest, over))
    return None if quotient is None else Ratio(quotient, over)


def _content(size: Dim) -> int:
    """The largest number that divides all terms of a size."""
    return size if isinstance(size, int) else gcd(*(factor for _, factor in size.terms))


def scaled(size: Dim, ratio: Ratio) -> Dim | None:
    """`size` times the ratio, or None where that is no integer."""
    return None if _content(size) % ratio.over else floordiv(size, ratio.over) * ratio.times


def originals(ratio: Ratio, overridden: Sequence[tuple[Dim, Dim]]) -> set[Dim]:
    """The sizes that were overridden by what is `ratio` times as large."""
    return {old for old, new in overridden if ratio_of(new, old) == ratio}


def stand_ins_of(sizes: Iterable[Dim]) -> Mapping[str, int] | None:
    """A number for each symbol of the sizes; None where there are too many."""
    names = sorted(frozenset().union(*map(symbols_of, sizes)))
    return dict(zip(names, _STAND_INS, strict=False)) if len(names) <= len(_STAND_INS) else None


def spans_of(shape: Sequence[Dim], stand_ins: Mapping[str, int]) -> tuple[Span, ...]:
    """Where the axes lie."""
    spans, begin = [], 1
    for size in shape:
        end = begin * evaluate(size, stand_ins)
        spans.append(Span(begin, end))
        begin = end
    return tuple(spans)
