"""The operands of a contraction by panels or lines: where their parts begin, and what units of work there are."""

from collections.abc import Iterable, Mapping

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import ProductTypes
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_cpu.schedules.contractions import contraction_problem, product_types
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.loops.matrix_products import Problem
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.planning.schedules import ContractionSchedule
from onnxc.runtime.records import record

Coordinates = Mapping[str, Int]
"""The position along each letter that is outside of rows, columns and k."""


@record
class ProductOperands:
    """A contraction of a kernel that is being written."""

    frame: KernelFrame
    schedule: ContractionSchedule
    problem: Problem
    types: ProductTypes

    def a(self, outer: Coordinates, row: Int) -> Reg:
        """Where a row of A begins."""
        offset = self.frame.f.mul(row, self.frame.size(self.problem.a_stride(self.problem.m)))
        return self._address(self.problem.left, outer, offset)

    def b(self, outer: Coordinates, row: Int, column: Int) -> Reg:
        """Where B begins for a row of A, and a column."""
        f, problem = self.frame.f, self.problem
        offset = f.mul(row, self.frame.size(problem.b_stride(problem.m)))
        if problem.n:
            offset = f.add(offset, f.mul(column, self.frame.size(problem.b_strides[problem.n])))
        return self._address(1 - problem.left, outer, offset)

    def base(self, view: View) -> Reg:
        """The buffer of an operand."""
        return self.frame.inputs[self.frame.kernel.block.parameters.index(view.base)]

    def sizes(self, letters: Iterable[str]) -> tuple[Dim, ...]:
        """The sizes of letters."""
        return tuple(self.problem.sizes[letter] for letter in letters)

    def coordinates(self, letters: tuple[str, ...], ordinal: Int) -> dict[str, Int]:
        """A position in a box of letters, from its ordinal."""
        return dict(zip(letters, self.frame.split(ordinal, self.sizes(letters)), strict=True))

    def along_k(self, start: Reg, strides: Mapping[str, Dim], dtype_of: View, outer_k: Coordinates, k: Int) -> Reg:
        """The address that far along k, at a position of the letters that are summed outside of it."""
        frame, f = self.frame, self.frame.f
        offset = f.mul(k, frame.size(strides[self.problem.k[-1]])) if self.problem.k else 0
        for letter, coordinate in outer_k.items():
            offset = f.add(offset, f.mul(coordinate, frame.size(strides[letter])))
        return f.gep(start, offset, memory_type(dtype_of.base.dtype))

    def _address(self, operand: int, outer: Coordinates, offset: Int) -> Reg:
        """Where an operand of the op begins for a position of the outer letters, and an offset behind that."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        view, strides, pick = problem.operand(operand)
        total = f.add(frame.size(view.offset), offset)
        for letter, coordinate in outer.items():
            total = f.add(total, f.mul(coordinate, frame.size(strides[letter])))
        if pick is not None:
            index = [Index(outer.get(letter, 0)) for letter in problem.letters(operand)]
            total = f.add(total, f.mul(frame.evaluator(1).position_of_pick(pick, index).base, frame.size(pick.step)))
        return f.gep(self.base(view), total, memory_type(view.base.dtype))


def product_operands(frame: KernelFrame) -> ProductOperands:
    """The operands of a kernel as its schedule wants them."""
    schedule = frame.kernel.scheduled(ContractionSchedule)
    problem = contraction_problem(frame.kernel.block, schedule)
    return ProductOperands(frame, schedule, problem, product_types(schedule, problem))
