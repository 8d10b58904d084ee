"""The weights of an image: every constant once in each layout that something reads, aligned, in one block of bytes."""

from math import prod

import numpy as np

from onnxc.compiler.planning.layouts import Layout
from onnxc.runtime.files.mapped_file import release_pages
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.texts import encode_texts

ALIGNMENT_BYTES = 64

HUGE_PAGES_FROM_BYTES = 32 << 20
"""An estimate: about the share of a last-level cache that one process can count on, below which weights stay in it."""


class WeightBlock:
    """Collects arrays and says where each will lie."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[int, Layout | None], int] = {}
        self._arrays: list[tuple[int, np.ndarray, Layout | None]] = []
        self._end = 0

    def add(self, array: np.ndarray, layout: Layout | None = None) -> int:
        """The offset of `array` in a layout, the same for the same array; texts lie there as runtime/texts.py says.

        layout: None for row-major.
        """
        key = (id(array), layout)
        if key not in self._offsets:
            if array.dtype.hasobject:
                array = encode_texts(array)
            size = array.itemsize * prod(_shape(array, layout))
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
            shape = _shape(array, layout)
            block[end:offset] = 0
            end = offset + array.itemsize * prod(shape)
            region = block[offset:end].view(array.dtype).reshape(shape)
            if layout is None:
                region[...] = array
            else:
                layout.pack(array, region)
            release_pages(array)
        block[end:] = 0
        return block


def packed(array: np.ndarray, layout: Layout | None) -> np.ndarray:
    """`array` as it lies in a layout."""
    if layout is None:
        return np.ascontiguousarray(array)
    out = np.empty(layout.shape, array.dtype)
    layout.pack(array, out)
    return out


def _shape(array: np.ndarray, layout: Layout | None) -> tuple[int, ...]:
    return array.shape if layout is None else layout.shape
