"""Which op makes a value, and what is known of its elements where that is a constant."""

from math import copysign

import numpy as np

from onnxc.compiler.ir.module import Op, Value

__all__ = ["UNIFORM_LIMIT", "constant_of", "is_constant", "is_splat", "made_by", "splat_of", "unbroadcast"]

UNIFORM_LIMIT = 1024
"""Longer constants that are splats have become broadcasts by `canonicalize`. Comparing 1024 elements takes 1.5 µs."""


def made_by(value: Value, *names: str) -> Op | None:
    """The op that makes `value`, if it has one of `names`."""
    op = value.op
    return op if op is not None and op.name in names else None


def constant_of(value: Value) -> np.ndarray | None:
    """The elements of a constant."""
    op = made_by(value, "constant")
    return None if op is None else op.array()


def unbroadcast(value: Value) -> tuple[Value, tuple[int, ...]]:
    """What `value` is a broadcast of, and which axes of `value` its axes are; itself and all axes if it is none."""
    op = made_by(value, "broadcast")
    return (value, tuple(range(value.rank))) if op is None else (op.operands[0], op.ints("axes"))


def is_constant(value: Value) -> bool:
    """Whether `value` is a constant, or a constant broadcast."""
    return constant_of(unbroadcast(value)[0]) is not None


def splat_of(value: Value) -> int | float | None:
    """What all elements of `value` are, a constant or one broadcast; None where they differ or the constant is long."""
    source = unbroadcast(value)[0]
    array = constant_of(source)
    if array is None or not 1 <= array.size <= UNIFORM_LIMIT or source.dtype.kind in ("complex", "string"):
        return None
    splat = array.reshape(-1)[0].item()
    if array.size > 1 and array.tobytes() != array.reshape(-1)[0].tobytes() * array.size:
        return None
    return float(splat) if value.dtype.is_float else int(splat)


def is_splat(value: Value, constant: float) -> bool:
    """Whether all elements of `value` are `constant`; -0.0 is not 0.0."""
    splat = splat_of(value)
    return splat is not None and splat == constant and copysign(1, splat) == copysign(1, constant)
