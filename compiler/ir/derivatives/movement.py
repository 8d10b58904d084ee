"""Derivatives of movements: each element flows back to where it came from."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import Gradients, Step, derivative
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, at_least, floordiv
from onnxc.compiler.ir.module import Value


@derivative("reshape")
def reshape(step: Step, build: Builder) -> Gradients:
    """g in the shape of x"""
    return (build.with_shape(step.gradient, step.x.shape),)


@derivative("transpose")
def transpose(step: Step, build: Builder) -> Gradients:
    """g by the inverse permutation"""
    permutation = step.op.ints("permutation")
    return (build.transpose(step.gradient, [permutation.index(axis) for axis in range(len(permutation))]),)


@derivative("reshard")
def reshard(step: Step, build: Builder) -> Gradients:
    """g, divided as the value was"""
    return build.op("reshard", [step.gradient], step.op.attributes)


@derivative("enter_stage")
def enter_stage(step: Step, build: Builder) -> Gradients:
    """g; what it is added to decides where it goes"""
    return (step.gradient,)


@derivative("broadcast")
def broadcast(step: Step, build: Builder) -> Gradients:
    """g summed over the axes along which x was repeated"""
    axes = step.op.ints("axes")
    added = [axis for axis in range(step.y.rank) if axis not in axes]
    order = sorted(range(step.x.rank), key=lambda axis: axes[axis])
    result = build.reduce(step.gradient, "sum", added)
    for new_axis, axis in enumerate(order):
        result = sum_to_size(result, new_axis, step.x.shape[axis], build)
    return (build.transpose(result, [order.index(axis) for axis in range(step.x.rank)]),)


def sum_to_size(x: Value, axis: int, size: Dim, build: Builder) -> Value:
    """`x` with its axis of `size` elements, or of the one that was repeated, as only the call may decide."""
    before = x.shape[axis]
    if before == size:
        return x
    if size == 1:
        return build.reduce(x, "sum", [axis], keepdims=True)
    # Size 1 makes one group of all, the same size groups of one each, size 0 no groups.
    count = floordiv(before, maximum(size, 1))
    groups = build.with_shape(x, (*x.shape[:axis], size, count, *x.shape[axis + 1 :]))
    return build.reduce(groups, "sum", [axis + 1])


@derivative("slice")
def slice_(step: Step, build: Builder) -> Gradients:
    """g at the elements that were taken, zeros at the others"""
    result = step.gradient
    rows = zip(step.op.dims("starts"), step.op.ints("steps"), step.x.shape, step.y.shape, strict=True)
    for axis, (start, stride, size, count) in enumerate(rows):
        if stride < 0:
            result, start = build.reverse(result, axis), start + (count - 1) * stride
        if (start, count) != (0, size):
            result = spread(result, axis, start, abs(stride), size, build)
    return (result,)


def spread(x: Value, axis: int, start: Dim, step: int, size: Dim, build: Builder) -> Value:
    """Zeros of `size` along an axis, with element i of `x` at start + i * step."""
    count = x.shape[axis]
    if step > 1:
        spaced = pad_axis(build.unsqueeze(x, [axis + 1]), axis + 1, 0, step - 1, build)
        x = build.with_shape(spaced, (*x.shape[:axis], count * step, *x.shape[axis + 1 :]))
    end = start + count * step
    missing = size - end
    if step == 1 or at_least(missing, 0):
        return pad_axis(x, axis, start, missing, build)
    # The last element may be followed by more zeros than there is room for.
    return build.slice_axis(pad_axis(x, axis, start, maximum(missing, 0), build), axis, 0, size)


def pad_axis(x: Value, axis: int, low: Dim, high: Dim, build: Builder) -> Value:
    """Zeros before and after `x` along one axis."""
    lows: list[Dim] = [0] * x.rank
    highs: list[Dim] = [0] * x.rank
    lows[axis], highs[axis] = low, high
    return build.pad(x, lows, highs)


@derivative("pad")
def pad(step: Step, build: Builder) -> Gradients:
    """The inside of g, the sum of the rest"""
    x, low = step.x, step.op.dims("low")
    inside = build.slice(step.gradient, low, x.shape)
    if not step.wanted[1]:
        return inside, None
    is_fill = build.pad(build.full(x.shape, 0, x.dtype), low, step.op.dims("high"), 1)
    outside = build.select(build.equal(is_fill, 0), 0, step.gradient)
    return inside, build.reduce(outside, "sum", range(x.rank))


@derivative("concatenate")
def concatenate(step: Step, build: Builder) -> Gradients:
    """The part of g that each operand is"""
    axis = step.op.int("axis")
    start: Dim = 0
    parts = []
    for operand in step.operands:
        parts.append(build.slice_axis(step.gradient, axis, start, operand.shape[axis]))
        start = start + operand.shape[axis]
    return parts
