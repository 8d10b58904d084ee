"""Attention, from the products, masks and softmax that exporters write, in any layout of its axes.

The composite gives zeros for a row in which everything is hidden, where a softmax gives NaN. So a mask must be known
to be finite, or to leave something in every row, or the NaN must be made 0 by the model itself; then NaN in the
queries, keys and values are seen as NaN, which such a model hides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.ir.builder import Builder
from compiler.ir.dims import Dim, product
from compiler.ir.module import Module, Op, Value
from compiler.ir.primitives.contractions import parse_equation
from compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from compiler.passes.attention_scores import Scores, hides_no_row, is_causal, scores_of, sum_of
from compiler.passes.matching import axis_groups, made_by, number_of, unbroadcast
from compiler.passes.notes import note_refusal


def recognize_attention(module: Module) -> Module:
    """Makes one op of each attention."""
    return rewrite(module, [weigh_values], note_refusal)


@dataclass(frozen=True)
class _Tensor:
    """A value, and the letter of each of its axes."""

    value: Value
    letters: str


@dataclass(frozen=True)
class _Layout:
    """Which letters are what: those of the batch and of the heads, the row and column of the scores, the widths."""

    batch: str
    heads: str
    row: str
    column: str
    width: str
    value_width: str
    sizes: Mapping[str, Dim]

    def size(self, letters: str) -> Dim:
        return product(self.sizes[letter] for letter in letters)


@rule("dot")
def weigh_values(op: Op, build: Rewriter) -> Value | Refusal | None:
    """dot(softmax(scale * dot(q, k) + mask), v) = attention(q, k, v, mask)"""
    left, right, result = parse_equation(op.text("equation"))
    for weights, letters, v, v_letters in ((*_side(op, 0, left), *_side(op, 1, right)), (*_side(op, 1, right), *_side(op, 0, left))):
        scores = scores_of(weights, build)
        if isinstance(scores, Refusal):
            return scores
        if scores is not None:
            return _fused(op, scores, letters, _Tensor(v, v_letters), result, build)
    return None
