"""The weights of an image: every constant once in each layout that something reads, aligned, in one block of bytes."""

from collections.abc import Sequence

import numpy as np

from compiler.codegen_cpu.kernels import PACKERS
from runtime.cpu import allocate_aligned

ALIGNMENT_BYTES = 64

Layout = Sequence[str | int]


class WeightBlock:
    """Collects arrays and says where each will lie."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, tuple[str | int, ...]], int] = {}
        self._arrays: list[tuple[int, np.ndarray, Layout]] = []
        self._end = 0

    def add(self, array: np.ndarray, layout: Layout = ()) -> int:
        """The offset of `array` in a layout, the same for the same array."""
        key = (id(array), tuple(layout))
        if key not in self._places:
            size = array.nbytes if not layout else packed(array, layout).nbytes
            self._places[key] = self._end
            self._arrays.append((self._end, array, layout))
            self._end += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return self._places[key]

    def bytes(self) -> np.ndarray:
        """All weights, each at its offset, with zeros between."""
        block = allocate_aligned(self._end)
        end = 0
        for offset, array, layout in self._arrays:
            data = np.ascontiguousarray(packed(array, layout)).reshape(-1).view(np.uint8)
            block[end:offset] = 0
            end = offset + data.size
            block[offset:end] = data
        block[end:] = 0
        return block


def packed(array: np.ndarray, layout: Layout) -> np.ndarray:
    """`array` in a layout: as it is, or as the kernel kind that the layout begins with packs it."""
    return PACKERS[str(layout[0])](array, layout) if layout else array
