"""Pipelines of ai.onnx.ml over rows of three features."""

from tests.whole_programs.forms import flat, part, unsqueeze
from tests.whole_programs.scope import Piece, Scope

ML = "ai.onnx.ml"


def features(scope: Scope) -> str:
    """f32[rows, 3] of a vector."""
    x = scope.pick(("float",))
    column = unsqueeze(scope, x, [1])
    doubled = scope.node("Mul", column, scope.floats(2))
    return scope.node("Concat", column, doubled, scope.node("Neg", column), axis=1)


def scaled(scope: Scope) -> None:
    rows = scope.node("Scaler", features(scope), domain=ML, offset=[1.0, 0.0, -1.0], scale=[1.0, 2.0, 0.5])
    scope.add(scope.node("Binarizer", rows, domain=ML, threshold=1.0), "float", 2)


def imputed(scope: Scope) -> None:
    rows = scope.node(
        "Imputer", features(scope), domain=ML, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=0.0
    )
    scope.add(scope.node("ArrayFeatureExtractor", rows, scope.constant([2, 0]), domain=ML), "float", 2)


def linear(scope: Scope) -> None:
    labels, scores = scope.several(
        "LinearClassifier",
        2,
        features(scope),
        domain=ML,
        classlabels_ints=[3, 5, 9],
        coefficients=[1.0, 0.0, 1.0, 0.0, 1.0, 2.0, -1.0, 1.0, 0.5],
        intercepts=[0.25, 0.5, 0.0],
        multi_class=1,
        post_transform=scope.choose(["NONE", "NONE", "LOGISTIC", "SOFTMAX"]),
    )
    scope.add(labels, "int64", 1)
    scope.add(scores, "float", 2, exact=False)


def tree(scope: Scope) -> None:
    name = scope.node(
        "TreeEnsembleRegressor",
        features(scope),
        domain=ML,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[scope.integer(0, 2), 0, 0],
        nodes_values=[1.0, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[3.0, -2.0],
        n_targets=1,
    )
    scope.add(flat(scope, name), "float", 1)


def encoded(scope: Scope) -> None:
    x = scope.pick(("int64",))
    made = scope.node("OneHotEncoder", x, domain=ML, cats_int64s=[0, 1, 2], zeros=1)
    scope.add(part(scope, made, 0, 9), "float", 2)


PIECES = (
    Piece("scaled", scaled),
    Piece("imputed", imputed),
    Piece("linear", linear),
    Piece("tree", tree),
    Piece("encoded", encoded),
)
