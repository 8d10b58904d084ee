"""Reductions, scans and arg-reductions: what remains of one or more axes.

f32 sums are accumulated in f64 and rounded once, so that the order of summation never shows; narrower floats accumulate
in f32, integers wrap in their own type.
"""

import numpy as np

from onnxc.runtime.host.attributes import flag, integer, integers, text
from onnxc.runtime.host.elements import F32, F64, narrow, value_range, widen
from onnxc.runtime.host.registry import Arrays, Attributes, meaning

COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def identity(kind: str, dtype: np.dtype) -> float | int | bool:
    """What sum, prod, min or max of nothing gives: for the last two the far end of the type."""
    if kind in ("min", "max"):
        return value_range(dtype)[kind == "min"]
    return {"sum": 0, "prod": 1}[kind]


def accumulator(x: np.ndarray, kind: str) -> np.ndarray:
    """`x` in the type that `kind` accumulates it in."""
    wide = widen(x)
    return wide.astype(F64) if kind == "sum" and wide.dtype == F32 and x.dtype == F32 else wide


def reduce_axes(x: np.ndarray, kind: str, axes: tuple[int, ...], keepdims: bool = False) -> np.ndarray:
    """`x` combined over `axes`, in its own type; NaN propagates through min and max."""
    wide = accumulator(x, kind)
    combine = COMBINE[kind]
    if kind in ("min", "max"):
        initial = identity(kind, x.dtype)
        return narrow(combine.reduce(wide, axis=axes, keepdims=keepdims, initial=initial), x.dtype)
    return narrow(combine.reduce(wide, axis=axes, keepdims=keepdims, dtype=wide.dtype), x.dtype)


@meaning("reduce")
def reduce(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  T[...] without axes; kind: sum, prod, min, max, and, or (logical on bool, else bitwise)."""
    return (reduce_axes(operands[0], text(attributes, "kind"), integers(attributes, "axes")),)


@meaning("scan_axis")
def scan_axis(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  T[...], each element combined with those before it along axis.

    exclusive leaves the element itself out, so that the first is the identity; reverse combines with those after it.
    """
    (x,) = operands
    kind, axis = text(attributes, "kind"), integer(attributes, "axis")
    wide = accumulator(x, kind)
    ordered = np.flip(wide, axis) if flag(attributes, "reverse", default=False) else wide
    scanned = COMBINE[kind].accumulate(ordered, axis=axis, dtype=wide.dtype)
    if flag(attributes, "exclusive", default=False):
        first = np.full_like(_part(scanned, axis, 0, 1), identity(kind, x.dtype))
        scanned = np.concatenate((first, _part(scanned, axis, 0, max(x.shape[axis] - 1, 0))), axis)
    if flag(attributes, "reverse", default=False):
        scanned = np.flip(scanned, axis)
    return (narrow(scanned, x.dtype),)


def _part(x: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    return x[(slice(None),) * axis + (slice(start, stop),)]


@meaning("arg_reduce")
def arg_reduce(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  i64[...] without axis: where the min or max stands, the first of equals, or the last.

    NaN counts as the extreme; an axis of size 0 gives 0.
    """
    (x,) = operands
    axis = integer(attributes, "axis")
    size = x.shape[axis]
    if size == 0:
        return (np.zeros(x.shape[:axis] + x.shape[axis + 1 :], np.int64),)
    extreme = {"min": np.argmin, "max": np.argmax}[text(attributes, "kind")]
    if not flag(attributes, "last", default=False):
        return (narrow(extreme(widen(x), axis=axis), np.dtype(np.int64)),)
    return (narrow(size - 1 - extreme(np.flip(widen(x), axis), axis=axis), np.dtype(np.int64)),)
