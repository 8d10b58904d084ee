"""Reading what stands above a value: constants, splats, and how a reshape regroups axes."""

from collections.abc import Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.makers import made_by, unbroadcast
from onnxc.compiler.ir.module import Value

AxisGroup = tuple[tuple[int, ...], tuple[int, ...]]


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
