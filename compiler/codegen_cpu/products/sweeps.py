"""Contractions by sweeps: a row of A times rows of B that lie dense along columns, which are read in order.

A unit of work is a run of columns, for one row and one position of all other letters of the result.
"""

from dataclasses import dataclass
from functools import partial

from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_cpu.element_types import register_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.sweep_kernels import SWEEP_STEPS, SweepKernel
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.products.operands import Coordinates, ProductOperands, product_operands
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.primitives.contractions import parse_equation


def emit_sweeps(frame: KernelFrame, name: str) -> KernelCode:
    """The code of a contraction by sweeps."""
    return _Sweeps(frame, product_operands(frame)).emit(name)


@dataclass
class _Sweeps:
    frame: KernelFrame
    operands: ProductOperands

    def __post_init__(self) -> None:
        self.problem, self.types = self.operands.problem, self.operands.types
        self.sum_element, self.lanes = register_type(self.types.sums), self.frame.lanes
        self.columns = self.operands.schedule.tile.columns
        self.sums = self.frame.f.alloca(self.sum_element, self.columns)

    def emit(self, name: str) -> KernelCode:
        """The loop over units, columns running fastest."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        outer_sizes = self.operands.sizes(problem.outer)
        runs = floordiv(problem.columns + self.columns - 1, self.columns)

        def unit(ordinal: Reg) -> None:
            *outer, row, run = frame.split(ordinal, (*outer_sizes, problem.rows, runs))
            self._unit(dict(zip(problem.outer, outer, strict=True)), row, f.mul(run, self.columns))

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        work = minimum(problem.columns, self.columns) * problem.depth * problem.outer_depth
        library = tuple(SweepKernel(self.types, steps) for steps in SWEEP_STEPS)
        return KernelCode(name, (f,), product(outer_sizes) * problem.rows * runs, frame.grain(work), library)

    def _unit(self, outer: Coordinates, row: Int, first: Int) -> None:
        frame, f, problem = self.frame, self.frame.f, self.problem
        columns = f.smin(f.sub(frame.size(problem.columns), first), self.columns)
        zero = f.constant(vector_type(self.sum_element, self.lanes), 0)
        f.loop(0, columns, self.lanes, lambda j: f.store(zero, f.gep(self.sums, j, self.sum_element), align=64))
        a, b = self.operands.a(outer, row), self.operands.b(outer, 0, first)
        f.loop(0, frame.size(problem.outer_depth), 1, lambda ordinal: self._along_k(a, b, ordinal, columns))
        f.loop(0, columns, self.lanes, lambda j: self._finish(outer, row, first, j, columns))

    def _along_k(self, a: Reg, b: Reg, ordinal: Int, columns: Int) -> None:
        """Adds what is at one position of the letters that are summed outside of k."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        depth, outer_k = frame.size(problem.depth), self.operands.coordinates(problem.outer_k, ordinal)
        strides = frame.size(problem.a_stride(problem.k)), frame.size(problem.b_stride(problem.k))

        def sweep(k: Int, name: str) -> None:
            x = self.operands.along_k(a, problem.a_strides, problem.a, outer_k, k)
            y = self.operands.along_k(b, problem.b_strides, problem.b, outer_k, k)
            f.call(name, "void", x, strides[0], y, strides[1], self.sums, columns)

        done: Int = 0
        for steps in SWEEP_STEPS:
            stop = f.add(done, f.mul(f.sdiv(f.sub(depth, done), steps), steps))
            f.loop(done, stop, steps, partial(sweep, name=SweepKernel(self.types, steps).name))
            done = stop

    def _finish(self, outer: Coordinates, row: Int, first: Int, j: Int, columns: Int) -> None:
        """The pointwise ops on a vector of sums, and its way to the result."""
        letters = parse_equation(self.problem.dot.attributes["equation"])[2]
        coordinates = self.operands.coordinates(self.problem.m, row) | dict(outer)
        column = Index(self.frame.f.add(first, j), 1)
        index = [column if letter == self.problem.n else Index(coordinates[letter]) for letter in letters]

        def write(mask: Reg | None) -> None:
            f, vector = self.frame.f, vector_type(self.sum_element, self.lanes)
            x = f.load(vector, f.gep(self.sums, j, self.sum_element), align=64)
            if self.types.sums != F32:
                x = emit_cast(x, self.types.sums, self.problem.dot.dtype(), f)
            write_result(self.frame.evaluator(self.lanes, mask), self.frame, self.problem.dot, x, index)

        self.frame.lanes_left(self.lanes, self.frame.f.sub(columns, j), write)
