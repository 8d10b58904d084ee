"""Operators as the functions that the standard defines them by, of operators of opset 18 and newer.

Where a body of the standard overflows and the operator does not, the body here is the one that does not.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from onnxc.compiler.frontend.inlining.reduction_bodies import REDUCTIONS
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.sizes import Size, sizes_of, value_of, vector
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.compiler.frontend.versions.upward import Adapter

__all__ = ["BODIES", "WRITTEN_IN"]

WRITTEN_IN = 18
"""The opset that the bodies need; they mean the same in any newer one."""

# Softmax and LogSoftmax; before, the input "will be coerced into" a matrix.
ONE_AXIS_SINCE = 13


def _number(at: Steps, value: float) -> str:
    """A constant of the type of the first input, rounded to f32 first, as an attribute is."""
    return at.cast(at.constant(value, np.float32), at.change.known_element(0))


# Activations


def _clip(change: Change) -> None:
    """min(max(x, low), high)"""
    at, x = Steps(change), change.input(0)
    for position, operator in ((1, "Max"), (2, "Min")):
        if change.input(position):
            x = at(operator, x, change.input(position))
    at.become("Identity", x)


def _elu(change: Change) -> None:
    """α (e^x - 1) below 0, else x"""
    at, x = Steps(change), change.input(0)
    below = at("Mul", at("Sub", at("Exp", x), _number(at, 1)), _number(at, change.real("alpha", 1.0)))
    at.become("Where", at("Less", x, _number(at, 0)), below, x)


def _hard_sigmoid(change: Change) -> None:
    """max(0, min(1, α x + β))"""
    at, alpha, beta = Steps(change), change.real("alpha", 0.2), change.real("beta", 0.5)
    line = at("Add", at("Mul", change.input(0), _number(at, alpha)), _number(at, beta))
    at.become("Max", at("Min", line, _number(at, 1)), _number(at, 0))


def _leaky_relu(change: Change) -> None:
    """α x below 0, else x"""
    at, x = Steps(change), change.input(0)
    bent = at("Mul", x, _number(at, change.real("alpha", 0.01)))
    at.become("Where", at("Less", x, _number(at, 0)), bent, x)


def _p_relu(change: Change) -> None:
    """slope x below 0, else x"""
    at, x = Steps(change), change.input(0)
    at.become("Where", at("Less", x, _number(at, 0)), at("Mul", x, change.input(1)), x)


def _relu(change: Change) -> None:
    """max(x, 0)"""
    at = Steps(change)
    at.become("Max", change.input(0), _number(at, 0))


def _selu(change: Change) -> None:
    """γ x above 0, else γ (α e^x - α)"""
    at, x = Steps(change), change.input(0)
    alpha, gamma = _number(at, change.real("alpha", 1.6732)), _number(at, change.real("gamma", 1.0507))
    below = at("Mul", at("Sub", at("Mul", at("Exp", x), alpha), alpha), gamma)
    at.become("Where", at("Less", x, _number(at, 0)), below, at("Mul", x, gamma))


def _shrink(change: Change) -> None:
    """x + bias below -λ, x - bias above λ, else 0"""
    at, x = Steps(change), change.input(0)
    edge, bias = change.real("lambd", 0.5), _number(at, change.real("bias", 0.0))
    is_below, is_above = at("Less", x, _number(at, -edge)), at("Greater", x, _number(at, edge))
    above = at("Where", is_above, at("Sub", x, bias), _number(at, 0))
    at.become("Where", is_below, at("Add", x, bias), above)


def _softplus(change: Change) -> None:
    """max(x, 0) + ln(1 + e^-|x|), which is ln(e^x + 1) and does not overflow"""
    at, x = Steps(change), change.input(0)
    rest = at("Log", at("Add", at("Exp", at("Neg", at("Abs", x))), _number(at, 1)))
    at.become("Add", at("Max", x, _number(at, 0)), rest)


def _softsign(change: Change) -> None:
    """x / (1 + |x|)"""
    at, x = Steps(change), change.input(0)
    at.become("Div", x, at("Add", at("Abs", x), _number(at, 1)))


def _softmax(change: Change) -> None:
    """e^(x - max) over its sum"""
    at, axes = Steps(change), _row(change)
    raised = at("Exp", _below_top(at, axes))
    at.become("Div", raised, at.over("ReduceSum", raised, axes, keepdims=1))


def _log_softmax(change: Change) -> None:
    """x - max less the logarithm of the sum of what e is raised to by it"""
    at, axes = Steps(change), _row(change)
    lowered = _below_top(at, axes)
    at.become("Sub", lowered, at("Log", at.over("ReduceSum", at("Exp", lowered), axes, keepdims=1)))


def _row(change: Change) -> Sequence[int]:
    """The axes that sum up to 1: `axis`, before opset 13 all from there on."""
    if change.before.since_version >= ONE_AXIS_SINCE:
        return [change.integer("axis", -1)]
    axis = change.integer("axis", 1)
    return range(axis, 0 if axis < 0 else change.rank(0))


def _below_top(at: Steps, axes: Sequence[int]) -> str:
    x = at.change.input(0)
    return at("Sub", x, at.over("ReduceMax", x, axes, keepdims=1))


# What moves elements


def _cast_like(change: Change) -> None:
    """The type of the second input, which must be known; attributes that say how to round stay."""
    kept = [attribute for attribute in change.node.attribute if attribute.name in ("saturate", "round_mode")]
    Steps(change).become("Cast", change.input(0), to=change.known_element(1))
    change.node.attribute.extend(kept)


def _depth_to_space(change: Change) -> None:
    """[N, C b b, H, W] -> [N, C, H b, W b]: a block of channels is a square"""
    at, b = Steps(change), change.integer("blocksize")
    n, channels, height, width = sizes_of(at, change.input(0))
    depth, is_crd = _product(at, channels, b * b, operator="Div"), change.text("mode") == "CRD"
    apart = [n, depth, b, b, height, width] if is_crd else [n, b, b, depth, height, width]
    order = [0, 1, 4, 2, 5, 3] if is_crd else [0, 3, 4, 1, 5, 2]
    turned = at("Transpose", at("Reshape", change.input(0), vector(at, apart), allowzero=1), perm=order)
    whole = vector(at, [n, depth, _product(at, height, b), _product(at, width, b)])
    at.become("Reshape", turned, whole, allowzero=1)


def _space_to_depth(change: Change) -> None:
    """[N, C, H b, W b] -> [N, b b C, H, W], or C b b: a square is a block of channels"""
    at, b = Steps(change), change.integer("blocksize")
    order = [0, 1, 3, 5, 2, 4] if change.text("mode") == "CRD" else [0, 3, 5, 1, 2, 4]
    n, depth, *spatial = sizes_of(at, change.input(0))
    height, width = (_product(at, size, b, operator="Div") for size in spatial)
    apart = vector(at, [n, depth, height, b, width, b])
    turned = at("Transpose", at("Reshape", change.input(0), apart, allowzero=1), perm=order)
    at.become("Reshape", turned, vector(at, [n, _product(at, depth, b * b), height, width]), allowzero=1)


def _product(at: Steps, size: Size, factor: int, *, operator: str = "Mul") -> Size:
    """A size times a factor, or divided by it."""
    if isinstance(size, int):
        return size * factor if operator == "Mul" else size // factor
    return at(operator, value_of(at, size), at.integers(factor))


BODIES: Mapping[str, tuple[int, Adapter]] = {
    **{name: (1, body) for name, body in REDUCTIONS.items()},
    "CastLike": (15, _cast_like),
    "Clip": (11, _clip),
    "DepthToSpace": (1, _depth_to_space),
    "Elu": (1, _elu),
    "HardSigmoid": (1, _hard_sigmoid),
    "LeakyRelu": (1, _leaky_relu),
    "LogSoftmax": (1, _log_softmax),
    "PRelu": (7, _p_relu),
    "Relu": (1, _relu),
    "Selu": (1, _selu),
    "Shrink": (9, _shrink),
    "Softmax": (1, _softmax),
    "Softplus": (1, _softplus),
    "Softsign": (1, _softsign),
    "SpaceToDepth": (1, _space_to_depth),
}
"""The version of an operator from which its body is right, and the body."""
