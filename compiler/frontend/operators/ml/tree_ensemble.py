"""TreeEnsemble: a forest with branches and leaves in tables of their own, and tests of membership."""

from dataclasses import replace
from math import isnan

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.forest import EQ, Forest, Votes, voted
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.score_transforms import TRANSFORMS, transformed_by
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import dtype_of
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

RULE = "ONNX TreeEnsemble"
FUNCTIONS = ("AVERAGE", "SUM", "MIN", "MAX")
MEMBER = 6
FIELDS = ("features", "thresholds", "modes", "nan_is_true", "when_true", "when_false")


@operator("TreeEnsemble", since=(5,), domain="ai.onnx.ml")
def tree_ensemble(node: Node, ir: Builder) -> Value:
    """X: T[N, F]  ->  T[N, n_targets], what the leaves give each target, transformed

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
    """
    given = node.input("X")
    if given.rank != 2:
        node.fail("features-rank", f"X is {given.type}, not of rank 2", rule=f"{RULE}, X")
    x = ir.cast(given, wide_type(given.dtype))
    weights, targets = node.tensor("leaf_weights").reshape(-1), np.array(node.ints("leaf_targetids"), np.int64)
    if weights.size != targets.size:
        message = f"leaf_weights has {weights.size} entries, leaf_targetids {targets.size}"
        node.fail("tree-votes", message, rule=f"{RULE}, leaf_*")
    forest = _read_forest(node)
    for name in ("nodes_splits", "leaf_weights"):
        dtype = dtype_of(node.tensor(name).dtype)
        if dtype != given.dtype:
            node.fail("tree-types", f"X is {given.dtype}, {name} is {dtype}", rule=f"{RULE}, {name}")
    count = node.int("n_targets", int(targets.max(initial=0)) + 1)
    if not ((targets >= 0) & (targets < count)).all():
        message = f"leaf_targetids is {node.ints('leaf_targetids')}, not all within [0, {count - 1}]"
        node.fail("tree-target", message, rule=f"{RULE}, leaf_targetids")
    # The leaves are the nodes after all branches.
    first_leaf = forest.features.size - weights.size
    votes = Votes(first_leaf + np.arange(weights.size), targets, weights.astype(np.float64), count)
    function = FUNCTIONS[_choice("aggregate_function", len(FUNCTIONS), node)]
    scores = voted(forest, votes, function, x, node, ir)
    transform = TRANSFORMS[_choice("post_transform", len(TRANSFORMS), node)]
    return ir.cast(transformed_by(transform, scores, ir), given.dtype)


def _choice(name: str, limit: int, node: Node) -> int:
    value = node.int(name)
    if not 0 <= value < limit:
        node.fail("attribute-range", f"{name} is {value}, outside [0, {limit - 1}]", rule=f"{RULE}, {name}")
    return value


def _read_forest(node: Node) -> Forest:
    """Branches, then what tests of membership need besides, then leaves."""
    modes, splits = (node.tensor(name).reshape(-1) for name in ("nodes_modes", "nodes_splits"))
    columns = [np.array(node.ints(f"nodes_{name}ids"), np.int64) for name in ("feature", "truenode", "falsenode")]
    features, *children = columns
    if modes.dtype != np.uint8:
        message = f"nodes_modes is {dtype_of(modes.dtype)}, not uint8"
        node.fail("tree-types", message, rule=f"{RULE}, nodes_modes")
    for name in ("nodes_trueleafs", "nodes_falseleafs"):
        if not set(node.ints(name)) <= {0, 1}:
            message = f"{name} is {list(node.ints(name))}, not all 0 or 1"
            node.fail("attribute-range", message, rule=f"{RULE}, {name}")
    are_leaves = [np.array(node.ints(f"nodes_{side}leafs")) != 0 for side in ("true", "false")]
    tracks = np.array(node.ints("nodes_missing_value_tracks_true", ()) or [0] * modes.size) != 0
    if {splits.size, features.size, tracks.size, *(column.size for column in (*children, *are_leaves))} != {modes.size}:
        node.fail("tree-nodes", "the attributes nodes_* differ in length", rule=f"{RULE}, nodes_*")
    roots = np.array(node.ints("tree_roots"), np.int64)
    if not ((roots >= 0) & (roots < modes.size)).all():
        message = f"tree_roots is {node.ints('tree_roots')}, there are {modes.size} nodes"
        node.fail("tree-root", message, rule=f"{RULE}, tree_roots")
    if modes.max(initial=0) > MEMBER:
        node.fail("tree-mode", f"nodes_modes has {modes.max()}, above {MEMBER}", rule=f"{RULE}, nodes_modes")
    members = _members(modes, node)
    # A test of k members is k tests of equality, of which k - 1 are new nodes.
    first_leaf = modes.size + sum(max(len(values) - 1, 0) for values in members.values())
    leaf_count = len(node.ints("leaf_targetids"))
    for side, are_leaf in enumerate(are_leaves):
        child = children[side]
        if not ((child >= 0) & (child < np.where(are_leaf, leaf_count, modes.size))).all():
            node.fail("tree-child", "a node names a child that is not there", rule=f"{RULE}, nodes_*nodeids")
        children[side] = np.where(are_leaf, first_leaf + child, child)
    rows = [_Row(*row) for row in zip(features, splits, modes, tracks, *children, strict=True)]
    for ordinal, values in members.items():
        rows += _chained(rows, ordinal, values)
    rows += [_Row(0, 0.0, 0, False, leaf, leaf) for leaf in range(first_leaf, first_leaf + leaf_count)]
    table = {field: np.array([getattr(row, field) for row in rows]) for field in FIELDS}
    return Forest(**table, roots=roots)


@record
class _Row:
    """One node: its entries in the tables of a forest."""

    features: int
    thresholds: float
    modes: int
    nan_is_true: bool
    when_true: int
    when_false: int


def _members(modes: np.ndarray, node: Node) -> dict[int, list[float]]:
    """The values that each test of membership compares with, by the ordinal of its node."""
    tests = np.flatnonzero(modes == MEMBER).tolist()
    values = node.tensor("membership_values") if node.has("membership_values") else np.empty(0)
    sets: list[list[float]] = [[]]
    for value in values.reshape(-1).astype(np.float64).tolist():
        if isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    given = sets[:-1] if not sets[-1] else sets
    if len(given) != len(tests):
        message = f"{len(tests)} tests of membership have {len(given)} sets of values"
        node.fail("tree-members", message, rule=f"{RULE}, membership_values")
    return dict(zip(tests, given, strict=True))


def _chained(rows: list[_Row], ordinal: int, values: list[float]) -> list[_Row]:
    """Turns a test of membership into one of equality with the first value; the nodes for the other values."""
    test, first_new = rows[ordinal], len(rows)
    # Nothing equals NaN: the test of no values.
    compared = values or [float("nan")]
    falls_to = [*range(first_new, first_new + len(compared) - 1), test.when_false]
    chain = [
        replace(test, thresholds=value, modes=EQ, when_false=target)
        for value, target in zip(compared, falls_to, strict=True)
    ]
    rows[ordinal] = chain[0]
    return chain[1:]
