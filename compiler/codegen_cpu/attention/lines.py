"""Attention by lines: few queries, each against the keys along their width, block after block of keys.

The heads that share keys and values are folded together, so that these are read once for all of them. Lanes are
neighbouring keys of one query.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from onnxc.compiler.codegen_cpu.attention.operands import AttentionOperands, filled
from onnxc.compiler.codegen_cpu.attention.softmax import (
    capped,
    larger,
    masked,
    scale_of,
    share_of,
    subtracted,
    weight_of,
)
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.line_kernels import LineKernel, Lines, line_steps, multiply_lines
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import Product, ProductTypes, multiply, product_library
from onnxc.compiler.codegen_cpu.inner_loops.packing import (
    Conversion,
    Copied,
    pack_lines,
    pack_panel,
    read_strided,
    steps_of,
)
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.runtime.records import record

LINES = 8
"""Keys that a query is multiplied by at once."""


def emit_lines(operands: AttentionOperands, name: str) -> KernelCode:
    """The code of an attention by lines."""
    return _Lines(operands).emit(name)


@record
class _Unit:
    """Some rows of a group: its heads one after another, each with all its queries."""

    batch: Int
    group: Int
    first: Int
    rows: Int


@record
class _Block:
    """A run of keys."""

    start: Int
    count: Int


@dataclass
class _Lines:
    operands: AttentionOperands

    def __post_init__(self) -> None:
        operands = self.operands
        self.frame, self.f, self.lanes = operands.frame, operands.frame.f, operands.frame.lanes
        tile, registers = operands.schedule.tile, operands.schedule.registers
        assert registers is not None, operands.schedule
        self.most_rows, self.block = tile.rows, tile.columns
        self.depth, self.value_depth = operands.widths
        self.element, self.vector = operands.element, vector_type(operands.element, self.lanes)
        self.width, self.register_rows = registers.columns, registers.rows
        self.vectors, sums, v = self.width // self.lanes, operands.sums, operands.v
        self.length, self.panels = filled(self.depth, self.lanes), range(0, self.value_depth, self.width)
        # Values are read in place where their panels are whole.
        self.is_packed = v.strides[3] != 1 or self.value_depth % self.width != 0
        self.line_types = ProductTypes(operands.k.dtype, sums, sums)
        self.types = ProductTypes(sums, sums if self.is_packed else v.dtype, sums)
        self._reserve()

    def _reserve(self) -> None:
        f, rows = self.f, self.most_rows
        self.queries = f.alloca(self.element, rows * self.length)
        self.scores = f.alloca(self.element, rows * self.block)
        self.totals = f.alloca(self.element, len(self.panels) * rows * self.width)
        self.peaks, self.weights = f.alloca(self.element, rows), f.alloca(self.element, rows)
        self.panel = f.alloca(self.element, self.block * self.width) if self.is_packed else None

    def emit(self, name: str) -> KernelCode:
        """The loop over units."""
        frame, f, operands = self.frame, self.f, self.operands
        batch, _, queries, keys = operands.shape
        groups, rows = operands.op.operands[1].shape[1], queries * operands.heads_of_group
        chunks = floordiv(rows + self.most_rows - 1, self.most_rows)

        def unit(ordinal: Reg) -> None:
            at, group, chunk = frame.split(ordinal, (batch, groups, chunks))
            first = f.mul(chunk, self.most_rows)
            self._unit(_Unit(at, group, first, f.smin(f.sub(frame.size(rows), first), self.most_rows)))

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        lines = tuple(LineKernel(self.line_types, step, one_line=True) for step in line_steps(self._most_lines()))
        panels = product_library(self.types, self.vectors, self.register_rows)
        work = keys * (self.depth + self.value_depth)
        return KernelCode(name, (f,), product((batch, groups, chunks)), frame.grain(work), (*lines, *panels))

    def _most_lines(self) -> int:
        return min(LINES, self.lanes)

    def _unit(self, unit: _Unit) -> None:
        f = self.f
        f.loop(0, unit.rows, 1, partial(self._begin_row, unit))
        stop = self.frame.size(self.operands.shape[3])

        def block(start: Int) -> None:
            self._fold_block(unit, _Block(start, f.smin(f.sub(stop, start), self.block)))

        f.if_(f.icmp("eq", stop, 0), self._clear)
        f.loop(0, stop, self.block, block)
        f.loop(0, unit.rows, 1, partial(self._write_row, unit))

    def _clear(self) -> None:
        """Totals of no keys."""
        f, zero, size = self.f, self.f.constant(self.vector, 0), len(self.panels) * self.most_rows * self.width
        f.loop(0, size, self.lanes, lambda at: f.store(zero, f.gep(self.totals, at, self.element), align=64))

    def _head_and_query(self, unit: _Unit, row: Int) -> tuple[Int, Int]:
        """The head and the query of a row."""
        f, ordinal, queries = self.f, self.f.add(unit.first, row), self.frame.size(self.operands.shape[2])
        within = f.udiv(ordinal, queries)
        head = f.add(f.mul(unit.group, self.operands.heads_of_group), within)
        return head, f.sub(ordinal, f.mul(within, queries))

    def _begin_row(self, unit: _Unit, row: Int) -> None:
        """The query of a row, scaled, and its peak and weight."""
        f, q = self.f, self.operands.q
        head, query = self._head_and_query(unit, row)
        line = f.gep(self.queries, f.mul(row, self.length), self.element)
        copied = Copied(self.operands.at(q, unit.batch, head, query, 0), line, (0, q.strides[3]), (1, self.depth))
        pack_lines(f, copied, self.length, Conversion(q.dtype, self.operands.sums, self.lanes))
        scale = scale_of(self.operands.op)
        for start in range(0, self.length, self.lanes):
            address = f.gep(line, start, self.element)
            f.store(f.fmul(f.load(self.vector, address, align=4), scale), address, align=4)
        for buffer, value in ((self.peaks, -inf), (self.weights, 0.0)):
            f.store(f.constant(self.element, value), f.gep(buffer, row, self.element), align=4)

    # A block of keys

    def _fold_block(self, unit: _Unit, block: _Block) -> None:
        f, k, v = self.f, self.operands.k, self.operands.v
        keys = self.operands.at(k, unit.batch, unit.group, block.start, 0)
        f.loop(0, unit.rows, 1, partial(self._weigh_row, unit, block, keys))
        for panel, start in enumerate(self.panels):
            values = self.operands.at(v, unit.batch, unit.group, block.start, start)
            stride = v.strides[2]
            if self.panel is not None:
                copied = Copied(values, self.panel, (stride, v.strides[3]), (block.count, self.value_depth - start))
                pack_panel(f, copied, self.vectors, Conversion(v.dtype, self.operands.sums, self.lanes))
                values, stride = self.panel, self.width
            tile = f.gep(self.totals, panel * self.most_rows * self.width, self.element)
            weighed = Product(self.scores, self.block, 1, values, tile, block.count, stride)
            shape = (self.vectors, self.lanes, self.register_rows)
            multiply(f, weighed, unit.rows, f.convert("zext", f.icmp("ne", block.start, 0), "i64"), self.types, shape)

    def _weigh_row(self, unit: _Unit, block: _Block, keys: Reg, row: Int) -> None:
        """The scores of a row, made weights of, and what was added up before corrected."""
        f = self.f
        line = f.gep(self.queries, f.mul(row, self.length), self.element)
        scores = f.gep(self.scores, f.mul(row, self.block), self.element)
        zero = f.constant(self.vector, 0)
        f.loop(0, block.count, self.lanes, lambda at: f.store(zero, f.gep(scores, at, self.element), align=64))
        lines = Lines(keys, self.operands.k.strides[2], line, 0, scores, self.depth)
        multiply_lines(f, lines, block.count, self.line_types, self._most_lines())
        at_peak, at_weight = (f.gep(buffer, row, self.element) for buffer in (self.peaks, self.weights))
        before = f.load(self.element, at_peak, align=4)
        peak = self._raise_peak(unit, block, row, scores, before)
        finite = subtracted(f, peak)
        is_later = f.icmp("ne", block.start, 0)
        f.if_(is_later, lambda: self._shrink(row, weight_of(f, before, finite, self.operands.op), at_weight))
        added = self._weigh(block, scores, finite)
        f.store(f.fadd(f.load(self.element, at_weight, align=4), added), at_weight, align=4)
        f.store(peak, at_peak, align=4)

    def _raise_peak(self, unit: _Unit, block: _Block, row: Int, scores: Reg, before: Reg) -> Reg:
        """The greatest score so far, with those of a block, which are masked in place; what is behind them is -inf."""
        f, op, mask = self.f, self.operands.op, self.operands.mask
        head, query = self._head_and_query(unit, row)

        def vector(key: Int, peak: Reg) -> Sequence[Reg]:
            address = f.gep(scores, key, self.element)
            score, exists = f.load(self.vector, address, align=64), f.tail_mask(self.lanes, f.sub(block.count, key))
            position = f.add(block.start, key)
            score = capped(f, score, op)
            if mask is not None:
                source, stride = self.operands.at(mask, unit.batch, head, query, position), mask.strides[3]
                conversion = Conversion(mask.dtype, self.operands.sums, self.lanes)
                bias = read_strided(f, conversion.vector, source, steps_of(f, stride, self.lanes), exists)
                score = masked(f, score, conversion.convert(bias, f))
            if op.flag("causal"):
                exists = f.and_(exists, f.tail_mask(self.lanes, f.add(f.sub(query, position), 1)))
            score = f.select(exists, score, -inf)
            f.store(score, address, align=64)
            return (larger(f, score, peak),)

        (peaks,) = f.loop(0, block.count, self.lanes, vector, (f.splat(before, self.lanes),))
        return f.reduce_lanes("fmax", peaks)

    def _shrink(self, row: Int, shrink: Reg, at_weight: Reg) -> None:
        """Corrects what has been added up of a row."""
        f, factor = self.f, self.f.splat(shrink, self.lanes)
        f.store(f.fmul(f.load(self.element, at_weight, align=4), shrink), at_weight, align=4)
        for panel in range(len(self.panels)):
            start = f.mul(f.add(row, panel * self.most_rows), self.width)
            for column in range(0, self.width, self.lanes):
                address = f.gep(self.totals, f.add(start, column), self.element)
                f.store(f.fmul(f.load(self.vector, address, align=64), factor), address, align=64)

    def _weigh(self, block: _Block, scores: Reg, peak: Reg) -> Reg:
        """Makes weights of the scores of a row, and gives their sum."""
        f, everywhere = self.f, self.f.splat(peak, self.lanes)

        def vector(key: Int, total: Reg) -> Sequence[Reg]:
            address = f.gep(scores, key, self.element)
            weight = weight_of(f, f.load(self.vector, address, align=64), everywhere, self.operands.op)
            f.store(weight, address, align=64)
            return (f.fadd(total, weight),)

        (totals,) = f.loop(0, block.count, self.lanes, vector, (f.constant(self.vector, 0),))
        return f.reduce_lanes("fadd", totals)

    # Results

    def _write_row(self, unit: _Unit, row: Int) -> None:
        """The weighted mean of the values, zeros where a query sees nothing."""
        f, (head, query) = self.f, self._head_and_query(unit, row)
        share = f.splat(share_of(f, f.load(self.element, f.gep(self.weights, row, self.element), align=4)), self.lanes)
        outer = (Index(unit.batch), Index(head), Index(query))
        for panel, first in enumerate(self.panels):
            start = f.mul(f.add(row, panel * self.most_rows), self.width)
            for column in range(0, self.width, self.lanes):
                x = f.load(self.vector, f.gep(self.totals, f.add(start, column), self.element), align=64)
                write = partial(self.operands.write, f.fmul(x, share), (*outer, Index(first + column, 1)))
                self.frame.lanes_left(self.lanes, self.value_depth - first - column, write)
