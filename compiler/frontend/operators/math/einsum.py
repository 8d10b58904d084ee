"""Einsum: sums of products by subscripts, as pairs of operands from left to right."""

from collections.abc import Mapping, Sequence
from functools import partial
from string import ascii_letters
from typing import NoReturn

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.subscripts import ELLIPSIS_LABELS, labels_of
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64, DType
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

RULE = "ONNX Einsum, attribute equation"


@record
class Term:
    """A tensor and a label for each of its axes."""

    value: Value
    labels: str


@operator("Einsum", since=(12, 28))
def einsum(node: Node, ir: Builder) -> Value:
    """Inputs: T[...], ...  ->  T[...] by `equation`: labels that the right side lacks are summed.

    An ellipsis stands for axes that broadcast; a label repeated within one term takes the diagonal. Intermediate
    products of 16-bit floats are in f32.
    Source: https://onnx.ai/onnx/operators/onnx__Einsum.html
    """
    operands = node.variadic()
    labels, result = labels_of(node.string("equation"), [x.rank for x in operands], partial(_wrong, node))
    terms = [Term(*pair) for pair in zip(operands, labels, strict=True)]
    prepared = _with_common_sizes([_diagonal(term, ir) for term in terms], ir)
    total, dtype = prepared[0], operands[0].dtype
    for ordinal, term in enumerate(prepared[1:], start=1):
        later = "".join(other.labels for other in prepared[ordinal + 1 :]) + result
        last = ordinal == len(prepared) - 1
        total = _product(total, term, result if last else None, later, dtype if last else wide_type(dtype), ir)
    summed = _sum_except(total, result, ir)
    return ir.transpose(summed.value, [summed.labels.index(label) for label in result])


def _wrong(node: Node, code: str, message: str) -> NoReturn:
    node.fail(code, message, rule=RULE)


# Terms


def _diagonal(term: Term, ir: Builder) -> Term:
    """The term without repeated labels."""
    for second, label in enumerate(term.labels):
        first = term.labels.index(label)
        if first != second:
            x = term.value
            size = ir.require_equal(x.shape[first], x.shape[second], f"the axes {label} differ", "einsum-sizes")
            shape = [size if axis in (first, second) else other for axis, other in enumerate(x.shape)]
            x = ir.with_shape(x, shape)
            shape[second] = 1
            picked = ir.squeeze(ir.gather_along(x, ir.iota(shape, first, I64), second), [second])
            return _diagonal(Term(picked, term.labels[:second] + term.labels[second + 1 :]), ir)
    return term


def _with_common_sizes(terms: Sequence[Term], ir: Builder) -> list[Term]:
    """The terms with one size for each label: axes that broadcast are dropped where another term has the label."""
    sizes: dict[str, Dim] = {}
    for term in terms:
        for label, size in zip(term.labels, term.value.shape, strict=True):
            known = sizes.get(label, 1)
            if label in ELLIPSIS_LABELS:
                (sizes[label],) = ir.broadcast_shape((known,), (size,), code="einsum-sizes")
            elif 1 in (known, size):
                sizes[label] = size if known == 1 else known
            else:
                sizes[label] = ir.require_equal(known, size, f"the axes {label} differ", "einsum-sizes")
    return [_fitted(term, sizes, ir) for term in terms]


def _fitted(term: Term, sizes: Mapping[str, Dim], ir: Builder) -> Term:
    axes = list(enumerate(zip(term.labels, term.value.shape, strict=True)))
    dropped = [axis for axis, (label, size) in axes if size == 1 and sizes[label] != 1]
    labels = "".join(label for axis, (label, _) in axes if axis not in dropped)
    x = ir.squeeze(term.value, dropped) if dropped else term.value
    target = [sizes[label] for label in labels]
    spread = any(label in ELLIPSIS_LABELS for label in labels)
    return Term(ir.broadcast_to(x, target) if spread else ir.with_shape(x, target), labels)


def _product(a: Term, b: Term, order: str | None, later: str, dtype: DType, ir: Builder) -> Term:
    """The product of two terms, summed over the labels that are not needed `later`, with its axes in `order`."""
    a, b = _sum_except(a, b.labels + later, ir), _sum_except(b, a.labels + later, ir)
    kept = "".join(label for label in dict.fromkeys(a.labels + b.labels) if label in later)
    kept = order if order is not None and set(order) == set(kept) else kept
    letter = dict(zip(dict.fromkeys(a.labels + b.labels), ascii_letters, strict=False))
    left, right, result = ("".join(letter[label] for label in labels) for labels in (a.labels, b.labels, kept))
    x, y = (
        (a.value, b.value) if a.value.dtype == b.value.dtype else (ir.cast(t.value, wide_type(dtype)) for t in (a, b))
    )
    return Term(ir.dot(x, y, f"{left},{right}->{result}", dtype), kept)


def _sum_except(term: Term, needed: str, ir: Builder) -> Term:
    """The term summed over the labels that are not `needed`."""
    axes = [axis for axis, label in enumerate(term.labels) if label not in needed]
    labels = "".join(label for label in term.labels if label in needed)
    return Term(ir.reduce(term.value, "sum", axes), labels)
