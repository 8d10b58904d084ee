"""Rows of floats times panels of weights of few bits, whose codes become floats: in registers, or written out for many.

What multiplies is in inner_loops/block_kernels.py.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from onnxc.compiler.codegen_cpu.inner_loops.block_kernels import BlockKernel, PackedBlocks, UnpackKernel
from onnxc.compiler.codegen_cpu.inner_loops.code_words import FLOAT
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import (
    LibraryFunction,
    Product,
    ProductTypes,
    by_steps,
    multiply,
    product_library,
    row_steps,
)
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.schedules.block_products import row_vectors
from onnxc.compiler.codegen_cpu.schedules.products import register_rows
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.bit_layouts import PackedCodes, word_bits
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.schedules import BlockProductSchedule

FLOATS = ProductTypes(F32, F32, F32)


@dataclass
class FloatBlocks:
    """The rows and weights of one kernel."""

    frame: KernelFrame
    op: Op

    least_panels: ClassVar[int] = 1

    def __post_init__(self) -> None:
        schedule = self.frame.kernel.scheduled(BlockProductSchedule)
        assert schedule.registers is not None, schedule
        self.width, self.lanes = schedule.tile.columns, self.frame.lanes
        self.vectors = self.width // self.lanes
        self.few_steps = tuple(rows for rows in row_steps(schedule.registers.rows) if rows <= schedule.tile.rows)
        assert schedule.packing is not None, schedule
        assert isinstance(schedule.packing.layout, PackedCodes), schedule
        self.layout = schedule.packing.layout
        (self.blocks,) = known_sizes(self.op.operands[2].shape[1:])
        (self.x, view), *weights = (operand_in_memory(self.frame, operand) for operand in self.op.operands)
        assert view.offset == 0, view
        self.codes, self.scales, *zeros = (address for address, _ in weights)
        self.zeros = zeros[0] if zeros else None
        self.part = schedule.tile.depth
        self.many_rows = schedule.many_rows
        self.panel = self.frame.f.alloca(FLOAT, self.part * self.width) if self.many_rows else None
        self._unpack = UnpackKernel(self.layout.bits, self.vectors, self.zeros is not None)

    def library(self) -> tuple[LibraryFunction, ...]:
        """Kernels of few rows, and what writes out and multiplies for many."""
        few = tuple(map(self._kernel, self.few_steps))
        if self.panel is None:
            return few
        many = product_library(FLOATS, self.vectors, register_rows(self.vectors, self.frame.target))
        return (*few, self._unpack, *many)

    def _kernel(self, rows: int) -> BlockKernel:
        vectors = row_vectors(rows, self.vectors, self.frame.target)
        return BlockKernel(self.layout.bits, rows, vectors, self.zeros is not None)

    def prepare(self, first_row: Int, rows: Int) -> None:
        """Rows are read as they lie."""

    def multiply(self, first_row: Int, rows: Int, panel: Int, tile: Reg) -> None:
        """The rows of a chunk by a panel, into the rows of a tile."""
        f = self.frame.f
        x = f.gep(self.x, f.mul(first_row, self.layout.depth), FLOAT)
        if self.panel is None:
            self._multiply_few(x, rows, panel, tile)
        else:
            f.if_(
                f.icmp("sge", rows, self.many_rows),
                partial(self._multiply_many, x, rows, panel, tile, self.panel),
                partial(self._multiply_few, x, rows, panel, tile),
            )

    def _packed(self, panel: Int, word: Int, block: Int, column: int, depth: Int) -> PackedBlocks:
        """So much of the columns of a panel, from a word and a block of it on."""
        f, layout = self.frame.f, self.layout
        codes = f.add(f.mul(f.add(f.mul(panel, layout.words), word), self.width), column)
        spread = f.add(f.mul(f.add(f.mul(panel, self.blocks), block), self.width), column)
        scales = f.gep(self.scales, spread, FLOAT)
        zeros = scales if self.zeros is None else f.gep(self.zeros, spread, FLOAT)
        address = f.gep(self.codes, codes, f"i{word_bits(layout.bits)}")
        return PackedBlocks(address, scales, zeros, self.width, depth, layout.block)

    def _multiply_few(self, x: Reg, rows: Int, panel: Int, tile: Reg) -> None:
        """Some rows after the other by some columns after the other, whose codes become floats in registers."""
        f, depth = self.frame.f, self.layout.depth

        def multiply(row: Int, step: int) -> None:
            kernel = self._kernel(step)
            for column in range(0, self.width, kernel.vectors * self.lanes):
                sums = f.gep(tile, f.add(f.mul(row, self.width), column), FLOAT)
                packed = self._packed(panel, 0, 0, column, depth)
                kernel.call(f, f.gep(x, f.mul(row, depth), FLOAT), depth, sums, packed)

        by_steps(f, rows, self.few_steps, multiply)

    def _multiply_many(self, x: Reg, rows: Int, panel: Int, tile: Reg, unpacked: Reg) -> None:
        """All rows by one part of k after the other, whose weights are written out as floats."""
        f, depth = self.frame.f, self.layout.depth
        shape = (self.vectors, self.lanes, register_rows(self.vectors, self.frame.target))

        def multiply_part(ordinal: Int) -> None:
            packed, first = self._part(panel, ordinal)
            self._unpack.call(f, unpacked, packed)
            accumulate = f.convert("zext", f.icmp("ne", first, 0), "i64")
            part = Product(f.gep(x, first, FLOAT), depth, 1, unpacked, tile, packed.depth)
            multiply(f, part, rows, accumulate, FLOATS, shape)

        whole, rest = divmod(depth, self.layout.block)
        parts = whole * self._parts(self.layout.block) + self._parts(rest)
        f.loop(0, parts if self.part < self.layout.block else self._parts(depth), 1, multiply_part)

    def _parts(self, depth: int) -> int:
        return -(-depth // self.part)

    def _part(self, panel: Int, ordinal: Int) -> tuple[PackedBlocks, Int]:
        """Several whole blocks, or some of the codes of one; and where along k they begin."""
        f, layout, part = self.frame.f, self.layout, self.part
        if part < layout.block:
            block = f.udiv(ordinal, self._parts(layout.block))
            before = f.mul(f.urem(ordinal, self._parts(layout.block)), part)
            size = f.smin(f.sub(layout.block, before), part)
        else:
            block, before, size = f.mul(ordinal, part // layout.block), 0, part
        first = f.add(f.mul(block, layout.block), before)
        word = f.add(f.mul(block, layout.block_words), f.udiv(before, layout.codes))
        return self._packed(panel, word, block, 0, f.smin(f.sub(layout.depth, first), size)), first
