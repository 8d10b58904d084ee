"""Sorts and the greatest k on a GPU: short lines by counting, long ones by digits or in rounds."""

from collections.abc import Mapping, Sequence

from onnxc.compiler.codegen_gpu.schedules.radix import RadixSort, aligned, digits_of, key_bits, key_type
from onnxc.compiler.codegen_gpu.source.source_builder import MOST_ELEMENTS_I32
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import I32, I64
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.schedules import Joining, OrderingSchedule, Tile, Warps
from onnxc.runtime.records import record

__all__ = ["Rounds", "ordering_candidates", "ordering_measures", "ordering_of", "radix_of", "rounds_of"]

ORDERING_TILE = Tile(32, 32)
"""Elements to be placed, by elements that they are compared with."""

LONGEST_COUNTED = 1024
"""Elements of a line that are all compared with each other: about as many steps each as digits of 32 bits take."""

ROUND_BLOCK = 4096
"""Elements of which a program leaves the best k: 16 for each thread of 8 warps, in about 90 registers."""

MOST_LEFT = 1024
"""The most elements that a round leaves of a block: four times as many go in."""

_TYPICAL_LENGTH = 65536
"""Of a line whose length only a call tells, where it is long: about a vocabulary. One way serves all such lengths."""


@record
class Rounds:
    """How many elements of each of the `lines` are left: `lengths` begins with all, ends with what is then counted.

    An element that is left is a word of its key, above, and of its place in the line, of `place_bits` bits.
    """

    lines: Dim
    lengths: tuple[Dim, ...]
    position_bits: int

    def words(self, ordinal: int) -> Dim:
        """Where what a round leaves begins in the shared memory; the first round is 0."""
        return sum((self._bytes(earlier) for earlier in range(ordinal)), start=0)

    @property
    def end(self) -> Dim:
        """Where the memory ends."""
        return self.words(len(self.lengths) - 1)

    @property
    def operations(self) -> Dim:
        """Each round counts for each bit of the words, the last launch compares all that is left."""
        counted = sum(self.lengths[:-1], start=0) * I64.bits
        return self.lines * (counted + self.lengths[-1] * self.lengths[-1])

    def _bytes(self, ordinal: int) -> Dim:
        return aligned(self.lines * self.lengths[ordinal + 1] * I64.itemsize)


def ordering_of(block: Block) -> Op:
    """The op that orders."""
    return next(op for op in block.ops if op.name in ("sort", "top_k"))


def ordering_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """How long lines are."""
    ranges = Typical(LONGEST_COUNTED // 4, 0, LONGEST_COUNTED), Typical(_TYPICAL_LENGTH, LONGEST_COUNTED + 1)
    return {"length": Measure(_lines(ordering_of(problem.block))[1], ranges)}


def ordering_candidates(problem: KernelProblem, case: Case) -> Sequence[OrderingSchedule]:
    """The one way that serves lines of such a length."""
    op = ordering_of(problem.block)
    lines, length = _lines(op)
    elements = lines * length
    if case.sizes["length"] <= LONGEST_COUNTED or (isinstance(elements, int) and elements >= MOST_ELEMENTS_I32):
        return (_counting(elements * length),)
    return (_in_rounds(op),) if _leaves_few(op) else (_by_digits(op),)


def radix_of(op: Op) -> RadixSort:
    """The sort of the lines of an op."""
    dtype = op.operands[0].dtype
    return RadixSort(*_lines(op), key_type(dtype), digits_of(key_bits(dtype)))


def rounds_of(op: Op) -> Rounds:
    """The rounds that leave the first k of each line, or few enough to be counted."""
    (lines, length), kept = _lines(op), op.results[0].shape[op.int("axis")]
    assert isinstance(kept, int), op
    lengths, most = [length], length if isinstance(length, int) else MOST_ELEMENTS_I32
    while most > LONGEST_COUNTED:
        lengths.append(floordiv(lengths[-1] + ROUND_BLOCK - 1, ROUND_BLOCK) * kept)
        most = -(-most // ROUND_BLOCK) * kept
    bits = (length if isinstance(length, int) else 1 << I32.bits - 1).bit_length()
    return Rounds(lines, tuple(lengths), min(bits, I32.bits - 1))


def _lines(op: Op) -> tuple[Dim, Dim]:
    """How many lines there are, and of how many elements."""
    shape, axis = op.operands[0].shape, op.int("axis")
    return product((*shape[:axis], *shape[axis + 1 :])), shape[axis]


def _leaves_few(op: Op) -> bool:
    """Whether little is kept of a line, and a key and a place are one word."""
    kept = op.results[0].shape[op.int("axis")]
    return isinstance(kept, int) and 0 < kept <= MOST_LEFT and key_type(op.operands[0].dtype) == I32


def _counting(comparisons: Dim) -> OrderingSchedule:
    return OrderingSchedule(algorithm="counting", tile=ORDERING_TILE, workers=Warps(4), loop_operations=comparisons)


def _in_rounds(op: Op) -> OrderingSchedule:
    rounds = rounds_of(op)
    return OrderingSchedule(
        algorithm="rounds",
        joining=Joining(ORDERING_TILE, Warps(4)),
        rounds=len(rounds.lengths) - 1,
        block=ROUND_BLOCK,
        workers=Warps(8),
        shared_bytes=rounds.end,
        loop_operations=rounds.operations,
        loop_bytes=2 * rounds.end,
        why="few of long lines are kept",
    )


def _by_digits(op: Op) -> OrderingSchedule:
    radix = radix_of(op)
    return OrderingSchedule(
        algorithm="digits",
        digits=radix.digits,
        block=LONGEST_COUNTED,
        workers=Warps(4),
        shared_bytes=radix.end,
        loop_operations=radix.operations,
        loop_bytes=radix.traffic_bytes,
        why="lines are long",
    )
