"""Contractions of bytes: rows of A times panels of columns of B in groups along k, summed in i32.

A unit of work is one panel of n columns against one chunk of m rows, for one position of the outer letters. Rows are
read in place, or packed into whole groups; flipping their top bits where the instructions want it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.byte_panels import byte_library, multiply_bytes, panel_steps, whole_steps
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import FLIPPED_ZERO
from onnxc.compiler.codegen_cpu.inner_loops.integer_packing import pack_groups
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import Ahead, Product
from onnxc.compiler.codegen_cpu.inner_loops.packing import Conversion, Copied, pack_lines
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.schedules.byte_products import byte_types, flipped_sums, multiplying_target
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.loops.matrix_products import Problem, find_problem
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.planning.schedules import ContractionSchedule


def emit_bytes(frame: KernelFrame, name: str) -> KernelCode:
    """The code of a contraction of bytes."""
    problem = find_problem(frame.kernel.block)
    assert problem is not None, frame.kernel
    return _Bytes(frame, problem).emit(name)


@dataclass
class _Bytes:
    """One kernel by panels."""

    frame: KernelFrame
    problem: Problem

    def __post_init__(self) -> None:
        schedule = self.frame.kernel.scheduled(ContractionSchedule)
        self.types = byte_types(schedule.arithmetic, self.problem.b.base.dtype)
        self.sum_element = register_type(self.types.sums)
        self.lanes = self.frame.lanes
        self.chunk_rows, self.width, self.block_depth = schedule.tile.rows, schedule.tile.columns, schedule.tile.depth
        self.vectors = self.width // self.lanes
        assert schedule.registers is not None, schedule
        self.register_rows = schedule.registers.rows
        self.is_packed = schedule.packing is not None
        self.target = multiplying_target(self.problem, self.is_packed, self.frame.target)
        self.packs_rows, self.keeps_rows = schedule.packs_rows, schedule.keeps_rows
        self.group = self.types.group
        self.flips = flipped_sums(self.types.a, self.problem.a.base.dtype) != 0

    @property
    def line_lanes(self) -> int:
        """How many elements of packed rows fill a vector."""
        return self.lanes * self.group

    def emit(self, name: str) -> KernelCode:
        """The loop over units, panels running fastest."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        outer_sizes = [problem.sizes[letter] for letter in problem.outer]
        chunks = floordiv(problem.rows + self.chunk_rows - 1, self.chunk_rows)
        panels = floordiv(problem.columns + self.width - 1, self.width)
        chunk_rows = minimum(problem.rows, self.chunk_rows)
        self._reserve(max(chunk_rows, 1) if isinstance(chunk_rows, int) else self.chunk_rows)

        def unit(ordinal: Reg, before: Reg) -> Sequence[Int]:
            *outer, chunk, panel = frame.split(ordinal, (*outer_sizes, chunks, panels))
            rows = f.udiv(ordinal, frame.size(panels))
            self._unit(dict(zip(problem.outer, outer, strict=True)), chunk, panel, f.icmp("ne", rows, before))
            return (rows,)

        f.loop(frame.begin, frame.end, 1, unit, (-1,), at_least_once=True)
        f.ret()
        units = product(outer_sizes) * chunks * panels
        grain = frame.grain(chunk_rows * self.width * problem.depth)
        library = byte_library(self.types, self._shape, self.target)
        return KernelCode(name, (f,), units, grain, library)

    @property
    def _shape(self) -> tuple[int, int, int]:
        """(vectors, lanes, rows) of the micro-kernels."""
        return self.vectors, self.lanes, self.register_rows

    def _reserve(self, rows: int) -> None:
        """Memory on the stack for the sums of a unit, and for what is packed on the way."""
        f, depth = self.frame.f, self._scratch_depth()
        self.tile = f.alloca(self.sum_element, rows * self.width)
        whole = whole_steps(self.target) * self.group
        panel_elements = -(-depth // whole) * whole * self.width
        self.panel = None if self.is_packed else f.alloca(memory_type(self.types.panel), panel_elements)
        if self.flips and not self.is_packed:
            self._reserve_flipped_sums()
        row_depth = self.problem.depth if self.keeps_rows and isinstance(self.problem.depth, int) else depth
        self.line_length = -(-row_depth // self.line_lanes) * self.line_lanes
        self.rows = f.alloca(memory_type(self.types.a), rows * self.line_length) if self.packs_rows else None

    def _reserve_flipped_sums(self) -> None:
        """Memory for what a row of zeros comes to whose top bits are flipped, in panels packed on the way."""
        f = self.frame.f
        self.zeros, self.flipped_sums = f.alloca("i8", self.group), f.alloca(self.sum_element, self.width)
        f.store(f.constant(vector_type("i8", self.group), FLIPPED_ZERO), self.zeros)

    def _scratch_depth(self) -> int:
        depth = self.problem.depth
        return min(depth, self.block_depth) if isinstance(depth, int) else self.block_depth

    def _unit(self, outer: Mapping[str, Int], chunk: Int, panel: Int, is_new: Reg) -> None:
        """One unit; is_new: whether its rows are others than those of the unit before."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        first_row, first_column = f.mul(chunk, self.chunk_rows), f.mul(panel, self.width)
        rows = f.smin(f.sub(frame.size(problem.rows), first_row), self.chunk_rows)
        depth = frame.size(problem.depth)
        row_offset = f.mul(first_row, frame.size(problem.a_stride(problem.m)))
        a = self._address(problem.a, problem.a_strides, outer, row_offset)
        if isinstance(depth, int) and depth == 0:
            self._clear(rows)
        else:
            if isinstance(depth, Reg):
                f.if_(f.icmp("eq", depth, 0), lambda: self._clear(rows))
            if self.keeps_rows:
                f.if_(is_new, lambda: self._pack_rows(a, rows, depth))
            b = self._panel_address(outer, panel, first_column)
            f.loop(0, depth, self.block_depth, lambda k: self._block(a, b, k, depth, rows, first_column))
        f.loop(0, rows, 1, lambda row: self._finish_row(outer, first_row, row, first_column))

    def _address(self, view: View, strides: Mapping[str, Dim], outer: Mapping[str, Int], offset: Int) -> Reg:
        frame, f = self.frame, self.frame.f
        total = f.add(frame.size(view.offset), offset)
        for letter, coordinate in outer.items():
            total = f.add(total, f.mul(coordinate, frame.size(strides[letter])))
        parameters = frame.kernel.block.parameters
        return f.gep(frame.inputs[parameters.index(view.base)], total, memory_type(view.base.dtype))

    def _panel_address(self, outer: Mapping[str, Int], panel: Int, first_column: Int) -> Reg:
        """Where the panel is: among the packed ones, or the columns of B that will be packed."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        if not self.is_packed:
            offset = f.mul(first_column, frame.size(problem.b_strides[problem.n]))
            return self._address(problem.b, problem.b_strides, outer, offset)
        panels = floordiv(problem.columns + self.width - 1, self.width)
        ordinal: Int = 0
        for letter in problem.outer:
            if problem.b_strides[letter] != 0:
                ordinal = f.add(f.mul(ordinal, frame.size(problem.sizes[letter])), outer[letter])
        ordinal = f.add(f.mul(ordinal, frame.size(panels)), panel)
        parameters = frame.kernel.block.parameters
        length = f.mul(panel_steps(frame.size(problem.depth), f, self.target), self.width * self.group)
        offset = f.mul(ordinal, f.add(length, self.width * self.group if self.flips else 0))
        base, element = frame.inputs[parameters.index(problem.b.base)], memory_type(problem.b.base.dtype)
        if self.flips:
            self.flipped_sums = f.gep(base, f.add(offset, length), element)
        return f.gep(base, offset, element)

    def _block(self, a: Reg, b: Reg, k: Int, depth: Int, rows: Int, first_column: Int) -> None:
        """One block of k: all rows of the chunk against it."""
        f = self.frame.f
        count = f.smin(f.sub(depth, k), self.block_depth)
        panel = self._panel_block(b, k, count, first_column)
        accumulate = f.convert("zext", f.icmp("ne", k, 0), "i64")
        multiplied = (accumulate, self.types, self._shape, self.target)
        # Packed panels, and the blocks of each, lie in the order in which they are read.
        step = self.width * self.group
        following = f.gep(panel, f.mul(self._steps(count), step), memory_type(self.types.panel))
        ahead = Ahead(following, 0, rows) if self.is_packed else None
        multiply_bytes(f, replace(self._product(a, panel, k, count, rows), ahead=ahead), rows, *multiplied)
        if self.flips and not self.is_packed:
            product = Product(self.zeros, 0, 0, panel, self.flipped_sums, self._steps(count))
            multiply_bytes(f, product, 1, *multiplied)

    def _steps(self, count: Int) -> Int:
        """How many steps along k so many elements are."""
        f = self.frame.f
        return f.udiv(f.add(count, self.group - 1), self.group)

    def _panel_block(self, b: Reg, k: Int, count: Int, first_column: Int) -> Reg:
        """A block of the panel: part of the packed one, or packed here.

        Tiles read what is behind the last step of a panel packed here. It meets the zeros behind the rows, which are
        packed as well wherever the depth is not of whole tiles.
        """
        frame, f, problem = self.frame, self.frame.f, self.problem
        source, k_stride = problem.b.base.dtype, frame.size(problem.b_stride(problem.k))
        if self.panel is None:
            return f.gep(b, f.mul(k, self.width), memory_type(source))
        strides = (k_stride, frame.size(problem.b_strides[problem.n]))
        left = f.sub(frame.size(problem.columns), first_column)
        start = f.gep(b, f.mul(k, k_stride), memory_type(source))
        pack_groups(f, Copied(start, self.panel, strides, (count, left)), self.vectors, self.lanes, self.group)
        return self.panel

    def _product(self, a: Reg, panel: Reg, k: Int, count: Int, rows: Int) -> Product:
        """A block of A, in place or packed, against one of the panel."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        row_stride, k_stride = (frame.size(problem.a_stride(group)) for group in (problem.m, problem.k))
        steps = self._steps(count)
        if self.rows is not None and self.keeps_rows:
            packed = f.gep(self.rows, k, memory_type(self.types.a))
            return Product(packed, self.line_length, self.group, panel, self.tile, steps)
        a = f.gep(a, f.mul(k, k_stride))
        if self.rows is None:
            return Product(a, row_stride, f.mul(k_stride, self.group), panel, self.tile, steps)
        self._pack_rows(a, rows, count)
        return Product(self.rows, self.line_length, self.group, panel, self.tile, steps)

    def _pack_rows(self, a: Reg, rows: Int, count: Int) -> None:
        """Copies so many elements of each row, in whole groups."""
        frame, problem = self.frame, self.problem
        assert self.rows is not None
        strides = frame.size(problem.a_stride(problem.m)), frame.size(problem.a_stride(problem.k))
        conversion = Conversion(problem.a.base.dtype, self.types.a, self.line_lanes)
        pack_lines(frame.f, Copied(a, self.rows, strides, (rows, count)), self.line_length, conversion)

    def _clear(self, rows: Int) -> None:
        f, vector = self.frame.f, vector_type(self.sum_element, self.lanes)

        def clear(offset: Int) -> None:
            f.store(f.constant(vector, 0), f.gep(self.tile, offset, self.sum_element), align=64)

        f.loop(0, f.mul(rows, self.width), self.lanes, clear)
        if self.flips and not self.is_packed:
            for offset in range(0, self.width, self.lanes):
                f.store(f.constant(vector, 0), f.gep(self.flipped_sums, offset, self.sum_element), align=64)

    def _finish_row(self, outer: Mapping[str, Int], first_row: Int, row: Int, first_column: Int) -> None:
        """The pointwise ops on one row of the tile, and its way to the result."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        sizes = [problem.sizes[letter] for letter in problem.m]
        coordinates = dict(zip(problem.m, frame.split(f.add(first_row, row), sizes), strict=True)) | dict(outer)
        letters = parse_equation(problem.dot.attributes["equation"])[2]
        panel = (problem.columns, self.width, f.sub(frame.size(problem.columns), first_column))
        for vector in range(self.vectors):
            start = vector * self.lanes
            source = f.gep(self.tile, f.add(f.mul(row, self.width), start), self.sum_element)
            index = [Index(f.add(first_column, start), 1) if x == problem.n else Index(coordinates[x]) for x in letters]
            self.frame.panel_lanes(self.lanes, panel, start, partial(self._finish_vector, source, start, index))

    def _finish_vector(self, source: Reg, column: int, index: Sequence[Index], mask: Reg | None) -> None:
        f, vector = self.frame.f, vector_type(self.sum_element, self.lanes)
        x = f.load(vector, source, align=64)
        if self.flips:
            x = f.sub(x, f.load(vector, f.gep(self.flipped_sums, column, self.sum_element), align=64))
        write_result(self.frame.evaluator(self.lanes, mask), self.frame, self.problem.dot, x, index)
