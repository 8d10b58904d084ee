"""Layouts of weights: how a constant lies in memory for the kernel that reads it, its shape there, and its packing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.filter_layouts import PackedFilters, PackedPhases, TransformedFilters
from onnxc.compiler.planning.views import row_major

__all__ = ["Batch", "Layout", "PackedPanels", "Permuted", "known_sizes"]


@dataclass(frozen=True)
class Batch:
    """An axis in front of the matrices of a constant: how many there are, and how far apart, in elements."""

    size: int
    stride: int


@dataclass(frozen=True)
class PackedPanels:
    """Matrices [depth, columns] as [batch..., panel, depth, width]; the last panel is filled up with zeros.

    The matrices are strided views of the dense constant: element (k, n) of the first lies `offset` + k *
    `depth_stride` + n * `column_stride` elements behind its beginning.
    """

    width: int
    depth: int
    columns: int
    depth_stride: int
    column_stride: int
    offset: int = 0
    batches: tuple[Batch, ...] = ()

    def __str__(self) -> str:
        return f"panels of {self.width} columns, {self.depth} deep"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed array."""
        panels = -(-self.columns // self.width)
        return (*(batch.size for batch in self.batches), panels, self.depth, self.width)

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        flat = np.ascontiguousarray(array).reshape(-1)[self.offset :]
        strides = (*(batch.stride for batch in self.batches), self.depth_stride, self.column_stride)
        sizes = (*(batch.size for batch in self.batches), self.depth, self.columns)
        steps = tuple(stride * array.itemsize for stride in strides)
        source = np.lib.stride_tricks.as_strided(flat, sizes, steps, writeable=False)
        for panel in range(out.shape[-3]):
            part = source[..., panel * self.width : (panel + 1) * self.width]
            out[..., panel, :, : part.shape[-1]] = part
            out[..., panel, :, part.shape[-1] :] = 0


@dataclass(frozen=True)
class Permuted:
    """A constant of `sizes` with its axes in another order: axis i of what lies there is axis `order[i]`."""

    order: tuple[int, ...]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"axes {list(self.order)}"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the permuted array."""
        return tuple(self.sizes[axis] for axis in self.order)

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of the constant's own axes, in elements, as it lies."""
        strides = row_major(self.shape)
        return tuple(known_sizes(strides)[self.order.index(axis)] for axis in range(len(self.order)))

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        out[...] = array.transpose(self.order)


Layout = PackedPanels | PackedFilters | PackedPhases | TransformedFilters | Permuted


def known_sizes(sizes: Sequence[Dim]) -> tuple[int, ...]:
    """`sizes` of a constant, which are numbers."""
    known = tuple(size for size in sizes if isinstance(size, int))
    assert len(known) == len(sizes), f"a constant has constant sizes, not {sizes}"
    return known
