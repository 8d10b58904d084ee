"""The innermost loops of products of bytes with weights of few bits, shared by all kernels of an image.

A word has groups of four codes (`PackedGroups`); shifted and masked it is four bytes without sign for each column,
which are multiplied at once by the four bytes of a row, that are the same for all columns. The sums of a block are
exact, and become floats at its end.
"""

from collections.abc import Sequence
from functools import partial

from onnxc.compiler.codegen_cpu.inner_loops.code_words import FLOAT
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import GROUP, add_code_dots
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import PREFETCHED_BYTES, library_function
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.compiler.ir.dtypes import F32, I32
from onnxc.compiler.planning.bit_layouts import BYTE
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = ["ByteBlockKernel", "PackedRows", "StartKernel"]

SUMMED_BYTES = 16
"""The bytes of a row that are added up at once; blocks are of a multiple of them."""


@record
class PackedRows:
    """Rows of bytes, from the first of some on: `blocks` blocks of `block` bytes each, without gaps.

    steps: f32[row, block]. starts: i32[row, block], see StartKernel.
    """

    x: Reg
    steps: Reg
    starts: Reg
    blocks: Int
    block: Int


@record
class StartKernel:
    """A function of the library: what sums of blocks begin with."""

    bits: int

    @property
    def name(self) -> str:
        return f"start_byte_blocks_of_{self.bits}_bits"

    def call(self, f: FunctionBuilder, x: Reg, starts: Reg, count: Int, block: Int) -> None:
        """A call of it."""
        f.call(self.name, "void", x, starts, count, block)

    def write(self, target: Target) -> FunctionBuilder:
        """void start(ptr x, ptr starts, i64 count, i64 block)

        starts[b] = -2^(bits - 1) times the sum of x[b][k], for `count` blocks.
        """
        f = library_function(self.name, "ptr x, ptr starts, i64 count, i64 block", target)
        x, starts, count, block = f.parameters
        lanes = min(SUMMED_BYTES, target.vector_bits // I32.bits)
        words = vector_type("i32", lanes)

        def start(ordinal: Int) -> None:
            bytes_ = f.gep(x, f.mul(ordinal, block))

            def add(k: Int, total: Reg) -> Sequence[Int]:
                return (f.add(total, f.convert("sext", f.load(vector_type("i8", lanes), f.gep(bytes_, k)), words)),)

            (total,) = f.loop(0, block, lanes, add, (f.constant(words, 0),), at_least_once=True)
            less = f.mul(f.reduce_lanes("add", total), -(1 << self.bits - 1))
            f.store(less, f.gep(starts, ordinal, "i32"), align=I32.itemsize)

        f.loop(0, count, 1, start)
        f.ret()
        return f


Panel = tuple[Reg, Reg, Reg, Int]
"""Columns of a panel: where their words, their scales and their zero points begin, and its width in words."""


@record
class ByteBlockKernel:
    """A function of the library: so many rows against so many vectors of columns."""

    bits: int
    rows: int
    vectors: int
    has_zeros: bool

    @property
    def name(self) -> str:
        shifted = "_shifted" if self.has_zeros else ""
        return f"multiply_byte_blocks_of_{self.bits}_bits{shifted}_{self.rows}x{self.vectors}"

    def call(self, f: FunctionBuilder, rows: PackedRows, panel: Panel, tile: Reg) -> None:
        """A call of it."""
        f.call(self.name, "void", rows.x, rows.steps, rows.starts, rows.blocks, rows.block, *panel, tile)

    def write(self, target: Target) -> FunctionBuilder:
        """void multiply(rows, columns of a panel, ptr tile)

        tile[r][j] = sum over blocks b of steps[r][b] * scales[b][j] * the sum over k in b of x[r][k] * (codes[k][j] -
        zeros[b][j]).
        """
        rows = "ptr x, ptr steps, ptr starts, i64 blocks, i64 block"
        f = library_function(self.name, f"{rows}, ptr codes, ptr scales, ptr zeros, i64 width, ptr tile", target)
        _Multiply(self, f, target).write()
        f.ret()
        return f


class _Multiply:
    """One product of a few rows being written."""

    def __init__(self, kernel: ByteBlockKernel, f: FunctionBuilder, target: Target) -> None:
        self.kernel, self.f, self.target = kernel, f, target
        x, steps, starts, blocks, block, self.codes, self.scales, self.zeros, self.width, self.tile = f.parameters
        self.rows = PackedRows(x, steps, starts, blocks, block)
        self.lanes = target.vector_bits // I32.bits
        self.words, self.floats = vector_type("i32", self.lanes), vector_type(FLOAT, self.lanes)
        self.parts = BYTE // kernel.bits

    def write(self) -> None:
        """Clears the tile and adds block after block."""
        f = self.f
        for address in self._tile():
            f.store(f.constant(self.floats, 0), address, align=64)
        depth = f.mul(self.rows.blocks, self.rows.block)
        row_starts = [f.gep(self.rows.x, f.mul(depth, row)) for row in range(self.kernel.rows)]
        f.loop(0, self.rows.blocks, 1, partial(self._add_block, row_starts))

    def _add_block(self, row_starts: Sequence[Reg], ordinal: Int) -> None:
        f, vectors, depth = self.f, self.kernel.vectors, self.parts * GROUP
        offsets = [f.add(f.mul(self.rows.blocks, row), ordinal) for row in range(self.kernel.rows)]
        starts = [f.load("i32", f.gep(self.rows.starts, place, "i32"), align=I32.itemsize) for place in offsets]
        sums = [f.splat(start, self.lanes) for start in starts for _ in range(vectors)]
        before = f.mul(ordinal, self.rows.block)

        def add_word(k: Int, *totals: Reg) -> Sequence[Int]:
            place = f.add(before, k)
            words = self._words(f.udiv(place, depth))
            for part in range(self.parts):
                codes = [self._part(word, part) for word in words]
                xs = [f.gep(row, f.add(place, GROUP * part)) for row in row_starts]
                totals = self._add_groups(codes, [f.splat(f.load("i32", x), self.lanes) for x in xs], totals)
            return totals

        totals = f.loop(0, self.rows.block, depth, add_word, sums, at_least_once=True)
        scales = self._spread(self.scales, ordinal, vectors)
        zeros = self._spread(self.zeros, ordinal, vectors if self.kernel.has_zeros else 0)
        steps = [f.load(FLOAT, f.gep(self.rows.steps, place, FLOAT), align=F32.itemsize) for place in offsets]
        for at, (address, total) in enumerate(zip(self._tile(), totals, strict=True)):
            row, vector = divmod(at, vectors)
            value = f.convert("sitofp", total, self.floats)
            if zeros:
                value = f.multiply_add(self._all(starts[row]), zeros[vector], value)
            scale = f.fmul(scales[vector], f.splat(steps[row], self.lanes))
            f.store(f.multiply_add(value, scale, f.load(self.floats, address, align=64)), address, align=64)

    def _add_groups(self, codes: Sequence[Reg], rows: Sequence[Reg], totals: Sequence[Reg]) -> tuple[Reg, ...]:
        """The sums with the products of the codes of a group and the bytes of each row."""
        vectors = self.kernel.vectors
        return tuple(
            add_code_dots(self.f, codes[at % vectors], self.kernel.bits, rows[at // vectors], total, self.target)
            for at, total in enumerate(totals)
        )

    def _all(self, start: Reg) -> Reg:
        """Minus the sum of the bytes of a block, in every lane, from what its sums begin with."""
        f = self.f
        return f.splat(f.fmul(f.convert("sitofp", start, FLOAT), 2.0 ** (1 - self.kernel.bits)), self.lanes)

    def _words(self, ordinal: Int) -> list[Reg]:
        """The words at one place of all columns; those further on are fetched meanwhile."""
        f = self.f
        row = f.gep(self.codes, f.mul(ordinal, self.width), "i32")
        addresses = [f.gep(row, vector * self.lanes, "i32") for vector in range(self.kernel.vectors)]
        for address in addresses:
            f.prefetch(f.gep(address, PREFETCHED_BYTES))
        return [f.load(self.words, address, align=I32.itemsize) for address in addresses]

    def _part(self, word: Reg, part: int) -> Reg:
        """The codes of one group of a word, a byte each."""
        f, bits = self.f, self.kernel.bits
        low = register(f.lshr(word, part * bits)) if part else word
        mask = ((1 << bits) - 1) * 0x01010101
        return low if bits == BYTE else register(f.and_(low, mask))

    def _spread(self, base: Reg, ordinal: Int, vectors: int) -> list[Reg]:
        """Scales or zero points of the columns in a block."""
        f = self.f
        row = f.gep(base, f.mul(ordinal, self.width), FLOAT)
        addresses = [f.gep(row, vector * self.lanes, FLOAT) for vector in range(vectors)]
        return [f.load(self.floats, address, align=F32.itemsize) for address in addresses]

    def _tile(self) -> list[Reg]:
        """Where the sums lie: rows of so many vectors."""
        f = self.f
        rows = [f.gep(self.tile, f.mul(self.width, row), FLOAT) for row in range(self.kernel.rows)]
        return [f.gep(row, vector * self.lanes, FLOAT) for row in rows for vector in range(self.kernel.vectors)]
