"""Heaps in memory, whose root is the entry that comes last: the function that puts an entry where it belongs.

An entry is one word, or several, each in an array of its own, of which the first that differs decides. Words are
compared without sign, and no two entries are equal.
"""

from collections.abc import Sequence
from functools import reduce

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.runtime.records import record

Entry = tuple[Reg, ...]


@record
class Heap:
    """Heaps whose entries have words of these types, and the name of the function that sifts."""

    name: str
    words: tuple[str, ...]

    def load(self, f: FunctionBuilder, arrays: Sequence[Reg], offset: Int) -> Entry:
        """The entry whose words lie at `offset` in the arrays."""
        return tuple(f.load(word, f.gep(array, offset, word)) for array, word in zip(arrays, self.words, strict=True))

    def store(self, f: FunctionBuilder, arrays: Sequence[Reg], offset: Int, entry: Sequence[Int]) -> None:
        """Writes an entry to `offset` of the arrays."""
        for array, word, x in zip(arrays, self.words, entry, strict=True):
            f.store(x, f.gep(array, offset, word))

    def sift(
        self, f: FunctionBuilder, arrays: Sequence[Reg], stride: Int, hole: Int, size: Int, entry: Sequence[Int]
    ) -> None:
        """Puts an entry into the heap of `size` entries, `stride` apart, below its empty `hole`."""
        f.call(self.name, "void", *arrays, stride, hole, size, *entry)

    def function(self) -> FunctionBuilder:
        """What `sift` calls: void(array..., stride, hole, size, word...)."""
        count = len(self.words)
        arrays = [("ptr", f"array{ordinal}") for ordinal in range(count)]
        words = [(word, f"word{ordinal}") for ordinal, word in enumerate(self.words)]
        sizes = [("i64", name) for name in ("stride", "hole", "size")]
        f = FunctionBuilder(self.name, [*arrays, *sizes, *words], hidden=True)
        memory, (stride, hole, size), entry = f.parameters[:count], f.parameters[count:-count], f.parameters[-count:]

        def step(hole: Reg, _: Reg) -> tuple[Reg, Reg]:
            # A second child that does not exist is the first once more: which of them comes last is no branch, as it
            # could not be foreseen.
            first = f.add(f.shl(hole, 1), 1)
            second = f.smin(f.add(first, 1), f.sub(size, 1))
            children = [self.load(f, memory, f.mul(child, stride)) for child in (first, second)]
            takes = _is_later(f, children[1], children[0])
            child, *last = (
                f.select(takes, b, a) for a, b in zip((first, *children[0]), (second, *children[1]), strict=True)
            )
            moves = _is_later(f, last, entry)
            f.if_(moves, lambda: self.store(f, memory, f.mul(hole, stride), last))
            return f.select(moves, child, hole), moves

        def goes_on(hole: Reg, moved: Reg) -> Reg:
            return f.and_(moved, f.icmp("slt", f.add(f.shl(hole, 1), 1), size))

        hole, _ = f.while_((hole, f.constant("i1", 1)), goes_on, step)
        self.store(f, memory, f.mul(hole, stride), entry)
        f.ret()
        return f


def _is_later(f: FunctionBuilder, a: Sequence[Reg], b: Sequence[Reg]) -> Reg:
    """Whether entry `a` comes behind entry `b`."""
    pairs = [(f.icmp("ugt", x, y), f.icmp("eq", x, y)) for x, y in zip(a, b, strict=True)]
    decisions = [later for later, _ in pairs]
    equalities = [equal for _, equal in pairs[:-1]]
    return reduce(
        lambda rest, level: f.or_(level[0], f.and_(level[1], rest)),
        zip(reversed(decisions[:-1]), reversed(equalities), strict=True),
        decisions[-1],
    )
