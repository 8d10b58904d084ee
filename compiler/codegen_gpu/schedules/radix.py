"""Radix sorts: how keys fall into digits, and where the launches of a sort keep what they share.

A key comes with its ordinal, its place in its line before the sort. A pass moves both by one digit, in three launches:
blocks count their digits, the counts before each block are summed up, and blocks move their keys. Passes go back and
forth between two buffers. Work and memory grow with the number of keys alone.
Source: Satish, Harris, Garland, "Designing efficient sorting algorithms for manycore GPUs", IPDPS 2009.
"""

from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import I32, I64, DType
from onnxc.compiler.planning.schedules import Digits, Tile, Warps
from onnxc.runtime.records import record

__all__ = [
    "RADIX_BLOCK",
    "RADIX_RUN",
    "RADIX_SUMS",
    "RADIX_WORKERS",
    "RadixSort",
    "aligned",
    "digits_of",
    "key_bits",
    "key_type",
]

RADIX_BLOCK = 1024
"""Keys of a program that moves them: the counts of 512 digits are then half as many as keys."""

RADIX_RUN = 128
"""Keys that a program moves at a time, one for each thread: each is compared with all of a run."""

RADIX_WORKERS = Warps(4)
"""Of the launches of a pass: a thread for each key of a run."""

RADIX_SUMS = Tile(16, 128)
"""Values of a digit whose counts a program sums up, by counts of each at a time: those of 131072 keys at once."""

_MOST_DIGIT_BITS = 9
"""Keys of 17 and 18 bits, rows of large tables, take two passes; 10 bits would save none of those of 32 or 64."""

_LEAST_DIGIT_BITS = 4
"""Counts of 16 values are a multiple of the alignment, whatever there is of the rest."""

_LAUNCHES_TOUCH = 5
"""How often the counts of a block are written or read by the launches of a pass."""

ALIGNMENT = 16


def aligned(nbytes: Dim) -> Dim:
    """The next multiple of 16 bytes, where another array may begin."""
    return floordiv(nbytes + ALIGNMENT - 1, ALIGNMENT) * ALIGNMENT


def key_bits(dtype: DType) -> int:
    """How many bits the keys of elements have."""
    return dtype.itemsize * 8


def key_type(dtype: DType) -> DType:
    """The type that keys of elements are kept in, bit for bit."""
    return I64 if key_bits(dtype) > I32.bits else I32


def digits_of(bits: int) -> Digits:
    """The fewest digits of keys of so many bits, all of them equally wide."""
    count = max(1, -(-bits // _MOST_DIGIT_BITS))
    return Digits(count, max(_LEAST_DIGIT_BITS, -(-bits // count)))


@record
class RadixSort:
    """The sort of `lines` lines of `length` keys each; `start` is where its memory begins."""

    lines: Dim
    length: Dim
    key: DType
    digits: Digits
    start: Dim = 0

    @property
    def bins(self) -> int:
        """How many values a digit has."""
        return 1 << self.digits.bits

    @property
    def blocks(self) -> Dim:
        """The blocks of a line."""
        return floordiv(self.length + RADIX_BLOCK - 1, RADIX_BLOCK)

    def keys(self, passes: int) -> Dim:
        """Where the keys are after so many passes."""
        return self.start + passes % 2 * self._keys_bytes

    def ordinals(self, passes: int) -> Dim:
        """Where the ordinals are after so many passes."""
        return self.start + 2 * self._keys_bytes + passes % 2 * self._ordinals_bytes

    @property
    def counts(self) -> Dim:
        """Where each line has for each value of a digit the counts of its blocks."""
        return self.start + 2 * (self._keys_bytes + self._ordinals_bytes)

    @property
    def totals(self) -> Dim:
        """Where each line has the sum of the counts of each value of a digit."""
        return self.counts + self._counts_bytes

    @property
    def end(self) -> Dim:
        """Where the memory ends."""
        return self.totals + self.lines * self.bins * I32.itemsize

    @property
    def traffic_bytes(self) -> Dim:
        """What the launches write and read: a pass reads keys twice and ordinals once, and writes each once."""
        moved = self.lines * self.length * (3 * self.key.itemsize + 2 * I32.itemsize)
        return self.digits.count * (moved + _LAUNCHES_TOUCH * self._counts_bytes)

    @property
    def operations(self) -> Dim:
        """What the launches compute, most of it the comparisons within a run."""
        keys = self.lines * self.blocks * RADIX_BLOCK
        return self.digits.count * keys * RADIX_RUN

    @property
    def _keys_bytes(self) -> Dim:
        return aligned(self.lines * self.length * self.key.itemsize)

    @property
    def _ordinals_bytes(self) -> Dim:
        return aligned(self.lines * self.length * I32.itemsize)

    @property
    def _counts_bytes(self) -> Dim:
        return self.lines * self.blocks * self.bins * I32.itemsize
