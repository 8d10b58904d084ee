"""Reading what stands above a value: constants, splats, and how a reshape regroups axes."""

from collections.abc import Sequence
from math import copysign

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op, Value

UNIFORM_LIMIT = 1024
"""Longer constants that are splats have become broadcasts by `canonicalize`. Comparing 1024 elements takes 1.5 µs."""

AxisGroup = tuple[tuple[int, ...], tuple[int, ...]]


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


def is_near(value: float | None, expected: float, dtype: DType) -> bool:
    """Whether a constant of `dtype` is `expected`, within 1e-6 or the rounding of `dtype`; never of eight bits."""
    if dtype.bits < 16:
        return False
    rounding = {16: 1e-3, 32: 1e-6, 64: 1e-6}[dtype.bits] if dtype.name != "bf16" else 8e-3
    return value is not None and abs(value - expected) <= rounding * abs(expected)


def full_like(value: Value, constant: float, build: Builder) -> Value:
    """`constant` in the shape and element type of `value`."""
    return build.full(value.shape, constant, value.dtype)


def moved_axes(old: Sequence[Dim], new: Sequence[Dim]) -> dict[int, int] | None:
    """For a reshape that only adds or drops axes of size 1: where each of the others goes; else None."""
    left = [axis for axis, size in enumerate(old) if size != 1]
    right = [axis for axis, size in enumerate(new) if size != 1]
    if [old[axis] for axis in left] != [new[axis] for axis in right]:
        return None
    return dict(zip(left, right, strict=True))


def axis_groups(old: Sequence[Dim], new: Sequence[Dim]) -> tuple[AxisGroup, ...] | None:
    """The smallest runs of axes that a reshape turns into one another; axes of size 1 are in none.

    None where the element counts are not the same expression, or a size is 0.
    """
    left = [axis for axis, size in enumerate(old) if size != 1]
    right = [axis for axis, size in enumerate(new) if size != 1]
    if 0 in old or 0 in new:
        return None
    ends = {product(new[axis] for axis in right[:count]): count for count in range(len(right) + 1)}
    groups: list[AxisGroup] = []
    start, other = 0, 0
    for count in range(1, len(left) + 1):
        end = ends.get(product(old[axis] for axis in left[:count]))
        if end is not None and end > other:
            groups.append((tuple(left[start:count]), tuple(right[other:end])))
            start, other = count, end
    return tuple(groups) if (start, other) == (len(left), len(right)) else None


def bare(value: Value) -> Value:
    """`value` without the reshapes above it that only add or drop axes of size 1."""
    while (reshape := made_by(value, "reshape")) is not None:
        if moved_axes(reshape.operands[0].shape, value.shape) is None:
            break
        value = reshape.operands[0]
    return value


def repeated_over(value: Value, axes: Sequence[int]) -> Value | None:
    """What `value` is a broadcast of, if it repeats along `axes` and has all others in order; units do not count."""
    source, axes_of_source = unbroadcast(value)
    own = [(axis, size) for axis, size in zip(axes_of_source, source.shape, strict=True) if size != 1]
    wanted = [(axis, size) for axis, size in enumerate(value.shape) if size != 1 and axis not in axes]
    return bare(source) if own == wanted else None


def as_trailing(value: Value, axis: int, build: Builder) -> Value | None:
    """`value` as a tensor of its axes from `axis` on, if it repeats along those before."""
    source, axes = unbroadcast(value)
    own = [(own_axis, size) for own_axis, size in zip(axes, source.shape, strict=True) if size != 1]
    if any(own_axis < axis or size != value.shape[own_axis] for own_axis, size in own):
        return None
    dense = build.with_shape(source, [size for _, size in own])
    return build.broadcast(dense, [own_axis - axis for own_axis, _ in own], value.shape[axis:])
