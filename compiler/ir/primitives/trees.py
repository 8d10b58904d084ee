"""Tree ensembles: rows of features walk down decision trees, whose leaves vote for targets.

The nodes of all trees are records of two tables, of which the first `trees` are the roots. `links` has two words for
each. A branch: 32 * feature + outcomes, and the record where its test holds, behind which lies that where it does not.
A leaf: 16, and the target that it votes for with its threshold as the weight; where `weights` are given, their row.

The test compares the feature of a row with the threshold; it holds where the bit of what comes out is in `outcomes`.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from onnxc.compiler.ir.dims import at_least
from onnxc.compiler.ir.dtypes import I32
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.runtime.host.trees import FEATURE_SHIFT, FOLDS, LEAF

__all__ = [
    "EQUAL", "FEATURE_SHIFT", "FOLDS", "GREATER", "LEAF", "LESS", "UNORDERED", "split_outcomes",
]  # fmt: skip

LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
"""What comes out of a comparison, as bits."""


def _tree_ensemble(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[N, F], thresholds: T[M], links: i32[M, 2], weights: T[L, E] if any  ->  T[N, E], E = targets

    Sums run in f64, in the order of the trees. Where no leaf votes for a target it has 0, of `min` inf and of
    `max` -inf. A walk takes `depth` steps at most; indices beyond the tables are clamped.
    """
    x, thresholds, links, *weights = tensors(operands)
    targets, trees = attributes.get("targets"), attributes.get("trees")
    if attributes.get("kind") not in FOLDS:
        raise TypeRuleError(f"kind is {attributes.get('kind')}, not one of {', '.join(FOLDS)}")
    if x.rank != 2 or not x.dtype.is_float or not isinstance(x.known_shape[1], int):
        raise TypeRuleError(f"x is {x}, not floats [N, F] with a known F")
    if thresholds.rank != 1 or links != TensorType(I32, (*thresholds.known_shape, 2)):
        raise TypeRuleError(f"thresholds {thresholds} and links {links} do not fit")
    if not isinstance(trees, int) or not isinstance(targets, int) or not at_least(thresholds.known_shape[0], trees):
        raise TypeRuleError(f"{thresholds} cannot hold {trees} roots for {targets} targets")
    if len(weights) > 1 or any(w.rank != 2 or w.known_shape[1] != targets for w in weights):
        raise TypeRuleError(f"the weights {', '.join(map(str, weights))} are not for {targets} targets")
    if trees < 0 or any(not at_least(w.known_shape[0], 1) for w in weights):
        raise TypeRuleError(f"{trees} trees cannot have the weights {', '.join(map(str, weights))}")
    if any(table.dtype != x.dtype for table in (thresholds, *weights)):
        raise TypeRuleError(f"thresholds or weights are not {x.dtype}, as x is")
    return (TensorType(x.dtype, (x.known_shape[0], targets)),)


def split_outcomes(op: Op) -> tuple[int, tuple[int, ...]]:
    """The outcomes with which the tests of all branches hold, and those with which only some do."""
    outcomes = op.ints("outcomes")
    always = reduce(and_, outcomes, LESS | EQUAL | GREATER | UNORDERED)
    ever = reduce(or_, outcomes, 0)
    return always, tuple(bit for bit in (LESS, EQUAL, GREATER, UNORDERED) if bit & ever & ~always)


def _rows(op: Op) -> tuple[AxisLink, ...]:
    return (AxisLink("map", (0, *(None for _ in op.operands[1:])), (0,)),)


define(Primitive("tree_ensemble", "composite", _tree_ensemble, _rows, kernel=Anchor("tree_ensemble")))
