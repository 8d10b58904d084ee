"""Derivatives of folds over whole axes and of running folds.

Where several elements are the minimum or maximum, each gets the same share. Products are differentiated without
dividing, so zeros among the factors are exact.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import Gradients, Step, derivative
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value


@derivative("reduce")
def reduce(step: Step, build: Builder) -> Gradients:
    """sum: g everywhere; prod: g times the product of the others; min, max: g shared by the extrema"""
    axes, kind = step.op.ints("axes"), step.op.text("kind")
    match kind:
        case "sum":
            return (_along(step.gradient, axes, step.x, build),)
        case "prod":
            return (build.mul(_along(step.gradient, axes, step.x, build), _other_factors(step.x, axes, build)),)
    assert kind in ("min", "max"), kind
    is_extremum = build.cast(build.equal(step.x, _along(step.y, axes, step.x, build)), step.x.dtype)
    shares = build.div(step.gradient, build.reduce(is_extremum, "sum", axes))
    return (build.mul(_along(shares, axes, step.x, build), is_extremum),)


def _along(folded: Value, axes: Sequence[int], x: Value, build: Builder) -> Value:
    """A value without `axes` repeated along them, in the shape of `x`."""
    kept = [axis for axis in range(x.rank) if axis not in axes]
    return build.broadcast(folded, kept, x.shape)


def _other_factors(x: Value, axes: Sequence[int], build: Builder) -> Value:
    """For each element the product of all others along `axes`."""
    order = [*(axis for axis in range(x.rank) if axis not in axes), *axes]
    ordered = build.transpose(x, order)
    kept = x.rank - len(axes)
    rows = build.reshape(ordered, (*ordered.shape[:kept], product(ordered.shape[kept:])))
    before, after = (build.scan_axis(rows, "prod", kept, exclusive=True, reverse=reverse) for reverse in (False, True))
    others = build.with_shape(build.mul(before, after), ordered.shape)
    return build.transpose(others, [order.index(axis) for axis in range(x.rank)])


@derivative("scan_axis")
def scan_axis(step: Step, build: Builder) -> Gradients:
    """By kind, in the order in which the elements are met"""
    axis, kind, exclusive = step.op.int("axis"), step.op.text("kind"), step.op.flag("exclusive")
    reverse = step.op.flag("reverse")
    if kind == "sum":
        return (build.scan_axis(step.gradient, "sum", axis, exclusive, not reverse),)
    x, gradient = (build.reverse(value, axis) if reverse else value for value in (step.x, step.gradient))
    rule = _running_product if kind == "prod" else _running_extremum
    result = rule(x, gradient, axis, kind, exclusive, build)
    return (build.reverse(result, axis) if reverse else result,)


def _running_product(x: Value, gradient: Value, axis: int, kind: str, exclusive: bool, build: Builder) -> Value:
    """Σ over the indices i after index k of g[i] times the factors before i other than k.

    The factors between k and i are a matrix for each row, so memory grows with the square of the axis.
    """
    size, last = x.shape[axis], x.rank
    before = build.scan_axis(x, "prod", axis, exclusive=True)
    # Axis `axis` is the index k that is left out, axis `last` the index i up to which is multiplied.
    order = [*range(axis), last, *range(axis + 1, last)]
    matrix = (*x.shape, size)
    left_out, last_factor = build.iota(matrix, axis, I64), build.iota(matrix, last, I64)
    factors = build.select(build.less(left_out, last_factor), build.broadcast(x, order, matrix), 1)
    between = build.scan_axis(factors, "prod", last, exclusive=exclusive)
    reaches = build.less(left_out, last_factor) if exclusive else build.less_equal(left_out, last_factor)
    terms = build.select(reaches, build.mul(build.broadcast(gradient, order, matrix), between), 0)
    return build.mul(before, build.reduce(terms, "sum", [last]))


def _running_extremum(x: Value, gradient: Value, axis: int, kind: str, exclusive: bool, build: Builder) -> Value:
    """g to the first element that is as extreme as any up to its index."""
    before = build.scan_axis(x, kind, axis, exclusive=True)
    is_new = build.less(before, x) if kind == "max" else build.less(x, before)
    index = build.iota(x.shape, axis, I64)
    source = build.scan_axis(build.select(is_new, index, 0), "max", axis, exclusive)
    if exclusive:
        # The first result is a constant, and its index the least integer.
        source, gradient = build.max(source, 0), build.select(build.equal(index, 0), 0, gradient)
    return build.scatter_along(build.full(x.shape, 0, x.dtype), source, gradient, axis, "add")
