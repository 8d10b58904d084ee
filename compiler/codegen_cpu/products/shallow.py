"""Contractions of few steps along k: a few rows at a time against some panels of B, which stay in a cache.

The sums of a tile are in registers until the ops that follow are computed and it is written; panels of many steps have
them in memory in between, which is most of what so few steps take. A unit of work is a run of rows, for one position
of the outer letters; its results are written in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import WRITTEN_STEPS
from onnxc.compiler.codegen_cpu.inner_loops.packing import Conversion, Copied, pack_panel
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.products.operands import Coordinates, ProductOperands, product_operands
from onnxc.compiler.codegen_cpu.schedules.contractions import SHALLOW_ROWS
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.runtime.records import record


def emit_shallow(frame: KernelFrame, name: str) -> KernelCode:
    """The code of a contraction of few steps."""
    return _Shallow(frame, product_operands(frame)).emit(name)


@record
class _Columns:
    """So many columns from `first` on, for one position of the outer letters."""

    outer: Coordinates
    first: Int
    count: Int


@dataclass
class _Shallow:
    frame: KernelFrame
    operands: ProductOperands

    def __post_init__(self) -> None:
        schedule, self.problem = self.operands.schedule, self.operands.problem
        assert schedule.registers is not None, schedule
        assert isinstance(self.problem.depth, int), self.problem
        self.unit_rows, self.depth, self.lanes = schedule.tile.rows, self.problem.depth, self.frame.lanes
        self.rows, self.width = schedule.registers.rows, schedule.registers.columns
        self.block, self.memory = schedule.tile.columns, memory_type(self.problem.a.base.dtype)
        self.is_constant, self.packs = schedule.packing is not None, schedule.packs_columns
        self.letters = parse_equation(self.problem.dot.attributes["equation"])[2]

    @cached_property
    def packed(self) -> Reg:
        """Room for the panels of a block."""
        return self.frame.f.alloca(self.memory, self.depth * self.block)

    def emit(self, name: str) -> KernelCode:
        """The loop over units."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        outer_sizes = self.operands.sizes(problem.outer)
        chunks = floordiv(problem.rows + self.unit_rows - 1, self.unit_rows)

        def unit(ordinal: Reg) -> None:
            *outer, chunk = frame.split(ordinal, (*outer_sizes, chunks))
            self._unit(dict(zip(problem.outer, outer, strict=True)), f.mul(chunk, self.unit_rows))

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        work = minimum(problem.rows, self.unit_rows) * problem.columns * problem.depth
        return KernelCode(name, (f,), product(outer_sizes) * chunks, frame.grain(work))

    def _unit(self, outer: Coordinates, first: Int) -> None:
        """All columns, by as many as of B stay in the nearest cache for the rows of a unit."""
        f, columns = self.frame.f, self.frame.size(self.problem.columns)
        rows = first, f.smin(self.frame.size(self.problem.rows), f.add(first, self.unit_rows))

        def block(column: Int) -> None:
            self._block(rows, _Columns(outer, column, f.smin(f.sub(columns, column), self.block)))

        if not isinstance(columns, int):
            f.loop(0, columns, self.block, block)
            return
        whole = columns // self.block * self.block
        f.loop(0, whole, self.block, lambda column: self._block(rows, _Columns(outer, column, self.block)))
        if columns > whole:
            self._block(rows, _Columns(outer, whole, columns - whole))

    def _block(self, bounds: tuple[Int, Int], columns: _Columns) -> None:
        """Rows by as many as registers have room for, those that are left by fewer."""
        f, (first, stop) = self.frame.f, bounds
        if self.packs:
            self._pack(columns)
        for rows in sorted({self.rows, min(self.rows, SHALLOW_ROWS[-1]), 1}, reverse=True):
            whole = f.add(first, f.mul(f.sdiv(f.sub(stop, first), rows), rows))
            f.loop(first, whole, rows, partial(self._panels, columns, rows))
            first = whole

    def _pack(self, columns: _Columns) -> None:
        """The panels of a block, [panel][k][column], with zeros behind the last column."""
        f, problem = self.frame.f, self.problem
        strides = self.frame.size(problem.b_stride(problem.k)), self.frame.size(problem.b_strides[problem.n])
        dtype, vectors = problem.b.base.dtype, self.width // self.lanes

        def panel(column: Int) -> None:
            source = self.operands.b(columns.outer, 0, f.add(columns.first, column))
            packed = f.gep(self.packed, f.mul(column, self.depth), self.memory)
            copied = Copied(source, packed, strides, (self.depth, f.sub(columns.count, column)))
            pack_panel(f, copied, vectors, Conversion(dtype, dtype, self.lanes))

        f.loop(0, columns.count, self.width, panel)

    def _panels(self, columns: _Columns, rows: int, row: Int) -> None:
        """So many rows against the columns of a block."""
        f = self.frame.f
        left = f.urem(columns.count, self.width)
        whole = f.sub(columns.count, left)
        f.loop(0, whole, self.width, lambda column: self._tile(columns, row, rows, column, self.width))
        f.if_(f.icmp("sgt", left, 0), lambda: self._tile(columns, row, rows, whole, left))

    def _tile(self, block: _Columns, first: Int, rows: int, begin: Int, columns: Int) -> None:
        """So many rows by so many columns of a block from `begin` on, of a panel or of what is left of one."""
        f, column = self.frame.f, self.frame.f.add(block.first, begin)
        vectors = -(-(columns if isinstance(columns, int) else self.width) // self.lanes)
        masks = [self._mask(f.sub(columns, vector * self.lanes)) for vector in range(vectors)]
        zero = f.constant(vector_type(self.memory, self.lanes), 0)
        begins = [self.operands.a(block.outer, f.add(first, row)) for row in range(rows)]
        panel = self._panel(block, begin)

        def step(k: Int, place: int, *sums: Reg) -> Sequence[Reg]:
            loaded = [self._load(block, panel, k, column, vector, mask) for vector, mask in enumerate(masks)]
            following: list[Reg] = []
            for start in begins:
                element = self.operands.along_k(start, self.problem.a_strides, self.problem.a, {}, k)
                x = f.splat(f.load(self.memory, element), self.lanes)
                following += [f.multiply_add(x, y, sums[len(following) + each]) for each, y in enumerate(loaded)]
            return following

        # Written out as a whole, LLVM would have all of B in registers before it multiplies.
        sums = f.loop_in_steps(self.depth, WRITTEN_STEPS, step, [zero] * (rows * len(masks)))
        for ordinal, x in enumerate(sums):
            row, vector = divmod(ordinal, len(masks))
            index = self._index(block.outer, f.add(first, row), f.add(column, vector * self.lanes))
            write_result(self.frame.evaluator(self.lanes, masks[vector]), self.frame, self.problem.dot, x, index)

    def _mask(self, left: Int) -> Reg | None:
        """The lanes of a vector that has so many columns; None for all."""
        is_whole = isinstance(left, int) and left >= self.lanes
        return None if is_whole else self.frame.f.tail_mask(self.lanes, left)

    def _panel(self, block: _Columns, begin: Int) -> Reg | None:
        """A packed panel, [k][column], behind whose last column are zeros; None where B is read where it lies."""
        f, problem = self.frame.f, self.problem
        if self.packs:
            return f.gep(self.packed, f.mul(begin, self.depth), self.memory)
        if not self.is_constant:
            return None
        ordinal: Int = 0
        for letter in problem.outer:
            if problem.b_strides[letter] != 0:
                ordinal = f.add(f.mul(ordinal, self.frame.size(problem.sizes[letter])), block.outer[letter])
        panels = self.frame.size(floordiv(problem.columns + self.width - 1, self.width))
        column = f.add(f.mul(ordinal, f.mul(panels, self.width)), f.add(block.first, begin))
        return f.gep(self.operands.base(problem.b), f.mul(column, self.depth), self.memory)

    def _load(self, block: _Columns, panel: Reg | None, k: Int, column: Int, vector: int, mask: Reg | None) -> Reg:
        """A vector of columns of B at a step."""
        f, problem, type = self.frame.f, self.problem, vector_type(self.memory, self.lanes)
        if panel is not None:
            return f.load(type, f.gep(panel, f.add(f.mul(k, self.width), vector * self.lanes), self.memory))
        start = self.operands.b(block.outer, 0, f.add(column, vector * self.lanes))
        address = self.operands.along_k(start, problem.b_strides, problem.b, {}, k)
        return f.load(type, address) if mask is None else masked_load(f, type, address, mask)

    def _index(self, outer: Coordinates, row: Int, column: Int) -> Sequence[Index]:
        coordinates = self.operands.coordinates(self.problem.m, row) | dict(outer)
        return [Index(column, 1) if x == self.problem.n else Index(coordinates[x]) for x in self.letters]
