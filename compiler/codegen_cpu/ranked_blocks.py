"""The greatest of many keys, taken again and again: vectors of keys in blocks, and the greatest key of each block.

To take one of n keys about 2 sqrt(n / lanes) vectors are read: those of its block, and those of the greatest keys.
Nothing is sorted before, and no branch depends on a key.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import whole_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, register, vector_type
from onnxc.runtime.records import record

NO_KEY = -(1 << 31)
"""What stands where there is no key; keys are greater."""

_LEAST_SHIFT = 4
"""Blocks have 16 vectors at least: what one block holds needs no second level. Measured on Zen 5: 48 keys of 97 boxes
are taken in 36 ns each, in 51 ns with two levels."""

_NOWHERE = -1


@record
class Greatest:
    """The greatest key that is left, or `NO_KEY`, and the first block that has it."""

    key: Reg
    block: Reg


@record
class RankedBlocks:
    """Keys of 32 bits with a sign: `vectors` of them at `keys`, 1 << `shift` in each block but the last.

    For each of so many `blocks`, what its greatest key is at `tops`, where there is room for whole vectors, and where
    in the block it is at `positions`.
    """

    f: FunctionBuilder
    lanes: int
    keys: Reg
    tops: Reg
    positions: Reg
    vectors: Reg
    shift: Reg
    blocks: Reg

    def prepare(self) -> Greatest:
        """Looks through all blocks."""
        f = self.f
        f.loop(0, self.blocks, self.lanes, lambda block: f.store(self._splat(NO_KEY), self._at(self.tops, block)))

        def look(block: Reg) -> None:
            f.store(self._survey(block, self._splat(_NOWHERE)), self._at(self.tops, block))

        f.loop(0, self.blocks, 1, look)
        return self._greatest()

    def take(self, greatest: Greatest) -> tuple[Reg, Reg, Greatest]:
        """Removes the first key that is the greatest: its vector, its lane, and what is the greatest then."""
        f = self.f
        position = f.load("i32", self._at(self.positions, greatest.block), 4)
        top = self._survey(greatest.block, f.splat(position, self.lanes))

        def compare() -> tuple[Reg, Reg]:
            self._replace_top(greatest.block, top)
            following = self._greatest()
            return following.key, following.block

        # A branch that is always the same.
        key, block = f.if_(f.icmp("eq", self.blocks, 1), lambda: (top, greatest.block), compare)
        wide = register(f.convert("zext", position, "i64"))
        vector = as_reg(f.add(f.shl(greatest.block, self.shift), f.udiv(wide, self.lanes)))
        return vector, as_reg(f.urem(wide, self.lanes)), Greatest(key, block)

    @property
    def _type(self) -> str:
        return vector_type("i32", self.lanes)

    def _splat(self, each: int) -> Reg:
        return self.f.constant(self._type, each)

    def _at(self, memory: Reg, ordinal: Int) -> Reg:
        return self.f.gep(memory, ordinal, "i32")

    def _ordinals(self, start: Int) -> Reg:
        """`start`, `start` + 1, … in the lanes."""
        f = self.f
        return as_reg(f.add(f.splat(register(f.convert("trunc", start, "i32")), self.lanes), f.lane_ids(self._type)))

    def _survey(self, block: Reg, taken: Reg) -> Reg:
        """The greatest key of a block without the one at the position `taken`; writes down where that is."""
        f = self.f
        first = as_reg(f.shl(block, self.shift))
        count = as_reg(f.sub(f.smin(f.shl(f.add(block, 1), self.shift), self.vectors), first))
        start = self._at(self.keys, f.mul(first, self.lanes))

        def look(vector: Reg, most: Reg, where: Reg) -> tuple[Reg, Reg]:
            offset = f.mul(vector, self.lanes)
            address, positions = self._at(start, offset), self._ordinals(offset)
            keys = f.load(self._type, address, 4)
            left = f.select(f.icmp("eq", positions, taken), self._splat(NO_KEY), keys)
            whole_store(f, left, address, 4)
            return self._later(left, positions, most, where)

        most, where = f.loop(0, count, 1, look, (self._splat(NO_KEY), self._splat(0)), at_least_once=True)
        key, position = self._first_greatest(most, where)
        f.store(position, self._at(self.positions, block), 4)
        return key

    def _replace_top(self, block: Reg, key: Reg) -> None:
        f = self.f
        first, narrow = f.and_(block, -self.lanes), register(f.convert("trunc", block, "i32"))
        address = self._at(self.tops, first)
        here = f.icmp("eq", self._ordinals(first), f.splat(narrow, self.lanes))
        replaced = f.select(here, f.splat(key, self.lanes), f.load(self._type, address, 4))
        whole_store(f, replaced, address, 4)

    def _greatest(self) -> Greatest:
        f = self.f

        def look(start: Reg, most: Reg, where: Reg) -> tuple[Reg, Reg]:
            return self._later(f.load(self._type, self._at(self.tops, start), 4), self._ordinals(start), most, where)

        most, where = f.loop(0, self.blocks, self.lanes, look, (self._splat(NO_KEY), self._splat(0)))
        key, block = self._first_greatest(most, where)
        return Greatest(key, register(f.convert("zext", block, "i64")))

    def _later(self, keys: Reg, ordinals: Reg, most: Reg, where: Reg) -> tuple[Reg, Reg]:
        """The greater keys lane by lane, the first of equals, and where they are."""
        f = self.f
        return register(f.smax(keys, most)), f.select(f.icmp("sgt", keys, most), ordinals, where)

    def _first_greatest(self, keys: Reg, ordinals: Reg) -> tuple[Reg, Reg]:
        """The greatest of all lanes, and the least ordinal of those that have it."""
        f = self.f
        key = f.reduce_lanes("smax", keys)
        candidates = f.select(f.icmp("eq", keys, f.splat(key, self.lanes)), ordinals, self._splat(_NOWHERE))
        return key, f.reduce_lanes("umin", candidates)


def ranked_blocks(f: FunctionBuilder, lanes: int, keys: Reg, tops: Reg, positions: Reg, vectors: Reg) -> RankedBlocks:
    """Blocks of a size that makes for about as many vectors in each as there are vectors of tops."""
    leading = f.intrinsic("llvm.ctlz.*", "i64", as_reg(f.udiv(vectors, lanes)), f.constant("i1", 0))
    shift = as_reg(f.smax(f.lshr(f.sub(65, leading), 1), _LEAST_SHIFT))
    last = f.sub(f.shl(f.constant("i64", 1), shift), 1)
    blocks = as_reg(f.lshr(f.add(vectors, last), shift))
    return RankedBlocks(f, lanes, keys, tops, positions, vectors, shift, blocks)
