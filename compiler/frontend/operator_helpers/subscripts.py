"""The equation of Einsum: a label for each axis of its operands, and of the result."""

from collections.abc import Callable, Sequence
from string import ascii_letters
from typing import NoReturn

__all__ = ["ELLIPSIS_LABELS", "labels_of"]

ELLIPSIS_LABELS = "0123456789!#$%&*+/:;<=>?@^_|~"
"""The axes of an ellipsis get labels of their own, the last axis the first of these."""

Wrong = Callable[[str, str], NoReturn]
"""What is called with a code and a message where an equation is wrong."""


def labels_of(equation: str, ranks: Sequence[int], wrong: Wrong) -> tuple[list[str], str]:
    """The labels of the operands, and those of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks):
        wrong("einsum-terms", f"{equation!r} has {len(texts)} terms for {len(ranks)} operands")
    terms = [_labels(text, rank, wrong) for text, rank in zip(texts, ranks, strict=True)]
    ellipsis = _ellipsis_labels(max(_ellipsis_rank(text, rank) for text, rank in zip(texts, ranks, strict=True)))
    result = _expanded(right, ellipsis, wrong) if arrow else ellipsis + _once("".join(texts))
    known = {label for term in terms for label in term}
    if len(set(result)) != len(result) or not set(result) <= known:
        wrong("einsum-result", f"the result {right!r} repeats a label or has one of no term")
    return terms, result


def _labels(text: str, rank: int, wrong: Wrong) -> str:
    _expanded(text, "", wrong)
    letters = len(text.replace("...", ""))
    if letters > rank or (letters < rank and "..." not in text):
        wrong("einsum-rank", f"the term {text!r} has {letters} labels for {rank} axes")
    return _expanded(text, _ellipsis_labels(rank - letters), wrong)


def _expanded(text: str, ellipsis: str, wrong: Wrong) -> str:
    """`text` with its ellipsis as labels."""
    before, dots, after = text.partition("...")
    if not set(before + after) <= set(ascii_letters):
        wrong("einsum-subscripts", f"the term {text!r} has something else than letters and one ellipsis")
    return before + (ellipsis if dots else "") + after


def _ellipsis_rank(text: str, rank: int) -> int:
    return rank - len(text) + 3 if "..." in text else 0


def _ellipsis_labels(rank: int) -> str:
    return ELLIPSIS_LABELS[:rank][::-1]


def _once(text: str) -> str:
    """The letters that occur once in all terms, in order: the result that an equation without one has."""
    letters = text.replace("...", "").replace(",", "")
    return "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
