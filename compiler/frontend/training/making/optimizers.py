"""The optimizers that training information can be made of: from weights and gradients to new weights and states."""

from collections.abc import Mapping, Sequence

import numpy as np

from onnxc.compiler.frontend.computation import TRAINING
from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.training.making.graph_maker import AttributeValue, GraphMaker
from onnxc.runtime.records import record

__all__ = ["OPTIMIZERS", "Optimizer", "Weight", "optimized"]


@record
class Weight:
    """An initializer that is trained."""

    name: str
    element_type: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]


@record
class Optimizer:
    """An operator of the training domain, or "" for w - rate * gradient.

    states: what it keeps of each weight besides. first: the count of steps that the first one is told; Adam corrects
    its averages where it is above 0. attributes: those that differ from the operator's own.
    """

    operator: str
    rate: float
    states: tuple[str, ...] = ()
    first: int = 0
    attributes: Mapping[str, AttributeValue] | None = None


_PLAIN: Mapping[str, AttributeValue] = {"norm_coefficient": 0.0}

OPTIMIZERS: Mapping[str, Optimizer] = {
    "sgd": Optimizer("", 0.01),
    "momentum": Optimizer(
        "Momentum", 0.01, ("velocity",), attributes={**_PLAIN, "alpha": 0.9, "beta": 1.0, "mode": "standard"}
    ),
    "adam": Optimizer("Adam", 0.001, ("mean", "squares"), first=1, attributes={"epsilon": 1e-8}),
    "adagrad": Optimizer("Adagrad", 0.01, ("squares",), attributes={"epsilon": 1e-10}),
}


def optimized(
    weights: Sequence[Weight],
    gradients: Sequence[str],
    optimizer: Optimizer,
    rate: float,
    settings: Mapping[str, AttributeValue],
    maker: GraphMaker,
) -> dict[str, str]:
    """For each initializer that a step changes the output that is its next value."""
    given = maker.initializer("learning_rate", np.array(rate, np.float32))
    maker.declare(given, TensorProto.FLOAT, ())
    if not optimizer.operator:
        pairs = zip(weights, gradients, strict=True)
        return {weight.name: _moved(weight, gradient, given, maker) for weight, gradient in pairs}
    count = maker.initializer("steps", np.array(optimizer.first, np.int64))
    one = maker.initializer("one_step", np.array(1, np.int64))
    following = maker.one("Add", (count, one), "steps.next")
    maker.output(following, TensorProto.INT64, ())
    return {count: following} | _by_operator(weights, gradients, optimizer, settings, (given, count), maker)


def _moved(weight: Weight, gradient: str, rate: str, maker: GraphMaker) -> str:
    """w - rate * gradient"""
    if weight.element_type != TensorProto.FLOAT:
        rate = maker.one("Cast", (rate,), "rate", {"to": weight.element_type})
    change = maker.one("Mul", (rate, gradient), f"{weight.name}.change")
    moved = maker.one("Sub", (weight.name, change), f"{weight.name}.next")
    maker.output(moved, weight.element_type, weight.shape)
    return moved


def _by_operator(
    weights: Sequence[Weight],
    gradients: Sequence[str],
    optimizer: Optimizer,
    settings: Mapping[str, AttributeValue],
    scalars: tuple[str, str],
    maker: GraphMaker,
) -> dict[str, str]:
    """One node for all weights; its inputs and outputs are all weights, then all of each kind of state."""
    states = [
        maker.initializer(f"{weight.name}.{state}", np.zeros(weight.shape, weight.dtype))
        for state in optimizer.states
        for weight in weights
    ]
    changing = [*(weight.name for weight in weights), *states]
    operands = [*scalars, *changing[: len(weights)], *gradients, *states]
    attributes = {**(optimizer.attributes or {}), **settings}
    names = maker.node(optimizer.operator, operands, [f"{name}.next" for name in changing], attributes, TRAINING)
    types = [weight for _ in range(1 + len(optimizer.states)) for weight in weights]
    for name, weight in zip(names, types, strict=True):
        maker.output(name, weight.element_type, weight.shape)
    return dict(zip(changing, names, strict=True))
