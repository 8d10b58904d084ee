"""What the draws of a program depend on besides their own seeds: two words, and the rounds of the loops around them."""

from collections.abc import Sequence
from dataclasses import replace

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import U32
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

__all__ = ["RandomState"]


@record
class RandomState:
    """words: u32[2], zeros for the draws that the seeds of the nodes alone give. rounds: i64[] of each loop around the
    draw, the outermost first; no two rounds of a call draw with the same words.
    """

    words: Value
    rounds: tuple[Value, ...] = ()

    def within(self, rounds: Sequence[Value]) -> "RandomState":
        """The state in the body of loops that are in these rounds."""
        return replace(self, rounds=(*self.rounds, *rounds))

    def stir(self, bits: Value, ir: Builder) -> Value:
        """u32[...]  ->  u32[...]: other bits for each state and round, as random as those given; for zeros, those."""
        words = first, second = tuple(self._word(ordinal, ir) for ordinal in (0, 1))
        for counter in self.rounds:
            # Of 64 bits, a bijection in each round: the words of nested loops are as far apart as those of seeds.
            first = _mixed(ir.add(first, ir.cast(counter, U32)), ir)
            second = _mixed(ir.add(second, first), ir)
        stirred = bits
        for word in (first, second):
            stirred = _mixed(ir.add(stirred, word), ir)
        return ir.select(ir.equal(ir.binary("or", *words), 0), bits, stirred)

    def _word(self, ordinal: int, ir: Builder) -> Value:
        return ir.with_shape(ir.slice(self.words, (ordinal,), (1,)), ())


def _mixed(bits: Value, ir: Builder) -> Value:
    """u32[...]  ->  u32[...]: a bijection of which every bit of the result depends on all

    Source: Appleby, MurmurHash3, fmix32.
    """
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = ir.mul(_folded(bits, shift, ir), factor)
    return _folded(bits, 16, ir)


def _folded(bits: Value, shift: int, ir: Builder) -> Value:
    return ir.binary("xor", bits, ir.shift_right(bits, shift))
