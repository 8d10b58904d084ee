"""Layouts of the filters of convolutions: packed in panels of filters, by phases, transformed, or both."""

from dataclasses import replace
from math import prod

import numpy as np

from onnxc.runtime.records import record

__all__ = ["FiltersInTwoForms", "PackedFilters", "PackedPhases", "TransformedFilters"]


@record
class PackedFilters:
    """Filters of `sizes`, [o, i, *taps], as [group, panel, depth, width]; the last panel is filled up with zeros.

    depth: what each filter of a group sums, its axes in the order `order`, of which 0 is i and the others are taps.
    """

    width: int
    groups: int
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    def __str__(self) -> str:
        return f"panels of {self.width} filters, sums in the order {list(self.order)}"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed array."""
        filters = self.sizes[0] // self.groups
        return (self.groups, -(-filters // self.width), prod(self.sizes[1:]), self.width)

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        filters = self.sizes[0] // self.groups
        grouped = array.reshape(self.groups, filters, *self.sizes[1:])
        turned = grouped.transpose(0, *(2 + axis for axis in self.order), 1)
        turned = turned.reshape(self.groups, prod(self.sizes[1:]), filters)
        for panel in range(out.shape[1]):
            part = turned[..., panel * self.width : (panel + 1) * self.width]
            out[:, panel, :, : part.shape[-1]] = part
            out[:, panel, :, part.shape[-1] :] = 0


@record
class PackedPhases:
    """Filters of a convolution whose results fall into phases, one part after the other: each packed by itself.

    Phase j of an axis has every `spread`-th tap from j on; phases run row-major. whole: all taps as one part.
    """

    whole: PackedFilters
    spread: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.whole}, {prod(self.spread)} phases"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed array."""
        return (prod(self.whole.shape),)

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        start = 0
        # There may be more phases than anybody could look at; those beyond the taps have none.
        for phase in np.ndindex(*map(min, self.spread, array.shape[2:])):
            taps = tuple(slice(first, None, step) for first, step in zip(phase, self.spread, strict=True))
            part = array[(slice(None), slice(None), *taps)]
            packed = replace(self.whole, sizes=part.shape)
            stop = start + prod(packed.shape)
            packed.pack(part, out[start:stop].reshape(packed.shape))
            start = stop


@record
class TransformedFilters:
    """Filters of 3 x 3 taps, [o, i, 1..., 3, 3], for tiles of 2 x 2 results: as [panel, position, i, width].

    A tile reads 4 x 4 elements of a channel; what becomes of them at each of 16 positions is multiplied by one number
    of a filter, G g Gt. The last panel is filled up with zeros. Source: Lavin and Gray, 2015, F(2 x 2, 3 x 3).
    """

    width: int
    filters: int
    channels: int

    def __str__(self) -> str:
        return f"panels of {self.width} filters, transformed"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the transformed array."""
        return (-(-self.filters // self.width), 16, self.channels, self.width)

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        for panel, into in enumerate(out.reshape(-1, 4, 4, self.channels, self.width)):
            part = array[panel * self.width : (panel + 1) * self.width].reshape(-1, self.channels, 3, 3)
            part = part.transpose(2, 3, 1, 0).astype(np.float64, "C")
            transformed = _at_positions(_at_positions(part).swapaxes(0, 1)).swapaxes(0, 1)
            into[..., : part.shape[-1]] = transformed
            into[..., part.shape[-1] :] = 0


def _at_positions(taps: np.ndarray) -> np.ndarray:
    """What three taps, one for each entry of the first axis, become at the four positions of a tile: G times them.

    Sums of whole arrays: a panel at a time, which caches hold, they take a third of the time of one einsum.
    """
    first, middle, last = taps
    outer, inner = (first + last) / 2, middle / 2
    return np.stack([first, outer + inner, outer - inner, last])


@record
class FiltersInTwoForms:
    """Filters as they are summed, and behind them transformed: where only a call knows which of the two is faster.

    They take 25 numbers for 9. Of what is mapped from a file, only what calls read takes memory.
    """

    summed: PackedFilters
    transformed: TransformedFilters

    def __str__(self) -> str:
        return f"{self.summed}, and behind them transformed"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed array."""
        return (self.summed_elements + prod(self.transformed.shape),)

    @property
    def summed_elements(self) -> int:
        """How many elements lie before the transformed ones."""
        return prod(self.summed.shape)

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        before, behind = out[: self.summed_elements], out[self.summed_elements :]
        self.summed.pack(array, before.reshape(self.summed.shape))
        self.transformed.pack(array, behind.reshape(self.transformed.shape))
