"""Constants with their axes in another order, so that what a kernel reads together lies together."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.codegen_host.weights import Layout, Packers
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.views import row_major

_TRANSPOSED = "transposed"


def transposed_layout(shape: Sequence[Dim], order: Sequence[int]) -> tuple[str | int, ...]:
    """The layout of a constant of `shape` that lies as [shape[order[0]], shape[order[1]], ...]."""
    sizes = [size for size in shape if isinstance(size, int)]
    assert len(sizes) == len(shape), shape
    return (_TRANSPOSED, *order, *sizes)


def transposed_strides(shape: Sequence[Dim], order: Sequence[int]) -> tuple[Dim, ...]:
    """The strides of the axes of `shape` in that layout."""
    strides = row_major([shape[axis] for axis in order])
    return tuple(strides[list(order).index(axis)] for axis in range(len(shape)))


def _order_and_shape(layout: Layout) -> tuple[list[int], list[int]]:
    numbers = [int(number) for number in layout[1:]]
    return numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]


def _shape(layout: Layout) -> tuple[int, ...]:
    order, shape = _order_and_shape(layout)
    return tuple(shape[axis] for axis in order)


def _write(array: np.ndarray, layout: Layout, place: np.ndarray) -> None:
    order, _ = _order_and_shape(layout)
    place[...] = array.transpose(order)


PACKERS = Packers({_TRANSPOSED: _shape}, {_TRANSPOSED: _write})
"""The layouts of weights for the GPU."""
