"""Layouts of weights of few bits: codes in words, side by side for the lanes of a vector, and in bytes for tiles."""

import numpy as np

from onnxc.runtime.records import record

__all__ = ["GROUP", "PackedCodes", "PackedGroups", "PackedRuns", "word_bits"]


BYTE = 8

GROUP = 4
"""The bytes of a word: how many neighbours along k one instruction multiplies, and adds up."""


def word_bits(bits: int) -> int:
    """How wide the words are that codes of so many bits are packed into: that of a lane, or a byte where codes fill it.

    Bytes are widened as they are loaded, which takes one instruction; shifting them out of wider words takes two.
    """
    return BYTE if bits == BYTE else 32


@record
class PackedCodes:
    """Codes i8[columns, depth] of `bits` bits as words [panel, word, width]; the last panel is filled up with zeros.

    A word has neighbours along k, the first in the lowest bits. Each block of k begins with a word of its own, and the
    last word of a block is filled up with zeros.
    """

    width: int
    columns: int
    depth: int
    bits: int
    block: int

    def __str__(self) -> str:
        return f"panels of {self.width} columns, {self.depth} deep, {self.bits} bits in blocks of {self.block}"

    @property
    def codes(self) -> int:
        """How many codes a word has."""
        return word_bits(self.bits) // self.bits

    @property
    def block_words(self) -> int:
        """How many words of a column a block has."""
        return -(-self.block // self.codes)

    @property
    def words(self) -> int:
        """How many words a column has."""
        whole, rest = divmod(self.depth, self.block)
        return whole * self.block_words + -(-rest // self.codes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed array, of bytes."""
        return (-(-self.columns // self.width), self.words, self.width, word_bits(self.bits) // 8)

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        out[...] = 0
        for panel in range(len(out)):
            words = self._words(array[panel * self.width : (panel + 1) * self.width])
            out[panel].view(words.dtype)[:, : len(words), 0] = words.T

    def _words(self, codes: np.ndarray) -> np.ndarray:
        """[columns, words], of the codes of one panel."""
        whole = _in_blocks(codes, self.bits, self.block, self.block_words * self.codes)
        words = _joined(whole, self.bits).view(f"<u{word_bits(self.bits) // 8}")
        return words[:, : self.words]


@record
class PackedGroups:
    """Codes i8[columns, depth] of `bits` bits as words [panel, word, width]; the last panel is filled up with zeros.

    A word has as many groups of four neighbours along k as a byte has codes; each of its four bytes has one code of
    every group, that of the first in its lowest bits. Codes have no sign: half of what they may be is added to them.
    The depth is a multiple of what a word has.
    """

    width: int
    columns: int
    depth: int
    bits: int
    block: int

    def __str__(self) -> str:
        return (
            f"panels of {self.width} columns, {self.depth} deep, groups of {self.bits} bits in blocks of {self.block}"
        )

    @property
    def codes(self) -> int:
        """How many codes a word has."""
        return GROUP * BYTE // self.bits

    @property
    def words(self) -> int:
        """How many words a column has."""
        return self.depth // self.codes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed array, of bytes."""
        return (-(-self.columns // self.width), self.words, self.width, GROUP)

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        out[...] = 0
        parts = self.codes // GROUP
        for panel, packed in enumerate(out.view(np.uint8)):
            codes = array[panel * self.width : (panel + 1) * self.width]
            raised = codes.view(np.uint8) + np.uint8(1 << self.bits - 1) & np.uint8((1 << self.bits) - 1)
            groups = raised.reshape(len(codes), self.words, parts, GROUP)
            for part in range(parts):
                packed[:, : len(codes)] |= (groups[:, :, part] << np.uint8(part * self.bits)).transpose(1, 0, 2)


@record
class PackedRuns:
    """Codes i8[columns, depth] of `bits` bits as bytes [step, run, width]; columns are filled up with zeros.

    A run is so many neighbours along k of one block, the last run of a block filled up with zeros. A step is as many
    runs as a byte has codes, and a byte has the codes at one place of each of them, the first run in the lowest bits: a
    tile of bytes, shifted, is a tile of codes.
    """

    run: int
    width: int
    columns: int
    depth: int
    bits: int
    block: int

    def __str__(self) -> str:
        return f"runs of {self.run}, {self.depth} deep, {self.bits} bits in blocks of {self.block}"

    @property
    def parts(self) -> int:
        """How many codes a byte has, and runs a step."""
        return BYTE // self.bits

    @property
    def block_runs(self) -> int:
        """How many runs a block has."""
        return -(-self.block // self.run)

    @property
    def steps(self) -> int:
        """How many steps there are along k."""
        whole, rest = divmod(self.depth, self.block)
        return -(-(whole * self.block_runs + -(-rest // self.run)) // self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed array, of bytes."""
        return (self.steps, self.run, self.width)

    def pack(self, array: np.ndarray, out: np.ndarray) -> None:
        """Writes `array` in this layout to `out`, of `shape`."""
        flat = _in_blocks(array, self.bits, self.block, self.block_runs * self.run)
        runs = np.zeros((self.columns, self.steps * self.parts * self.run), np.uint8)
        kept = flat[:, : runs.shape[1]]
        runs[:, : kept.shape[1]] = kept
        parts = runs.reshape(self.columns, self.steps, self.parts, self.run)
        out[...] = 0
        codes = out.view(np.uint8)[:, :, : self.columns]
        for part in range(self.parts):
            codes |= (parts[:, :, part] << np.uint8(part * self.bits)).transpose(1, 2, 0)


def _in_blocks(codes: np.ndarray, bits: int, block: int, room: int) -> np.ndarray:
    """u8[columns, blocks * room] of i8[columns, depth]: codes without their signs, zeros behind those of each block."""
    columns, depth = codes.shape
    blocks = -(-depth // block)
    whole = np.zeros((columns, blocks * block), np.uint8)
    whole[:, :depth] = codes.view(np.uint8) & np.uint8((1 << bits) - 1)
    if room == block:
        return whole
    apart = np.zeros((columns, blocks, room), np.uint8)
    apart[:, :, :block] = whole.reshape(columns, blocks, block)
    return apart.reshape(columns, blocks * room)


def _joined(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes of so many bits, a byte each, in full bytes; neighbours are joined again and again."""
    while bits < 8:
        pairs = codes.view("<u2")
        codes, bits = (pairs | pairs >> (8 - bits)).astype(np.uint8), 2 * bits
    return codes
