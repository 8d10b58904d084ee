"""What becomes of the target of a Reshape where sizes of its operand became others: pure arithmetic on sizes.

A Reshape keeps the order of the elements in memory, so an axis of the operand lies in the result between the same
products of sizes before it and behind it. The axis of the result that lies there grows as the axis of the operand did.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, floordiv, product

__all__ = ["Ratio", "Target", "originals", "ratio_of", "renewed_target"]

_STAND_INS = (1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099, 1_000_117, 1_000_121)
"""Large primes in the place of symbols: products of them are equal where those of the symbols are."""


@dataclass(frozen=True)
class Ratio:
    """A size by which others grow: `times` over `over`, which have no common factor that is a number."""

    times: Dim
    over: int


@dataclass(frozen=True)
class Target:
    """The shape of a result; `inner` are the axes of it into which something has come behind what they held."""

    shape: tuple[Dim, ...]
    inner: tuple[int, ...]


@dataclass(frozen=True)
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
) -> Target | None:
    """The shape that a Reshape to `result` means where its operand is `now` and was `before`; None where that is open.

    free: the axes of the result whose sizes the model holds as numbers. overridden: old and new sizes of inputs.
    """
    inner: list[int] = []
    stand_ins = _stand_ins((*before, *result))
    if len(before) != len(now) or stand_ins is None:
        return None
    old_spans, spans = (_spans([evaluate(size, stand_ins) for size in shape]) for shape in (before, result))
    target = list(result)
    for axis, (old, new) in enumerate(zip(before, now, strict=True)):
        ratio = ratio_of(new, old)
        if ratio is None:
            return None
        if old == new:
            continue
        literals = originals(ratio, overridden)
        if old in literals and axis in free and spans[axis] == old_spans[axis]:
            home: int | None = axis
        else:
            home = _home(old_spans[axis], spans, free, [at for at in free if result[at] in literals], old in literals)
        grown = None if home is None else _scaled(target[home], ratio)
        if home is None or grown is None:
            return None
        target[home] = grown
        if spans[home].begin < old_spans[axis].begin:
            inner.append(home)
    return Target(tuple(target), tuple(inner)) if product(target) == product(now) else None


def _stand_ins(sizes: Iterable[Dim]) -> dict[str, int] | None:
    names = sorted(frozenset().union(*map(symbols_of, sizes)))
    return dict(zip(names, _STAND_INS, strict=False)) if len(names) <= len(_STAND_INS) else None


def _spans(sizes: Sequence[int]) -> list[_Span]:
    spans, begin = [], 1
    for size in sizes:
        spans.append(_Span(begin, begin * size))
        begin *= size
    return spans


def _home(
    old: _Span, spans: Sequence[_Span], free: Sequence[int], literals: Sequence[int], is_whole: bool
) -> int | None:
    """The axis of the result that an axis of the operand, which lay at `old`, has become part of; the first that fits.

    `literals` are axes that hold the overridden size as a number: of an operand that holds more than it, they tell
    most. Between two neighbours what had size 1 belongs to the outer one: the inner one holds features.
    """
    same = [axis for axis in free if spans[axis] == old]
    within = [axis for axis in literals if old.begin <= spans[axis].begin and spans[axis].end <= old.end]
    around = [axis for axis in free if spans[axis].begin <= old.begin and old.end <= spans[axis].end]
    behind = [axis for axis in around if spans[axis].begin < old.begin or old.end > old.begin]
    parts = [axis for axis in free if old.begin == spans[axis].begin < spans[axis].end <= old.end]
    ranked = (same, within) if is_whole else (within, same)
    return next((axes[0] for axes in (*ranked, behind, around, parts) if axes), None)
