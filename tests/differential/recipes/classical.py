"""ai.onnx.ml: encoders, scalers, linear models, support vectors and trees."""

from collections.abc import Sequence

import numpy as np
from onnx import numpy_helper

from tests.differential.draw import Draw, Parameter, Parts
from tests.differential.kinds import NAMES, dtype_of
from tests.differential.recipes.registry import recipe

ML = "ai.onnx.ml"
POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
WORDS = ("a", "b", "c", "dd", "")


def matrix(d: Draw, width: int, constraint: str = "T") -> np.ndarray:
    return d.tensor(constraint, (d.int(1, 4), width), -3, 3)


def floats(d: Draw, count: int, low: float = -2, high: float = 2) -> list[float]:
    return [d.real(low, high) for _ in range(count)]


@recipe("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(d: Draw) -> Parts:
    shape = d.shape(1, 3, empty=False)
    return Parts([d.tensor("T", shape), Parameter(d.tensor("int64", (d.int(1, 4),), 0, shape[-1] - 1))])


@recipe("Binarizer", domain=ML)
def binarizer(d: Draw) -> Parts:
    return Parts([d.tensor("T", d.shape(1, 3), -3, 3)], d.attributes(threshold=d.real(-1, 1)))


@recipe("Scaler", domain=ML)
def scaler(d: Draw) -> Parts:
    width = d.int(1, 4)
    count = width if d.flag(0.7) else 1
    return Parts([matrix(d, width)], {"offset": floats(d, count), "scale": floats(d, count)})


@recipe("Normalizer", domain=ML)
def normalizer(d: Draw) -> Parts:
    return Parts([matrix(d, d.int(1, 4))], d.attributes(norm=d.pick(["MAX", "L1", "L2"])), accumulates=True)


@recipe("Imputer", domain=ML)
def imputer(d: Draw) -> Parts:
    width = d.int(1, 4)
    x = matrix(d, width)
    count = d.pick([1, width])
    if x.dtype.kind == "i":
        return Parts(
            [x], {"imputed_value_int64s": [d.int(-5, 5) for _ in range(count)], "replaced_value_int64": d.int(-2, 2)}
        )
    if d.flag():
        x[0, 0] = np.nan
        return Parts([x], {"imputed_value_floats": floats(d, count), "replaced_value_float": float("nan")})
    x = np.round(x)
    return Parts([x], {"imputed_value_floats": floats(d, count), "replaced_value_float": 1.0})


@recipe("OneHotEncoder", domain=ML)
def one_hot_encoder(d: Draw) -> Parts:
    if d.dtype("T").kind == "O":
        named: dict[str, object] = {"cats_strings": ["a", "b", "abc"]}
        x = d.tensor("T", d.shape(1, 2, empty=False))
    else:
        named = {"cats_int64s": [1, 2, 5]}
        x = np.round(d.tensor("T", d.shape(1, 2, empty=False), 0, 6)).astype(d.dtype("T"))
    return Parts([x], named | {"zeros": 1})


@recipe("FeatureVectorizer", domain=ML)
def feature_vectorizer(d: Draw) -> Parts:
    rows, count = d.int(1, 3), d.int(1, 3)
    values = [d.tensor("T1", (rows, d.int(1, 3))) for _ in range(count)]
    return Parts(values, {"inputdimensions": [value.shape[1] for value in values]})


@recipe("CategoryMapper", domain=ML)
def category_mapper(d: Draw) -> Parts:
    named = {"cats_int64s": [1, 2, 5, 7], "cats_strings": ["a", "b", "abc", "x y"]} | d.attributes(
        default_int64=-7, default_string="none"
    )
    x = d.tensor("T1", d.shape(0, 2), 0, 8)
    return Parts([x], named, kinds={0: "tensor(int64)" if x.dtype == object else "tensor(string)"})


@recipe("LabelEncoder", domain=ML)
def label_encoder(d: Draw) -> Parts:
    x_shape = d.shape(1, 2)
    if d.since == 1:
        named = {"classes_strings": ["a", "b", "abc"]} | d.attributes(default_int64=-7, default_string="none")
        x = d.tensor("T1", x_shape, 0, 4)
        return Parts([x], named, kinds={0: "tensor(int64)" if x.dtype == object else "tensor(string)"})
    source, target = d.dtype("T1"), d.dtype("T2")
    x = d.tensor("T1", x_shape, 0, 4)
    if x.dtype.kind == "f":
        x = np.round(x)
    named = {**encoded(d, "keys", source), **encoded(d, "values", target)}
    if "values_tensor" in named and d.flag():
        named["default_tensor"] = numpy_helper.from_array(
            np.array(["zz"], object) if target.kind == "O" else np.array([9], target), "default"
        )
    elif "values_tensor" not in named:
        named |= {
            key: value
            for key, value in d.attributes(default_int64=-7, default_string="none", default_float=0.5).items()
            if key.endswith(NAMES[target])
        }
    return Parts([x], named)


def encoded(d: Draw, what: str, dtype: np.dtype) -> dict[str, object]:
    """Three keys or values, in the attribute for their type."""
    numbers = d.sample(range(5), 3)
    name = {"string": "strings", "int64": "int64s", "float": "floats"}.get(NAMES[dtype])
    texts = ["a", "b", "abc"]
    if name is None or (d.has(f"{what}_tensor") and d.flag(0.3)):
        values = np.array(texts, object) if dtype.kind == "O" else np.array(numbers).astype(dtype)
        return {f"{what}_tensor": numpy_helper.from_array(values, what)}
    return {
        f"{what}_{name}": texts if name == "strings" else [float(n) for n in numbers] if name == "floats" else numbers
    }


def key_value(kind: str) -> tuple[str, str]:
    inside = kind[kind.index("(") + 1 : -1].split(",")
    return inside[0].strip(), inside[1].strip()


@recipe("CastMap", domain=ML)
def cast_map(d: Draw) -> Parts:
    kind = d.types["T1"]
    _, value = key_value(kind)
    is_sparse = d.flag()
    keys = sorted(d.sample(range(6), d.int(1, 4)))
    entries = {key: d.pick(["1", "2.5", "3"]) if value == "string" else d.real(-3, 3) for key in keys}
    target = d.dtype("T2")
    if value == "string" and target == np.int64:
        entries = dict.fromkeys(keys, "4")
    named: dict[str, object] = {
        "cast_to": {"string": "TO_STRING", "float": "TO_FLOAT", "int64": "TO_INT64"}[NAMES[target]]
    }
    if value == "float" and target.kind == "O":
        entries = dict.fromkeys(keys, 2.5)
    named |= {"map_form": "SPARSE", "max_map": 7} if is_sparse else d.attributes(map_form="DENSE")
    return Parts([entries], named, input_kinds={0: kind})


@recipe("DictVectorizer", domain=ML)
def dict_vectorizer(d: Draw) -> Parts:
    kind = d.types["T1"]
    key, value = key_value(kind)
    vocabulary: Sequence[object] = ["a", "b", "c", "d"] if key == "string" else [1, 3, 5, 7]
    keys = d.sample(vocabulary, d.int(1, 4))
    made = {k: {"string": "x", "int64": d.int(-4, 4)}.get(value, d.real(-3, 3)) for k in keys}
    named = {"string_vocabulary" if key == "string" else "int64_vocabulary": list(vocabulary)}
    return Parts([made], named, kinds={0: f"tensor({value})"}, input_kinds={0: kind})


@recipe("ZipMap", domain=ML)
def zip_map(d: Draw) -> Parts:
    width = d.int(1, 4)
    is_text = "string" in d.types["T"]
    labels = (
        {"classlabels_strings": ["a", "b", "c", "d"][:width]}
        if is_text
        else {"classlabels_int64s": [3, 1, 7, 9][:width]}
    )
    shape = (d.int(1, 3), width) if d.flag(0.8) else (width,)
    return Parts([d.tensor("float", shape)], dict(labels))


def class_labels(d: Draw, count: int, name: str = "classlabels_ints") -> tuple[dict[str, object], str]:
    if d.dtype("T2").kind == "O":
        return {"classlabels_strings": [f"c{i}" for i in range(count)]}, "tensor(string)"
    return {name: d.sample(range(10), count)}, "tensor(int64)"


@recipe("LinearRegressor", domain=ML)
def linear_regressor(d: Draw) -> Parts:
    width, targets = d.int(1, 4), d.int(1, 3)
    named = {"coefficients": floats(d, width * targets), "targets": targets} | d.attributes(
        intercepts=floats(d, targets)
    )
    if d.flag(0.3):
        named["post_transform"] = d.pick(POST[:4])
    return Parts([matrix(d, width)], named, accumulates=True)


@recipe("LinearClassifier", domain=ML)
def linear_classifier(d: Draw) -> Parts:
    width, classes = d.int(1, 4), d.int(2, 4)
    named, kind = class_labels(d, classes)
    rows = 1 if classes == 2 and d.flag() else classes
    named |= {"coefficients": floats(d, width * rows), "intercepts": floats(d, rows)}
    if d.flag(0.6):
        named["post_transform"] = d.pick(POST[:4])
    named |= d.attributes(multi_class=d.int(0, 1))
    return Parts([matrix(d, width, "T1")], named, 2, {0: kind}, accumulates=True)


def kernel(d: Draw) -> dict[str, object]:
    kind = d.pick(["LINEAR", "POLY", "RBF", "SIGMOID"])
    return {"kernel_type": kind, "kernel_params": [d.real(0.1, 1), d.real(0, 1), float(d.int(1, 3))]}


@recipe("SVMRegressor", domain=ML)
def svm_regressor(d: Draw) -> Parts:
    width, supports = d.int(1, 4), d.int(1, 4)
    named = {
        "coefficients": floats(d, supports),
        "support_vectors": floats(d, supports * width),
        "n_supports": supports,
        "rho": floats(d, 1),
        **kernel(d),
    }
    if d.flag(0.3):
        named["one_class"] = 1
    return Parts([matrix(d, width)], named, accumulates=True)


@recipe("SVMClassifier", domain=ML)
def svm_classifier(d: Draw) -> Parts:
    width, classes = d.int(1, 3), d.int(2, 3)
    each = [d.int(1, 3) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    labels, kind = class_labels(d, classes)
    named = {
        **labels, **kernel(d), "vectors_per_class": each, "support_vectors": floats(d, sum(each) * width),
        "coefficients": floats(d, (classes - 1) * sum(each)), "rho": floats(d, pairs),
    }  # fmt: skip
    if classes == 2 and d.flag(0.4):
        # Of more classes the text does not say how the probabilities of the pairs are joined.
        named |= {"prob_a": floats(d, pairs, -2, -0.5), "prob_b": floats(d, pairs, -0.5, 0.5)}
    return Parts([matrix(d, width, "T1")], named, 2, {0: kind}, accumulates=True)


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def nodes_of_trees(d: Draw, features: int) -> tuple[dict[str, list], list[tuple[int, int]]]:
    """The nodes_* attributes of some random trees, and the (tree, node) of the leaves."""
    table: dict[str, list] = {
        key: []
        for key in (
            "treeids",
            "nodeids",
            "featureids",
            "values",
            "modes",
            "truenodeids",
            "falsenodeids",
            "missing_value_tracks_true",
        )
    }
    leaves = []
    for tree in range(d.int(1, 3)):
        depth = d.int(0, 3)
        last = 2**depth - 1
        for node in range(2 ** (depth + 1) - 1):
            is_leaf = node >= last
            row = (
                tree,
                node,
                0 if is_leaf else d.int(0, features - 1),
                0.0 if is_leaf else d.pick([-1.5, -0.5, 0.0, 0.5, 1.0]),
                "LEAF" if is_leaf else d.pick(MODES),
                0 if is_leaf else 2 * node + 1,
                0 if is_leaf else 2 * node + 2,
                0 if is_leaf else d.int(0, 1),
            )
            for column, value in zip(table.values(), row, strict=True):
                column.append(value)
            if is_leaf:
                leaves.append((tree, node))
    return table, leaves


def tree_features(d: Draw, width: int, constraint: str) -> np.ndarray:
    x = matrix(d, width, constraint)
    if x.dtype.kind == "f":
        x = np.round(x * 2) / 2
        if d.flag(0.2):
            x[0, 0] = np.nan
    return x.astype(d.dtype(constraint))


def forest(d: Draw, width: int, targets: int, what: str) -> dict[str, object]:
    """The attributes of the older ensembles; `what` is class or target."""
    table, leaves = nodes_of_trees(d, width)
    named: dict[str, object] = {f"nodes_{key}": column for key, column in table.items()}
    if not d.flag(0.4):
        named.pop("nodes_missing_value_tracks_true")
    # Weights for one class alone are read as those of a binary problem by some, which the text does not mention.
    pairs = [(leaf, target) for leaf in leaves for target in sorted(d.sample(range(targets), d.int(1, targets)))]
    if what == "class":
        missing = set(range(targets)) - {target for _, target in pairs}
        pairs = [*pairs, *((leaves[0], target) for target in sorted(missing))]
    named |= {
        f"{what}_treeids": [leaf[0] for leaf, _ in pairs],
        f"{what}_nodeids": [leaf[1] for leaf, _ in pairs],
        f"{what}_ids": [target for _, target in pairs],
    }
    named[f"{what}_weights"] = floats(d, len(pairs), 0.1, 1) if what == "class" else floats(d, len(pairs))
    if d.flag(0.4):
        named["base_values"] = floats(d, targets)
    if d.since >= 3 and d.flag(0.4) and d.dtype("T1" if what == "class" else "T") == np.float64:
        for name in ("nodes_values", f"{what}_weights", "base_values"):
            if name in named:
                named[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(named.pop(name), np.float64), name)
    return named


@recipe("TreeEnsembleRegressor", domain=ML)
def tree_regressor(d: Draw) -> Parts:
    width, targets = d.int(1, 4), d.int(1, 3)
    named = (
        forest(d, width, targets, "target")
        | {"n_targets": targets}
        | d.attributes(aggregate_function=d.pick(["SUM", "AVERAGE", "MIN", "MAX"]))
    )
    if named.get("aggregate_function") in ("MIN", "MAX"):
        named.pop("base_values", None)
        named.pop("base_values_as_tensor", None)
    return Parts([tree_features(d, width, "T")], named, accumulates=True)


@recipe("TreeEnsembleClassifier", domain=ML)
def tree_classifier(d: Draw) -> Parts:
    width, classes = d.int(1, 4), d.int(2, 4)
    labels, kind = class_labels(d, classes, "classlabels_int64s")
    named = forest(d, width, classes, "class") | labels
    if d.flag():
        named["post_transform"] = d.pick(POST[:4])
    return Parts([tree_features(d, width, "T1")], named, 2, {0: kind}, accumulates=True)


@recipe("TreeEnsemble", domain=ML)
def tree_ensemble(d: Draw) -> Parts:
    width, targets = d.int(1, 4), d.int(1, 3)
    dtype = dtype_of(d.types["T"])
    splits: list[float] = []
    columns: dict[str, list[int]] = {
        key: []
        for key in (
            "featureids",
            "modes",
            "truenodeids",
            "trueleafs",
            "falsenodeids",
            "falseleafs",
            "missing_value_tracks_true",
        )
    }
    leaf_targets: list[int] = []

    def leaf() -> int:
        leaf_targets.append(d.int(0, targets - 1))
        return len(leaf_targets) - 1

    def grow(depth: int) -> int:
        here = len(splits)
        splits.append(d.pick([-1.5, -0.5, 0.0, 0.5, 1.0]))
        for column in columns.values():
            column.append(0)
        columns["featureids"][here] = d.int(0, width - 1)
        columns["modes"][here] = d.int(0, 5)
        columns["missing_value_tracks_true"][here] = d.int(0, 1)
        for side in ("true", "false"):
            is_leaf = depth == 0 or d.flag(0.3)
            columns[f"{side}leafs"][here] = int(is_leaf)
            columns[f"{side}nodeids"][here] = leaf() if is_leaf else grow(depth - 1)
        return here

    roots = [grow(d.int(0, 2)) for _ in range(d.int(1, 3))]
    named: dict[str, object] = {f"nodes_{key}": column for key, column in columns.items() if key != "modes"}
    if not d.flag(0.4):
        named.pop("nodes_missing_value_tracks_true")
    named |= {
        "nodes_modes": numpy_helper.from_array(np.array(columns["modes"], np.uint8), "modes"),
        "nodes_splits": numpy_helper.from_array(np.array(splits, dtype), "splits"),
        "leaf_targetids": leaf_targets,
        "leaf_weights": numpy_helper.from_array(d.tensor(dtype, (len(leaf_targets),), -2, 2), "weights"),
        "tree_roots": roots,
        "n_targets": targets,
    }
    named |= d.attributes(aggregate_function=d.int(0, 3), post_transform=d.pick([0, 0, 1, 2, 3]))
    return Parts([tree_features(d, width, "T")], named, accumulates=True)
