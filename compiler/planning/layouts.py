"""Layouts of weights: how a constant lies in memory for the kernel that reads it, its shape there, and its packing."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.bit_layouts import PackedCodes, PackedGroups, PackedRuns
from onnxc.compiler.planning.filter_layouts import FiltersInTwoForms, PackedFilters, PackedPhases, TransformedFilters
from onnxc.compiler.planning.loops.views import row_major
from onnxc.runtime.records import record

__all__ = ["Batch", "Layout", "PackedPanels", "Permuted", "PermutedPanels", "known_sizes"]


@record
class Batch:
    """An axis in front of the matrices of a constant: how many there are, and how far apart, in elements."""

    size: int
    stride: int


@record
class PackedPanels:
    """Matrices [depth, columns] as [batch..., panel, step, width, group]; the last panel is filled up with zeros.

    The matrices are strided views of the dense constant: element (k, n) of the first lies `offset` + k *
    `depth_stride` + n * `column_stride` elements behind its beginning. A step of k is a group of neighbours, which lie
    side by side; the last one is filled up with zeros. Of bytes, `sums_by` other than 0 puts i32 behind each panel:
    the sums of its columns times so many. The steps are a multiple of `whole`.
    """

    width: int
    depth: int
    columns: int
    depth_stride: int
    column_stride: int
    offset: int = 0
    batches: tuple[Batch, ...] = ()
    group: int = 1
    sums_by: int = 0
    whole: int = 1

    def __str__(self) -> str:
        grouped = f" by {self.group}" if self.group > 1 else ""
        sums = f", with sums by {self.sums_by}" if self.sums_by else ""
        return f"panels of {self.width} columns, {self.depth} deep{grouped}{sums}"

    @property
    def steps(self) -> int:
        """How many groups there are along k."""
        return -(-self.depth // (self.group * self.whole)) * self.whole

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed array."""
        panels = -(-self.columns // self.width)
        inner = (self.width,) if self.group == 1 else (self.width, self.group)
        return (*(batch.size for batch in self.batches), panels, self.steps + bool(self.sums_by), *inner)

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        flat = np.ascontiguousarray(array).reshape(-1)[self.offset :]
        strides = (*(batch.stride for batch in self.batches), self.depth_stride, self.column_stride)
        sizes = (*(batch.size for batch in self.batches), self.depth, self.columns)
        steps = tuple(stride * array.itemsize for stride in strides)
        source = np.lib.stride_tricks.as_strided(flat, sizes, steps, writeable=False)
        panels = out.reshape(
            *sizes[:-2], -(-self.columns // self.width), self.steps + bool(self.sums_by), self.width, self.group
        )
        for panel in range(panels.shape[-4]):
            part = source[..., panel * self.width : (panel + 1) * self.width]
            self._pack_panel(part, panels[..., panel, :, :, :])

    def _pack_panel(self, part: np.ndarray, out: np.ndarray) -> None:
        """The columns of one panel, to [batch..., step, width, group]."""
        columns = part.shape[-1]
        if (columns, part.shape[-2]) != (self.width, self.steps * self.group):
            out[...] = 0
        for lane in range(self.group):
            elements = part[..., lane :: self.group, :]
            out[..., : elements.shape[-2], :columns, lane] = elements
        if self.sums_by:
            sums = part.sum(-2, dtype=np.int32) * np.int32(self.sums_by)
            bits = np.ascontiguousarray(sums)[..., np.newaxis].view(part.dtype)
            out[..., self.steps, :columns, :] = bits


@record
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


@record
class PermutedPanels:
    """A constant with its axes in another order, in panels then."""

    permuted: Permuted
    panels: PackedPanels

    def __str__(self) -> str:
        return f"{self.panels}, of {self.permuted}"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed array."""
        return self.panels.shape

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        self.panels.pack(array.transpose(self.permuted.order), out)


Layout = (
    PackedPanels
    | PermutedPanels
    | PackedCodes
    | PackedGroups
    | PackedRuns
    | PackedFilters
    | PackedPhases
    | TransformedFilters
    | FiltersInTwoForms
    | Permuted
)


def known_sizes(sizes: Sequence[Dim]) -> tuple[int, ...]:
    """`sizes` of a constant, which are numbers."""
    known = tuple(size for size in sizes if isinstance(size, int))
    assert len(known) == len(sizes), f"a constant has constant sizes, not {sizes}"
    return known
