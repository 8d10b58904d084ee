"""Ordering: sort, top_k, non_zero and true_positions. NaN counts as greater than every number."""

import numpy as np

from onnxc.runtime.host.attributes import flag, integer
from onnxc.runtime.host.elements import widen
from onnxc.runtime.host.registry import Arrays, Attributes, meaning
from onnxc.runtime.host.text_codes import coded_texts


@meaning("sort")
def sort(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  values: T[...], indices: i64[...], sorted along axis; equal elements keep their order."""
    (x,) = operands
    axis = integer(attributes, "axis")
    order = _order(x, axis, descending=flag(attributes, "descending", default=False))
    return np.take_along_axis(x, order, axis), order


@meaning("top_k")
def top_k(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[... n ...]  ->  values: T[... k ...], indices: i64[... k ...], the best first; of equals the lower index.

    With k > n all n are given.
    """
    (x,) = operands
    axis = integer(attributes, "axis")
    order = _order(x, axis, descending=flag(attributes, "largest", default=True))
    best = order[(slice(None),) * axis + (slice(integer(attributes, "k")),)].copy()
    return np.take_along_axis(x, best, axis), best


def _order(x: np.ndarray, axis: int, *, descending: bool) -> np.ndarray:
    """The indices that sort `x` along `axis`, equal elements in their order."""
    if x.dtype.hasobject and x.ndim == 1 and not descending:
        coded = coded_texts(x)
        if coded is not None:
            return np.argsort(coded.codes, kind="stable").astype(np.int64)
        # Python's own sort knows of texts alone that they are.
        return np.array(sorted(range(x.size), key=x.tolist().__getitem__), np.int64)
    keys = widen(x)
    if not descending:
        return np.argsort(keys, axis=axis, kind="stable").astype(np.int64)
    # Ascending on the reversed axis, read backwards, has the largest first and equal elements in their order.
    backwards = np.argsort(np.flip(keys, axis), axis=axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(backwards, axis), np.int64)


@meaning("non_zero")
def non_zero(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[d0 ... dr-1]  ->  i64[r, n], the indices of the n elements that are not zero, in row-major order."""
    (x,) = operands
    indices = np.argwhere(widen(x) != 0).astype(np.int64)
    return (np.ascontiguousarray(indices.T),)


@meaning("true_positions")
def true_positions(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: bool[n]  ->  i64[count], where `x` is true, as far as there is room; behind the last one 0."""
    (x,) = operands
    result = np.zeros(integer(attributes, "count"), np.int64)
    positions = np.flatnonzero(x)[: result.size]
    result[: positions.size] = positions
    return (result,)
