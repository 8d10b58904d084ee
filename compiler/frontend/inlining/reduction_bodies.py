"""Reductions as formulas around ReduceSum, of operators of opset 18 and newer.

data: T[d0 ... dr-1]  ->  reduced: T[...], with the axes of `axes` dropped, or of size 1 where `keepdims`.
"""

from collections.abc import Mapping

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.compiler.frontend.versions.upward import Adapter

__all__ = ["REDUCTIONS"]

REAL: Mapping[int, int] = {
    **dict.fromkeys((TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT), TensorProto.FLOAT),
    TensorProto.DOUBLE: TensorProto.DOUBLE,
}
"""The type in which roots and logarithms of a float are computed; those of an integer, in f64."""


def _fold(at: Steps, operator: str, x: str, *, keepdims: int) -> str:
    """A reduction of `x` over the axes of the node, which are an attribute or an input of it."""
    change = at.change
    listed, given = change.integers("axes"), change.input(1)
    axes = at.integers(*listed) if listed is not None else given
    return at(
        operator,
        *(name for name in (x, axes) if name),
        keepdims=keepdims,
        noop_with_empty_axes=change.integer("noop_with_empty_axes"),
    )


def _sum(at: Steps, x: str) -> str:
    return _fold(at, "ReduceSum", x, keepdims=at.change.integer("keepdims", 1))


def _real(at: Steps) -> tuple[str, int]:
    """The data in a type that has roots and logarithms, and that type."""
    real = REAL.get(at.change.known_element(0), TensorProto.DOUBLE)
    return at.cast(at.change.input(0), real), real


def _l1(change: Change) -> None:
    """Σ |x|"""
    at = Steps(change)
    at.become("Identity", _sum(at, at("Abs", change.input(0))))


def _l2(change: Change) -> None:
    """√(Σ x²)"""
    at = Steps(change)
    x, _ = _real(at)
    at.become("Cast", at("Sqrt", _sum(at, at("Mul", x, x))), to=change.element(0))


def _log_sum(change: Change) -> None:
    """ln Σ x"""
    at = Steps(change)
    x, _ = _real(at)
    at.become("Cast", at("Log", _sum(at, x)), to=change.element(0))


def _log_sum_exp(change: Change) -> None:
    """top + ln Σ e^(x - top), where top is the largest element, or 0 where that is not finite"""
    at = Steps(change)
    x, real = _real(at)
    zero = at.cast(at.constant(0, np.float32), real)
    kept, top = (
        at("Where", at("Less", at("Abs", largest), at.cast(at.constant(np.inf, np.float32), real)), largest, zero)
        for largest in (_fold(at, "ReduceMax", x, keepdims=keepdims) for keepdims in (1, change.integer("keepdims", 1)))
    )
    total = at("Log", _sum(at, at("Exp", at("Sub", x, kept))))
    at.become("Cast", at("Add", top, total), to=change.element(0))


def _sum_square(change: Change) -> None:
    """Σ x²"""
    at, x = Steps(change), change.input(0)
    at.become("Identity", _sum(at, at("Mul", x, x)))


REDUCTIONS: Mapping[str, Adapter] = {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": _sum_square,
}
