"""Decision trees as tables of nodes, walked by all rows and all trees at once, and what their leaves add up to.

A leaf is a node whose children are itself. The walk is a loop over the depth of the deepest tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.loops import while_loop
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

LEQ, LT, GTE, GT, EQ, NEQ = range(6)
SCATTER_KINDS = {"SUM": "add", "AVERAGE": "add", "MIN": "min", "MAX": "max"}
REDUCE_KINDS = {"SUM": "sum", "AVERAGE": "sum", "MIN": "min", "MAX": "max"}


@dataclass(frozen=True)
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

    def depth(self) -> int | None:
        """How many comparisons the longest way to a leaf takes; None where a way leads back."""
        reached, depth = np.unique(self.roots), 0
        while True:
            inner = reached[(self.when_true[reached] != reached) | (self.when_false[reached] != reached)]
            if not inner.size:
                return depth
            if depth > self.features.size:
                return None
            reached = np.unique(np.concatenate([self.when_true[inner], self.when_false[inner]]))
            depth += 1


@dataclass(frozen=True)
class Votes:
    """What leaves add to targets: a weight for a target from the node `nodes[i]`, any number of them per leaf."""

    nodes: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    target_count: int


def reached_leaves(forest: Forest, x: Value, node: Node, ir: Builder) -> Value:
    """x: T[N, F]  ->  i64[N, R], the leaf of each tree"""
    depth = forest.depth()
    if depth is None:
        node.fail("tree-cycle", "the nodes of a tree lead back to themselves", rule=f"ONNX {node.operator}")
    _expect_features(forest, x, node)
    start = ir.broadcast(ir.constant(forest.roots), (1,), (x.shape[0], forest.roots.size))
    tables = {
        "features": ir.constant(forest.features),
        "thresholds": ir.constant(forest.thresholds.astype(x.dtype.numpy)),
        "when_true": ir.constant(forest.when_true),
        "when_false": ir.constant(forest.when_false),
    }

    def build(nested: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        (current,) = carried
        picked = {name: nested.gather(table, current, 0) for name, table in tables.items()}
        seen = nested.gather_along(x, picked["features"], 1)
        holds = _holds(forest, seen, picked["thresholds"], current, nested)
        return nested.constant(np.array(True)), nested.select(holds, picked["when_true"], picked["when_false"])

    limit = ir.scalar(depth, I64)
    return while_loop(node, ir, limit, ir.constant(np.array(True)), [start], build)[0] if depth else start


def _expect_features(forest: Forest, x: Value, node: Node) -> None:
    """The features that branches look at are there."""
    used = forest.features[forest.when_true != forest.when_false]
    width = x.shape[1]
    for feature in (int(used.min()), int(used.max())) if used.size else ():
        if feature < 0 or at_least(feature, width):
            message = f"a node looks at feature {feature}, X has {width}"
            node.fail("tree-feature", message, rule=f"ONNX {node.operator}, nodes_featureids")


def _holds(forest: Forest, x: Value, threshold: Value, node: Value, ir: Builder) -> Value:
    """bool[N, R]: the outcome of the comparison of each node."""
    used = np.unique(forest.modes[forest.when_true != forest.when_false])
    modes = None if used.size < 2 else ir.gather(ir.constant(forest.modes), node, 0)
    holds = _compared(int(used[0]) if used.size else LEQ, x, threshold, ir)
    for mode in used[1:]:
        assert modes is not None, used
        holds = ir.select(ir.equal(modes, int(mode)), _compared(int(mode), x, threshold, ir), holds)
    # Of the comparisons only "not equal" holds for a missing value by itself.
    if x.dtype.is_float and (forest.nan_is_true.any() or NEQ in used):
        tracks = ir.gather(ir.constant(forest.nan_is_true), node, 0)
        holds = ir.select(ir.is_nan(x), tracks, holds)
    return holds


def _compared(mode: int, x: Value, threshold: Value, ir: Builder) -> Value:
    match mode:
        case 0:
            return ir.less_equal(x, threshold)
        case 1:
            return ir.less(x, threshold)
        case 2:
            return ir.greater_equal(x, threshold)
        case 3:
            return ir.greater(x, threshold)
        case 4:
            return ir.equal(x, threshold)
    return ir.not_equal(x, threshold)


def aggregated(leaves: Value, votes: Votes, function: str, x: Value, ir: Builder) -> Value:
    """T[N, E]: the sum, average, least or greatest of what the leaves give each target; 0 where none gives anything."""
    trees = leaves.shape[1]
    node_count = int(votes.nodes.max(initial=-1)) + 1
    vote_counts = np.zeros(node_count, np.int64)
    vote_counts[votes.nodes] += 1
    if votes.target_count > 1 and vote_counts.max(initial=0) <= 1 and len(np.unique(votes.nodes)) == len(votes.nodes):
        result = _scattered(leaves, votes, function, x, ir)
    else:
        result = _reduced(leaves, votes, function, x, ir)
    if function != "AVERAGE":
        return result
    assert isinstance(trees, int), leaves
    return ir.div(result, max(trees, 1))


def _reduced(leaves: Value, votes: Votes, function: str, x: Value, ir: Builder) -> Value:
    """Through a table of the weights of each leaf for all targets."""
    dtype = x.dtype.numpy
    voting, rows = np.unique(votes.nodes, return_inverse=True)
    absent = _absent(function, dtype)
    table = np.full((len(voting) + 1, votes.target_count), absent, dtype)
    if function in ("SUM", "AVERAGE"):
        np.add.at(table, (rows, votes.targets), votes.weights.astype(dtype))
    else:
        table[rows, votes.targets] = votes.weights
    row_of = _row_of_node(voting, leaves, votes, ir)
    total = ir.reduce(ir.gather(ir.constant(table), row_of, 0), REDUCE_KINDS[function], (1,))
    return total if function in ("SUM", "AVERAGE") else ir.select(ir.equal(total, float(absent)), 0, total)


def _row_of_node(voting: np.ndarray, leaves: Value, votes: Votes, ir: Builder) -> Value:
    """i64[N, R]: which row of a table of voting nodes each leaf has; the last is that of nodes without a vote."""
    size = int(votes.nodes.max(initial=-1)) + 2
    rows = np.full(size, len(voting), np.int64)
    rows[voting] = np.arange(len(voting))
    return ir.gather(ir.constant(rows), ir.min(leaves, size - 1), 0)


def _scattered(leaves: Value, votes: Votes, function: str, x: Value, ir: Builder) -> Value:
    """Where a leaf votes for one target only: its weight is added there."""
    dtype = x.dtype.numpy
    absent = _absent(function, dtype)
    row_of = _row_of_node(votes.nodes, leaves, votes, ir)
    targets = ir.gather(ir.constant(np.append(votes.targets, 0)), row_of, 0)
    weights = ir.gather(ir.constant(np.append(votes.weights, absent).astype(dtype)), row_of, 0)
    start = ir.full((leaves.shape[0], votes.target_count), float(absent), x.dtype)
    total = ir.scatter_along(start, targets, weights, 1, SCATTER_KINDS[function])
    return total if function in ("SUM", "AVERAGE") else ir.select(ir.equal(total, float(absent)), 0, total)


def _absent(function: str, dtype: "np.dtype[np.generic]") -> np.generic:
    """What a target has that no leaf votes for, until the end."""
    values: Mapping[str, float] = {"SUM": 0.0, "AVERAGE": 0.0, "MIN": np.inf, "MAX": -np.inf}
    return dtype.type(values[function])
