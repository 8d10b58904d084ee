"""The weights of an image: every constant once in each layout that something reads, aligned, in one block of bytes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from onnxc.runtime.cpu import allocate_aligned
from onnxc.runtime.texts import encode_texts

ALIGNMENT_BYTES = 64

HUGE_PAGES_FROM_BYTES = 32 << 20
"""An estimate: about the share of a last-level cache that one process can count on, below which weights stay in it."""

Layout = Sequence[str | int]


@dataclass(frozen=True)
class Packers:
    """The layouts of a code generator by their first word: the shape of a packed array, and what writes to it."""

    shapes: Mapping[str, Callable[[Layout], tuple[int, ...]]] = field(default_factory=dict)
    writers: Mapping[str, Callable[[np.ndarray, Layout, np.ndarray], None]] = field(default_factory=dict)

    def shape(self, array: np.ndarray, layout: Layout) -> tuple[int, ...]:
        """The shape of `array` in a layout; its own where that is empty."""
        return self.shapes[str(layout[0])](layout) if layout else array.shape


class WeightBlock:
    """Collects arrays and says where each will lie."""

    def __init__(self, packers: Packers) -> None:
        self._packers = packers
        self._offsets: dict[tuple[int, tuple[str | int, ...]], int] = {}
        self._arrays: list[tuple[int, np.ndarray, Layout]] = []
        self._end = 0

    def add(self, array: np.ndarray, layout: Layout = ()) -> int:
        """The offset of `array` in a layout, the same for the same array; texts lie there as runtime/texts.py says."""
        key = (id(array), tuple(layout))
        if key not in self._offsets:
            if array.dtype.hasobject:
                array = encode_texts(array)
            size = array.itemsize * prod(self._packers.shape(array, layout))
            self._offsets[key] = self._end
            self._arrays.append((self._end, array, layout))
            self._end += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return self._offsets[key]

    def bytes(self) -> np.ndarray:
        """All weights, each at its offset, with zeros between."""
        # Weights that no cache holds are read at the pace of memory, which huge pages raise by half.
        block = allocate_aligned(self._end, huge_pages=self._end >= HUGE_PAGES_FROM_BYTES)
        end = 0
        for offset, array, layout in self._arrays:
            shape = self._packers.shape(array, layout)
            block[end:offset] = 0
            end = offset + array.itemsize * prod(shape)
            region = block[offset:end].view(array.dtype).reshape(shape)
            if layout:
                self._packers.writers[str(layout[0])](array, layout, region)
            else:
                region[...] = array
        block[end:] = 0
        return block
