"""Contractions by panels: rows of A times panels of columns of B, the pointwise ops that follow on each finished tile.

A unit of work is one panel of n columns against one chunk of m rows, for one position of the outer letters. The sum
runs over the letters outside of k, and blocks of k. A few rows at a time are copied, where they must be, multiplied,
and with the last block finished, so that their sums are in the first-level cache when they are: 1500x384x384 had 95 %
of the peak of a core of Zen 5 where all rows of a tile were finished behind it, and has 97 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import (
    Ahead,
    LibraryFunction,
    Product,
    multiply,
    product_library,
)
from onnxc.compiler.codegen_cpu.inner_loops.packing import Conversion, Copied, pack_lines, pack_panel
from onnxc.compiler.codegen_cpu.inner_loops.tile_kernels import TILE_STEPS, TileKernel
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.products.operands import Coordinates, ProductOperands, product_operands
from onnxc.compiler.codegen_cpu.schedules.contractions import BFLOAT_GROUP, GROUP_BLOCKS
from onnxc.compiler.codegen_cpu.schedules.products import register_rows
from onnxc.compiler.codegen_cpu.write_result import fetch_operands, write_result
from onnxc.compiler.codegen_host.llvm_values import TRUE, Int, Reg, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.runtime.records import record

UNKNOWN_LAST_VECTORS = 2
"""The vectors of a narrower last panel where only a call tells how many columns are left for it."""


def emit_panels(frame: KernelFrame, name: str) -> KernelCode:
    """The code of a contraction by panels."""
    operands = product_operands(frame)
    return _Panels(frame, operands, operands.schedule.tile.columns // frame.lanes).emit(name)


@record
class _Unit:
    """One unit of work: the position of the outer letters, the rows and the panel of it, and where they begin."""

    outer: Coordinates
    first_row: Int
    rows: Int
    panel: Int
    first_column: Int
    a: Reg
    b: Reg


@record
class _Panel:
    """A block of a panel in memory, with its stride along k, None for a packed one; and the block that is read next."""

    address: Reg
    stride: Int | None = None
    ahead: Reg | None = None


@record
class _Block:
    """A block of what is summed: where it lies along k, and whether it is the first or the last one."""

    outer_k: Coordinates
    k: Int
    count: Int
    is_first: Reg
    is_last: Reg


@dataclass
class _Panels:
    """Panels of so many vectors; the last one of a kernel may be narrower."""

    frame: KernelFrame
    operands: ProductOperands
    vectors: int
    tile: Reg = field(init=False)
    panel: Reg | None = None
    rows: Reg | None = None
    line_length: int = 0

    def __post_init__(self) -> None:
        schedule, self.problem, self.types = self.operands.schedule, self.operands.problem, self.operands.types
        self.sum_element, self.lanes = register_type(self.types.sums), self.frame.lanes
        self.tile_rows, self.columns, self.block_depth = schedule.tile.rows, schedule.tile.columns, schedule.tile.depth
        self.width = self.vectors * self.lanes
        self.register_rows = register_rows(self.vectors, self.frame.target)
        self.is_constant = schedule.packing is not None
        self.packs_rows, self.packs_columns = schedule.packs_rows, schedule.packs_columns
        self.is_turned = self.problem.a_stride(self.problem.k) != 1 and self.problem.a_stride(self.problem.m) == 1
        # Tile registers multiply pairs, and whole tiles along k of them.
        self.is_tiled = self.types.group == BFLOAT_GROUP
        self.row_lanes = self.types.group * self.lanes

    def emit(self, name: str) -> KernelCode:
        """The loop over units, panels running fastest."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        outer_sizes = self.operands.sizes(problem.outer)
        chunks = floordiv(problem.rows + self.tile_rows - 1, self.tile_rows)
        panels = floordiv(problem.columns + self.columns - 1, self.columns)
        self._reserve()
        forms = (*self._narrower(), self)

        def unit(ordinal: Reg) -> None:
            *outer, chunk, panel = frame.split(ordinal, (*outer_sizes, chunks, panels))
            left = f.sub(frame.size(problem.columns), f.mul(panel, self.columns))
            self._unit_of(forms, left, dict(zip(problem.outer, outer, strict=True)), chunk, panel)

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        units = product(outer_sizes) * chunks * panels
        work = minimum(problem.rows, self.tile_rows) * self.width * problem.depth * problem.outer_depth
        library = tuple(function for form in forms for function in form._library())
        return KernelCode(name, (f,), units, frame.grain(work), library)

    def _library(self) -> Sequence[LibraryFunction]:
        if self.is_tiled:
            return (TileKernel(self.types, self.vectors),)
        return product_library(self.types, self.vectors, self.register_rows)

    def _narrower(self) -> "Sequence[_Panels]":
        """The same in narrower panels, for a last one with few columns."""
        vectors = UNKNOWN_LAST_VECTORS
        if isinstance(self.problem.columns, int):
            vectors = -(-(self.problem.columns % self.columns) // self.lanes)
        if self.is_tiled or not 0 < vectors < self.vectors:
            return ()
        form = _Panels(self.frame, self.operands, vectors)
        form.tile, form.panel, form.rows, form.line_length = self.tile, self.panel, self.rows, self.line_length
        return (form,)

    def _unit_of(self, forms: "Sequence[_Panels]", left: Int, outer: Coordinates, chunk: Int, panel: Int) -> None:
        """One unit in the first form that is wide enough for the columns that are left."""
        first, *others = forms
        if not others:
            first._unit(outer, chunk, panel)
            return
        f = self.frame.f
        fits = f.icmp("sle", left, first.width)
        f.if_(
            fits,
            lambda: first._unit(outer, chunk, panel),
            lambda: self._unit_of(others, left, outer, chunk, panel),
        )

    def _reserve(self) -> None:
        """Memory on the stack for the sums of a tile, and for what is packed on the way."""
        f, problem = self.frame.f, self.problem
        rows, depth = _most(problem.rows, self.tile_rows), _most(problem.depth, self.block_depth)
        kept = max(min(rows, self._group_rows(vectors)) * vectors for vectors in range(1, self.vectors + 1))
        self.tile = f.alloca(self.sum_element, kept * self.lanes if self.is_one_block else rows * self.width)
        if self.packs_columns or not (self.is_constant or self._fills_panels()):
            self.panel = f.alloca(memory_type(self.types.panel), depth * self.width)
        if self.packs_rows:
            if not self.is_tiled:
                rows = max(min(rows, self._group_rows(vectors)) for vectors in range(1, self.vectors + 1))
            # Packed rows lie side by side as A's do: a line is a row, or all rows at one k where A is dense along m.
            lines, length = (depth, rows) if self.is_turned else (rows, depth)
            self.line_length = -(-length // self.row_lanes) * self.row_lanes
            self.rows = f.alloca(memory_type(self.types.a), lines * self.line_length)

    def _fills_panels(self) -> bool:
        """Whether the last panel of B is known to be as wide as the others."""
        return isinstance(self.problem.columns, int) and self.problem.columns % self.columns == 0

    def _unit(self, outer: Coordinates, chunk: Int, panel: Int) -> None:
        frame, f = self.frame, self.frame.f
        first_row, first_column = f.mul(chunk, self.tile_rows), f.mul(panel, self.columns)
        rows = f.smin(f.sub(frame.size(self.problem.rows), first_row), self.tile_rows)
        a = self.operands.a(outer, first_row)
        b = self._packed_panel(outer, panel) if self.is_constant else self.operands.b(outer, 0, first_column)
        unit = _Unit(outer, first_row, rows, panel, first_column, a, b)
        self._sum(unit)

    def _sum(self, unit: _Unit) -> None:
        """The sums of a unit, block by block of what is summed, and its results."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        depth, times = frame.size(problem.depth), frame.size(problem.outer_depth)

        def along_k(ordinal: Int) -> None:
            outer_k = self.operands.coordinates(problem.outer_k, ordinal)
            f.loop(0, depth, self.block_depth, lambda k: block(outer_k, ordinal, k))

        def block(outer_k: Coordinates, ordinal: Int, k: Int) -> None:
            count = f.smin(f.sub(depth, k), self.block_depth)
            panel = self._block_of_panel(unit, outer_k, ordinal, k, count)
            is_first = f.and_(f.icmp("eq", ordinal, 0), f.icmp("eq", k, 0))
            is_last = f.and_(f.icmp("eq", f.add(ordinal, 1), times), f.icmp("sge", f.add(k, count), depth))
            self._multiply(unit, panel, _Block(outer_k, k, count, is_first, is_last))

        def blocks() -> None:
            f.loop(0, times, 1, along_k)

        f.if_(f.icmp("eq", f.mul(depth, times), 0), lambda: self._finish_zeros(unit), blocks)

    @property
    def is_one_block(self) -> bool:
        """Whether all that is summed is known to be one block; tile registers write all rows of a unit at once."""
        depth, times = self.problem.depth, self.problem.outer_depth
        return not self.is_tiled and times == 1 and isinstance(depth, int) and depth <= self.block_depth

    # Panels

    def _packed_panel(self, outer: Coordinates, panel: Int) -> Reg:
        """The buffer of constant panels, from the first that the unit sums over."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        ordinal: Int = 0
        for letter in problem.outer:
            if problem.b_strides[letter] != 0:
                ordinal = f.add(f.mul(ordinal, frame.size(problem.sizes[letter])), outer[letter])
        ordinal = f.mul(ordinal, frame.size(problem.outer_depth))
        steps = self._tile_depths(frame.size(problem.depth)) if self.is_tiled else frame.size(problem.depth)
        offset = f.mul(f.add(f.mul(ordinal, self._panels()), panel), f.mul(steps, self.columns))
        return f.gep(self.operands.base(problem.b), offset, memory_type(problem.b.base.dtype))

    def _tile_depths(self, depth: Int) -> Int:
        """`depth` with whole tiles along k."""
        whole = TILE_STEPS * BFLOAT_GROUP
        return self.frame.f.mul(self.frame.f.udiv(self.frame.f.add(depth, whole - 1), whole), whole)

    def _panels(self) -> Int:
        return self.frame.size(floordiv(self.problem.columns + self.columns - 1, self.columns))

    def _block_of_panel(self, unit: _Unit, outer_k: Coordinates, ordinal: Int, k: Int, count: Int) -> _Panel:
        """A block of a panel where it lies, or packed here."""
        f, problem, source = self.frame.f, self.problem, self.problem.b.base.dtype
        if self.is_constant:
            steps = f.add(f.mul(ordinal, f.mul(self._panels(), self.frame.size(problem.depth))), k)
            packed = f.gep(unit.b, f.mul(steps, self.columns), memory_type(source))
            if self.packs_columns:
                return self._pack(packed, (self.columns, 1), count, self.width)
            # Constant panels, and the blocks of each, lie in the order in which they are read.
            following = f.gep(packed, f.mul(count, self.columns), memory_type(source))
            is_last_block = f.icmp("sge", f.add(k, count), self.frame.size(problem.depth))
            is_last = f.and_(is_last_block, f.icmp("eq", f.add(unit.panel, 1), self._panels()))
            return _Panel(packed, self.columns, f.select(is_last, packed, following))
        start = self.operands.along_k(unit.b, problem.b_strides, problem.b, outer_k, k)
        strides = self.frame.size(problem.b_stride(problem.k)), self.frame.size(problem.b_strides[problem.n])
        left = f.sub(self.frame.size(problem.columns), unit.first_column)
        if self.packs_columns:
            return self._pack(start, strides, count, left)
        if self._fills_panels():
            return _Panel(start, strides[0])
        address, stride = f.if_(
            f.icmp("sge", left, self.width),
            lambda: (start, strides[0]),
            lambda: (self._pack(start, strides, count, left).address, self.width),
        )
        return _Panel(address, stride)

    def _pack(self, source: Reg, strides: tuple[Int, Int], count: Int, left: Int) -> _Panel:
        assert self.panel is not None, self.operands.schedule
        conversion = Conversion(self.problem.b.base.dtype, self.types.panel, self.lanes)
        pack_panel(self.frame.f, Copied(source, self.panel, strides, (count, left)), self.vectors, conversion)
        return _Panel(self.panel)

    # Rows

    def _multiply(self, unit: _Unit, panel: _Panel, block: _Block) -> None:
        """All rows of a unit, in place or packed here, against a block of a panel; with the last they are finished."""
        frame, f, problem = self.frame, self.frame.f, self.problem
        a = self.operands.along_k(unit.a, problem.a_strides, problem.a, block.outer_k, block.k)
        strides = frame.size(problem.a_stride(problem.m)), frame.size(problem.a_stride(problem.k))
        accumulate = f.convert("zext", f.xor(block.is_first, TRUE), "i64")
        if self.is_tiled:
            a, strides = self._packed_rows(a, strides, (unit.rows, block.count))
            tiles = f.udiv(self._tile_depths(block.count), TILE_STEPS * BFLOAT_GROUP)
            bytes_of_row = f.mul(strides[0], self.types.a.itemsize)
            name = TileKernel(self.types, self.vectors).name
            f.call(name, "void", a, bytes_of_row, panel.address, self.tile, tiles, unit.rows, accumulate)
            f.if_(block.is_last, lambda: self._finish(unit, 0, unit.rows, self.tile))
            return

        group_rows = self._group_rows(self.vectors)

        def group(first: Int) -> None:
            rows = f.smin(f.sub(unit.rows, first), group_rows)
            tile = self.tile if self.is_one_block else self._row_of_tile(self.tile, first)
            ahead = None if panel.ahead is None else Ahead(panel.ahead, first, unit.rows)
            begin = f.gep(a, f.mul(first, strides[0]), memory_type(problem.a.base.dtype))
            begin, steps = self._packed_rows(begin, strides, (rows, block.count))
            product = Product(begin, *steps, panel.address, tile, block.count, panel.stride, ahead)
            f.if_(block.is_last, lambda: self._fetch(unit, first, rows))
            multiply(f, product, rows, accumulate, self.types, (self.vectors, self.lanes, self.register_rows))
            f.if_(block.is_last, lambda: self._finish(unit, first, rows, tile))

        f.loop(0, unit.rows, group_rows, group, at_least_once=True)

    def _group_rows(self, vectors: int) -> int:
        """The rows that are multiplied and finished together against so many vectors."""
        return GROUP_BLOCKS * register_rows(vectors, self.frame.target)

    def _row_of_tile(self, tile: Reg, row: Int) -> Reg:
        return self.frame.f.gep(tile, self.frame.f.mul(row, self.width), self.sum_element)

    def _packed_rows(self, a: Reg, strides: tuple[Int, Int], sizes: tuple[Int, Int]) -> tuple[Reg, tuple[Int, Int]]:
        """Rows in the type that is multiplied, and their strides: where they lie, or copied."""
        packed = self.rows
        if packed is None:
            return a, strides
        f, conversion = self.frame.f, Conversion(self.problem.a.base.dtype, self.types.a, self.row_lanes)
        if self.is_turned:
            pack_lines(f, Copied(a, packed, strides[::-1], sizes[::-1]), self.line_length, conversion)
            return packed, (1, self.line_length)
        pack_lines(f, Copied(a, packed, strides, sizes), self.line_length, conversion)
        return packed, (self.line_length, 1)

    # Results

    def _finish_zeros(self, unit: _Unit) -> None:
        """The results where nothing is summed."""
        f, vector = self.frame.f, vector_type(self.sum_element, self.lanes)
        for offset in range(0, self.width, self.lanes):
            f.store(f.constant(vector, 0), f.gep(self.tile, offset, self.sum_element), align=64)
        f.loop(0, unit.rows, 1, lambda row: self._finish(unit, row, 1, self.tile))

    def _finish(self, unit: _Unit, first: Int, rows: Int, tile: Reg) -> None:
        """The pointwise ops on rows of a unit, whose sums begin at `tile`, and their way to the result."""
        f = self.frame.f
        f.loop(0, rows, 1, lambda row: self._finish_row(unit, f.add(first, row), self._row_of_tile(tile, row)))

    def _fetch(self, unit: _Unit, first: Int, rows: Int) -> None:
        """Asks for what rows of a unit are finished with, while they are multiplied."""
        f = self.frame.f

        def fetch(row: Int) -> None:
            fetch_operands(self.frame, self._index(unit, f.add(first, row), Index(unit.first_column)), self.width)

        f.loop(0, rows, 1, fetch)

    def _index(self, unit: _Unit, row: Int, column: Index) -> list[Index]:
        """Where columns of a row of a unit are in the result."""
        problem = self.problem
        row = self.frame.f.add(unit.first_row, row)
        coordinates = self.operands.coordinates(problem.m, row) | dict(unit.outer)
        letters = parse_equation(problem.dot.attributes["equation"])[2]
        return [column if x == problem.n else Index(coordinates[x]) for x in letters]

    def _finish_row(self, unit: _Unit, row: Int, sums: Reg) -> None:
        f, panel = self.frame.f, self._columns_of(unit)
        for start in range(0, self.width, self.lanes):
            source = f.gep(sums, start, self.sum_element)
            index = self._index(unit, row, Index(f.add(unit.first_column, start), 1))
            self.frame.panel_lanes(self.lanes, panel, start, partial(self._finish_vector, source, index))

    def _columns_of(self, unit: _Unit) -> tuple[Dim, int, Int]:
        """How many columns panels of this form have, how wide they are, and how many columns are left from a unit on.

        Where all columns are known a narrower form has the last panel alone, and the other form has whole ones.
        """
        columns = self.problem.columns
        left = self.frame.f.sub(self.frame.size(columns), unit.first_column)
        if isinstance(columns, int) and self.width < self.columns:
            columns = left = columns % self.columns
        elif isinstance(columns, int) and self._narrower():
            columns = self.width
        return columns, self.width, left

    def _finish_vector(self, source: Reg, index: Sequence[Index], mask: Reg | None) -> None:
        x = self.frame.f.load(vector_type(self.sum_element, self.lanes), source, align=64)
        if self.types.sums != F32:
            x = emit_cast(x, self.types.sums, self.problem.dot.dtype(), self.frame.f)
        write_result(self.frame.evaluator(self.lanes, mask), self.frame, self.problem.dot, x, index)


def _most(size: Dim, limit: int) -> int:
    """The most of a size that is ever there at once, at least 1."""
    return max(1, min(size, limit)) if isinstance(size, int) else limit
