"""LinearRegressor and LinearClassifier: one product with a matrix.

Coefficients behind those of all rows are not looked at, as in ONNX Runtime.

Source: https://onnx.ai/onnx/operators/index.html#ai-onnx-ml
"""

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.score_transforms import class_labels, labelled, transformed
from onnxc.compiler.frontend.operators.ml.feature_operators import feature_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value

ML = "ai.onnx.ml"


@operator("LinearRegressor", since=(1,), domain=ML)
def linear_regressor(node: Node, ir: Builder) -> Value:
    """X: T[N, F] or T[F]  ->  f32[N, targets], X W' + intercepts, transformed

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_LinearRegressor.html
    """
    scores = _scores(rows_of_features(node, ir), node.int("targets"), node, ir)
    return ir.cast(transformed(scores, node, ir), F32)


@operator("LinearClassifier", since=(1,), domain=ML)
def linear_classifier(node: Node, ir: Builder) -> tuple[Value, Value]:
    """X: T[N, F] or T[F]  ->  Y: i64[N] or string[N], the class of the best score, and Z: f32[N, E]

    One row of coefficients for two classes scores the second: it wins above 0, and the first has 1 - its score.
    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html
    """
    labels = class_labels(node)
    x = rows_of_features(node, ir)
    width = len(node.floats("coefficients"))
    features = x.shape[1]
    if node.has("intercepts"):
        count = len(node.floats("intercepts"))
    else:
        count = width // features if isinstance(features, int) and features else labels.size
    scores = _scores(x, count, node, ir)
    if labels.size != count and (count > 1 or labels.size > 2):
        message = f"{count} rows of coefficients score {labels.size} classes"
        node.fail("class-labels", message, rule="ONNX LinearClassifier, classlabels_*")
    if count > 1:
        best = ir.arg_reduce(scores, "max", 1)
        return labelled(best, labels, ir), ir.cast(transformed(scores, node, ir), F32)
    wins = ir.cast(ir.squeeze(ir.greater(scores, 0), (1,)), I64)
    if labels.size != 2:
        return labelled(wins, _beside_nothing(labels), ir), ir.cast(transformed(scores, node, ir), F32)
    second = ir.sigmoid(scores) if node.string("post_transform") == "LOGISTIC" else transformed(scores, node, ir)
    return labelled(wins, labels, ir), ir.cast(ir.concatenate([ir.sub(1, second), second], 1), F32)


def _beside_nothing(labels: np.ndarray) -> np.ndarray:
    """The label of the one class there is, after what stands for none."""
    none = np.array([""], object) if labels.dtype == object else np.array([0], np.int64)
    return np.concatenate([none, labels])


def rows_of_features(node: Node, ir: Builder) -> Value:
    """X as T[N, F]; a vector is one row."""
    given = node.input("X")
    if given.rank not in (1, 2):
        node.fail("features-rank", f"X is {given.type}, of neither rank 1 nor 2", rule=f"ONNX {node.operator}, X")
    x = ir.cast(given, feature_type(given.dtype))
    return x if x.rank == 2 else ir.unsqueeze(x, (0,))


def _scores(x: Value, count: int, node: Node, ir: Builder) -> Value:
    """T[N, count]"""
    coefficients = np.array(node.floats("coefficients")).astype(x.dtype.numpy)
    if count < 1 or coefficients.size % count:
        message = f"{coefficients.size} coefficients cannot be {count} rows"
        node.fail("linear-coefficients", message, rule=f"ONNX {node.operator}, coefficients")
    features = x.shape[1]
    if isinstance(features, int) and coefficients.size >= (count + 1) * features:
        coefficients = coefficients[: count * features]
    rows = coefficients.reshape(count, -1)
    message = "the features of X and the coefficients of a row differ in number"
    ir.require_equal(x.shape[1], rows.shape[1], message, "linear-coefficients")
    weights = ir.constant(rows)
    scores = ir.dot(x, weights, "nf,ef->ne")
    if not node.has("intercepts"):
        return scores
    intercepts = np.array(node.floats("intercepts")).astype(x.dtype.numpy)
    if intercepts.size != count:
        message = f"{intercepts.size} intercepts stand beside {count} rows of coefficients"
        node.fail("linear-intercepts", message, rule=f"ONNX {node.operator}, intercepts")
    return ir.add(scores, ir.constant(intercepts))
