"""What classifiers and regressors of ai.onnx.ml share: class labels, and the transforms of scores.

Where the text is silent, what ONNX Runtime does holds: exporters have tested their models with it. A single score is
transformed by PROBIT alone; LOGISTIC makes two of it where it stands for two classes.
"""

import numpy as np

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.lookups import texts
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
# Scores of smaller magnitude are zero to SOFTMAX_ZERO.
ZERO_SCORE = 1e-7


def class_labels(node: Node, integers: str = "classlabels_ints", words: str = "classlabels_strings") -> np.ndarray:
    """The labels of the classes, at least one: i64 or texts, of which one and only one attribute gives."""
    ids, names = node.ints(integers, ()), node.strings(words, ())
    if bool(ids) == bool(names):
        given = "both {} and {} are given" if ids else "neither {} nor {} is given"
        node.fail("class-labels", given.format(integers, words), rule=f"ONNX {node.operator}, classlabels_*")
    return texts(names) if names else np.array(ids, np.int64)


def labelled(indices: Value, labels: np.ndarray, ir: Builder) -> Value:
    """The label at each index."""
    return ir.gather(ir.constant(labels), indices, 0)


def transformed(scores: Value, node: Node, ir: Builder) -> Value:
    """The scores [N, E] after `post_transform`."""
    return transformed_by(node.choice("post_transform", TRANSFORMS), scores, ir)


def transformed_by(transform: str, scores: Value, ir: Builder) -> Value:
    """The scores [N, E] after a transform."""
    if scores.shape[1] == 1 and transform != "PROBIT":
        return scores
    match transform:
        case "SOFTMAX":
            return ir.softmax(scores, 1)
        case "LOGISTIC":
            return ir.sigmoid(scores)
        case "SOFTMAX_ZERO":
            return _softmax_of_others_than_zero(scores, ir)
        case "PROBIT":
            return probit(scores, ir)
    return scores


def _softmax_of_others_than_zero(scores: Value, ir: Builder) -> Value:
    """exp(s - max) over the sum; scores that are zero weigh s * exp(-max) instead. One half each where the sum is 0."""
    greatest = ir.reduce(scores, "max", (1,), keepdims=True)
    is_zero = ir.less_equal(ir.abs(scores), ZERO_SCORE)
    weights = ir.select(is_zero, ir.mul(scores, ir.exp(ir.neg(greatest))), ir.exp(ir.sub(scores, greatest)))
    total = ir.reduce(weights, "sum", (1,), keepdims=True)
    return ir.select(ir.equal(total, 0), 0.5, ir.div(weights, total))


def probit(x: Value, ir: Builder) -> Value:
    """sqrt(2) erfinv(2 x - 1), by the approximation that implementations of the operators share.

    Source: Winitzki, A handy approximation for the error function and its inverse, 2008, with a = 0.147.
    """
    centred = ir.sub(ir.mul(x, 2), 1)
    log = ir.log(ir.mul(ir.sub(1, centred), ir.add(centred, 1)))
    half = ir.add(ir.mul(log, 0.5), 2 / (3.14159 * 0.147))
    root = ir.sqrt(ir.sub(ir.sqrt(ir.sub(ir.square(half), ir.mul(log, 1 / 0.147))), half))
    return ir.mul(ir.select(ir.less(centred, 0), ir.neg(root), root), 1.41421356)
