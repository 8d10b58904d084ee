"""Sizes in compositions: integers where they are known, else values that hold one, which the nodes of a shape give."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.steps import Steps

__all__ = [
    "Size",
    "along",
    "as_float",
    "lacking",
    "positions",
    "positive",
    "size_of",
    "sizes_of",
    "sum_of",
    "value_of",
    "vector",
]

Size = int | str
"""A size: an integer, or the name of a value, i64[1]."""

MOST_POSITIONS = 1 << 12
"""How many positions along an axis are a constant of the model, 32 KiB of it; more are a Range."""


RANGE_SINCE = 11


def size_of(at: Steps, x: str, axis: int) -> Size:
    """The size of an axis of a value of known rank, counted from either end."""
    shape = _known_shape(at, x)
    size = shape[axis]
    return size if isinstance(size, int) else at("Gather", at("Shape", x), at.integers(axis % len(shape)), axis=0)


def sizes_of(at: Steps, x: str) -> tuple[Size, ...]:
    """The sizes of a value of known rank."""
    shape = _known_shape(at, x)
    if all(isinstance(size, int) for size in shape):
        return tuple(size for size in shape if isinstance(size, int))
    whole = at("Shape", x)
    return tuple(
        size if isinstance(size, int) else at("Gather", whole, at.integers(axis), axis=0)
        for axis, size in enumerate(shape)
    )


def _known_shape(at: Steps, x: str) -> tuple[int | str, ...]:
    shape = at.change.shape(x)
    if shape is None:
        at.change.fail(f"the rank of {x} is not known")
    return shape


def vector(at: Steps, sizes: Sequence[Size]) -> str:
    """i64[n]: the sizes, one behind the other."""
    parts: list[str] = []
    for is_known, group in groupby(sizes, lambda size: isinstance(size, int)):
        listed = [*group]
        parts += [at.integers(*map(int, listed))] if is_known else map(str, listed)
    if not parts:
        return at.integers()
    return parts[0] if len(parts) == 1 else at("Concat", *parts, axis=0)


def value_of(at: Steps, size: Size) -> str:
    """i64[1]: the size."""
    return at.integers(size) if isinstance(size, int) else size


def as_float(at: Steps, size: Size, element: int) -> str:
    """The size as a float, of rank 0 or one element; `element` is f32 or f64."""
    if isinstance(size, int):
        return at.constant(size, np.float32 if element == TensorProto.FLOAT else np.float64)
    return at.cast(size, element)


def positions(at: Steps, size: Size) -> str:
    """i64[size]: the integers from 0 on."""
    if isinstance(size, int) and size <= MOST_POSITIONS:
        return at.integers(*range(size))
    if at.change.version < RANGE_SINCE:
        return at.over("Squeeze", at("NonZero", at("Expand", at.constant(1, np.int64), value_of(at, size))), [0])
    end = at.over("Squeeze", value_of(at, size), [0])
    return at("Range", at.constant(0, np.int64), end, at.constant(1, np.int64))


def sum_of(at: Steps, first: Size, second: Size) -> Size:
    """The sum of two sizes."""
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    return at("Add", value_of(at, first), value_of(at, second))


def lacking(at: Steps, own: Size, wanted: Size) -> Size:
    """How much a size is below another one; 0 where it is not."""
    if isinstance(own, int) and isinstance(wanted, int):
        return max(wanted - own, 0)
    return positive(at, at("Sub", value_of(at, wanted), value_of(at, own)))


def along(at: Steps, x: str, axis: int, rank: int) -> str:
    """A vector along one axis of a tensor of that rank, with which it broadcasts."""
    behind = rank - axis - 1
    return at.over("Unsqueeze", x, [*range(1, behind + 1)]) if behind else x


def positive(at: Steps, x: str) -> str:
    """Integers, i64, with 0 in place of what is below."""
    zero = at.constant(0, np.int64)
    return at("Where", at("Less", x, zero), zero, x)
