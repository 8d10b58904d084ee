"""Delta debugging: the smallest part of a list that still shows what the whole shows."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

__all__ = ["minimal"]

T = TypeVar("T")


def minimal(items: Sequence[T], shows: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part, in order, that shows it and none of whose items can be left out; `items` show it.

    Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 2002, ddmin.
    """
    kept, parts = [*items], 2
    while len(kept) > 1:
        chunks = _chunks(kept, parts)
        smaller = next((chunk for chunk in chunks if shows(chunk)), None)
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        rest = next((rest for rest in _rests(chunks) if shows(rest)), None) if parts > 2 else None
        if rest is not None:
            kept, parts = rest, max(parts - 1, 2)
        elif parts < len(kept):
            parts = min(2 * parts, len(kept))
        else:
            break
    return kept


def _chunks(items: Sequence[T], count: int) -> list[list[T]]:
    """The items in `count` parts of nearly one length."""
    bounds = [len(items) * part // count for part in range(count + 1)]
    return [list(items[low:high]) for low, high in pairwise(bounds)]


def _rests(chunks: Sequence[Sequence[T]]) -> list[list[T]]:
    """For each part all the others."""
    return [
        [item for other, chunk in enumerate(chunks) if other != left_out for item in chunk]
        for left_out in range(len(chunks))
    ]
