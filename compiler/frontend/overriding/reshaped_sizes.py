"""What becomes of the target of a Reshape where sizes of its operand became others: pure arithmetic on sizes.

A Reshape keeps the order of the elements in memory, so an axis of the operand lies in the result between the same
products of sizes before it and behind it. The axis of the result that lies there grows as the axis of the operand did.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field
from math import gcd

from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.runtime.records import record

__all__ = ["Merged", "Ratio", "originals", "ratio_of", "renewed_target"]

_STAND_INS = (1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099, 1_000_117, 1_000_121)
"""Large primes in the place of symbols: products of them are equal where those of the symbols are."""


@record
class Ratio:
    """A size by which others grow: `times` over `over`, which have no common factor that is a number."""

    times: Dim
    over: int


@record
class Merged:
    """Declared sizes of axes that a batch has come into: as the faster index, or as the slower one.

    The type of a value does not tell which; where one size is in both, the axis may be either.
    """

    inner: set[Dim] = field(default_factory=set)
    outer: set[Dim] = field(default_factory=set)


@record
class _Span:
    """Where an axis lies: the products of the sizes before it, and of those up to it."""

    begin: int
    end: int


def ratio_of(new: Dim, old: Dim) -> Ratio | None:
    """new / old, or None where that is no size over a number."""
    if old == 0:
        return None
    common = gcd(_content(new), _content(old))
    times, rest = floordiv(new, common), floordiv(old, common)
    over = _content(rest)
    primitive = floordiv(rest, over)
    quotient = floordiv(times, primitive)
    return Ratio(quotient, over) if quotient * primitive == times else None


def _content(size: Dim) -> int:
    """The largest number that divides all terms of a size."""
    return size if isinstance(size, int) else gcd(*(factor for _, factor in size.terms))


def _scaled(size: Dim, ratio: Ratio) -> Dim | None:
    """`size` times the ratio, or None where that is no integer."""
    return None if _content(size) % ratio.over else floordiv(size, ratio.over) * ratio.times


def originals(ratio: Ratio, overridden: Sequence[tuple[Dim, Dim]]) -> set[Dim]:
    """The sizes that were overridden by what is `ratio` times as large."""
    return {old for old, new in overridden if ratio_of(new, old) == ratio}


def renewed_target(
    before: Sequence[Dim],
    now: Sequence[Dim],
    result: Sequence[Dim],
    free: Sequence[int],
    overridden: Sequence[tuple[Dim, Dim]],
    merged: Merged,
) -> tuple[Dim, ...] | None:
    """The shape that a Reshape to `result` means where its operand is `now` and was `before`; None where that is open.

    free: the axes of the result whose sizes the model holds as numbers. overridden: old and new sizes of inputs.
    `merged` learns which axes of the result a batch has come into.
    """
    stand_ins = _stand_ins((*before, *result))
    if len(before) != len(now) or stand_ins is None:
        return None
    old_spans, spans = (_spans([evaluate(size, stand_ins) for size in shape]) for shape in (before, result))
    if product(before) != product(result):
        return None
    target = list(result)
    for axis, (old, new) in enumerate(zip(before, now, strict=True)):
        if old == new:
            continue
        ratio = ratio_of(new, old)
        literals = set() if ratio is None else originals(ratio, overridden)
        if literals == {1}:
            home = _home_of_batch(axis, old, old_spans, spans, free, merged)
        else:
            home = _home(old_spans[axis], spans, free, [at for at in free if result[at] in literals])
        grown = None if home is None or ratio is None else _scaled(target[home], ratio)
        if home is None or grown is None:
            return None
        target[home] = grown
        if literals == {1} and result[home] != 1:
            (merged.inner if spans[home].begin < _point(axis, old, old_spans, merged) else merged.outer).add(
                result[home]
            )
    return tuple(target) if product(target) == product(now) else None


def _stand_ins(sizes: Iterable[Dim]) -> dict[str, int] | None:
    names = sorted(frozenset().union(*map(symbols_of, sizes)))
    return dict(zip(names, _STAND_INS, strict=False)) if len(names) <= len(_STAND_INS) else None


def _spans(sizes: Sequence[int]) -> list[_Span]:
    spans, begin = [], 1
    for size in sizes:
        spans.append(_Span(begin, begin * size))
        begin *= size
    return spans


def _home(old: _Span, spans: Sequence[_Span], free: Sequence[int], literals: Sequence[int]) -> int | None:
    """The axis of the result that an axis of the operand, which lay at `old`, has become part of; the first that fits.

    `literals` are axes that hold the overridden size as a number. Which of several parts grows cannot be told.
    """
    same = [axis for axis in free if spans[axis] == old]
    within = [axis for axis in literals if old.begin <= spans[axis].begin and spans[axis].end <= old.end]
    enclosing = [axis for axis in free if spans[axis].begin <= old.begin and old.end <= spans[axis].end]
    return next((axes[0] for axes in (same, within, enclosing) if axes), None)


def _point(axis: int, old: Dim, old_spans: Sequence[_Span], merged: Merged) -> int:
    """How many elements, of a batch of one, lie before those that the batch counts."""
    return old_spans[axis].end if old in merged.inner else old_spans[axis].begin


def _home_of_batch(
    axis: int, old: Dim, old_spans: Sequence[_Span], spans: Sequence[_Span], free: Sequence[int], merged: Merged
) -> int | None:
    """The axis of the result that a batch, of one before, which an axis of the operand holds, belongs to.

    An axis of size 1 where the batch lies, or that of the same elements, or one that lies around it. Between two axes
    it joins the inner one where that is a part of what lay behind the batch, such as heads; else the outer one, for
    the inner one holds features.
    """
    if old in merged.inner and old in merged.outer:
        return None
    point = _point(axis, old, old_spans, merged)
    units = [at for at in free if spans[at] == _Span(point, point)]
    same = [at for at in free if spans[at] == old_spans[axis]]
    enclosing = [at for at in free if spans[at].begin < point < spans[at].end]
    if units or same or enclosing:
        return axis if axis in units else (*units, *same, *enclosing)[0]
    outer = [at for at in free if spans[at].begin < spans[at].end == point]
    inner = [at for at in free if point == spans[at].begin < spans[at].end]
    behind = [span.end for span in old_spans if point == span.begin < span.end]
    is_part = bool(inner and behind) and spans[inner[0]].end < behind[0]
    return next(iter((*inner, *outer) if is_part else (*outer[-1:], *inner)), None)
