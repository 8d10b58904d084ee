"""The best few of several lines at once: a lane is a line, whose best are in registers, in their order."""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_cpu.sorting import Ordering
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, as_reg
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.runtime.records import record

KEY_BITS = 32
"""Shorter keys are widened: vectors of them have no more lanes than there are lines."""


@record
class OrderedLanes:
    """The best `count` elements of lines of `length`; `read` gives an element of each line, by its bits."""

    f: FunctionBuilder
    order: Ordering
    count: int
    length: Int
    read: Callable[[Int], Reg]

    def indices(self) -> list[Reg]:
        """Where the best elements of each line are, best first, as numbers of the width of a key.

        The elements are inserted one after another, each behind what is equal to it.
        """
        best: list[Reg] = []
        for position in range(self.count):
            best = self._inserted(best, self._entry(position))

        def element(position: Int, *best: Reg) -> Sequence[Reg]:
            return self._inserted(best, self._entry(position))[: len(best)]

        return list(self.f.loop(self.count, self.length, 1, element, best))[1::2]

    def _entry(self, position: Int) -> tuple[Reg, Reg]:
        """The key of an element of each line, in the order of numbers with a sign, and its index."""
        f, bits = self.f, max(self.order.key_bits, KEY_BITS)
        key = self.order.key(self.read(position), f)
        lanes = key.lanes
        if self.order.key_bits < bits:
            key = register(f.convert("zext", key, vector_type(f"i{bits}", lanes)))
        else:
            key = f.xor(key, 1 << (bits - 1))
        index = register(f.convert("trunc", as_reg(position), f"i{bits}"))
        return key, f.splat(index, lanes)

    def _inserted(self, best: Sequence[Reg], entry: tuple[Reg, Reg]) -> list[Reg]:
        """Keys and indices in turn, of one more entry: it goes before the first key that is greater.

        That key and all behind it move by one slot, the last to a slot of its own.
        """
        f, (key, index), inserted = self.f, entry, list[Reg]()
        arriving = entry
        for old_key, old_index in zip(best[::2], best[1::2], strict=True):
            moves = f.icmp("slt", key, old_key)
            inserted += register(f.smin(arriving[0], old_key)), f.select(moves, arriving[1], old_index)
            arriving = register(f.smax(key, old_key)), f.select(moves, old_index, index)
        return [*inserted, *arriving]
