"""TreeEnsembleRegressor and TreeEnsembleClassifier: forests whose nodes are rows of parallel attributes.

What the text leaves open is as ONNX Runtime has it: one score for two classes is that of the second; of several
weights that a leaf has where there is one target in all, the first counts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.forest import Forest, Votes, voted
from onnxc.compiler.frontend.operator_helpers.score_transforms import class_labels, labelled, transformed
from onnxc.compiler.frontend.operators.ml.linear_models import rows_of_features
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value

ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FUNCTIONS = ("SUM", "AVERAGE", "MIN", "MAX")


@operator("TreeEnsembleRegressor", since=(1, 3, 5), domain=ML)
def tree_ensemble_regressor(node: Node, ir: Builder) -> Value:
    """X: T[N, F]  ->  f32[N, n_targets], what the leaves give each target, plus base_values, transformed

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleRegressor.html
    """
    x = rows_of_features(node, ir)
    count = node.int("n_targets", 1)
    if count < 1:
        node.fail("attribute-range", f"n_targets is {count}, below 1", rule="ONNX TreeEnsembleRegressor, n_targets")
    forest, votes = _read_ensemble("target", count, node)
    scores = voted(forest, votes, node.choice("aggregate_function", FUNCTIONS), x, node, ir)
    return ir.cast(transformed(_with_base(scores, node, ir), node, ir), F32)


@operator("TreeEnsembleClassifier", since=(1, 3, 5), domain=ML)
def tree_ensemble_classifier(node: Node, ir: Builder) -> tuple[Value, Value]:
    """X: T[N, F]  ->  Y: i64[N] or string[N], the class of the best score, and Z: f32[N, E]

    Where leaves vote for one of two classes only, the second wins above 0.5 if no weight is negative, else above 0. Its
    score s has beside it 1 - s or -s; -s before LOGISTIC; 0, where it is the second class that is voted for. A class
    that no leaf has voted for does not win. So ONNX Runtime has it, with which converters test their models.
    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html
    """
    x, labels = rows_of_features(node, ir), class_labels(node, "classlabels_int64s")
    forest, votes = _read_ensemble("class", labels.size, node)
    scores = voted(forest, votes, "SUM", x, node, ir)
    if labels.size == 2 and len(set(node.ints("class_ids"))) == 1:
        return _of_one_score(scores, labels, node, ir)
    scores = _with_base(scores, node, ir)
    if votes.weights.min(initial=0) < 0 and not _all_are_voted_for(forest, votes, node):
        # No votes do not beat votes against all others.
        ones = replace(votes, weights=np.ones(len(votes.nodes)))
        counts = voted(forest, ones, "SUM", x, node, ir)
        best = ir.arg_reduce(ir.select(ir.less(0, counts), scores, float("-inf")), "max", 1)
    else:
        best = ir.arg_reduce(scores, "max", 1)
    return labelled(best, labels, ir), ir.cast(transformed(scores, node, ir), F32)


def _all_are_voted_for(forest: Forest, votes: Votes, node: Node) -> bool:
    """Whether for each class there is a tree of which all leaves vote for it: then every row has its votes."""
    _, trees = np.unique(node.ints("nodes_treeids"), return_inverse=True)
    leaves = np.bincount(trees[forest.is_leaf], minlength=forest.roots.size)
    voting, targets = np.unique(np.stack([votes.nodes, votes.targets]), axis=1)
    counts = np.zeros((forest.roots.size, votes.target_count), np.int64)
    np.add.at(counts, (trees[voting], targets), forest.is_leaf[voting])
    return bool((counts == leaves[:, None]).any(0).all())


def _of_one_score(scores: Value, labels: np.ndarray, node: Node, ir: Builder) -> tuple[Value, Value]:
    """The label and the scores of two classes of which one is voted for; probabilities where no vote is negative."""
    (voted,) = set(node.ints("class_ids"))
    is_probability = min(_floats("class_weights", node), default=0.0) >= 0
    score = ir.slice_axis(scores, 1, voted, 1)
    base = _floats("base_values", node)
    if base and (voted == 0 or len(base) > 1):
        score = ir.add(score, base[-1])
    wins = ir.squeeze(ir.greater(score, 0.5 if is_probability else 0.0), (1,))
    label = labelled(ir.cast(wins, I64), labels, ir)
    if voted == 1:
        both = ir.concatenate([ir.full(score.shape, 0, score.dtype), score], 1)
        return label, ir.cast(transformed(both, node, ir), F32)
    if node.string("post_transform") == "LOGISTIC":
        both = ir.concatenate([ir.sigmoid(ir.neg(score)), ir.sigmoid(score)], 1)
        return label, ir.cast(both, F32)
    score = transformed(score, node, ir)
    other = ir.sub(1, score) if is_probability else ir.neg(score)
    return label, ir.cast(ir.concatenate([other, score], 1), F32)


def _read_ensemble(kind: str, count: int, node: Node) -> tuple[Forest, Votes]:
    """The nodes, and the votes, which the attributes `kind`_* hold."""
    forest, ordinals = _read_forest(node)
    trees, ids = node.ints(f"{kind}_treeids"), node.ints(f"{kind}_nodeids")
    voting = list(zip(trees, ids, strict=False))
    unknown = [key for key in voting if key not in ordinals]
    targets, weights = np.array(node.ints(f"{kind}_ids"), np.int64), np.array(_floats(f"{kind}_weights", node))
    lengths = {f"{kind}_treeids": len(trees), f"{kind}_nodeids": len(ids), f"{kind}_ids": targets.size}
    lengths[f"{kind}_weights"] = weights.size
    if len(set(lengths.values())) > 1:
        message = f"the attributes {kind}_* differ in length: {_listed(lengths)}"
        node.fail("tree-votes", message, rule=f"ONNX {node.operator}, {kind}_*")
    if unknown:
        message = f"a vote is of a node that is not there: {unknown[0][1]} of tree {unknown[0][0]}"
        node.fail("tree-votes", message, rule=f"ONNX {node.operator}, {kind}_*")
    if not ((targets >= 0) & (targets < count)).all():
        message = f"{kind}_ids names a target outside [0, {count - 1}]"
        node.fail("tree-target", message, rule=f"ONNX {node.operator}, {kind}_ids")
    nodes = np.array([ordinals[key] for key in voting], np.int64)
    # skl2onnx writes the leaf that a row falls into as a score, with one such weight for each class.
    counted = np.sort(np.unique(nodes, return_index=True)[1]) if count == 1 else slice(None)
    return forest, Votes(nodes[counted], targets[counted], weights[counted], count)


def _with_base(scores: Value, node: Node, ir: Builder) -> Value:
    base = np.array(_floats("base_values", node))
    if not base.size:
        return scores
    if base.size not in (1, scores.shape[1]):
        message = f"there are {base.size} base values for {scores.shape[1]} targets"
        node.fail("tree-base", message, rule=f"ONNX {node.operator}, base_values")
    return ir.add(scores, ir.constant(base.astype(scores.dtype.numpy)))


def _listed(lengths: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {length}" for name, length in lengths.items())


def _floats(name: str, node: Node) -> tuple[float, ...]:
    """An attribute that may be given as a list or as a tensor."""
    if node.has(f"{name}_as_tensor"):
        if node.floats(name, ()):
            message = f"both {name} and {name}_as_tensor are given"
            node.fail("tree-values-twice", message, rule=f"ONNX {node.operator}, {name}")
        return tuple(node.tensor(f"{name}_as_tensor").reshape(-1).astype(np.float64).tolist())
    return node.floats(name, ())


def _read_forest(node: Node) -> tuple[Forest, dict[tuple[int, int], int]]:
    """The forest, and the ordinal of each node by its tree and its own id."""
    trees, ids = node.ints("nodes_treeids"), node.ints("nodes_nodeids")
    keys = list(zip(trees, ids, strict=False))
    ordinals = {key: ordinal for ordinal, key in enumerate(keys)}
    modes = node.strings("nodes_modes")
    columns = {name: node.ints(f"nodes_{name}") for name in ("featureids", "truenodeids", "falsenodeids")}
    thresholds = np.array(_floats("nodes_values", node))
    tracks = node.ints("nodes_missing_value_tracks_true", ()) or (0,) * len(keys)
    lengths = {"treeids": len(trees), "nodeids": len(ids), "modes": len(modes), "values": thresholds.size}
    lengths |= {name: len(column) for name, column in columns.items()} | {"missing_value_tracks_true": len(tracks)}
    if len(set(lengths.values())) > 1:
        message = f"the attributes nodes_* differ in length: {_listed(lengths)}"
        node.fail("tree-nodes", message, rule=f"ONNX {node.operator}, nodes_*")
    if len(ordinals) != len(keys):
        (tree, id), _ = Counter(keys).most_common(1)[0]
        node.fail("tree-nodes", f"node {id} of tree {tree} is there twice", rule=f"ONNX {node.operator}, nodes_nodeids")
    for mode in modes:
        if mode not in (*MODES, "LEAF"):
            message = f"mode {mode!r} is none of {', '.join(MODES)} and LEAF"
            node.fail("tree-mode", message, rule=f"ONNX {node.operator}, nodes_modes")
    own = np.arange(len(keys))
    is_leaf = np.array([mode not in MODES for mode in modes])
    children = []
    for name in ("truenodeids", "falsenodeids"):
        child = [ordinals.get((tree, id), -1) for (tree, _), id in zip(keys, columns[name], strict=True)]
        children.append(np.where(is_leaf, own, child))
    if min(map(np.min, children), default=0) < 0:
        message = "a node names a child that is not there"
        node.fail("tree-child", message, rule=f"ONNX {node.operator}, nodes_truenodeids")
    called = set(np.concatenate([child[~is_leaf] for child in children]).tolist())
    forest = Forest(
        features=np.where(is_leaf, 0, columns["featureids"]),
        thresholds=thresholds,
        modes=np.array([MODES.index(mode) if mode in MODES else 0 for mode in modes], np.int64),
        nan_is_true=np.array(tracks) != 0,
        when_true=children[0],
        when_false=children[1],
        roots=_roots(keys, called, is_leaf, node),
    )
    return forest, ordinals


def _roots(keys: Sequence[tuple[int, int]], called: Set[int], is_leaf: np.ndarray, node: Node) -> np.ndarray:
    """The ordinal of the node of each tree that no other leads to: its first, or else the only branch."""
    trees: dict[int, list[int]] = {}
    for ordinal, (tree, _) in enumerate(keys):
        trees.setdefault(tree, []).append(ordinal)
    roots = []
    for tree, own in trees.items():
        free = [ordinal for ordinal in own if ordinal not in called and not is_leaf[ordinal]]
        candidates = free if own[0] in called else own[:1]
        if len(candidates) != 1:
            message = f"of the branches of tree {tree} {len(candidates)} may be its root"
            node.fail("tree-root", message, rule=f"ONNX {node.operator}, nodes_treeids")
        roots += candidates
    return np.array(roots, np.int64)
