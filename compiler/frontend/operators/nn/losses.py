"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

REDUCTIONS = ("none", "sum", "mean")


@operator("NegativeLogLikelihoodLoss", since=(12, 13, 22))
def negative_log_likelihood_loss(node: Node, ir: Builder) -> Value:
    """input: T[N, C, *D], target: I[N, *D], weight: T[C]  ->  T[N, *D], or reduced T[]

    Source: https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html
    """
    x, target = node.inputs("input", "target")
    _expect_ranks(x, target, node)
    return ir.cast(_loss(widened(x, ir), target, node.optional("weight"), node, ir), x.dtype)


@operator("SoftmaxCrossEntropyLoss", since=(12, 13))
def softmax_cross_entropy_loss(node: Node, ir: Builder) -> tuple[Value, ...]:
    """scores: T[N, C, *D], labels: I[N, *D], weights: T[C]  ->  output: T[N, *D] or reduced T[], log_prob: T[N, C, *D]

    Source: https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html
    """
    x, target = node.inputs("scores", "labels")
    _expect_ranks(x, target, node)
    log_probability = ir.log_softmax(widened(x, ir), 1)
    loss = _loss(log_probability, target, node.optional("weights"), node, ir)
    return ir.cast(loss, x.dtype), ir.cast(log_probability, x.dtype)


def _expect_ranks(x: Value, target: Value, node: Node) -> None:
    if x.rank < 2 or target.rank != x.rank - 1:
        message = f"the scores have {x.rank} axes and the labels {target.rank}, not one less"
        node.fail("loss-rank", message, rule=f"ONNX {node.operator}")


def _loss(log_probability: Value, target: Value, weight: Value | None, node: Node, ir: Builder) -> Value:
    """The weighted loss of each sample, reduced as the node says; the mean divides by the sum of the weights."""
    shape = [
        ir.require_equal(own, other, f"axis {axis} of scores and labels differs", "loss-sizes")
        for axis, (own, other) in enumerate(
            zip((log_probability.shape[0], *log_probability.shape[2:]), target.shape, strict=True)
        )
    ]
    _expect_labels(target, log_probability.shape[1], node, ir)
    target = ir.cast(ir.with_shape(target, shape), I64)
    ignored = ir.equal(target, node.int("ignore_index")) if node.has("ignore_index") else None
    if ignored is not None:
        target = ir.select(ignored, 0, target)
    indices = ir.unsqueeze(target, [1])
    classes = ir.with_shape(log_probability, (shape[0], log_probability.shape[1], *shape[1:]))
    loss = ir.neg(ir.squeeze(ir.gather_along(classes, indices, 1), [1]))
    if weight is not None:
        weight = of_shape(weight, (log_probability.shape[1],), "the weights", node, ir, "loss-weights")
    weights = _weights(target, ignored, weight, loss, node, ir)
    if weights is not None:
        loss = ir.mul(loss, weights)
    reduction, axes = node.choice("reduction", REDUCTIONS), range(loss.rank)
    if reduction == "none":
        return loss
    if reduction == "sum":
        return ir.reduce(loss, "sum", axes)
    if weights is None:
        return ir.mean(loss, axes)
    return ir.div(ir.reduce(loss, "sum", axes), ir.reduce(weights, "sum", axes))


def _expect_labels(target: Value, classes: Dim, node: Node, ir: Builder) -> None:
    """ModelError where a constant label is no class, nor the one to be ignored."""
    known = ir.known_array(target)
    if known is None:
        return
    if node.has("ignore_index"):
        known = known[known != node.int("ignore_index")]
    for label in (int(known.min()), int(known.max())) if known.size else ():
        if label < 0 or at_least(label, classes):
            message = f"a label is {label}, there are {classes} classes"
            node.fail("loss-labels", message, rule=f"ONNX {node.operator}")


def _weights(
    target: Value, ignored: Value | None, weight: Value | None, loss: Value, node: Node, ir: Builder
) -> Value | None:
    """The weight of each sample, 0 where it is ignored; None where all are 1."""
    if weight is None and ignored is None:
        return None
    if weight is None:
        weights = ir.full(target.shape, 1, loss.dtype)
    else:
        weights = ir.gather(ir.cast(weight, loss.dtype), target, 0)
    return weights if ignored is None else ir.select(ignored, 0, weights)
