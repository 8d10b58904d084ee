"""Derivatives of folds over windows."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.derivatives.movement import spread
from onnxc.compiler.ir.differentiation.derivative import Gradients, Step, derivative
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op, Value


@derivative("reduce_window")
def reduce_window(step: Step, build: Builder) -> Gradients:
    """sum: the sum over the windows that hold an element; max, min: g to the first extremum of each window"""
    return (_sum(step, build) if step.op.text("kind") == "sum" else _extremum(step, build),)


def _sum(step: Step, build: Builder) -> Value:
    """g, spread by the strides over the padded image, summed over the same windows backwards."""
    op, spaced = step.op, step.gradient
    low, high, window, dilations = op.dims("low"), op.dims("high"), op.ints("window"), op.ints("dilations")
    for axis, stride in enumerate(op.ints("strides")):
        padded = low[axis] + step.x.shape[axis] + high[axis]
        reach = (window[axis] - 1) * dilations[axis]
        spaced = spread(spaced, axis, reach, stride, padded + reach, build)
    nothing, ones = (0,) * step.x.rank, (1,) * step.x.rank
    sums = build.reduce_window(spaced, "sum", window, ones, nothing, nothing, dilations)
    return build.slice(sums, low, step.x.shape)


def _extremum(step: Step, build: Builder) -> Value:
    """A window of padding alone has no element, and the index that is given for it gets nothing."""
    op, x = step.op, step.x
    signed = build.neg(x) if op.text("kind") == "min" else x
    lead = 0 if _leaves_first_two_axes(op) else 2
    images = build.unsqueeze(signed, (0, 1)) if lead else signed
    indices = _over_windows("max", images, op, lead, build, arg=True)
    holds = _over_windows("sum", build.full((1, 1, *images.shape[2:]), 1, x.dtype), op, lead, build)
    gradient = build.unsqueeze(step.gradient, (0, 1)) if lead else step.gradient
    gradient = build.select(build.less(0, holds), gradient, 0)
    rows, count = images.shape[:2], product(gradient.shape[2:])
    zeros = build.full((*rows, product(images.shape[2:])), 0, x.dtype)
    flat_indices, flat = (build.with_shape(value, (*rows, count)) for value in (indices, gradient))
    return build.with_shape(build.scatter_along(zeros, flat_indices, flat, 2, "add"), x.shape)


def _leaves_first_two_axes(op: Op) -> bool:
    rows = zip(*(op.dims(name)[:2] for name in ("window", "strides", "low", "high")), strict=True)
    return op.operands[0].rank >= 2 and all(row == (1, 1, 0, 0) for row in rows)


def _over_windows(kind: str, x: Value, op: Op, lead: int, build: Builder, arg: bool = False) -> Value:
    """The fold over the windows of `op`, with `lead` more axes in front."""
    ones, zeros = (1,) * lead, (0,) * lead
    low: tuple[Dim, ...] = (*zeros, *op.dims("low"))
    high: tuple[Dim, ...] = (*zeros, *op.dims("high"))
    window, strides, dilations = ((*ones, *op.ints(name)) for name in ("window", "strides", "dilations"))
    return build.reduce_window(x, kind, window, strides, low, high, dilations, arg)
