"""Choices between elements: bounds, the last of equals, and Where and Expand of known sizes."""

from collections.abc import Sequence
from math import prod

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import FLOATS, Change
from onnxc.compiler.frontend.versions.sizes import Size, positions, size_of, sum_of, value_of, vector
from onnxc.compiler.frontend.versions.steps import Steps

__all__ = ["arg_12", "bounded", "expand_8", "extremum_12", "where_9"]


def bounded(change: Change) -> None:
    """The larger of an input and its lower bound, and the smaller of that and the upper one."""
    at, x = Steps(change), change.input(0)
    bounds = [at("Reshape", name, at.integers()) if name else "" for name in (change.input(1), change.input(2))]
    for bound, operator in zip(bounds, _EXCEEDS, strict=True):
        if bound:
            x = at(operator, x, bound) if change.element(0) in FLOATS else _extremum(at, operator, x, bound)
    at.become("Identity", x)


def extremum_12(change: Change) -> None:
    """The largest or smallest of integers, one more of the operands at a time."""
    if change.element(0) in FLOATS:
        return
    at, (x, *others) = Steps(change), change.node.input
    for other in others:
        x = _extremum(at, change.before.name, x, other)
    at.become("Identity", x)


_EXCEEDS = {"Max": "Less", "Min": "Greater"}
"""Which comparison of an integer with another says that the other is the larger, or smaller."""


def _extremum(at: Steps, operator: str, x: str, y: str) -> str:
    return at("Where", at(_EXCEEDS[operator], x, y), y, x)


def arg_12(change: Change) -> None:
    """The last of equals is the first from the end."""
    if not change.integer("select_last_index"):
        change.drop("select_last_index")
        return
    at, x, axis = Steps(change), change.input(0), change.axis(change.integer("axis"))
    size = size_of(at, x, axis)
    last = at.over("Squeeze", value_of(at, sum_of(at, size, -1)), [0])
    turned = at("Gather", x, at("Sub", last, positions(at, size)), axis=axis)
    index = at(change.node.op_type, turned, axis=axis, keepdims=change.integer("keepdims", 1))
    at.become("Sub", last, index)


def where_9(change: Change) -> None:
    """Elements of both values, one behind the other, at the indices that a condition makes."""
    at, shapes = Steps(change), [_known(change, name) for name in change.node.input]
    shape = np.broadcast_shapes(*shapes)
    size = prod(shape)
    condition, x, y = (at("Expand", name, vector(at, shape)) for name in change.node.input)
    both = at("Concat", *(at("Reshape", value, at.integers(-1)) for value in (y, x)), axis=0)
    chosen = at("Mul", at("Cast", condition, to=TensorProto.INT64), at.constant(size, np.int64))
    own = change.tensor(np.arange(size, dtype=np.int64).reshape(shape), "positions")
    at.become("Gather", both, at("Add", chosen, own), axis=0)


def expand_8(change: Change) -> None:
    """A Tile by the sizes of the axes that are of size 1."""
    at, own = Steps(change), _known(change, change.input(0))
    count = change.shape(change.input(1))
    if count is None or len(count) != 1 or not isinstance(count[0], int):
        change.fail("the rank of its result is not known")
    rank = max(len(own), count[0])
    aligned: Sequence[int] = (1,) * (rank - len(own)) + own
    known = change.constant(1) if change.input(1) in change.values.constants else None
    repeats: list[Size] = []
    for axis, size in enumerate(aligned):
        position = axis - (rank - count[0])
        if size != 1 or position < 0:
            repeats.append(1)
        elif known is not None:
            repeats.append(int(known[position]))
        else:
            repeats.append(at("Gather", change.input(1), at.integers(position), axis=0))
    x, added = change.input(0), [*range(rank - len(own))]
    x = at.over("Unsqueeze", x, added) if added else x
    at.become("Tile", x, vector(at, repeats))


def _known(change: Change, name: str) -> tuple[int, ...]:
    """The sizes of a value, which must be known."""
    shape = change.shape(name)
    if shape is None or not all(isinstance(size, int) for size in shape):
        change.fail(f"the sizes of {name} are not known")
    return tuple(size for size in shape if isinstance(size, int))
