"""SVMClassifier: one decision for each pair of classes, by which they are voted for, or one linear score each.

What the text leaves open is as ONNX Runtime has it; probabilities are those of LIBSVM.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.loops import while_loop
from onnxc.compiler.frontend.operator_helpers.score_transforms import class_labels, labelled, transformed
from onnxc.compiler.frontend.operator_helpers.svm_kernels import constant_of, kernel_values, support_vectors
from onnxc.compiler.frontend.operators.ml.linear_models import rows_of_features
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.module import Value

RULE = "ONNX SVMClassifier"
# As in LIBSVM, svm.cpp: `min_prob` of svm_predict_probability, `max_iter` and `eps` of multiclass_probability.
LEAST_PROBABILITY = 1e-7
ITERATIONS = 100
TOLERANCE = 0.005


@operator("SVMClassifier", since=(1,), domain="ai.onnx.ml")
def svm_classifier(node: Node, ir: Builder) -> tuple[Value, Value]:
    """X: T[N, F]  ->  Y: i64[N] or string[N], Z: f32[N, E]: scores of pairs or classes, or probabilities of classes

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html
    """
    x, labels = rows_of_features(node, ir), class_labels(node)
    count = labels.size
    sizes = node.ints("vectors_per_class", ())
    if min(sizes, default=0) < 0:
        message = f"vectors_per_class is {list(sizes)}, which has a negative number"
        node.fail("svm-classes", message, rule=f"{RULE}, vectors_per_class")
    if any(sizes) and labels.size != len(sizes):
        message = f"{labels.size} labels stand for {len(sizes)} classes"
        node.fail("class-labels", message, rule=f"{RULE}, classlabels_*")
    if not node.floats("rho"):
        node.fail("svm-rho", "rho has no entry", rule=f"{RULE}, rho")
    probabilities = [len(node.floats(name, ())) for name in ("prob_a", "prob_b")]
    if probabilities[0] != probabilities[1]:
        message = f"prob_a has {probabilities[0]} values, prob_b {probabilities[1]}"
        node.fail("svm-probabilities", message, rule=f"{RULE}, prob_b")
    if sum(sizes) == 0:
        votes, scores = None, _linear_scores(x, count, node, ir)
    else:
        scores = _pair_scores(x, sizes, node, ir)
        votes = _votes(scores, len(sizes), ir)
    has_probabilities = votes is not None and bool(node.floats("prob_a", ()))
    if has_probabilities:
        scores = _probabilities(scores, len(sizes), node, ir)
    best = ir.arg_reduce(scores if votes is None else votes, "max", 1)
    if len(node.floats("rho")) == 1:
        return _single_decision(best, votes, scores, labels, node, ir)
    return labelled(best, labels, ir), ir.cast(transformed(scores, node, ir), F32)


def _linear_scores(x: Value, count: int, node: Node, ir: Builder) -> Value:
    coefficients = np.array(node.floats("coefficients"))
    if coefficients.size % count:
        message = f"{coefficients.size} coefficients cannot be {count} rows"
        node.fail("svm-coefficients", message, rule=f"{RULE}, coefficients")
    weights = constant_of(coefficients.reshape(count, -1), x, ir)
    return ir.add(ir.dot(x, weights, "nf,ef->ne"), node.floats("rho")[0])


def _pair_scores(x: Value, sizes: Sequence[int], node: Node, ir: Builder) -> Value:
    """T[N, P]: the decision for each pair i < j of classes: above 0 for i."""
    total = sum(sizes)
    coefficients = np.array(node.floats("coefficients"))
    pairs = list(combinations(range(len(sizes)), 2))
    rho = node.floats("rho")
    if coefficients.size != total * (len(sizes) - 1) or len(rho) < len(pairs):
        given = f"{coefficients.size} coefficients and {len(rho)} values of rho"
        message = f"{given} for {total} vectors of {len(sizes)} classes"
        node.fail("svm-coefficients", message, rule=f"{RULE}, coefficients, rho")
    rows, ends = coefficients.reshape(-1, total), np.cumsum((0, *sizes))
    weights = np.zeros((len(pairs), total))
    for ordinal, (i, j) in enumerate(pairs):
        first, second = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        weights[ordinal, first], weights[ordinal, second] = rows[j - 1, first], rows[i, second]
    seen = kernel_values(x, support_vectors(total, node), node, ir)
    scores = ir.dot(seen, constant_of(weights, x, ir), "nv,pv->np")
    return ir.add(scores, constant_of(rho[: len(pairs)], x, ir))


def _votes(scores: Value, count: int, ir: Builder) -> Value:
    """T[N, E]: how many pairs each class wins."""
    pairs = list(combinations(range(count), 2))
    first, second = (np.eye(count)[[pair[side] for pair in pairs]] for side in (0, 1))
    wins = ir.cast(ir.less(0, scores), scores.dtype)
    for_first = ir.dot(wins, constant_of(first, scores, ir), "np,pe->ne")
    return ir.add(for_first, ir.dot(ir.sub(1, wins), constant_of(second, scores, ir), "np,pe->ne"))


def _single_decision(
    best: Value,
    votes: Value | None,
    scores: Value,
    labels: np.ndarray,
    node: Node,
    ir: Builder,
) -> tuple[Value, Value]:
    """Label and scores where there is one value of rho: two classes, or linear scores of any number of them."""
    if labels.size == 2:
        label = labelled(best, labels, ir)
    else:
        # Scores of one decision have no label to speak of: 1 stands for one above 0, 0 for its absence.
        weight = ir.reduce(scores if votes is None else votes, "max", (1,))
        positive = ir.cast(ir.less(0, weight), I64)
        label = ir.gather(ir.constant(_positive_labels(labels)), positive, 0)
    if scores.shape[1] != 1 or labels.size != 2:
        return label, ir.cast(transformed(scores, node, ir), F32)
    return label, ir.cast(_both_sides(scores, node, ir), F32)


def _both_sides(score: Value, node: Node, ir: Builder) -> Value:
    """The scores of two classes from that of their pair, which SOFTMAX leaves as they are but for their sum."""
    if node.string("post_transform") in ("SOFTMAX", "SOFTMAX_ZERO"):
        return ir.concatenate([ir.sub(1, score), score], 1)
    return transformed(ir.concatenate([ir.neg(score), score], 1), node, ir)


def _positive_labels(labels: np.ndarray) -> np.ndarray:
    return np.array(["0", "1"], object) if labels.dtype == object else np.array([0, 1], np.int64)


# Probabilities


def _probabilities(scores: Value, count: int, node: Node, ir: Builder) -> Value:
    """T[N, E]: probabilities that agree best with those of the pairs.

    Source: Wu, Lin and Weng, Probability estimates for multi-class classification by pairwise coupling, 2004; LIBSVM.
    """
    pairs = list(combinations(range(count), 2))
    a, b = (constant_of(node.floats(name)[: len(pairs)], scores, ir) for name in ("prob_a", "prob_b"))
    if a.shape != (len(pairs),) or b.shape != (len(pairs),):
        message = f"prob_a and prob_b have {a.shape[0]} and {b.shape[0]} values for {len(pairs)} pairs"
        node.fail("svm-probabilities", message, rule=f"{RULE}, prob_a, prob_b")
    chance = ir.sub(1, ir.sigmoid(ir.add(ir.mul(scores, a), b)))
    chance = ir.clamp(chance, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    columns = {pair: ir.slice_axis(chance, 1, ordinal, 1) for ordinal, pair in enumerate(pairs)}
    wins = {**columns, **{(j, i): ir.sub(1, column) for (i, j), column in columns.items()}}
    return _coupled(_quadratic_form(wins, count, ir), count, node, ir)


def _quadratic_form(wins: dict[tuple[int, int], Value], count: int, ir: Builder) -> Value:
    """T[N, E, E]: Q with Qtt = sum of r[j, t]^2 over the others, Qtj = -r[j, t] r[t, j]"""
    rows = []
    for t in range(count):
        others = [ir.square(wins[j, t]) for j in range(count) if j != t]
        total = others[0]
        for other in others[1:]:
            total = ir.add(total, other)
        row = [total if j == t else ir.neg(ir.mul(wins[j, t], wins[t, j])) for j in range(count)]
        rows.append(ir.unsqueeze(ir.concatenate(row, 1), (1,)))
    return ir.concatenate(rows, 1)


def _coupled(form: Value, count: int, node: Node, ir: Builder) -> Value:
    """T[N, E]: the probabilities p that minimise p Q p', by LIBSVM's iteration; a row that is near enough stays."""
    rows = form.shape[0]
    start = ir.full((rows, count), 1 / count, form.dtype)
    running = ir.full((rows, 1), True, BOOL)

    def build(nested: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        before, active = carried
        product = nested.dot(form, before, "nij,nj->ni")
        energy = nested.reduce(nested.mul(before, product), "sum", (1,), keepdims=True)
        error = nested.reduce(nested.abs(nested.sub(product, energy)), "max", (1,), keepdims=True)
        # An error that is NaN ends it too, so that features that are NaN leave 1 / E, as in ONNX Runtime.
        active = nested.and_(active, nested.less_equal(TOLERANCE / count, error))
        p = before
        for t in range(count):
            row = nested.squeeze(nested.slice_axis(form, 1, t, 1), (1,))
            own, at = nested.slice_axis(row, 1, t, 1), nested.slice_axis(product, 1, t, 1)
            step = nested.div(nested.sub(energy, at), own)
            grown = nested.add(step, 1)
            change = nested.mul(step, nested.add(nested.mul(step, own), nested.mul(at, 2)))
            energy = nested.div(nested.add(energy, change), nested.square(grown))
            product = nested.div(nested.add(product, nested.mul(step, row)), grown)
            unit = nested.constant(np.eye(count)[t].astype(form.dtype.numpy))
            p = nested.div(nested.add(p, nested.mul(step, unit)), grown)
        going = nested.reduce(nested.reshape(active, (rows,)), "or", (0,))
        return going, nested.select(active, p, before), active

    limit = ir.constant(np.array(max(ITERATIONS, count)))
    return while_loop(node, ir, limit, ir.constant(np.array(True)), [start, running], build)[0]
