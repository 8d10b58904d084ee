"""ai.onnx.ml: linear models and trees, row by row; n-grams and texts."""

import numpy as np
from onnx import numpy_helper

from tests.differential.independent.registry import Given, computes

ML = "ai.onnx.ml"


def transformed(scores: np.ndarray, post: str) -> np.ndarray:
    """A single score stays, as the text does not say what else it is compared with; as ONNX Runtime."""
    if scores.shape[1] == 1:
        return scores
    if post == "LOGISTIC":
        return 1 / (1 + np.exp(-scores))
    if post in ("SOFTMAX", "SOFTMAX_ZERO"):
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        if post == "SOFTMAX_ZERO":
            e = np.where(scores == 0, 0, e)
        return e / e.sum(axis=1, keepdims=True)
    return scores


@computes("LinearRegressor", domain=ML)
def linear_regressor(g: Given) -> list[object]:
    x, targets = g.wide(0), g.int("targets")
    weights = g.floats("coefficients").reshape(targets, -1)
    bias = g.floats("intercepts") if g.has("intercepts") else np.zeros(targets)
    return [transformed(x @ weights.T + bias, g.text("post_transform"))]


@computes("LinearClassifier", domain=ML)
def linear_classifier(g: Given) -> list[object]:
    """One score for two classes is that of the second one, and what it lacks to 1 that of the first."""
    x = g.wide(0)
    labels = g.attribute("classlabels_strings") or g.ints("classlabels_ints")
    bias = g.floats("intercepts")
    scores = x @ g.floats("coefficients").reshape(bias.size, -1).T + bias
    post = g.text("post_transform")
    if scores.shape[1] == 1:
        score = scores[:, 0]
        chosen = [labels[int(s > (0.5 if post == "LOGISTIC" else 0))] for s in score]
        score = transformed(score[:, None], post)[:, 0] if post == "LOGISTIC" else score
        scores = np.stack([1 - score, score], axis=1)
    else:
        chosen = [labels[int(i)] for i in scores.argmax(axis=1)]
        scores = transformed(scores, post)
    kind = object if isinstance(chosen[0], str) else np.int64
    return [np.array(chosen, kind), scores]


@computes("DictVectorizer", domain=ML)
def dict_vectorizer(g: Given) -> list[object]:
    """[1, C], 0 or the empty text where a key is absent"""
    entries = g.inputs[0]
    assert isinstance(entries, dict)
    names = g.attribute("string_vocabulary") or g.ints("int64_vocabulary")
    is_text = any(isinstance(value, str) for value in entries.values())
    row = [entries.get(name, "" if is_text else 0) for name in names]
    return [np.array([row], object if is_text else None)]


@computes("Scaler", domain=ML)
def scaler(g: Given) -> list[object]:
    return [(g.wide(0) - g.floats("offset")) * g.floats("scale")]


@computes("Normalizer", domain=ML)
def normalizer(g: Given) -> list[object]:
    x = g.wide(0)
    norms = {"MAX": x.max(axis=1), "L1": np.abs(x).sum(axis=1), "L2": np.sqrt((x * x).sum(axis=1))}
    norm = norms[g.text("norm")][:, None]
    return [np.where(norm == 0, x, x / np.where(norm == 0, 1, norm))]


MODES = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


def leaves_reached(g: Given, row: np.ndarray) -> list[tuple[int, int]]:
    """The (tree, node) of the leaf of each tree; a missing value goes where its node says."""
    trees, nodes = g.ints("nodes_treeids"), g.ints("nodes_nodeids")
    index = {key: i for i, key in enumerate(zip(trees, nodes, strict=True))}
    values = tensor_or_floats(g, "nodes_values")
    modes = [str(m) for m in g.attribute("nodes_modes", [])]
    tracks = g.ints("nodes_missing_value_tracks_true") or [0] * len(nodes)
    reached = []
    for tree in dict.fromkeys(trees):
        i = index[tree, 0]
        while modes[i] != "LEAF":
            value = row[g.ints("nodes_featureids")[i]]
            goes = bool(tracks[i]) if np.isnan(value) else bool(MODES[modes[i]](value, values[i]))
            i = index[tree, g.ints("nodes_truenodeids" if goes else "nodes_falsenodeids")[i]]
        reached.append((tree, nodes[i]))
    return reached


def tensor_or_floats(g: Given, name: str) -> np.ndarray:
    tensor = g.attribute(f"{name}_as_tensor")
    return g.floats(name) if tensor is None else numpy_helper.to_array(tensor).astype(np.float64)


def leaf_table(g: Given, what: str) -> dict[tuple[int, int], list[tuple[int, float]]]:
    table: dict[tuple[int, int], list[tuple[int, float]]] = {}
    columns = (g.ints(f"{what}_treeids"), g.ints(f"{what}_nodeids"), g.ints(f"{what}_ids"))
    for tree, node, target, weight in zip(*columns, tensor_or_floats(g, f"{what}_weights"), strict=True):
        table.setdefault((tree, node), []).append((target, float(weight)))
    return table


@computes("TreeEnsembleRegressor", domain=ML)
def tree_regressor(g: Given) -> list[object]:
    """MIN and MAX over the trees that have a weight for the target; 0 where none has."""
    x, targets = g.wide(0), g.int("n_targets")
    table, function = leaf_table(g, "target"), g.text("aggregate_function")
    base = tensor_or_floats(g, "base_values")
    trees = len(set(g.ints("nodes_treeids")))
    result = np.zeros((len(x), targets))
    for n, row in enumerate(x):
        found: list[list[float]] = [[] for _ in range(targets)]
        for leaf in leaves_reached(g, row):
            for target, weight in table.get(leaf, []):
                found[target].append(weight)
        for t, weights in enumerate(found):
            result[n, t] = aggregated(weights, function, trees)
    return [transformed(result + (base if base.size else 0), g.text("post_transform"))]


def aggregated(weights: list[float], function: str, trees: int) -> float:
    if function in ("MIN", "MAX"):
        return (min if function == "MIN" else max)(weights) if weights else 0.0
    return sum(weights) / (trees if function == "AVERAGE" else 1)


@computes("TreeEnsembleClassifier", domain=ML)
def tree_classifier(g: Given) -> list[object]:
    """The label is that of the largest score."""
    x = g.wide(0)
    labels = g.attribute("classlabels_strings") or g.ints("classlabels_int64s")
    table, base = leaf_table(g, "class"), tensor_or_floats(g, "base_values")
    scores = np.zeros((len(x), len(labels)))
    for n, row in enumerate(x):
        for leaf in leaves_reached(g, row):
            for target, weight in table.get(leaf, []):
                scores[n, target] += weight
    scores = scores + (base if base.size else 0)
    chosen = [labels[int(i)] for i in scores.argmax(axis=1)]
    kind = object if isinstance(chosen[0], str) else np.int64
    return [np.array(chosen, kind), transformed(scores, g.text("post_transform"))]


MODES_5 = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
POST_5 = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@computes("TreeEnsemble", domain=ML)
def tree_ensemble(g: Given) -> list[object]:
    x, targets = g.wide(0), g.int("n_targets")
    splits, weights = (
        numpy_helper.to_array(g.attribute(n)).astype(np.float64) for n in ("nodes_splits", "leaf_weights")
    )
    modes = numpy_helper.to_array(g.attribute("nodes_modes"))
    tracks = g.ints("nodes_missing_value_tracks_true") or [0] * len(splits)
    roots = g.ints("tree_roots")
    function = ("AVERAGE", "SUM", "MIN", "MAX")[g.int("aggregate_function")]
    result = np.zeros((len(x), targets))
    for n, row in enumerate(x):
        found: list[list[float]] = [[] for _ in range(targets)]
        for root in roots:
            i = root
            while True:
                value = row[g.ints("nodes_featureids")[i]]
                goes = bool(tracks[i]) if np.isnan(value) else bool(MODES[MODES_5[modes[i]]](value, splits[i]))
                side = "true" if goes else "false"
                target = g.ints(f"nodes_{side}nodeids")[i]
                if g.ints(f"nodes_{side}leafs")[i]:
                    found[g.ints("leaf_targetids")[target]].append(float(weights[target]))
                    break
                i = target
        for t, own in enumerate(found):
            result[n, t] = aggregated(own, function, len(roots))
    return [transformed(result, POST_5[g.int("post_transform")])]


@computes("ZipMap", domain=ML)
def zip_map(g: Given) -> list[object]:
    labels = g.attribute("classlabels_strings") or g.ints("classlabels_int64s")
    rows = np.atleast_2d(g.array(0))
    return [[dict(zip(labels, row.tolist(), strict=True)) for row in rows]]


@computes("StringSplit")
def string_split(g: Given) -> list[object]:
    """Split from the left; white space at either end goes where it is what splits."""
    x, delimiter, limit = g.array(0), g.text("delimiter"), g.int("maxsplit", -1)
    found = [word.split(delimiter, limit) if delimiter else word.strip().split(maxsplit=limit) for word in x.ravel()]
    counts = [len(words) for words in found]
    result = np.full((x.size, max(counts, default=0)), "", object)
    for place, words in enumerate(found):
        result[place, : len(words)] = words
    return [result.reshape(*x.shape, -1) if x.size else None, np.array(counts, np.int64).reshape(x.shape)]


@computes("StringNormalizer")
def string_normalizer(g: Given) -> list[object]:
    """Stop words go, whatever their case unless that counts; then the case changes."""
    x = g.array(0)
    exact = bool(g.int("is_case_sensitive"))
    stop = [str(w) for w in g.attribute("stopwords", [])]
    stop = stop if exact else [w.lower() for w in stop]
    kept = [w for w in x.ravel() if (w if exact else w.lower()) not in stop] or [""]
    change = {"UPPER": str.upper, "LOWER": str.lower}.get(g.text("case_change_action"), str)
    texts = np.array([change(w) for w in kept], object)
    return [texts.reshape((1, -1)) if x.ndim == 2 else texts]


@computes("TfIdfVectorizer")
def tf_idf(g: Given) -> list[object]:
    """Counts of the n-grams of each length, with every gap up to max_skip_count, in every row."""
    x = g.array(0)
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    pool = list(g.attribute("pool_strings") or g.ints("pool_int64s"))
    starts, indexes = g.ints("ngram_counts"), g.ints("ngram_indexes")
    grams: dict[tuple, int] = {}
    for n, start in enumerate(starts, start=1):
        end = starts[n] if n < len(starts) else len(pool)
        for i in range(start, end, n):
            grams.setdefault(tuple(pool[i : i + n]), len(grams))
    counts = np.zeros((len(rows), max(indexes) + 1))
    for r, row in enumerate(rows):
        for n in range(g.int("min_gram_length"), g.int("max_gram_length") + 1):
            for skip in range(g.int("max_skip_count") + 1 if n > 1 else 1):
                for first in range(len(row) - (n - 1) * (skip + 1)):
                    gram = tuple(row[first + k * (skip + 1)] for k in range(n))
                    if gram in grams:
                        counts[r, indexes[grams[gram]]] += 1
    weights = np.ones(counts.shape[1])
    if g.has("weights"):
        # weights[i] belongs to the i-th n-gram of the pool, whose place in the output is ngram_indexes[i].
        weights[indexes] = g.floats("weights")[: len(indexes)]
    mode = g.text("mode")
    result = counts if mode == "TF" else (counts > 0) * weights if mode == "IDF" else counts * weights
    return [result[0] if x.ndim == 1 else result]
