"""Rows of bytes times panels of weights of few bits, summed block by block in i32.

What multiplies is in inner_loops/byte_block_kernels.py. Its codes have no sign, as half of what they may be is added to
them: sums begin with as much less, which is the same for all columns, and found once for all panels.
"""

from dataclasses import dataclass
from typing import ClassVar

from onnxc.compiler.codegen_cpu.inner_loops.byte_block_kernels import ByteBlockKernel, PackedRows, StartKernel
from onnxc.compiler.codegen_cpu.inner_loops.code_words import FLOAT
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import LibraryFunction, by_steps, row_steps
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.schedules.block_products import row_vectors
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.bit_layouts import PackedGroups
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.schedules import BlockProductSchedule


@dataclass
class ByteBlocks:
    """The rows and weights of one kernel."""

    frame: KernelFrame
    op: Op

    least_panels: ClassVar[int] = 4
    """What is found of a chunk takes as long as to multiply it by a third of a panel, where blocks are of 32."""

    def __post_init__(self) -> None:
        schedule = self.frame.kernel.scheduled(BlockProductSchedule)
        assert schedule.registers is not None, schedule
        self.width, self.lanes = schedule.tile.columns, self.frame.lanes
        self.row_steps = tuple(rows for rows in row_steps(schedule.registers.rows) if rows <= schedule.tile.rows)
        assert schedule.packing is not None, schedule
        assert isinstance(schedule.packing.layout, PackedGroups), schedule
        self.layout = schedule.packing.layout
        (self.blocks,) = known_sizes(self.op.operands[3].shape[1:])
        (self.x, view), (self.steps, steps_view), *weights = (
            operand_in_memory(self.frame, operand) for operand in self.op.operands
        )
        assert view.offset == steps_view.offset == 0, (view, steps_view)
        self.codes, self.scales, *zeros = (address for address, _ in weights)
        self.zeros = zeros[0] if zeros else None
        self.starts = self.frame.f.alloca("i32", schedule.tile.rows * self.blocks)
        self._start = StartKernel(self.layout.bits)

    def library(self) -> tuple[LibraryFunction, ...]:
        """Kernels of rows, and what finds where their sums begin."""
        return (self._start, *map(self._kernel, self.row_steps))

    def _kernel(self, rows: int) -> ByteBlockKernel:
        vectors = row_vectors(rows, self.width // self.lanes, self.frame.target)
        return ByteBlockKernel(self.layout.bits, rows, vectors, self.zeros is not None)

    def prepare(self, first_row: Int, rows: Int) -> None:
        """Where the sums of the blocks of a chunk begin."""
        f = self.frame.f
        x = f.gep(self.x, f.mul(first_row, self.layout.depth))
        self._start.call(f, x, self.starts, f.mul(rows, self.blocks), self.layout.block)

    def multiply(self, first_row: Int, rows: Int, panel: Int, tile: Reg) -> None:
        """The rows of a chunk by a panel, into the rows of a tile."""
        f, layout = self.frame.f, self.layout

        def multiply(row: Int, step: int) -> None:
            kernel, place = self._kernel(step), f.add(first_row, row)
            packed = PackedRows(
                f.gep(self.x, f.mul(place, layout.depth)),
                f.gep(self.steps, f.mul(place, self.blocks), FLOAT),
                f.gep(self.starts, f.mul(row, self.blocks), "i32"),
                self.blocks,
                layout.block,
            )
            for column in range(0, self.width, kernel.vectors * self.lanes):
                sums = f.gep(tile, f.add(f.mul(row, self.width), column), FLOAT)
                codes = f.gep(self.codes, f.add(f.mul(panel, layout.words * self.width), column), "i32")
                spread = f.add(f.mul(panel, self.blocks * self.width), column)
                scales = f.gep(self.scales, spread, FLOAT)
                zeros = scales if self.zeros is None else f.gep(self.zeros, spread, FLOAT)
                kernel.call(f, packed, (codes, scales, zeros, self.width), sums)

        by_steps(f, rows, self.row_steps, multiply)
