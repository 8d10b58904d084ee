"""Products of matrices in other axes: neighbouring axes of the result as one, or an axis of an operand as several."""

from collections.abc import Sequence
from itertools import accumulate
from string import ascii_letters

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.makers import made_by, splat_of
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_equation

__all__ = ["RESULT", "with_merged_axes", "with_split_axes"]

RESULT = 2
"""The ordinal of the result of a product, behind its two operands."""


def with_merged_axes(inner: Op, shape: Sequence[Dim], build: Builder) -> Op | None:
    """The dot whose result has axes of `inner` merged, by merging those of its operands; None where that cannot be."""
    *terms, letters = parse_equation(inner.text("equation"))
    counts = _merged_counts(inner.result.shape, shape)
    if counts is None:
        return None
    runs = [letters[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]
    if any(run not in term and set(run) & set(term) for run in runs for term in terms):
        return None
    a, b = (_merged(operand, term, runs, build) for operand, term in zip(inner.operands, terms, strict=True))
    for run in runs:
        terms = [term.replace(run, run[0]) for term in terms]
    equation = f"{terms[0]},{terms[1]}->{''.join(run[0] for run in runs)}"
    return build.dot(a, b, equation, inner.dtype()).op


def with_split_axes(op: Op, ordinal: int, shape: Sequence[Dim], build: Builder) -> Op | None:
    """The dot of which an operand, or the result as the third, has `shape`, where axes of its own are split.

    Whatever else has such an axis has as many in its place. None where `shape` does more than split axes.
    """
    terms = parse_equation(op.text("equation"))
    counts = _merged_counts(shape, (*op.operands, op.result)[ordinal].shape)
    if counts is None:
        return None
    free = (letter for letter in ascii_letters if letter not in "".join(terms))
    names = {letter: letter for letter in "".join(terms)}
    parts: dict[str, Sequence[Dim]] = {}
    for letter, count, end in zip(terms[ordinal], counts, accumulate(counts), strict=True):
        if count > 1:
            names[letter] = "".join(next(free) for _ in range(count))
            parts[letter] = shape[end - count : end]
    a, b = (
        _split(value, [parts.get(letter, (size,)) for letter, size in zip(term, value.shape, strict=True)], build)
        for value, term in zip(op.operands, terms, strict=False)
    )
    left, right, result = ("".join(names[letter] for letter in term) for term in terms)
    return build.dot(a, b, f"{left},{right}->{result}", op.dtype()).op


def _merged_counts(shape: Sequence[Dim], merged: Sequence[Dim]) -> list[int] | None:
    """How many neighbouring axes become each axis of `merged`; None where axes do more than merge."""
    counts, first = [], 0
    for size in merged:
        end = next((end for end in range(first + 1, len(shape) + 1) if product(shape[first:end]) == size), None)
        if end is None:
            return None
        counts.append(end - first)
        first = end
    return counts if first == len(shape) else None


def _merged(operand: Value, term: str, runs: Sequence[str], build: Builder) -> Value:
    """The operand with one axis for each of the runs that it has."""
    sizes: dict[str, Dim] = dict(zip(term, operand.shape, strict=True))
    for run in runs:
        if run in term:
            sizes[run[0]] = product(sizes[letter] for letter in run)
            term = term.replace(run, run[0])
    return build.with_shape(operand, [sizes[letter] for letter in term])


def _split(value: Value, parts: Sequence[Sequence[Dim]], build: Builder) -> Value:
    """The value with axes of the sizes in `parts` in the place of each of its own.

    It is split below a factor and below a transpose, which whoever reads the result still finds on top.
    """
    shape = [size for part in parts for size in part]
    scaled, turned = made_by(value, "mul", "div"), made_by(value, "transpose")
    factor = None if scaled is None else splat_of(scaled.operands[1])
    if scaled is not None and factor is not None and value.dtype.is_float:
        inner = _split(scaled.operands[0], parts, build)
        both = (inner, build.full(shape, factor, value.dtype))
        return build.mul(*both) if scaled.name == "mul" else build.div(*both)
    if turned is not None:
        permutation = turned.ints("permutation")
        own = [parts[permutation.index(axis)] for axis in range(value.rank)]
        starts = [0, *accumulate(map(len, own))]
        order = [starts[axis] + within for axis in permutation for within in range(len(own[axis]))]
        return build.transpose(_split(turned.operands[0], own, build), order)
    return build.with_shape(value, shape)
