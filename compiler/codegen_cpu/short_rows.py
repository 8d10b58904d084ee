"""Rows that are shorter than a vector: pixels with three channels, or what is repeated.

A lane is an element of one of the rows. As many rows as a vector has lanes are as many vectors as a row has elements:
what lies as the result does is loaded, what is dense along the rows, or repeated, is loaded and shuffled, everything
else is gathered at offsets that all such vectors have in common. Of the rows left over, a vector holds whole ones.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.codegen_cpu.element_types import from_memory, memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.inner_loops.turned_squares import PART_BITS, element_bits, turn_square
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_cpu.shuffles import pick_lanes
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, register, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.loops.domain import Domain
from onnxc.compiler.planning.loops.views import View
from onnxc.runtime.records import record


def emit_short_rows(frame: KernelFrame, domain: Domain, block: int) -> KernelCode:
    """A unit of work is `block` rows, neighbours along the axis before the last."""
    f, (*outer, rows, columns) = frame.f, domain.shape
    assert isinstance(columns, int), domain
    blocks = floordiv(rows + block - 1, block)
    short = ShortRows(frame, domain, columns)

    def unit(ordinal: Reg) -> None:
        *coordinates, block_ordinal = frame.split(ordinal, (*outer, blocks))
        start = f.mul(block_ordinal, block)
        short.write(coordinates, start, f.smin(f.add(start, block), frame.size(rows)))

    f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
    f.ret()
    return KernelCode(f.name, (f,), product(outer) * blocks, frame.grain(minimum(rows, block) * columns))


@record
class ShortRows:
    """A kernel whose rows have so many `columns`."""

    frame: KernelFrame
    domain: Domain
    columns: int

    @property
    def together(self) -> int:
        """How many whole rows are in a vector, whose last lanes may be empty."""
        return self.frame.lanes // self.columns

    def write(self, outer: Sequence[Int], start: Int, stop: Int) -> None:
        """The rows from `start` to `stop` at the coordinates of the axes before."""
        f, lanes = self.frame.f, self.frame.lanes
        count, repeated = f.sub(stop, start), self._repeated((*outer, start))
        whole = f.add(start, f.mul(f.sdiv(count, lanes), lanes))
        f.loop(start, whole, lanes, lambda row: self._write_whole((*outer, row), repeated))

        def left() -> None:
            f.loop(whole, stop, self.together, lambda row: self._write_left((*outer, row), f.sub(stop, row), repeated))

        if self.frame.root not in self.domain.leaves:
            left()
            return
        # What is only moved may be written again, for no operand can be where it lies.
        again = f.and_(f.icmp("sgt", stop, whole), f.icmp("sge", count, lanes))
        f.if_(again, lambda: self._write_whole((*outer, f.sub(stop, lanes)), repeated), left)

    def _repeated(self, index: Sequence[Int]) -> Mapping[Value, Sequence[Reg]]:
        """The vectors of as many rows as there are lanes of what is the same in each row, gathered once for all.

        f32[1, 224, 224, 3] times f32[3] took with AVX-512 32.7 us and with AVX2 25.6, gathered for each vector.
        """
        e, starts = self.frame.evaluator(), range(0, self.frame.lanes * self.columns, self.frame.lanes)
        same = {value: view for value, view in self.domain.leaves.items() if view.strides[-2] == 0}
        return {value: [self._load(e, view, index, first) for first in starts] for value, view in same.items()}

    def _write_whole(self, index: Sequence[Int], repeated: Mapping[Value, Sequence[Reg]]) -> None:
        """The vectors of as many rows as there are lanes."""
        frame, lanes, load = self.frame, self.frame.lanes, self.frame.evaluator()
        leaves = {value: view for value, view in self.domain.leaves.items() if value not in repeated}
        loaded = {value: self._dense_rows(load, view, index) for value, view in leaves.items()}
        turned = {value: self._turned(vectors) for value, vectors in loaded.items()}
        for first in range(0, lanes * self.columns, lanes):
            e = frame.evaluator()
            e.bound.update({value: vectors[first // lanes] for value, vectors in repeated.items()})
            for value, view in leaves.items():
                if turned[value]:
                    e.bound[value] = from_memory(turned[value][first // lanes], value.dtype, e.f)
                else:
                    e.bound[value] = self._part(e, value, view, index, loaded[value], first)
            self._store(e, index, first)

    def _dense_rows(self, e: Evaluator, view: View, index: Sequence[Int], mask: Reg | None = None) -> tuple[Reg, ...]:
        """For each column, or once for all, a vector of the rows where they lie side by side; nothing elsewhere."""
        f, memory, (*_, row, column) = e.f, memory_type(view.base.dtype), view.strides
        if row != 1:
            return ()
        vector, start = vector_type(memory, self.frame.lanes), self._start(e, view.strides, index, view.offset)
        ahead = [f.mul(e.size(column), ordinal) for ordinal in range(1 if column == 0 else self.columns)]
        rows = [f.gep(e.pointers[view.base], f.add(start, part), memory) for part in ahead]
        if mask is None:
            return tuple(f.load(vector, row) for row in rows)
        return tuple(masked_load(f, vector, row, mask) for row in rows)

    def _turned(self, loaded: Sequence[Reg]) -> Sequence[Reg]:
        """The vectors of the rows whose columns are loaded, where a row is what instructions interleave by itself."""
        f, lanes, columns = self.frame.f, self.frame.lanes, self.columns
        if len(loaded) != columns or columns * element_bits(loaded[0].element) != PART_BITS:
            return ()
        rows = list[Reg]()
        for first in range(0, lanes, columns):
            square = [f.shuffle(vector, None, range(first, first + columns)) for vector in loaded]
            rows += turn_square(f, square)
        while len(rows) > columns:
            rows = [f.shuffle(a, b, range(2 * a.lanes)) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        return rows

    def _part(
        self, e: Evaluator, value: Value, view: View, index: Sequence[Int], loaded: Sequence[Reg], first: int
    ) -> Reg:
        """The elements of a vector from the element `first` of the rows on."""
        lanes, columns = self.frame.lanes, self.columns
        if not loaded:
            return self._load(e, view, index, first)
        picks = [
            (element // columns if len(loaded) == 1 else element % columns * lanes + element // columns)
            for element in range(first, first + lanes)
        ]
        return from_memory(pick_lanes(e.f, loaded, picks), value.dtype, e.f)

    def _write_left(self, index: Sequence[Int], left: Int, repeated: Mapping[Value, Sequence[Reg]]) -> None:
        """The elements of a vector of whole rows, or of the `left` ones."""
        frame, f = self.frame, self.frame.f
        rows = f.smin(left, self.together)
        e = frame.evaluator(mask=f.tail_mask(frame.lanes, f.mul(rows, self.columns)))
        e.bound.update({value: vectors[0] for value, vectors in repeated.items()})
        for value, view in self.domain.leaves.items():
            if value not in repeated:
                loaded = self._dense_rows(e, view, index, f.tail_mask(frame.lanes, rows))
                e.bound[value] = self._part(e, value, view, index, loaded, 0)
        self._store(e, index, 0)

    def _store(self, e: Evaluator, index: Sequence[Int], first: int) -> None:
        root, start = self.frame.root, self._start(e, self.domain.output, index, self.domain.first)
        x = to_memory(e.spread(e.value(root, ())), root.dtype, e.f)
        e.store(x, self.frame.output, memory_type(root.dtype), Index(e.f.add(start, first), 1))

    def _start(self, e: Evaluator, strides: Sequence[Dim], index: Sequence[Int], offset: Dim = 0) -> Int:
        return e.strided([Index(position) for position in index], strides[:-1], offset).base

    def _load(self, e: Evaluator, view: View, index: Sequence[Int], first: int) -> Reg:
        start = self._start(e, view.strides, index, view.offset)
        *_, row, column = view.strides
        if row == column * self.columns:
            return e.read(view.base, Index(e.f.add(start, e.f.mul(e.size(column), first)), e.size(column)))
        if (row, column) == (self.columns, -1) and self.frame.lanes % self.columns == 0:
            # Each row backwards: what lies there is loaded, and turned within the vector.
            lines = e.read(view.base, Index(e.f.add(start, first - self.columns + 1), 1))
            picks = [lane + self.columns - 1 - 2 * (lane % self.columns) for lane in range(self.frame.lanes)]
            return e.f.shuffle(lines, None, picks)
        return e.read(view.base, Index(start, 0, self._offsets(e, row, column, first)))

    def _offsets(self, e: Evaluator, row: Dim, column: Dim, first: int) -> Reg:
        """Where the element of each lane lies behind that of the first row."""
        f, lanes, type = e.f, range(first, first + self.frame.lanes), vector_type("i64", self.frame.lanes)
        steps = [lane // self.columns for lane in lanes], [lane % self.columns for lane in lanes]
        if isinstance(row, int) and isinstance(column, int):
            return f.constant(type, [a * row + b * column for a, b in zip(*steps, strict=True)])
        rows, columns = (
            f.mul(f.constant(type, step), f.splat(as_reg(e.size(stride)), self.frame.lanes))
            for step, stride in zip(steps, (row, column), strict=True)
        )
        return register(f.add(rows, columns))
