"""The first k of long lines: rounds in which each program leaves the k best of a block, until few enough are left.

An element is a word: its key, above the complement of its place, so that no two words are equal and the best ones are
the greatest. The k-th greatest word of a block is found bit by bit; those that are left at the end count each other.
"""

from onnxc.compiler.codegen_gpu.schedules.orderings import Rounds
from onnxc.compiler.codegen_gpu.schedules.radix import key_bits
from onnxc.compiler.codegen_gpu.sorting.keys import key_of
from onnxc.compiler.codegen_gpu.sorting.lines import Lines
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, unravel
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import OrderingSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = ["order_in_rounds"]

_ELEMENT, _OTHER = 0, 1


def order_in_rounds(kernel: Kernel, lines: Lines, rounds: Rounds, target: Target) -> KernelCode:
    """The launches: the rounds, and the one that orders what they left."""
    schedule = kernel.scheduled(OrderingSchedule)
    steps = [
        _Words(open_kernel(kernel, target, rank=1), lines, rounds).leave_best(ordinal, schedule.block)
        for ordinal in range(schedule.rounds)
    ]
    last = _Words(open_kernel(kernel, target, rank=2), lines, rounds)
    return KernelCode((*steps, last.order()), element_counts(kernel))


@record
class _Words:
    """One launch."""

    frame: KernelFrame
    lines: Lines
    rounds: Rounds

    @property
    def position_mask(self) -> int:
        """The bits of a word that are of its place."""
        return (1 << self.rounds.position_bits) - 1

    def leave_best(self, ordinal: int, block: int) -> DeviceStep:
        """The launch of a round: each program leaves the best of a block, in their order in the line."""
        frame, b, kept = self.frame, self.frame.b, self.lines.kept
        length = self.rounds.lengths[ordinal]
        blocks = floordiv(length + block - 1, block)
        program, lane, one = b.program(), b.lanes(0, block), frozenset((0,))
        line, ordinal_in_line = unravel(b, program, [frame.size(self.lines.count), frame.size(blocks)])
        position = b.add(b.mul(ordinal_in_line, block), lane)
        exists = b.compare(position, "<", frame.size(length))
        e = frame.evaluator({0: lane}, {0: exists})
        best = self._word(e, line, position) if ordinal == 0 else self._left(e, ordinal - 1, line, position)
        word = b.let(f"tl.where({exists}, {best}, -1)", one)
        least = self._least_kept(word)
        is_kept = b.let(f"{word} >= {least}", one)
        rank = b.let(f"tl.cumsum({is_kept}.to(tl.int32), 0) - 1", one)
        words = frame.scratch("left", I64, self.rounds.words(ordinal))
        b.line(f"tl.store({words} + {program} * {kept} + {rank}, {word}, mask={is_kept})")
        # Where a block has less than k, what follows is worse than any element.
        absent = b.let(f"({lane} < {kept}) & ({lane} >= tl.sum({is_kept}.to(tl.int32), 0))", one)
        b.line(f"tl.store({words} + {program} * {kept} + {lane}, {lane}.to(tl.int64) * 0 - 1, mask={absent})")
        return frame.step((self.lines.count * blocks,))

    def _least_kept(self, word: Expr) -> Expr:
        """The k-th greatest word; 0 where there are less."""
        b = self.frame.b
        bits = key_bits(self.lines.operand.dtype) + self.rounds.position_bits
        least = b.variable("tl.full([], 0, tl.int64)")
        with b.loop(0, bits, prefix="bit") as bit:
            wanted = b.let(f"{least} | (tl.full([], 1, tl.int64) << ({bits - 1} - {bit}))")
            count = b.let(f"tl.sum(({word} >= {wanted}).to(tl.int32), 0)")
            b.assign(least, f"tl.where({count} >= {self.lines.kept}, {wanted}, {least})")
        return least

    def _word(self, e: Evaluator, line: Int, position: Int) -> Expr:
        b, lines = self.frame.b, self.lines
        x = e.value(lines.operand, lines.at(self.frame, line, position))
        key = key_of(x, lines.operand.dtype, not lines.descending, b)
        return b.let(f"({key} << {self.rounds.position_bits}) | ({self.position_mask} - {position})", frozenset((0,)))

    def _left(self, e: Evaluator, ordinal: int, line: Int, position: Int) -> Expr:
        """What a round left of a line."""
        b, frame = self.frame.b, self.frame
        words = frame.scratch("words", I64, self.rounds.words(ordinal))
        return e.load(I64, words, b.add(b.mul(line, frame.size(self.rounds.lengths[ordinal + 1])), position))

    def order(self) -> DeviceStep:
        """The launch in which each element that is left counts those before it, and goes behind them."""
        frame, b, tall = self.frame, self.frame.b, frozenset((_ELEMENT,))
        elements, others = frame.joining.tile.rows, frame.joining.tile.columns
        length, before = self.rounds.lengths[-1], len(self.rounds.lengths) - 2
        tiles = floordiv(length + elements - 1, elements)
        line, tile = unravel(b, b.program(), [frame.size(self.lines.count), frame.size(tiles)])
        stop = frame.size(length)
        element = b.add(b.mul(tile, elements), b.lanes(_ELEMENT, elements))
        exists = b.compare(element, "<", stop)
        e = frame.evaluator({_ELEMENT: b.lanes(_ELEMENT, elements)}, {_ELEMENT: exists})
        word = self._left(e, before, line, element)
        rank = b.variable(f"tl.zeros([{elements}, 1], tl.int32)", tall)
        with b.loop(0, stop, others, prefix="first") as first:
            other = b.add(first, b.lanes(_OTHER, others))
            inside = b.compare(other, "<", stop)
            of_others = frame.evaluator({_OTHER: b.lanes(_OTHER, others)}, {_OTHER: inside})
            theirs = self._left(of_others, before, line, other)
            ahead = b.let(f"{inside} & ({theirs} > {word})", frozenset((_ELEMENT, _OTHER)))
            b.assign(rank, f"{rank} + tl.sum({ahead}.to(tl.int32), 1, keep_dims=True)")
        position = b.let(f"({self.position_mask} - ({word} & {self.position_mask})).to(tl.int32)", tall)
        is_kept = b.let(f"({word} >= 0) & ({rank} < {self.lines.kept})", tall)
        self.lines.write(frame, e, (line, rank), position, is_kept)
        return frame.step((self.lines.count * tiles,), frame.joining.workers)
