"""The innermost loops of products with weights of few bits, shared by all kernels of an image, keyed by the bits.

Few rows are multiplied by codes that become floats in registers, where a block is summed by itself and its scale is
multiplied once. For many rows weights are written out, so that they become floats once for all of them.
"""

from collections.abc import Callable, Sequence
from functools import partial

from onnxc.compiler.codegen_cpu.inner_loops.code_words import FLOAT, CodeWords
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import library_function
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = ["BlockKernel", "PackedBlocks", "UnpackKernel"]


@record
class PackedBlocks:
    """Some columns of a panel, from the first code of a block on: `depth` codes in blocks of `block`.

    width: from row to row of all that is packed, and of what is written, in elements. zeros: the zero points; the
    scales where there are none.
    """

    codes: Reg
    scales: Reg
    zeros: Reg
    width: Int
    depth: Int
    block: Int

    @property
    def arguments(self) -> tuple[Int, ...]:
        """As arguments of a function."""
        return (self.codes, self.scales, self.zeros, self.width, self.depth, self.block)


BLOCK_PARAMETERS = "ptr codes, ptr scales, ptr zeros, i64 width, i64 depth, i64 block"


@record
class BlockKernel:
    """A function of the library: so many rows against so many vectors of columns."""

    bits: int
    rows: int
    vectors: int
    has_zeros: bool

    @property
    def name(self) -> str:
        shifted = "_shifted" if self.has_zeros else ""
        return f"multiply_blocks_of_{self.bits}_bits{shifted}_{self.rows}x{self.vectors}"

    def call(self, f: FunctionBuilder, x: Reg, row_stride: Int, tile: Reg, packed: PackedBlocks) -> None:
        """A call of it."""
        f.call(self.name, "void", x, row_stride, tile, *packed.arguments)

    def write(self, target: Target) -> FunctionBuilder:
        """void multiply(ptr x, i64 row stride, ptr tile, columns of a panel)

        tile[r][j] = sum over blocks b of scales[b][j] * the sum over k in b of x[r][k] * (codes[k][j] - zeros[b][j]).
        """
        f = library_function(self.name, f"ptr x, i64 row_stride, ptr tile, {BLOCK_PARAMETERS}", target)
        x, row_stride, tile, *packed = f.parameters
        words = CodeWords(f, self.bits, target)
        _Multiply(self, words, PackedBlocks(*packed), x, row_stride, tile).write()
        f.ret()
        return f


@record
class UnpackKernel:
    """A function of the library: the weights of so many vectors of columns."""

    bits: int
    vectors: int
    has_zeros: bool

    @property
    def name(self) -> str:
        return f"unpack_blocks_of_{self.bits}_bits{'_shifted' if self.has_zeros else ''}_{self.vectors}"

    def call(self, f: FunctionBuilder, panel: Reg, packed: PackedBlocks) -> None:
        """A call of it."""
        f.call(self.name, "void", panel, *packed.arguments)

    def write(self, target: Target) -> FunctionBuilder:
        """void unpack(ptr panel, columns of a panel)

        panel[k][j] = scales[b][j] * (codes[k][j] - zeros[b][j]), for k in block b.
        """
        f = library_function(self.name, f"ptr panel, {BLOCK_PARAMETERS}", target)
        panel, *packed = f.parameters
        blocks = _Blocks(CodeWords(f, self.bits, target), PackedBlocks(*packed))

        def write(scales: Sequence[Reg], k: Int, floats: Sequence[Reg]) -> None:
            row = f.gep(panel, f.mul(k, blocks.packed.width), FLOAT)
            for vector, (x, scale) in enumerate(zip(floats, scales, strict=True)):
                f.store(f.fmul(x, scale), f.gep(row, vector * blocks.words.lanes, FLOAT), align=F32.itemsize)

        def unpack(ordinal: Int) -> None:
            scales = blocks.spread(blocks.packed.scales, ordinal, self.vectors)
            zeros = blocks.spread(blocks.packed.zeros, ordinal, self.vectors if self.has_zeros else 0)
            blocks.each_code(ordinal, self.vectors, zeros, lambda k, floats: write(scales, k, floats))

        f.loop(0, blocks.count, 1, unpack)
        f.ret()
        return f


Visit = Callable[..., Sequence[Int] | None]
"""What is done with the codes at one k, given k, a vector of floats for each of the columns, and what is carried."""


@record
class _Blocks:
    """The codes of some columns, one block after the other."""

    words: CodeWords
    packed: PackedBlocks

    @property
    def count(self) -> Int:
        """How many blocks there are, the last of which may be cut."""
        f, packed = self.words.f, self.packed
        return f.udiv(f.sub(f.add(packed.depth, packed.block), 1), packed.block)

    def spread(self, base: Reg, ordinal: Int, vectors: int) -> list[Reg]:
        """Scales or zero points of the columns in a block."""
        words, f = self.words, self.words.f
        row = f.gep(base, f.mul(ordinal, self.packed.width), FLOAT)
        addresses = [f.gep(row, vector * words.lanes, FLOAT) for vector in range(vectors)]
        return [f.load(words.vector, address, align=F32.itemsize) for address in addresses]

    def each_code(
        self, ordinal: Int, vectors: int, zeros: Sequence[Reg], visit: Visit, start: Sequence[Reg] = ()
    ) -> tuple[Reg, ...]:
        """visit(k, floats, carried...) for the codes of a block in order: of whole words, then of one that is cut."""
        words, f, packed = self.words, self.words.f, self.packed
        first = f.mul(ordinal, packed.block)
        size = f.smin(f.sub(packed.depth, first), packed.block)
        per_block = f.udiv(f.sub(f.add(packed.block, words.count), 1), words.count)
        first_word, whole = f.mul(ordinal, per_block), f.udiv(size, words.count)

        def load(word: Int) -> list[Reg]:
            row = f.mul(f.add(first_word, word), packed.width)
            return words.load(f.gep(packed.codes, row, words.word), vectors)

        def visit_word(word: Int, *carried: Reg) -> Sequence[Int]:
            loaded, k = load(word), f.add(first, f.mul(word, words.count))
            following: Sequence[Int] = carried
            for index in range(words.count):
                following = visit(f.add(k, index), words.floats(loaded, index, zeros), *following) or ()
            return following

        def visit_rest() -> tuple[Reg, ...]:
            loaded, k = load(whole), f.mul(whole, words.count)

            def step(index: Int, *carried: Reg) -> Sequence[Int] | None:
                floats = words.floats(words.shifted(loaded, index), 0, zeros)
                return visit(f.add(f.add(first, k), index), floats, *carried)

            return f.loop(0, f.sub(size, k), 1, step, carried)

        carried = f.loop(0, whole, 1, visit_word, start)
        if words.count == 1:
            return carried
        is_cut = f.icmp("ne", f.sub(size, f.mul(whole, words.count)), 0)
        return f.if_(is_cut, visit_rest, lambda: carried)


@record
class _Multiply:
    """One product of few rows being written."""

    kernel: BlockKernel
    words: CodeWords
    packed: PackedBlocks
    x: Reg
    row_stride: Int
    tile: Reg

    def write(self) -> None:
        """Clears the tile and adds block after block."""
        f, words, blocks = self.words.f, self.words, _Blocks(self.words, self.packed)
        for address in self._tile():
            f.store(f.constant(words.vector, 0), address, align=64)
        f.loop(0, blocks.count, 1, partial(self._add_block, blocks))

    def _add_block(self, blocks: _Blocks, ordinal: Int) -> None:
        f, vectors, tile = self.words.f, self.kernel.vectors, self._tile()
        zeros = blocks.spread(self.packed.zeros, ordinal, vectors if self.kernel.has_zeros else 0)
        start = [f.constant(self.words.vector, 0)] * len(tile)
        sums = blocks.each_code(ordinal, vectors, zeros, self._add_products, start)
        scales = blocks.spread(self.packed.scales, ordinal, vectors)
        for ordinal, (address, total) in enumerate(zip(tile, sums, strict=True)):
            sum_ = f.multiply_add(total, scales[ordinal % vectors], f.load(self.words.vector, address, align=64))
            f.store(sum_, address, align=64)

    def _add_products(self, k: Int, floats: Sequence[Reg], *sums: Reg) -> list[Reg]:
        """Adds x[r][k] * code to the sums of each row."""
        f, following = self.words.f, list[Reg]()
        for row in range(self.kernel.rows):
            address = f.gep(self.x, f.add(f.mul(self.row_stride, row), k), FLOAT)
            x = f.splat(f.load(FLOAT, address, align=F32.itemsize), self.words.lanes)
            for code in floats:
                following.append(f.multiply_add(x, code, sums[len(following)]))
        return following

    def _tile(self) -> list[Reg]:
        """Where the sums lie: rows of so many vectors."""
        f, lanes = self.words.f, self.words.lanes
        rows = [f.gep(self.tile, f.mul(self.packed.width, row), FLOAT) for row in range(self.kernel.rows)]
        return [f.gep(row, vector * lanes, FLOAT) for row in rows for vector in range(self.kernel.vectors)]
