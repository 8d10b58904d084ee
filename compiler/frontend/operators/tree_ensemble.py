"""TreeEnsemble: a forest with branches and leaves in tables of their own, and tests of membership."""

import numpy as np

from compiler.frontend.operator import Node, operator
from compiler.frontend.operators.forest import EQ, Forest, Votes, aggregated, reached_leaves
from compiler.frontend.operators.precision import wide_type
from compiler.frontend.operators.score_transforms import TRANSFORMS, transformed_by
from compiler.ir.builder import Builder
from compiler.ir.module import Value

RULE = "ONNX TreeEnsemble"
FUNCTIONS = ("AVERAGE", "SUM", "MIN", "MAX")
MEMBER = 6


@operator("TreeEnsemble", since=(5,), domain="ai.onnx.ml")
def tree_ensemble(node: Node, ir: Builder) -> Value:
    """X: T[N, F]  ->  T[N, n_targets], what the leaves give each target, transformed

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
    """
    given = node.input("X")
    if given.rank != 2:
        node.fail("rank-mismatch", f"X is {given.type}, not of rank 2", rule=f"{RULE}, X")
    x = ir.cast(given, wide_type(given.dtype))
    forest = _read_forest(node)
    weights, targets = node.tensor("leaf_weights").reshape(-1), np.array(node.ints("leaf_targetids"), np.int64)
    count = node.int("n_targets", int(targets.max(initial=0)) + 1)
    if weights.size != targets.size or not ((targets >= 0) & (targets < count)).all():
        message = f"{weights.size} leaves have {targets.size} targets within [0, {count - 1}]"
        node.fail("attribute-value", message, rule=f"{RULE}, leaf_*")
    # The leaves are the nodes after all branches.
    first_leaf = forest.features.size - weights.size
    votes = Votes(first_leaf + np.arange(weights.size), targets, weights.astype(np.float64), count)
    function = FUNCTIONS[_number("aggregate_function", len(FUNCTIONS), node)]
    scores = aggregated(reached_leaves(forest, x, node, ir), votes, function, x, ir)
    transform = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[_number("post_transform", 5, node)]
    return ir.cast(transformed_by(transform, scores, ir), given.dtype)


def _number(name: str, limit: int, node: Node) -> int:
    value = node.int(name)
    if not 0 <= value < limit:
        node.fail("attribute-value", f"{name} is {value}, outside [0, {limit - 1}]", rule=f"{RULE}, {name}")
    return value


def _read_forest(node: Node) -> Forest:
    """Branches, then the chains that tests of membership become, then leaves."""
    modes, splits = (node.tensor(name).reshape(-1) for name in ("nodes_modes", "nodes_splits"))
    columns = [np.array(node.ints(f"nodes_{name}"), np.int64) for name in ("featureids", "truenodeids", "falsenodeids")]
    is_leaf = [np.array(node.ints(f"nodes_{side}leafs")) != 0 for side in ("true", "false")]
    count, leaf_count = modes.size, len(node.ints("leaf_targetids"))
    tracks = np.array(node.ints("nodes_missing_value_tracks_true", ()) or [0] * count) != 0
    if {splits.size, tracks.size, *(column.size for column in (*columns, *is_leaf))} != {count}:
        node.fail("attribute-value", "the attributes nodes_* differ in length", rule=f"{RULE}, nodes_*")
    members = _members(modes, node)
    # A test of k members is k tests of equality: k - 1 of them are new.
    added = sum(max(len(values) - 1, 0) for values in members.values())
    children = []
    for column, leaf in zip(columns[1:], is_leaf, strict=True):
        limits = np.where(leaf, leaf_count, count)
        if not ((column >= 0) & (column < limits)).all():
            node.fail("attribute-value", "a node names a child that is not there", rule=f"{RULE}, nodes_*nodeids")
        children.append(np.where(leaf, count + added + column, column))
    rows = _Rows(columns[0], splits.astype(np.float64), modes.astype(np.int64), tracks, *children)
    rows = _with_chains(rows, members)
    leaves = count + added + np.arange(leaf_count)
    zeros = np.zeros(leaf_count)
    return Forest(
        np.append(rows[0], zeros.astype(np.int64)),
        np.append(rows[1], zeros),
        np.append(rows[2], zeros.astype(np.int64)),
        np.append(rows[3], zeros != 0),
        np.append(rows[4], leaves),
        np.append(rows[5], leaves),
        np.array(node.ints("tree_roots"), np.int64),
    )
