"""The best few of several lines at once: a lane is a line, whose best are in registers, in their order."""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_cpu.sorting import Ordering
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, register, vector_type
from onnxc.runtime.records import record

KEY_BITS = 32
"""Shorter keys are widened: vectors of them have no more lanes than there are lines."""

WRITTEN = 8
"""The first so many elements are inserted one by one among those before, as many more in a loop over all their slots.
The best 32 of f64 took LLVM 1.0 s with all of them one by one, and take 0.2."""


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
        for position in range(min(self.count, WRITTEN)):
            best = self._inserted(best, self._entry(position))
        for begin in range(WRITTEN, self.count, WRITTEN):
            best = self._with_more(best, begin, min(begin + WRITTEN, self.count))

        def element(position: Int, *best: Reg) -> Sequence[Reg]:
            return self._inserted(best, self._entry(position))[: len(best)]

        return list(self.f.loop(self.count, self.length, 1, element, best))[1::2]

    def _with_more(self, best: Sequence[Reg], begin: int, end: int) -> list[Reg]:
        """The keys and indices of the first `end` elements in turn, of those of the first `begin`."""
        f, key = self.f, best[0]
        # Slots of nothing, before which every entry goes.
        greatest = f.constant(key.type, (1 << (int(key.element[1:]) - 1)) - 1)
        empty = [greatest, f.constant(best[1].type, 0)] * (end - begin)

        def element(position: Int, *slots: Reg) -> Sequence[Reg]:
            return self._inserted(slots, self._entry(position), position)[: len(slots)]

        return list(f.loop(begin, end, 1, element, (*best, *empty)))

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

    def _inserted(self, best: Sequence[Reg], entry: tuple[Reg, Reg], filled: Int | None = None) -> list[Reg]:
        """Keys and indices in turn, of one more entry: it goes before the first key that is greater.

        That key and all behind it move by one slot, the last to a slot of its own. filled: how many slots hold an
        entry, where others are there.
        """
        f, (key, index), inserted = self.f, entry, list[Reg]()
        arriving = entry
        for slot, (old_key, old_index) in enumerate(zip(best[::2], best[1::2], strict=True)):
            moves = f.icmp("slt", key, old_key)
            if filled is not None:
                moves = register(f.or_(moves, f.splat(as_reg(f.icmp("sle", filled, slot)), key.lanes)))
            inserted += register(f.smin(arriving[0], old_key)), f.select(moves, arriving[1], old_index)
            arriving = register(f.smax(key, old_key)), f.select(moves, old_index, index)
        return [*inserted, *arriving]
