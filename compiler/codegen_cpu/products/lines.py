"""Contractions by lines: rows of A, dense along k, each times a line of B; for products by vectors and lone sums.

A unit of work is a run of rows, for one position of all other letters of the result: those of B alone run fastest, so
that the rows stay in a cache, and so do those by which A is picked, as experts are by many tokens. Their sums lie side
by side, and the pointwise ops that follow run along the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.line_kernels import LineKernel, Lines, line_steps, multiply_lines
from onnxc.compiler.codegen_cpu.inner_loops.packing import Conversion, Copied, pack_lines
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.products.operands import Coordinates, ProductOperands, product_operands
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.loops.matrix_products import picked_letters


def emit_lines(frame: KernelFrame, name: str) -> KernelCode:
    """The code of a contraction by lines."""
    return _Lines(frame, product_operands(frame)).emit(name)


@dataclass
class _Lines:
    frame: KernelFrame
    operands: ProductOperands

    def __post_init__(self) -> None:
        schedule, self.problem, self.types = self.operands.schedule, self.operands.problem, self.operands.types
        self.sum_element, self.lanes = register_type(self.types.sums), self.frame.lanes
        self.unit_rows, self.block_depth = schedule.tile.rows, schedule.tile.depth
        assert schedule.registers is not None, schedule
        self.register_rows = schedule.registers.rows
        f = self.frame.f
        self.sums = f.alloca(self.sum_element, -(-self.unit_rows // self.lanes) * self.lanes)
        packs, element = schedule.packs_columns, memory_type(self.types.panel)
        self.line = f.alloca(element, self.block_depth) if packs else None

    def emit(self, name: str) -> KernelCode:
        """The loop over units."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        letters = problem.letters(problem.left)
        picked = "" if problem.a_pick is None else picked_letters(letters, problem.a_pick)
        shared = tuple(letter for letter in problem.outer if letter in letters and letter not in picked)
        lone = tuple(letter for letter in problem.outer if letter not in shared)
        outer_sizes = self.operands.sizes(shared + lone)
        chunks = floordiv(problem.rows + self.unit_rows - 1, self.unit_rows)

        def unit(ordinal: Reg) -> None:
            parts = frame.split(ordinal, (*self.operands.sizes(shared), chunks, *self.operands.sizes(lone)))
            chunk = parts[len(shared)]
            outer = (*parts[: len(shared)], *parts[len(shared) + 1 :])
            self._unit(dict(zip(shared + lone, outer, strict=True)), f.mul(chunk, self.unit_rows))

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        work = minimum(problem.rows, self.unit_rows) * problem.depth * problem.outer_depth
        one_line = self.line is not None or problem.b_stride(problem.m) == 0
        library = tuple(LineKernel(self.types, rows, one_line) for rows in line_steps(self.register_rows))
        return KernelCode(name, (f,), product(outer_sizes) * chunks, frame.grain(work), library)

    def _unit(self, outer: Coordinates, first_row: Int) -> None:
        frame, f, problem = self.frame, self.frame.f, self.problem
        rows = f.smin(f.sub(frame.size(problem.rows), first_row), self.unit_rows)
        vector = vector_type(self.sum_element, self.lanes)

        def clear(row: Int) -> None:
            f.store(f.constant(vector, 0), f.gep(self.sums, row, self.sum_element), align=64)

        f.loop(0, rows, self.lanes, clear)
        a, b = self.operands.a(outer, first_row), self.operands.b(outer, first_row, 0)
        f.loop(0, frame.size(problem.outer_depth), 1, lambda ordinal: self._along_k(a, b, ordinal, rows))
        self._finish(outer, first_row, rows)

    def _along_k(self, a: Reg, b: Reg, ordinal: Int, rows: Int) -> None:
        """All rows at one position of the letters that are summed outside of k."""
        f, problem = self.frame.f, self.problem
        depth, outer_k = self.frame.size(problem.depth), self.operands.coordinates(problem.outer_k, ordinal)

        def block(k: Int) -> None:
            count = f.smin(f.sub(depth, k), self.block_depth)
            self._multiply(
                self.operands.along_k(a, problem.a_strides, problem.a, outer_k, k),
                self.operands.along_k(b, problem.b_strides, problem.b, outer_k, k),
                rows,
                count,
            )

        f.loop(0, depth, self.block_depth, block)

    def _multiply(self, a: Reg, b: Reg, rows: Int, count: Int) -> None:
        """Adds a block of k to the sums."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        a_stride, b_stride = (frame.size(stride(problem.m)) for stride in (problem.a_stride, problem.b_stride))
        if self.line is not None:
            conversion = Conversion(problem.b.base.dtype, self.types.panel, self.lanes)
            strides, length = (0, frame.size(problem.b_stride(problem.k))), self.block_depth
            pack_lines(f, Copied(b, self.line, strides, (1, count)), length, conversion)
            b = self.line
        lines = Lines(a, a_stride, b, b_stride, self.sums, count)
        multiply_lines(f, lines, rows, self.types, self.register_rows)

    def _finish(self, outer: Coordinates, first_row: Int, rows: Int) -> None:
        """The pointwise ops along the rows."""
        f, lanes = self.frame.f, self.lanes
        f.loop(
            0,
            rows,
            lanes,
            lambda row: self.frame.lanes_left(
                lanes, f.sub(rows, row), partial(self._finish_vector, outer, f.add(first_row, row), row)
            ),
        )

    def _finish_vector(self, outer: Coordinates, row: Int, offset: Int, mask: Reg | None) -> None:
        frame, f, problem = self.frame, self.frame.f, self.problem
        x = f.load(vector_type(self.sum_element, self.lanes), f.gep(self.sums, offset, self.sum_element), align=64)
        if self.types.sums != F32:
            x = emit_cast(x, self.types.sums, problem.dot.dtype(), f)
        write_result(frame.evaluator(self.lanes, mask), frame, problem.dot, x, self._index(outer, row))

    def _index(self, outer: Coordinates, row: Int) -> Sequence[Index]:
        letters = parse_equation(self.problem.dot.attributes["equation"])[2]
        return [Index(row, 1) if letter in self.problem.m else Index(outer[letter]) for letter in letters]
