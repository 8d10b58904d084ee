"""Attention by panels of queries: neighbouring lanes are neighbouring queries, and keys go by block after block.

Scores of a block are a product of keys, read where they are, and a panel of queries; weights made of them in place are
the panel that values, read where they are, are multiplied by. Maxima, sums and corrections are those of whole vectors.
Source: Dao, "FlashAttention-2", ICLR 2024.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from onnxc.compiler.codegen_cpu.attention.operands import AttentionOperands, Strided, filled
from onnxc.compiler.codegen_cpu.attention.softmax import (
    capped,
    changes_scores,
    larger,
    masked,
    scale_of,
    share_of,
    subtracted,
    weight_of,
)
from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import (
    LibraryFunction,
    Product,
    ProductTypes,
    multiply,
    product_library,
    widened_from_memory,
)
from onnxc.compiler.codegen_cpu.inner_loops.packing import Conversion, Copied, pack_lines, pack_panel
from onnxc.compiler.codegen_cpu.inner_loops.turned_squares import turn_square
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode
from onnxc.compiler.codegen_cpu.schedules.products import register_rows
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.planning.layouts import PackedPanels
from onnxc.runtime.records import record


def emit_panels(operands: AttentionOperands, name: str) -> KernelCode:
    """The code of an attention by panels of queries."""
    widest, *narrower = _vectors(operands)
    memory = _reserve(operands)
    forms = [_Panels(operands, memory, vectors) for vectors in narrower]
    return _Panels(operands, memory, widest).emit(name, forms)


UNKNOWN_LAST_VECTORS = 2
"""The vectors of a narrower last panel where only a call tells how many queries it has: half of a whole one."""


def _vectors(operands: AttentionOperands) -> Sequence[int]:
    """How many vectors a panel has, and the last one of a head."""
    lanes, queries = operands.frame.lanes, operands.shape[2]
    widest = operands.schedule.tile.rows // lanes
    last = UNKNOWN_LAST_VECTORS
    if isinstance(queries, int):
        last = -(-(queries % (widest * lanes)) // lanes)
    return (widest, last) if 0 < last < widest else (widest,)


@record
class _Memory:
    """What a unit has on the stack: panels [row][query], but for the rows of results and of what is widened.

    bias: where the mask tells queries apart; copied: where keys and values are narrow.
    """

    queries: Reg
    scores: Reg
    totals: Reg
    rows: Reg
    bias: Reg | None
    copied: Reg | None


def _reserve(operands: AttentionOperands) -> _Memory:
    """Memory for the widest panels."""
    f, mask, tile = operands.frame.f, operands.mask, operands.schedule.tile
    width, block = tile.rows, tile.columns
    depth, value_depth = (filled(each, operands.frame.lanes) for each in operands.widths)
    has_bias, is_copied = mask is not None and mask.strides[2] != 0, operands.k.dtype != operands.sums
    queries, scores, totals, rows = (
        f.alloca(operands.element, count * width) for count in (depth, block, value_depth, value_depth)
    )
    bias = f.alloca(operands.element, block * width) if has_bias and operands.bias_panels is None else None
    copied = f.alloca(operands.element, block * max(depth, value_depth)) if is_copied else None
    return _Memory(queries, scores, totals, rows, bias, copied)


@record
class _Unit:
    """A unit of work: a panel of queries of a head."""

    batch: Int
    head: Int
    group: Int
    first: Int
    left: Int


@dataclass
class _Panels:
    """Panels of so many vectors of queries."""

    operands: AttentionOperands
    memory: _Memory
    vectors: int

    def __post_init__(self) -> None:
        operands = self.operands
        self.frame, self.f, self.lanes = operands.frame, operands.frame.f, operands.frame.lanes
        self.width, self.block = self.vectors * self.lanes, operands.schedule.tile.columns
        self.depth, self.value_depth = operands.widths
        self.vector, self.element = vector_type(operands.element, self.lanes), operands.element
        # What is read in place is in the type of the sums.
        self.types = ProductTypes(operands.sums, operands.sums, operands.sums)
        self.columns = range(0, self.width, self.lanes)

    def emit(self, name: str, narrower: "Sequence[_Panels]") -> KernelCode:
        """The loop over units, panels of a head running fastest."""
        frame, f, operands = self.frame, self.f, self.operands
        batch, heads, queries, keys = operands.shape
        panels = floordiv(queries + self.width - 1, self.width)

        def unit(ordinal: Reg) -> None:
            at, head, panel = frame.split(ordinal, (batch, heads, panels))
            first = f.mul(panel, self.width)
            group = f.udiv(head, operands.heads_of_group)
            self._choose((*narrower[::-1], self), _Unit(at, head, group, first, f.sub(frame.size(queries), first)))

        f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
        f.ret()
        work = keys * self.width * (self.depth + self.value_depth)
        library = tuple(function for form in (self, *narrower) for function in form._library())
        return KernelCode(name, (f,), product((batch, heads, panels)), frame.grain(work), library)

    def _library(self) -> Sequence[LibraryFunction]:
        return product_library(self.types, self.vectors, register_rows(self.vectors, self.frame.target))

    def _choose(self, forms: "Sequence[_Panels]", unit: _Unit) -> None:
        """A unit in the first form that is wide enough for the queries that are left."""
        first, *others = forms
        if not others:
            first._unit(unit)
            return
        fits = self.f.icmp("sle", unit.left, first.width)
        self.f.if_(fits, lambda: first._unit(unit), lambda: self._choose(others, unit))

    # One unit

    def _unit(self, unit: _Unit) -> None:
        f, frame = self.f, self.frame
        self._pack_queries(unit)
        stop = frame.size(self.operands.shape[3])
        if self.operands.op.flag("causal"):
            stop = f.smin(stop, f.add(unit.first, self.width))
        f.if_(f.icmp("eq", stop, 0), self._clear)
        peaks = [f.constant(self.vector, -inf)] * self.vectors
        weights = [f.constant(self.vector, 0)] * self.vectors
        carried = f.loop(0, stop, self.block, partial(self._fold_block, unit, stop), (*peaks, *weights))
        self._finish(unit, carried[self.vectors :])

    def _pack_queries(self, unit: _Unit) -> None:
        """The queries of a unit side by side, scaled."""
        f, q = self.f, self.operands.q
        copied = Copied(
            self.operands.at(q, unit.batch, unit.head, unit.first, 0),
            self.memory.queries,
            (q.strides[3], q.strides[2]),
            (self.depth, unit.left),
        )
        pack_panel(f, copied, self.vectors, Conversion(q.dtype, self.operands.sums, self.lanes))
        scale = scale_of(self.operands.op)

        def multiply_by_scale(at: Int) -> None:
            address = f.gep(self.memory.queries, at, self.element)
            f.store(f.fmul(f.load(self.vector, address, align=64), scale), address, align=64)

        f.loop(0, self.depth * self.width, self.lanes, multiply_by_scale)

    def _clear(self) -> None:
        """Totals of no keys."""
        f, zero = self.f, self.f.constant(self.vector, 0)

        def clear(at: Int) -> None:
            f.store(zero, f.gep(self.memory.totals, at, self.element), align=64)

        f.loop(0, self.value_depth * self.width, self.lanes, clear)

    def _fold_block(self, unit: _Unit, stop: Int, start: Int, *carried: Reg) -> Sequence[Reg]:
        """The greatest scores and the sums of weights, with those of a block of keys; its values are added up."""
        f, operands = self.f, self.operands
        count = f.smin(f.sub(stop, start), self.block)
        before, earlier = carried[: self.vectors], carried[self.vectors :]
        keys, strides = self._block(operands.k, unit, start, count, self.depth)
        product = Product(keys, *strides, self.memory.queries, self.memory.scores, self.depth)
        self._multiply(product, count, 0)
        after = self._raise_peaks(unit, start, count, before)
        finite = [subtracted(f, peak) for peak in after]
        is_later = f.icmp("ne", start, 0)
        weights = f.if_(is_later, lambda: self._shrink(before, finite, earlier), lambda: earlier)
        added = self._weigh(count, finite)
        values, strides = self._block(operands.v, unit, start, count, self.value_depth)
        weighed = Product(values, *strides[::-1], self.memory.scores, self.memory.totals, count)
        self._multiply(weighed, self.value_depth, f.convert("zext", is_later, "i64"))
        return (*after, *(f.fadd(x, y) for x, y in zip(weights, added, strict=True)))

    def _block(self, operand: Strided, unit: _Unit, start: Int, count: Int, depth: int) -> tuple[Reg, tuple[Int, Int]]:
        """Where a block of keys or values begins, and its strides; narrow elements are widened first."""
        address, strides = self.operands.at(operand, unit.batch, unit.group, start, 0), operand.strides[2:]
        room = self.memory.copied
        if room is None:
            return address, (strides[0], strides[1])
        length = filled(depth, self.lanes)
        copied = Copied(address, room, (strides[0], strides[1]), (count, depth))
        pack_lines(self.f, copied, length, Conversion(operand.dtype, self.operands.sums, self.lanes))
        return room, (length, 1)

    def _multiply(self, product: Product, rows: Int, accumulate: Int) -> None:
        shape = (self.vectors, self.lanes, register_rows(self.vectors, self.frame.target))
        multiply(self.f, product, rows, accumulate, self.types, shape)

    # Scores

    def _raise_peaks(self, unit: _Unit, start: Int, count: Int, peaks: Sequence[Reg]) -> Sequence[Reg]:
        """The greatest scores so far, with those of a block, which are masked in place."""
        f, read_bias = self.f, self._bias_reader(unit, start, count)
        op = self.operands.op

        def row(key: Int, *peaks: Reg) -> Sequence[Reg]:
            raised = []
            for column, peak in zip(self.columns, peaks, strict=True):
                address = f.gep(self.memory.scores, f.add(f.mul(key, self.width), column), self.element)
                score = capped(f, f.load(self.vector, address, align=64), op)
                if read_bias is not None:
                    score = masked(f, score, read_bias(key, column))
                if op.flag("causal"):
                    position = f.sub(f.add(start, key), f.add(unit.first, column))
                    score = f.select(self._sees(position), score, -inf)
                if changes_scores(op):
                    f.store(score, address, align=64)
                raised.append(larger(f, score, peak))
            return raised

        return f.loop(0, count, 1, row, peaks)

    def _sees(self, position: Int) -> Reg:
        """Which queries of a vector see a key that is so many positions behind the first of them."""
        f, integers = self.f, vector_type("i32", self.lanes)
        clamped = f.convert("trunc", f.smin(f.smax(position, -1), self.lanes), "i32")
        return f.icmp("sge", f.lane_ids(integers), f.splat(clamped, self.lanes))

    def _bias_reader(self, unit: _Unit, start: Int, count: Int) -> Callable[[Int, int], Reg] | None:
        """What is added to the scores of a key, from its ordinal in the block and the first lane; None for nothing."""
        f, mask = self.f, self.operands.mask
        if mask is None:
            return None
        if self.operands.bias_panels is not None:
            return self._packed_biases(mask, self.operands.bias_panels, unit, start)
        source = self.operands.at(mask, unit.batch, unit.head, unit.first, start)
        dtype, sums = mask.dtype, self.operands.sums
        bias = self.memory.bias
        if bias is None:

            def repeated(key: Int, column: int) -> Reg:
                address = f.gep(source, f.mul(key, mask.strides[3]), memory_type(dtype))
                return f.splat(widened_from_memory(f.load(memory_type(dtype), address), dtype, sums, f), self.lanes)

            return repeated
        copied = Copied(source, bias, (mask.strides[3], mask.strides[2]), (count, unit.left))
        pack_panel(f, copied, self.vectors, Conversion(dtype, sums, self.lanes))

        def read(key: Int, column: int) -> Reg:
            return f.load(self.vector, f.gep(bias, f.add(f.mul(key, self.width), column), self.element), align=64)

        return read

    def _packed_biases(self, mask: Strided, panels: PackedPanels, unit: _Unit, start: Int) -> Callable[[Int, int], Reg]:
        """The biases of constant panels, one behind the other for each matrix."""
        f, depth = self.f, panels.depth
        matrix, offset = -(-panels.columns // panels.width) * panels.width * depth, f.mul(unit.first, depth)
        for position, size in reversed([*zip((unit.batch, unit.head), mask.view.shape[:2], strict=True)]):
            if size != 1:
                assert isinstance(size, int), mask.view
                offset, matrix = f.add(offset, f.mul(position, matrix)), matrix * size
        first = f.gep(mask.base, f.add(offset, f.mul(start, panels.width)), self.element)

        def read(key: Int, column: int) -> Reg:
            return f.load(self.vector, f.gep(first, f.add(f.mul(key, panels.width), column), self.element))

        return read

    # Weights and values

    def _shrink(self, before: Sequence[Reg], peaks: Sequence[Reg], weights: Sequence[Reg]) -> Sequence[Reg]:
        """Corrects what has been added up, where a block has a greater score than all before; the weights so far."""
        f = self.f
        changed = f.fcmp("one", before[0], peaks[0])
        for x, y in zip(before[1:], peaks[1:], strict=True):
            changed = f.or_(changed, f.fcmp("one", x, y))

        def shrunk() -> Sequence[Reg]:
            factors = [weight_of(f, x, y, self.operands.op) for x, y in zip(before, peaks, strict=True)]

            def row(at: Int) -> None:
                for column, factor in zip(self.columns, factors, strict=True):
                    address = f.gep(self.memory.totals, f.add(at, column), self.element)
                    f.store(f.fmul(f.load(self.vector, address, align=64), factor), address, align=64)

            f.loop(0, self.value_depth * self.width, self.width, row)
            return [f.fmul(x, y) for x, y in zip(weights, factors, strict=True)]

        return f.if_(f.reduce_lanes("or", changed), shrunk, lambda: weights)

    def _weigh(self, count: Int, peaks: Sequence[Reg]) -> Sequence[Reg]:
        """Makes weights of the scores of a block, and gives their sums."""
        f = self.f

        def row(key: Int, *sums: Reg) -> Sequence[Reg]:
            following = []
            for column, peak, total in zip(self.columns, peaks, sums, strict=True):
                address = f.gep(self.memory.scores, f.add(f.mul(key, self.width), column), self.element)
                weight = weight_of(f, f.load(self.vector, address, align=64), peak, self.operands.op)
                f.store(weight, address, align=64)
                following.append(f.fadd(total, weight))
            return following

        return f.loop(0, count, 1, row, [f.constant(self.vector, 0)] * self.vectors)

    # Results

    def _finish(self, unit: _Unit, weights: Sequence[Reg]) -> None:
        """The weighted means, zeros where a query sees nothing: turned, then written row by row.

        Where queries lie side by side in the result, vectors of them are written as they are: 32 heads of 64 queries,
        keys and channels, turned behind the product, took 484 us row by row, and take 161.
        """
        f, length = self.f, filled(self.value_depth, self.lanes)
        shares = [share_of(f, weight) for weight in weights]
        if self.operands.order[-1] == 2:
            f.loop(0, self.value_depth, 1, partial(self._write_column, unit, shares))
            return

        def square(first: Int) -> None:
            for column, share in zip(self.columns, shares, strict=True):
                starts = (f.add(f.mul(f.add(first, lane), self.width), column) for lane in range(self.lanes))
                addresses = [f.gep(self.memory.totals, start, self.element) for start in starts]
                scaled = [f.fmul(f.load(self.vector, address, align=64), share) for address in addresses]
                for lane, turned in enumerate(turn_square(f, scaled)):
                    address = f.gep(self.memory.rows, f.add((column + lane) * length, first), self.element)
                    f.store(turned, address, align=4)

        f.loop(0, length, self.lanes, square)
        f.loop(0, f.smin(unit.left, self.width), 1, partial(self._write_row, unit))

    def _write_row(self, unit: _Unit, row: Int) -> None:
        f, length = self.f, filled(self.value_depth, self.lanes)
        outer = (Index(unit.batch), Index(unit.head), Index(f.add(unit.first, row)))
        for start in range(0, length, self.lanes):
            x = f.load(self.vector, f.gep(self.memory.rows, f.add(f.mul(row, length), start), self.element), align=4)
            write = partial(self.operands.write, x, (*outer, Index(start, 1)))
            self.frame.lanes_left(self.lanes, self.value_depth - start, write)

    def _write_column(self, unit: _Unit, shares: Sequence[Reg], channel: Int) -> None:
        """A channel of the values of all queries."""
        f = self.f
        for column, share in zip(self.columns, shares, strict=True):
            address = f.gep(self.memory.totals, f.add(f.mul(channel, self.width), column), self.element)
            x = f.fmul(f.load(self.vector, address, align=64), share)
            queries = Index(f.add(unit.first, column), 1)
            write = partial(self.operands.write, x, (Index(unit.batch), Index(unit.head), queries, Index(channel)))
            self.frame.lanes_left(self.lanes, f.sub(unit.left, column), write)
