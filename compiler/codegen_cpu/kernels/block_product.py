"""Products with weights of few bits: rows of x times panels of columns, the pointwise ops that follow on each tile.

A unit of work is one panel against one chunk of rows. How rows are multiplied, of floats or bytes, is in products/.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.code_words import FLOAT
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import LibraryFunction
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.products.byte_blocks import ByteBlocks
from onnxc.compiler.codegen_cpu.products.float_blocks import FloatBlocks
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.schedules import BlockProductSchedule
from onnxc.compiler.target import Target


class Multiplier(Protocol):
    """How rows are multiplied. least_panels: a thread multiplies a chunk by so many at a time, or more."""

    least_panels: ClassVar[int]

    def prepare(self, first_row: Int, rows: Int) -> None:
        """What is done once with the rows of a chunk, for all panels."""

    def multiply(self, first_row: Int, rows: Int, panel: Int, tile: Reg) -> None:
        """The rows of a chunk by a panel, into the rows of a tile."""

    def library(self) -> tuple[LibraryFunction, ...]:
        """What it calls."""


_MULTIPLIERS: dict[str, Callable[[KernelFrame, Op], Multiplier]] = {
    "block_product": FloatBlocks,
    "byte_block_product": ByteBlocks,
}


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a product with weights of few bits."""
    frame = open_kernel(kernel, name, target)
    op = next(op for op in kernel.block.ops if op.name in _MULTIPLIERS)
    return _Blocks(frame, op, _MULTIPLIERS[op.name](frame, op)).emit(name)


@dataclass
class _Blocks:
    """One kernel."""

    frame: KernelFrame
    op: Op
    multiplier: Multiplier

    def __post_init__(self) -> None:
        tile = self.frame.kernel.scheduled(BlockProductSchedule).tile
        self.chunk_rows, self.width, self.lanes = tile.rows, tile.columns, self.frame.lanes
        *outer, self.depth = self.op.operands[0].shape
        self.rows, (self.columns,) = product(outer), known_sizes(self.op.result.shape[-1:])
        self.tile = self.frame.f.alloca(FLOAT, self.chunk_rows * self.width)

    def emit(self, name: str) -> KernelCode:
        """The loops over chunks, and over the panels of each."""
        frame, f = self.frame, self.frame.f
        chunks, panels = floordiv(self.rows + self.chunk_rows - 1, self.chunk_rows), -(-self.columns // self.width)

        def chunk(ordinal: Reg) -> None:
            first_row, before = f.mul(ordinal, self.chunk_rows), f.mul(ordinal, panels)
            rows = f.smin(f.sub(frame.size(self.rows), first_row), self.chunk_rows)
            self.multiplier.prepare(first_row, rows)
            first, stop = f.smax(f.sub(frame.begin, before), 0), f.smin(f.sub(frame.end, before), panels)
            f.loop(first, stop, 1, partial(self._unit, first_row, rows), at_least_once=True)

        stop = f.add(f.udiv(f.sub(frame.end, 1), panels), 1)
        f.loop(f.udiv(frame.begin, panels), stop, 1, chunk, at_least_once=True)
        f.ret()
        grain = maximum(
            frame.grain(minimum(self.rows, self.chunk_rows) * self.width * self.depth), self.multiplier.least_panels
        )
        return KernelCode(name, (f,), chunks * panels, grain, self.multiplier.library())

    def _unit(self, first_row: Int, rows: Int, panel: Int) -> None:
        f = self.frame.f
        self.multiplier.multiply(first_row, rows, panel, self.tile)
        first_column = f.mul(panel, self.width)
        f.loop(0, rows, 1, lambda row: self._finish_row(first_row, row, first_column))

    def _finish_row(self, first_row: Int, row: Int, first_column: Int) -> None:
        """The pointwise ops on one row of the tile, and its way to the result."""
        frame, f = self.frame, self.frame.f
        outer = [Index(each) for each in frame.split(f.add(first_row, row), self.op.operands[0].shape[:-1])]
        left = f.sub(self.columns, first_column)
        for start in range(0, self.width, self.lanes):
            source = f.gep(self.tile, f.add(f.mul(row, self.width), start), FLOAT)
            index = [*outer, Index(f.add(first_column, start), 1)]
            frame.lanes_left(self.lanes, f.sub(left, start), partial(self._finish_vector, source, index))

    def _finish_vector(self, source: Reg, index: Sequence[Index], mask: Reg | None) -> None:
        x = self.frame.f.load(vector_type(FLOAT, self.lanes), source, align=64)
        write_result(self.frame.evaluator(self.lanes, mask), self.frame, self.op, x, index)
