"""Decision trees as nodes, and what their leaves give the targets.

A leaf is a node whose children are itself.
"""

from functools import cached_property

import numpy as np

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import at_least
from onnxc.compiler.ir.module import Attribute, Value
from onnxc.compiler.ir.primitives.trees import EQUAL, FEATURE_SHIFT, FOLDS, GREATER, LEAF, LESS, UNORDERED
from onnxc.runtime.records import record

LEQ, LT, GTE, GT, EQ, NEQ = range(6)
OUTCOMES = np.array([LESS | EQUAL, LESS, GREATER | EQUAL, GREATER, EQUAL, LESS | GREATER])
"""The outcomes of a comparison with which each test holds."""

MOST_FEATURES = 1 << 31 - FEATURE_SHIFT
"""As many as the words of links can name."""

VOTE_KINDS = {"SUM": "sum", "AVERAGE": "sum", "MIN": "min", "MAX": "max"}


@record
class Forest:
    """The nodes of all trees, one after another: the feature, the threshold and the comparison of each, its children.

    `nan_is_true`: where a missing value goes. `roots`: the first node of each tree.
    """

    features: np.ndarray
    thresholds: np.ndarray
    modes: np.ndarray
    nan_is_true: np.ndarray
    when_true: np.ndarray
    when_false: np.ndarray
    roots: np.ndarray

    @cached_property
    def is_leaf(self) -> np.ndarray:
        own = np.arange(self.features.size)
        return np.asarray((self.when_true == own) & (self.when_false == own))

    def depth(self) -> int | None:
        """How many comparisons the longest way to a leaf takes; None where a way leads back."""
        reached, depth = np.unique(self.roots), 0
        while True:
            inner = reached[~self.is_leaf[reached]]
            if not inner.size:
                return depth
            if depth > self.features.size:
                return None
            reached = np.unique(np.concatenate([self.when_true[inner], self.when_false[inner]]))
            depth += 1


@record
class Votes:
    """What leaves add to targets: a weight for a target from the node `nodes[i]`, any number of them per leaf."""

    nodes: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    target_count: int

    @property
    def one_each(self) -> bool:
        """Whether no node votes twice."""
        return len(np.unique(self.nodes)) == len(self.nodes)


def voted(forest: Forest, votes: Votes, function: str, x: Value, node: Node, ir: Builder) -> Value:
    """x: T[N, F]  ->  T[N, E], the sum, average, least or greatest of what the leaves give each target

    0 where none gives anything.
    """
    depth = forest.depth()
    if depth is None:
        node.fail("tree-cycle", "the nodes of a tree lead back to themselves", rule=f"ONNX {node.operator}")
    kind, dtype = VOTE_KINDS[function], x.dtype.numpy
    branches = _branches_by_level(forest)
    # The children of a branch lie side by side; a node that several lead to is there for each of them.
    children = np.stack([forest.when_true[branches], forest.when_false[branches]], 1).reshape(-1)
    records = np.concatenate([forest.roots, children])
    first_child = np.zeros(forest.features.size, np.int64)
    first_child[branches] = forest.roots.size + 2 * np.arange(branches.size)
    weight, choice, table = _leaf_columns(forest, votes, kind, dtype)
    threshold, outcomes = _tests(forest)
    words = np.where(forest.is_leaf, LEAF, forest.features << FEATURE_SHIFT | outcomes)
    links = np.stack([words, np.where(forest.is_leaf, choice, first_child)], 1)[records]
    thresholds = np.where(forest.is_leaf, weight, threshold.astype(dtype)).astype(dtype)[records]
    tables = [ir.constant(array) for array in (thresholds, links.astype(np.int32), *table)]
    attributes: dict[str, Attribute] = {
        "kind": kind,
        "trees": forest.roots.size,
        "targets": votes.target_count,
        "depth": depth,
    }
    used = tuple(np.unique(outcomes[branches]).tolist())
    seen = _seen_features(forest, branches, x, node, ir)
    total = ir.tree_ensemble(seen, tables, {**attributes, "outcomes": used})
    if kind != "sum":
        return ir.select(ir.equal(total, FOLDS[kind][1]), 0, total)
    return ir.div(total, max(forest.roots.size, 1)) if function == "AVERAGE" else total


def _branches_by_level(forest: Forest) -> np.ndarray:
    """The branches that roots lead to, each once, level by level: what is looked at together lies together."""
    is_new, reached = ~forest.is_leaf, forest.roots
    levels = [np.empty(0, np.int64)]
    while True:
        fresh = reached[is_new[reached]]
        level = fresh[np.sort(np.unique(fresh, return_index=True)[1])]
        if not level.size:
            return np.concatenate(levels)
        levels.append(level)
        is_new[level] = False
        reached = np.stack([forest.when_true[level], forest.when_false[level]], 1).reshape(-1)


def _tests(forest: Forest) -> tuple[np.ndarray, np.ndarray]:
    """The threshold of each node, and the outcomes of a comparison with it with which the test of the node holds.

    Where the threshold is NaN only "not equal" holds, for every number; no outcome but that with NaN is left open.
    """
    is_open = ~np.isnan(forest.thresholds)
    of_nothing = np.where(forest.modes == NEQ, LESS | EQUAL | GREATER, 0)
    outcomes = np.where(is_open, OUTCOMES[forest.modes], of_nothing)
    return np.where(is_open, forest.thresholds, 0.0), outcomes | np.where(forest.nan_is_true, UNORDERED, 0)


def _leaf_columns(
    forest: Forest, votes: Votes, kind: str, dtype: "np.dtype[np.generic]"
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """For each node the weight and the target of its one vote; or rows of a table with those for all targets."""
    fold, absent = FOLDS[kind]
    weights, choice = np.full(forest.features.size, absent), np.zeros(forest.features.size, np.int64)
    if votes.one_each:
        weights[votes.nodes], choice[votes.nodes] = votes.weights, votes.targets
        return weights, choice, ()
    voting, rows = np.unique(votes.nodes, return_inverse=True)
    # The last row is that of nodes without a vote.
    table = np.full((voting.size + 1, votes.target_count), absent, dtype)
    fold.at(table, (rows, votes.targets), votes.weights.astype(dtype))
    choice[:] = voting.size
    choice[voting] = np.arange(voting.size)
    return weights, choice, (table,)


def _seen_features(forest: Forest, branches: np.ndarray, x: Value, node: Node, ir: Builder) -> Value:
    """x, which has the features that branches look at; as many as they look at where only the call knows."""
    used, width = forest.features[branches], x.shape[1]
    least, count = int(used.min(initial=0)), int(used.max(initial=-1)) + 1
    if least < 0 or at_least(count, width + 1):
        feature = least if least < 0 else count - 1
        message = f"a node looks at feature {feature}, X has {width}"
        node.fail("tree-feature", message, rule=f"ONNX {node.operator}, nodes_featureids")
    if count > MOST_FEATURES:
        node.unsupported(f"a node looks at feature {count - 1}, beyond {MOST_FEATURES - 1}")
    if isinstance(width, int):
        return x
    ir.guard(width, count, "at_least", f"a node looks at feature {count - 1}, X has {width}")
    return ir.slice_axis(x, 1, 0, count)
