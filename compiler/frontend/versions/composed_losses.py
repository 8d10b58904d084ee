"""Losses over classes by older operators: what each target chooses is picked by a mask over the classes.

x: T[N, C, D...], target: I[N, D...], weight: T[C]  ->  loss: T[N, D...] or T[], log probabilities: T[N, C, D...]
"""

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.steps import Steps

__all__ = ["negative_log_likelihood_loss", "softmax_cross_entropy_loss"]

REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean"}


def negative_log_likelihood_loss(change: Change) -> None:
    """- weight[target] x[n, target], or their sum or weighted mean"""
    _loss(change, change.input(0))


def softmax_cross_entropy_loss(change: Change) -> None:
    """The loss of the logarithms of the softmax over the classes, which are an output too."""
    at, rank = Steps(change), change.rank(0)
    # Softmax takes all axes from its own on as one, before opset 13: the classes go last.
    order = [0, *range(2, rank), 1]
    back = [order.index(axis) for axis in range(rank)]
    last = at("LogSoftmax", at("Transpose", change.input(0), perm=order), axis=rank - 1)
    logarithms = at("Transpose", last, perm=back)
    at.declare(logarithms, change.element(0), change.shape(change.input(0)))
    at.give(1, logarithms)
    _loss(change, logarithms)


def _loss(change: Change, logarithms: str) -> None:
    at, reduction = Steps(change), change.text("reduction")
    chosen = _choices(at)
    weight, zero = change.input(2), at.scalar(0)
    if weight:
        weight = _by_class(at, weight, change.rank(0))
    terms = at("Mul", logarithms, weight) if weight else logarithms
    loss = _picked(at, chosen, terms, zero)
    if reduction == "none":
        at.become("Neg", loss)
    elif reduction == "mean" and (weight or change.has("ignore_index")):
        weights = _picked(at, chosen, weight or at.scalar(1), zero)
        total, share = (at("ReduceSum", each, keepdims=0) for each in (loss, weights))
        at.become("Neg", at("Div", total, share))
    else:
        at.become("Neg", at(REDUCTIONS[reduction], loss, keepdims=0))


def _choices(at: Steps) -> str:
    """bool[N, C, D...]: whether a class is the target, which none is where the target is ignored."""
    change, rank = at.change, at.change.rank(0)
    shape = change.shape(change.input(0))
    classes = shape[1] if shape is not None and len(shape) > 1 else ""
    if not isinstance(classes, int):
        change.fail("the size of its axis of classes is not known")
    if change.element(1) not in (TensorProto.INT32, TensorProto.INT64):
        change.fail("the type of its targets is not known")
    dtype = np.int32 if change.element(1) == TensorProto.INT32 else np.int64
    ordinals = np.arange(classes).reshape(classes, *[1] * (rank - 2))
    target = at("Unsqueeze", change.input(1), axes=[1])
    chosen = at("Equal", target, change.tensor(ordinals.astype(dtype), "classes"))
    ignored = change.integer("ignore_index", -1)
    if not 0 <= ignored < classes:
        return chosen
    return at("And", chosen, change.tensor(ordinals != ignored, "counted"))


def _by_class(at: Steps, weight: str, rank: int) -> str:
    """T[C, 1...]: the weight of each class, beside the axes behind that of the classes."""
    return at("Unsqueeze", weight, axes=[*range(1, rank - 1)]) if rank > 2 else weight


def _picked(at: Steps, chosen: str, x: str, zero: str) -> str:
    """T[N, D...]: what each target chooses, else 0."""
    return at("ReduceSum", at("Where", chosen, x, zero), axes=[1], keepdims=0)
