"""Einsum as products of two terms at a time, from left to right: of matrices where something is summed over."""

from collections.abc import Sequence
from typing import NoReturn

from onnxc.compiler.frontend.operator_helpers.subscripts import labels_of
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.sizes import along, positions, sizes_of, vector
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.runtime.records import record

__all__ = ["einsum"]


@record
class _Term:
    """A tensor and a label for each of its axes."""

    name: str
    labels: str


def einsum(change: Change) -> None:
    """The terms multiplied; each label is summed over where no later term and not the result has it."""
    at, names = Steps(change), [*change.node.input]
    ranks = [change.rank(position) for position in range(len(names))]

    def wrong(code: str, message: str) -> NoReturn:
        change.fail(message)

    labels, result = labels_of(change.text("equation"), ranks, wrong)
    terms = [_diagonal(at, _Term(*pair)) for pair in zip(names, labels, strict=True)]
    terms = _without_spread(at, terms)
    total = terms[0]
    for ordinal, term in enumerate(terms[1:], start=1):
        needed = "".join(other.labels for other in terms[ordinal + 1 :]) + result
        total = _product(at, total, term, needed)
    total = _sum_except(at, total, result)
    at.become("Transpose", total.name, perm=[total.labels.index(label) for label in result])


def _diagonal(at: Steps, term: _Term) -> _Term:
    """The term without repeated labels."""
    for second, label in enumerate(term.labels):
        first = term.labels.index(label)
        if first != second:
            sizes = [*sizes_of(at, term.name)]
            rows = along(at, positions(at, sizes[first]), first, len(sizes))
            sizes[second] = 1
            picked = at("GatherElements", term.name, at("Expand", rows, vector(at, sizes)), axis=second)
            return _diagonal(at, _squeezed(at, term, picked, [second]))
    return term


def _without_spread(at: Steps, terms: Sequence[_Term]) -> list[_Term]:
    """The terms without their axes of size 1 of which another term has more."""
    shapes = [at.change.shape(term.name) or () for term in terms]
    long = {
        label
        for term, shape in zip(terms, shapes, strict=True)
        for label, n in zip(term.labels, shape, strict=True)
        if n != 1
    }
    made = []
    for term, shape in zip(terms, shapes, strict=True):
        axes = [axis for axis, size in enumerate(shape) if size == 1 and term.labels[axis] in long]
        made.append(_squeezed(at, term, term.name, axes) if axes else term)
    return made


def _squeezed(at: Steps, term: _Term, name: str, axes: Sequence[int]) -> _Term:
    """A value of the shape of the term but for these axes, which are of size 1, without them."""
    squeezed, kept = at.over("Squeeze", name, axes), [k for k in range(len(term.labels)) if k not in axes]
    shape = at.change.shape(term.name) or ()
    at.declare(squeezed, at.change.element(0), [shape[k] for k in kept])
    return _Term(squeezed, "".join(term.labels[k] for k in kept))


def _product(at: Steps, a: _Term, b: _Term, needed: str) -> _Term:
    """The product of two terms, summed over the labels that are not needed any more."""
    a, b = _sum_except(at, a, b.labels + needed), _sum_except(at, b, a.labels + needed)
    summed = [label for label in a.labels if label in b.labels and label not in needed]
    if not summed:
        labels = "".join(dict.fromkeys(a.labels + b.labels))
        return _Term(at("Mul", _aligned(at, a, labels), _aligned(at, b, labels)), labels)
    own, other = ([x for x in one.labels if x not in two.labels] for one, two in ((a, b), (b, a)))
    row, column, inner = own[-1] if own else "", other[-1] if other else "", summed[-1]
    batch = "".join(label for label in dict.fromkeys(a.labels + b.labels) if label not in (row, column, inner))
    left = _with_axes(at, a, batch, row, inner)
    right = _with_axes(at, b, batch, inner, column)
    product = at("MatMul", left, right)
    missing = [axis for axis, label in enumerate((row, column), start=len(batch)) if not label]
    if missing:
        product = at.over("Squeeze", product, missing)
    return _sum_except(at, _Term(product, batch + row + column), needed)


def _with_axes(at: Steps, term: _Term, batch: str, first: str, second: str) -> str:
    """The term with its axes in the order of these labels, and one of size 1 where it lacks the label."""
    name = _aligned(at, term, batch + first + second)
    missing = [axis for axis, label in enumerate((first, second), start=len(batch)) if not label]
    return at.over("Unsqueeze", name, missing) if missing else name


def _aligned(at: Steps, term: _Term, labels: str) -> str:
    """The term with its axes in the order of these labels, and one of size 1 for each that it lacks."""
    order = [term.labels.index(label) for label in labels if label in term.labels]
    name = term.name if order == [*range(len(order))] else at("Transpose", term.name, perm=order)
    missing = [axis for axis, label in enumerate(labels) if label not in term.labels]
    return at.over("Unsqueeze", name, missing) if missing else name


def _sum_except(at: Steps, term: _Term, needed: str) -> _Term:
    """The term summed over the labels that are not needed."""
    axes = [axis for axis, label in enumerate(term.labels) if label not in needed]
    if not axes:
        return term
    labels = "".join(label for label in term.labels if label in needed)
    return _Term(at.over("ReduceSum", term.name, axes, keepdims=0), labels)
