"""Windows: reductions over a rectangle that slides along every axis, done one axis after the other."""

from collections.abc import Iterator

import numpy as np

from onnxc.runtime.host.attributes import integers, text
from onnxc.runtime.host.dimension_labels import axis_order
from onnxc.runtime.host.elements import narrow, widen
from onnxc.runtime.host.reductions import COMBINE, accumulator, identity
from onnxc.runtime.host.registry import Arrays, Attributes, meaning
from onnxc.runtime.records import record


@record
class Window:
    """How a window slides along one axis, padded by `low` before and `high` after."""

    axis: int
    size: int
    stride: int
    low: int
    high: int
    dilation: int

    def is_trivial(self) -> bool:
        """Whether it leaves its axis as it is."""
        return (self.size, self.stride, self.low, self.high) == (1, 1, 0, 0)

    def pad(self, x: np.ndarray, value: float | int) -> np.ndarray:
        """`x` with `value` before and after along the axis."""
        shape = list(x.shape)
        shape[self.axis] += self.low + self.high
        result = np.full(shape, value, x.dtype)
        result[self._along(slice(self.low, self.low + x.shape[self.axis]))] = x
        return result

    def result_shape(self, padded: np.ndarray) -> tuple[int, ...]:
        """The shape of what slides over `padded`."""
        shape = list(padded.shape)
        shape[self.axis] = max((shape[self.axis] - (self.size - 1) * self.dilation - 1) // self.stride + 1, 0)
        return tuple(shape)

    def steps(self, padded: np.ndarray) -> Iterator[np.ndarray]:
        """What each element of the window meets, over all positions, the first element first."""
        reach = max((self.result_shape(padded)[self.axis] - 1) * self.stride + 1, 0)
        for start in range(0, self.size * self.dilation, self.dilation):
            yield padded[self._along(slice(start, start + reach, self.stride))]

    def _along(self, pick: slice) -> tuple[slice, ...]:
        return (slice(None),) * self.axis + (pick,)


def _windows(attributes: Attributes) -> tuple[Window, ...]:
    """One for each axis that is not left as it is, the last axis first."""
    names = ("window", "strides", "low", "high", "dilations")
    rows = zip(*(integers(attributes, name) for name in names), strict=True)
    windows = [Window(axis, *row) for axis, row in enumerate(rows)]
    return tuple(window for window in reversed(windows) if not window.is_trivial())


@meaning("reduce_window")
def reduce_window(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[d0 ... dr-1]  ->  T[o0 ... or-1], kind: sum, max, min.

    oi = (low + d + high - (window - 1) * dilation - 1) // stride + 1; the padding holds the identity of the kind.
    """
    (x,) = operands
    kind = text(attributes, "kind")
    neutral = identity(kind, x.dtype)
    result = accumulator(x, kind)
    for window in _windows(attributes):
        padded = window.pad(result, neutral)
        result = np.full(window.result_shape(padded), neutral, padded.dtype)
        for step in window.steps(padded):
            COMBINE[kind](result, step, out=result)
    return (narrow(result, x.dtype).copy(),)


@meaning("arg_reduce_window")
def arg_reduce_window(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[N, C, *S]  ->  i64[N, C, *O]: where the maximum of each window stands in the row-major order of S.

    The axes are in the order of the labels `dimensions`, as in "nc01".
    The first of equals; NaN counts as the maximum; a window of padding alone gives 0.
    """
    (x,) = operands
    assert text(attributes, "kind") == "max", attributes["kind"]
    best, least = widen(x), identity("max", x.dtype)
    order = axis_order(text(attributes, "dimensions"), "nc")
    sizes = [x.shape[axis] for axis in order[2:]]
    positions = np.arange(np.prod(sizes, dtype=np.int64)).reshape(1, 1, *sizes)
    index = np.broadcast_to(positions.transpose(np.argsort(order)), x.shape)
    # From the last label to the first, so that the first of equals is first in the order of S.
    for window in sorted(_windows(attributes), key=lambda window: order.index(window.axis), reverse=True):
        values, indices = window.pad(best, least), window.pad(index, -1)
        best = np.full(window.result_shape(values), least, values.dtype)
        index = np.full(best.shape, -1, np.int64)
        for value, candidate in zip(window.steps(values), window.steps(indices), strict=True):
            greater = (value > best) | ((value != value) & (best == best))
            wins = (candidate >= 0) & (greater | (index < 0))
            best, index = np.where(wins, value, best), np.where(wins, candidate, index)
    return (np.maximum(index, 0),)
