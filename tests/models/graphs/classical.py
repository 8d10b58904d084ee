"""Pipelines of classical machine learning and of text, as converters write them."""

from itertools import pairwise

import numpy as np
from onnx import ModelProto, helper

from tests.models.graphs.case import Feed, GraphCase, model_of, normal

SCALED_LINEAR = """
classifier (float[batch, 3] x) => (int64[batch] label, seq(map(int64, float)) probabilities)
{
  filled = ai.onnx.ml.Imputer <imputed_value_floats = [0.5], replaced_value_float = nan> (x)
  scaled = ai.onnx.ml.Scaler <offset = [0.1, 0.2, 0.3], scale = [1.0, 2.0, 0.5]> (filled)
  label, raw = ai.onnx.ml.LinearClassifier <classlabels_ints = [3, 5, 9], coefficients = [0.5, -1.0, 2.0, 1.0,
  0.25, -0.5, 0.0, 1.0, 1.0],
    intercepts = [0.1, -0.2, 0.0], post_transform = "SOFTMAX"> (scaled)
  normal = ai.onnx.ml.Normalizer <norm = "L1"> (raw)
  probabilities = ai.onnx.ml.ZipMap <classlabels_int64s = [3, 5, 9]> (normal)
}"""

ENCODED = """
encoded (string[batch, 1] colour, float[batch, 2] size) => (float[batch, 1] y, int64[batch] code)
{
  k = ai.onnx.ml.LabelEncoder <keys_strings = ["red", "green", "blue"], values_int64s = [0, 1, 2],
  default_int64 = -1> (colour)
  hot = ai.onnx.ml.OneHotEncoder <cats_int64s = [0, 1, 2], zeros = 1> (k)
  flat = Constant <value_ints = [-1, 3]> ()
  h = Reshape (hot, flat)
  bits = ai.onnx.ml.Binarizer <threshold = 0.5> (size)
  f = ai.onnx.ml.FeatureVectorizer <inputdimensions = [3, 2]> (h, bits)
  y = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 3.0, 4.0, 5.0], intercepts = [0.5]> (f)
  one = Constant <value_ints = [1]> ()
  code = Squeeze (k, one)
}"""

SUPPORT_VECTORS = """
vectors (float[batch, 2] x) => (int64[batch] label, float[batch, 2] scores)
{
  label, scores = ai.onnx.ml.SVMClassifier <classlabels_ints = [0, 1], kernel_type = "RBF",
  kernel_params = [0.5, 0.0, 3.0],
    vectors_per_class = [2, 2], support_vectors = [0.0, 0.0, 1.0, 0.5, -1.0, 1.0, 2.0, -1.0],
    coefficients = [1.0, 0.5, -0.75, -0.75], rho = [0.2]> (x)
}"""

TEXTS = """
texts (string[batch] raw) => (float[batch, 4] counts, string[batch] upper, int64[batch] length, bool[batch] number)
{
  lower = StringNormalizer <case_change_action = "LOWER"> (raw)
  upper = StringNormalizer <case_change_action = "UPPER"> (raw)
  words, length = StringSplit (lower)
  codes = ai.onnx.ml.LabelEncoder <keys_strings = ["the", "cat", "dog"], values_int64s = [1, 2, 3],
  default_int64 = 0> (words)
  counts = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 0,
    ngram_counts = [0, 3], ngram_indexes = [0, 1, 2, 3], pool_int64s = [1, 2, 3, 1, 2]> (codes)
  number = RegexFullMatch <pattern = "[0-9 ]+"> (raw)
}"""


def forest(trees: int, depth: int) -> GraphCase:
    """A random forest of full trees, as a classifier of three classes."""
    rng = np.random.default_rng(trees)
    inner, leaves = 2**depth - 1, 2**depth
    nodes = inner + leaves
    ids = np.tile(np.arange(nodes), trees)
    is_leaf = ids >= inner
    attributes = {
        "nodes_treeids": np.repeat(np.arange(trees), nodes),
        "nodes_nodeids": ids,
        "nodes_featureids": rng.integers(0, 4, nodes * trees),
        "nodes_truenodeids": np.where(is_leaf, 0, 2 * ids + 1),
        "nodes_falsenodeids": np.where(is_leaf, 0, 2 * ids + 2),
        "class_treeids": np.repeat(np.arange(trees), leaves * 3),
        "class_nodeids": np.tile(np.repeat(np.arange(inner, nodes), 3), trees),
        "class_ids": np.tile(np.arange(3), trees * leaves),
    }
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        nodes_modes=["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf],
        nodes_values=rng.standard_normal(nodes * trees).astype(np.float32),
        class_weights=(rng.random(trees * leaves * 3) / trees).astype(np.float32),
        classlabels_strings=["low", "middle", "high"],
        post_transform="NONE",
        **{name: value.tolist() for name, value in attributes.items()},
    )
    labels = ["low", "middle", "high"]
    zipped = helper.make_node("ZipMap", ["scores"], ["by_name"], domain="ai.onnx.ml", classlabels_strings=labels)
    return GraphCase(model_around([node, zipped]), tuple({"x": normal(n, 4)} for n in (1, 50)))


def model_around(nodes: list[object]) -> ModelProto:
    model = model_of("forest (float[batch, 4] x) => (string[batch] label, seq(map(string, float)) by_name) {}")
    model.graph.node.extend(nodes)
    return model


def scaled_linear() -> GraphCase:
    feeds = [{"x": normal(n, 3)} for n in (1, 6)]
    feeds[1]["x"][2, 1] = np.nan
    return GraphCase(model_of(SCALED_LINEAR), tuple(feeds))


def encoded() -> GraphCase:
    colours = np.array(["red", "blue", "grey", "green"], object)[:, None]
    feeds = [{"colour": colours[:n], "size": normal(n, 2)} for n in (1, 4)]
    return GraphCase(model_of(ENCODED), tuple(feeds))


def support_vectors() -> GraphCase:
    return GraphCase(model_of(SUPPORT_VECTORS), tuple({"x": normal(n, 2) * 2} for n in (1, 9)))


def texts() -> GraphCase:
    raw = np.array(["The cat saw THE dog", "12 34", "", "cat cat  dog"], object)

    def expected(feed: Feed) -> list[object]:
        counts, lengths = [], []
        for text in feed["raw"]:
            words = text.lower().split()
            lengths.append(len(words))
            pairs = list(pairwise(words))
            counts.append([words.count("the"), words.count("cat"), words.count("dog"), pairs.count(("the", "cat"))])
        upper = np.array([text.upper() for text in feed["raw"]], object)
        number = [bool(text) and set(text) <= set("0123456789 ") for text in feed["raw"]]
        return [np.array(counts, np.float32), upper, np.array(lengths), np.array(number)]

    return GraphCase(model_of(TEXTS, opset=20, ml=4), ({"raw": raw}, {"raw": raw[:1]}), expected)


def few_trees() -> GraphCase:
    return forest(3, 2)


def many_trees() -> GraphCase:
    return forest(40, 5)


CASES = {case.__name__: case for case in (scaled_linear, encoded, support_vectors, texts, few_trees, many_trees)}
