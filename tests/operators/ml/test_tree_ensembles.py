"""Tree ensembles against walking down each tree for each row."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from onnx import ValueInfoProto, helper, numpy_helper

import onnxc
from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from tests.operators.host_models import ML, TARGETS, run_ml
from tests.support.arrays import assert_close, assert_same

MODES = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
X = np.round(np.random.default_rng(3).standard_normal((12, 3)), 1).astype(np.float32)
WITH_NAN = np.where(np.arange(36).reshape(12, 3) % 5 == 0, np.float32(np.nan), X)
FUNCTIONS = {"SUM": np.sum, "AVERAGE": np.sum, "MIN": np.min, "MAX": np.max}


@dataclass
class Trees:
    """Random trees as attributes, and as nested tuples (feature, value, mode, nan_is_true, when true, when false)."""

    targets: int
    every_target: bool
    modes: Sequence[str]
    random: np.random.Generator
    nodes: dict[str, list[object]] = field(default_factory=dict)
    votes: list[tuple[int, int, int, float]] = field(default_factory=list)

    def grow(self, count: int, depth: int) -> list[object]:
        names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
        self.nodes = {f"nodes_{name}": [] for name in (*names, "missing_value_tracks_true")}
        return [self._node(tree, [0], depth) for tree in range(count)]

    def _node(self, tree: int, taken: list[int], depth: int) -> object:
        own, place = taken[0], len(self.nodes["nodes_treeids"])
        taken[0] += 1
        for column, value in zip(self.nodes.values(), (tree, own, 0, 0.0, "LEAF", 0, 0, 0), strict=True):
            column.append(value)
        if depth == 0 or self.random.random() < 0.2:
            chosen = range(self.targets) if self.every_target else [int(self.random.integers(self.targets))]
            weights = {target: float(np.float32(self.random.standard_normal())) for target in chosen}
            self.votes += [(tree, own, target, weight) for target, weight in weights.items()]
            return weights
        feature, value = int(self.random.integers(3)), float(np.float32(np.round(self.random.standard_normal(), 1)))
        mode, tracks = str(self.random.choice(list(self.modes))), int(self.random.integers(2))
        below = self._node(tree, taken, depth - 1)
        second = taken[0]
        above = self._node(tree, taken, depth - 1)
        filled = {"featureids": feature, "values": value, "modes": mode, "truenodeids": own + 1, "falsenodeids": second}
        for name, item in (filled | {"missing_value_tracks_true": tracks}).items():
            self.nodes[f"nodes_{name}"][place] = item
        return feature, value, mode, tracks, below, above

    def attributes(self, kind: str) -> dict[str, object]:
        names = ("treeids", "nodeids", "ids", "weights")
        columns = {f"{kind}_{name}": [vote[place] for vote in self.votes] for place, name in enumerate(names)}
        return {**self.nodes, **columns}


def leaf_of(tree: object, row: np.ndarray) -> dict[int, float]:
    while isinstance(tree, tuple):
        feature, value, mode, tracks, below, above = tree
        holds = tracks if np.isnan(row[feature]) else MODES[mode](row[feature], np.float32(value))
        tree = below if holds else above
    assert isinstance(tree, dict)
    return tree


def aggregated(trees: Sequence[object], x: np.ndarray, targets: int, function: str) -> np.ndarray:
    scores = np.zeros((len(x), targets))
    for place, row in enumerate(x):
        leaves = [leaf_of(tree, row) for tree in trees]
        for target in range(targets):
            given = [leaf[target] for leaf in leaves if target in leaf]
            scores[place, target] = FUNCTIONS[function](given) if given else 0
    return scores / len(trees) if function == "AVERAGE" else scores


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("targets", "every_target"), [(1, True), (3, True), (3, False)])
@pytest.mark.parametrize("modes", [("BRANCH_LEQ",), tuple(MODES)])
@pytest.mark.parametrize("x", [X, WITH_NAN], ids=["numbers", "nan"])
def test_regressor(function: str, targets: int, every_target: bool, modes: Sequence[str], x: np.ndarray) -> None:
    trees = Trees(targets, every_target, modes, np.random.default_rng(0))
    grown = trees.grow(4, 3)
    attributes = {**trees.attributes("target"), "n_targets": targets, "aggregate_function": function}
    expected = aggregated(grown, x, targets, function).astype(np.float32)
    for symbolic in (False, True):
        assert_close(*run_ml("TreeEnsembleRegressor", {"X": x}, symbolic=symbolic, **attributes), expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("version", "dtype"), [(1, np.float32), (3, np.float64), (3, np.int64), (5, np.float32)])
def test_base_values_and_element_types(target: str, version: int, dtype: type[np.generic]) -> None:
    trees = Trees(2, True, ("BRANCH_LEQ",), np.random.default_rng(1))
    grown = trees.grow(3, 2)
    x = (X * 2).astype(dtype)
    attributes = {**trees.attributes("target"), "n_targets": 2, "base_values": [0.5, -1.0]}
    expected = (aggregated(grown, x, 2, "SUM") + np.array([0.5, -1])).astype(np.float32)
    assert_close(*run_ml("TreeEnsembleRegressor", {"X": x}, version=version, target=target, **attributes), expected)


def test_values_may_come_as_tensors() -> None:
    trees = Trees(1, True, ("BRANCH_LEQ",), np.random.default_rng(1))
    grown = trees.grow(3, 2)
    attributes = trees.attributes("target")
    for name in ("nodes_values", "target_weights"):
        attributes[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(attributes.pop(name), np.float64))
    expected = aggregated(grown, X, 1, "SUM").astype(np.float32)
    assert_close(*run_ml("TreeEnsembleRegressor", {"X": X.astype(np.float64)}, version=3, **attributes), expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("every_target", [True, False])
@pytest.mark.parametrize("labels", [[7, 8, 9], ["a", "b", "c"]])
def test_classifier(target: str, every_target: bool, labels: list[int] | list[str]) -> None:
    trees = Trees(3, every_target, ("BRANCH_LEQ", "BRANCH_GT"), np.random.default_rng(2))
    grown = trees.grow(5, 3)
    key = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
    attributes = {**trees.attributes("class"), key: labels}
    y, z = run_ml("TreeEnsembleClassifier", {"X": X}, outputs=2, target=target, **attributes)
    scores = aggregated(grown, X, 3, "SUM")
    assert_close(z, scores.astype(np.float32))
    has_votes = np.array([[any(c in leaf_of(tree, row) for tree in grown) for c in range(3)] for row in X])
    best = np.where(has_votes, scores, -np.inf).argmax(1)
    assert_same(y, np.array(labels, object if key.endswith("strings") else np.int64)[best])


STUMP = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.0, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "class_treeids": [0, 0],
    "class_nodeids": [1, 2],
    "class_ids": [0, 0],
    "classlabels_int64s": [5, 6],
}


@pytest.mark.parametrize(
    ("weights", "transform", "labels", "scores"),
    [
        ([0.25, 0.75], "NONE", [5, 6], [[0.75, 0.25], [0.25, 0.75]]),
        ([-1.0, 2.0], "NONE", [5, 6], [[1, -1], [-2, 2]]),
        ([-1.0, 2.0], "LOGISTIC", [5, 6], [[1 / (1 + np.exp(-1)), 1 / (1 + np.e)], [0.11920292, 0.88079708]]),
    ],
)
def test_one_score_for_two_classes(weights: list[float], transform: str, labels: list[int], scores: object) -> None:
    x = np.array([[-1], [1]], np.float32)
    y, z = run_ml(
        "TreeEnsembleClassifier", {"X": x}, outputs=2, class_weights=weights, post_transform=transform, **STUMP
    )
    assert_same(y, np.array(labels))
    assert_close(z, np.array(scores, np.float32))


@pytest.mark.parametrize(
    ("voted", "base", "labels", "scores"),
    [
        (1, [0.375], [5, 6], [[0, 0.25], [0, 0.75]]),
        (0, [0.375], [6, 6], [[0.375, 0.625], [-0.125, 1.125]]),
        (0, [0.125, -0.75], [5, 5], [[1.5, -0.5], [1, 0]]),
        (1, [0.125, -0.75], [5, 5], [[0, -0.5], [0, 0]]),
    ],
)
def test_the_last_base_value_is_that_of_one_score(
    voted: int, base: list[float], labels: list[int], scores: object
) -> None:
    """As ONNX Runtime has it: one base value is not added where the second class is voted for."""
    attributes = {**STUMP, "class_ids": [voted] * 2, "class_weights": [0.25, 0.75], "base_values": base}
    y, z = run_ml("TreeEnsembleClassifier", {"X": np.array([[-1], [1]], np.float32)}, outputs=2, **attributes)
    assert_same(y, np.array(labels))
    assert_close(z, np.array(scores, np.float32))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("targets", "counted"), [(1, [[0.3], [0.1]]), (2, None)])
def test_of_several_weights_for_the_only_target_the_first_counts(
    function: str, targets: int, counted: list[list[float]] | None
) -> None:
    """As ONNX Runtime has it, and as skl2onnx writes the leaf that a row falls into; of two targets all count."""
    nodes = {name: values for name, values in STUMP.items() if name.startswith("nodes_")}
    names = {"target_treeids": [0] * 6, "target_nodeids": [1, 2] * 3, "target_ids": [0] * 6, "n_targets": targets}
    weights = [0.3, 0.1, 0.2, 0.25, 0.4, 0.5]
    y = run_ml(
        "TreeEnsembleRegressor",
        {"X": np.array([[-1], [1]], np.float32)},
        **nodes,
        **names,
        target_weights=weights,
        aggregate_function=function,
    )[0]
    every = FUNCTIONS[function](np.array(weights).reshape(3, 2), axis=0)
    assert_close(y, np.array(counted or [[score, 0] for score in every], np.float32))


def test_the_only_class_has_the_first_weight_of_a_leaf() -> None:
    votes = {"class_treeids": [0] * 4, "class_nodeids": [1, 2, 1, 2], "class_ids": [0] * 4, "classlabels_int64s": [5]}
    attributes = {**STUMP, **votes, "class_weights": [0.25, 0.75, 0.5, 0.125]}
    y, z = run_ml("TreeEnsembleClassifier", {"X": np.array([[-1], [1]], np.float32)}, outputs=2, **attributes)
    assert_same(y, np.array([5, 5]))
    assert_close(z, np.array([[0.25], [0.75]], np.float32))


def test_no_rows_and_a_tree_that_is_a_leaf() -> None:
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    leaf = {**{f"nodes_{name}": [0] for name in names}, "nodes_values": [0.0], "nodes_modes": ["LEAF"]}
    votes = {"target_treeids": [0], "target_nodeids": [0], "target_ids": [0], "target_weights": [2.5]}
    assert_same(*run_ml("TreeEnsembleRegressor", {"X": X[:2]}, **leaf, **votes), np.full((2, 1), 2.5, np.float32))
    assert_same(*run_ml("TreeEnsembleRegressor", {"X": X[:0]}, **leaf, **votes), np.zeros((0, 1), np.float32))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "0 may be its root"),
        ({"nodes_truenodeids": [7, 0, 0]}, "a child that is not there"),
        ({"nodes_values": [0.0]}, "differ in length"),
        ({"class_nodeids": [1, 9]}, "a node that is not there"),
        ({"class_ids": [0, -1]}, "outside"),
    ],
)
def test_trees_that_are_none_are_refused(change: dict[str, object], reason: str) -> None:
    attributes = {**STUMP, "class_weights": [1.0, 2.0], **change}
    with pytest.raises(DiagnosedModelError, match=reason):
        run_ml("TreeEnsembleClassifier", {"X": X[:, :1]}, outputs=2, **attributes)


# TreeEnsemble


def ensemble(x: np.ndarray, target: str = "interpreter", **change: object) -> object:
    """x0 in {1, 3} ? 10 : (x1 >= 0.5 ? 20 for target 1 : 30)"""
    dtype = x.dtype
    attributes: dict[str, object] = {
        "n_targets": 2,
        "tree_roots": [0],
        "nodes_modes": numpy_helper.from_array(np.array([6, 2], np.uint8)),
        "nodes_splits": numpy_helper.from_array(np.array([0, 0.5], dtype)),
        "membership_values": numpy_helper.from_array(np.array([1, 3, np.nan], dtype)),
        "nodes_featureids": [0, 1],
        "nodes_truenodeids": [0, 1],
        "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [0, 1],
        "leaf_targetids": [0, 1, 0],
        "leaf_weights": numpy_helper.from_array(np.array([10, 20, 30], dtype)),
        **change,
    }
    return run_ml("TreeEnsemble", {"X": x}, version=5, target=target, **attributes)[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_membership(target: str, dtype: type[np.generic]) -> None:
    x = np.array([[1, 0], [3, 1], [2, 0.5], [0, 0], [np.nan, 1]], dtype)
    expected = np.array([[10, 0], [10, 0], [0, 20], [30, 0], [0, 20]], dtype)
    assert_same(ensemble(x, target), expected)


def test_missing_values_may_go_the_true_way() -> None:
    x = np.array([[np.nan, 0], [0, np.nan]], np.float32)
    expected = np.array([[10, 0], [0, 20]], np.float32)
    assert_same(ensemble(x, nodes_missing_value_tracks_true=[1, 1]), expected)


def test_a_set_for_each_test_of_membership() -> None:
    sets = numpy_helper.from_array(np.array([1, np.nan, 2, np.nan], np.float32))
    with pytest.raises(DiagnosedModelError, match="1 tests of membership have 2 sets"):
        ensemble(X, membership_values=sets)


# What they become


def ops(operator: str, columns: int | str, **attributes: object) -> list[str]:
    outputs = ["y", "z"][: 2 if "Classifier" in operator else 1]
    node = helper.make_node(operator, ["x"], outputs, domain=ML, **attributes)
    x = helper.make_tensor_value_info("x", 1, ["N", columns])
    graph = helper.make_graph([node], "main", [x], [ValueInfoProto(name=name) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(ML, 1), helper.make_opsetid("", 21)])
    return [op.name for op in lower_model(check_model(read_model(model))).main.body.ops]


def test_an_ensemble_is_one_op() -> None:
    trees = Trees(2, True, ("BRANCH_LEQ",), np.random.default_rng(1))
    trees.grow(3, 2)
    names = ops("TreeEnsembleRegressor", 3, **trees.attributes("target"), n_targets=2)
    assert names == ["constant", "constant", "constant", "tree_ensemble"]


ALL_VOTE = {"class_treeids": [0] * 4, "class_nodeids": [1, 2, 1, 2], "class_ids": [0, 0, 1, 1]}
EACH_VOTES_FOR_ONE = {"class_treeids": [0] * 2, "class_nodeids": [1, 2], "class_ids": [0, 1]}


@pytest.mark.parametrize(("votes", "count"), [(ALL_VOTE, 1), (EACH_VOTES_FOR_ONE, 2)])
def test_votes_are_counted_only_where_a_class_may_get_none(votes: dict[str, list[int]], count: int) -> None:
    attributes = {**STUMP, **votes, "class_weights": [-1.0, -2.0, -3.0, -0.5][: len(votes["class_ids"])]}
    assert ops("TreeEnsembleClassifier", 1, **attributes).count("tree_ensemble") == count


@pytest.mark.parametrize("target", TARGETS)
def test_features_that_a_call_does_not_have_are_refused(target: str) -> None:
    attributes = {**STUMP, "nodes_featureids": [2, 0, 0], "class_weights": [1.0, 2.0]}
    x = np.array([[0, 0, -1, 7], [0, 0, 1, 7]], np.float32)
    y, _ = run_ml("TreeEnsembleClassifier", {"X": x}, outputs=2, symbolic=True, target=target, **attributes)
    # 1 and 2 for the first class, above 0.5.
    assert_same(y, np.array([6, 6]))
    with pytest.raises(onnxc.InputError, match="looks at feature 2"):
        run_ml("TreeEnsembleClassifier", {"X": x[:, :2]}, outputs=2, symbolic=True, target=target, **attributes)


def test_features_that_a_word_cannot_name_are_refused() -> None:
    attributes = {**STUMP, "class_weights": [1.0, 2.0]}
    assert "tree_ensemble" in ops(
        "TreeEnsembleClassifier", "F", **{**attributes, "nodes_featureids": [2**26 - 1, 0, 0]}
    )
    with pytest.raises(onnxc.UnsupportedError, match="feature 67108864"):
        ops("TreeEnsembleClassifier", "F", **{**attributes, "nodes_featureids": [2**26, 0, 0]})
