"""Scatters: a copy of the data, with updates applied to it in row-major order.

A unit of work is a range of lines, rows along the last axis. It copies them, then passes over all updates and applies
those that meet one of its lines: whatever the number of threads, updates of one element keep their order.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

from onnxc.compiler.codegen_cpu.element_types import memory_type, round_register, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.pointwise import write_row
from onnxc.compiler.codegen_cpu.kernels.reduction import combine
from onnxc.compiler.codegen_cpu.schedules.elements import updates_lines
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg
from onnxc.compiler.ir.dims import Dim, at_least, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import View, is_dense, operand_view, row_major, stays
from onnxc.compiler.planning.schedules import ScatterSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a scatter."""
    frame = open_kernel(kernel, name, target)
    op = next(op for op in kernel.block.ops if op.name in ("scatter_along", "scatter_nd"))
    scatter = _Scatter(frame, op)
    scatter.emit()
    return KernelCode(name, (frame.f,), scatter.units, 1)


@record
class _Scatter:
    """One kernel, for the range of lines that its units are."""

    frame: KernelFrame
    op: Op

    @cached_property
    def data(self) -> Value:
        return self.op.operands[0]

    @cached_property
    def updates(self) -> Value:
        return self.op.operands[2]

    @cached_property
    def lines(self) -> Dim:
        return product(self.data.shape[:-1])

    @cached_property
    def line_strides(self) -> tuple[Dim, ...]:
        """How many lines a step along each axis before the last is."""
        return row_major(self.data.shape[:-1])

    @cached_property
    def units(self) -> Dim:
        """How many ranges."""
        return self.frame.kernel.scheduled(ScatterSchedule).units

    @cached_property
    def depth(self) -> int:
        """How many axes the indices of scatter_nd name."""
        depth = self.op.operands[1].shape[-1]
        assert isinstance(depth, int), depth
        return depth

    @property
    def _scatters_vectors(self) -> bool:
        """Whether several updates of a line are stored at once, the last of those of one element behind the others.

        Vectors of 512 bits came with an instruction for that; without it LLVM stores lane by lane, in order, but what
        is stored, and where, is still found for a vector, without a branch for each element. What `Compress` picks of
        49152 i64 took one by one 205 us with AVX2, and takes 57; of 3000 rows with AVX-512 20.4 and 3.0.
        """
        return self.op.text("kind") == "set" and self.data.dtype.bits <= 64

    def emit(self) -> None:
        """Copies the range, and applies its updates."""
        frame, f = self.frame, self.frame.f
        lines, units = frame.size(self.lines), frame.size(self.units)
        each = f.udiv(f.add(lines, f.sub(units, 1)), units)
        first, last = (f.smin(f.mul(bound, each), lines) for bound in (frame.begin, frame.end))
        self._copy_from_elsewhere(first, last)
        if self.op.name == "scatter_nd":
            self._apply_slices(first, last)
        elif updates_lines(self.op):
            self._apply_within_lines(first, last)
        else:
            self._apply_across_lines(first, last)
        f.ret()

    def _copy_from_elsewhere(self, first: Int, last: Int) -> None:
        """Copies the range, unless the result is written into the memory of the data."""
        frame, view = self.frame, operand_view(self.data)
        if view is None or not stays(self.op, 0):
            self._copy(first, last)
            return
        data = frame.inputs[frame.kernel.block.parameters.index(view.base)]
        frame.f.if_(frame.f.icmp("ne", data, frame.output), lambda: self._copy(first, last))

    def _copy(self, first: Int, last: Int) -> None:
        frame, f, data = self.frame, self.frame.f, self.data
        length = frame.size(data.shape[-1])
        view = operand_view(data)
        if view is not None and is_dense(view):
            base = view.base

            def copy(e: Evaluator, offset: Index) -> None:
                self._store(e, e.read(base, offset), offset)

            write_row(frame, f.mul(first, length), f.mul(last, length), copy)
            return

        def line(ordinal: Int) -> None:
            outer = tuple(map(Index, frame.split(ordinal, data.shape[:-1])))
            start = f.mul(ordinal, length)

            def compute(e: Evaluator, column: Index) -> None:
                self._store(e, e.value(data, (*outer, column)), e.linear((column,), (1,), start))

            write_row(frame, 0, length, compute)

        f.loop(first, last, 1, line)

    def _store(self, e: Evaluator, x: Reg, offset: Index) -> None:
        e.store(to_memory(x, self.data.dtype, e.f), self.frame.output, memory_type(self.data.dtype), offset)

    # Updates

    def _apply_slices(self, first: Int, last: Int) -> None:
        """scatter_nd: the slice, or element, at each coordinate tuple."""
        frame, indices, rank = self.frame, self.op.operands[1], self.data.rank
        outer, rest = indices.shape[:-1], self.data.shape[self.depth :]

        def tuple_at(*position: Int) -> None:
            e, index = frame.evaluator(lanes=1), tuple(map(Index, position))
            coordinates = [
                e.position(indices, (*index, Index(axis)), self.data.shape[axis]) for axis in range(self.depth)
            ]
            if self.depth == rank:
                self._unless_lines_are_empty(lambda: self._apply(e, (first, last), coordinates, index))
                return
            updates = operand_view(self.updates)
            if len(rest) > 1 and updates is not None and is_dense(updates):
                self._apply_dense_slice(e, (first, last), coordinates, e.strided(index, self._update_strides), updates)
                return

            def row(*middle: Int) -> None:
                target, source = ((*start, *map(Index, middle)) for start in (coordinates, index))

                def vector(e: Evaluator, column: Index) -> None:
                    self._apply(e, None, (*target, column), (*source, column))

                def elements() -> None:
                    write_row(frame, 0, frame.size(rest[-1]), vector)

                self._if_within(self._line(e, target), (first, last), elements)

            self._loops(rest[:-1], row)

        # Where slices have no elements nothing is set, and no index is looked at.
        self._unless_empty(product(rest), lambda: self._loops(outer, tuple_at))

    @property
    def _update_strides(self) -> tuple[Dim, ...]:
        """How many elements of the updates a step along each axis of the coordinate tuples is."""
        return row_major(self.updates.shape)[: self.op.operands[1].rank - 1]

    def _apply_dense_slice(
        self, e: Evaluator, range: tuple[Int, Int], coordinates: Sequence[Index], source: Index, updates: View
    ) -> None:
        """A slice of several lines, which lie one behind the other in the data and in the updates, as one row.

        Of 200 slices [17, 50, 8] of f32 that are added each line by itself took 960 us, and takes 85.
        """
        frame, f, (first, last) = self.frame, self.frame.f, range
        inner = self.data.shape[self.depth :]
        length, lines = frame.size(inner[-1]), frame.size(product(inner[:-1]))
        start = e.strided(coordinates, self.line_strides[: self.depth])
        assert start.is_uniform, start
        assert source.is_uniform, source
        begin, end = f.smax(start.base, first), f.smin(f.add(start.base, lines), last)
        ahead = f.sub(source.base, f.mul(start.base, length))

        def vector(e: Evaluator, offset: Index) -> None:
            self._combine(e, e.read(updates.base, e.linear((offset,), (1,), ahead)), offset)

        f.if_(
            f.icmp("slt", begin, end),
            lambda: write_row(frame, f.mul(begin, length), f.mul(end, length), vector),
        )

    def _apply_within_lines(self, first: Int, last: Int) -> None:
        """scatter_along the last axis: each line by itself, one element after another."""
        frame, f, indices = self.frame, self.frame.f, self.op.operands[1]
        length = frame.size(indices.shape[-1])

        def row(*coordinates: Int) -> None:
            outer = tuple(map(Index, coordinates))

            def vector(e: Evaluator, column: Index) -> None:
                index = (*outer, column)
                position = e.position(indices, index, self.data.shape[-1])
                self._unless_lines_are_empty(lambda: self._apply(e, None, (*outer, position), index))

            def elements() -> None:
                if self._scatters_vectors:
                    write_row(frame, 0, length, vector)
                else:
                    f.loop(0, length, 1, lambda element: vector(frame.evaluator(lanes=1), Index(element)))

            self._if_within(self._line(frame.evaluator(lanes=1), outer), (first, last), elements)

        self._loops(indices.shape[:-1], row)

    def _apply_across_lines(self, first: Int, last: Int) -> None:
        """scatter_along another axis: neighbours go to different lines, and to columns of their own."""
        frame, indices, axis = self.frame, self.op.operands[1], self.op.int("axis")

        def row(*coordinates: Int) -> None:
            outer = tuple(map(Index, coordinates))

            def vector(e: Evaluator, column: Index) -> None:
                index = (*outer, column)
                position = e.position(indices, index, self.data.shape[axis])
                self._apply(e, (first, last), (*index[:axis], position, *index[axis + 1 :]), index)

            write_row(frame, 0, frame.size(indices.shape[-1]), vector)

        self._loops(indices.shape[:-1], row)

    def _loops(self, sizes: Sequence[Dim], body: Callable[..., None]) -> None:
        """body(*coordinates) at every place of a box, in row-major order."""

        def step(*index: Int) -> None:
            if len(index) == len(sizes):
                body(*index)
            else:
                self.frame.f.loop(0, self.frame.size(sizes[len(index)]), 1, lambda position: step(*index, position))

        step()

    def _line(self, e: Evaluator, coordinates: Sequence[Index]) -> Index:
        """The number of the line at coordinates before the last axis."""
        return e.strided(coordinates, self.line_strides)

    def _if_within(self, line: Index, range: tuple[Int, Int], body: Callable[[], None]) -> None:
        f, (first, last) = self.frame.f, range
        assert line.is_uniform, line
        inside = f.icmp("ult", f.sub(line.base, first), f.sub(last, first))
        f.if_(inside, body)

    def _unless_lines_are_empty(self, body: Callable[[], None]) -> None:
        """`body`, where a line has elements: clamping a position in an empty axis leaves none that could be written."""
        self._unless_empty(self.data.shape[-1], body)

    def _unless_empty(self, size: Dim, body: Callable[[], None]) -> None:
        """`body`, where there are so many of something and not none."""
        f = self.frame.f
        if at_least(size, 1):
            body()
        else:
            f.if_(f.icmp("ne", self.frame.size(size), 0), body)

    def _apply(
        self, e: Evaluator, range: tuple[Int, Int] | None, target: Sequence[Index], source: Sequence[Index]
    ) -> None:
        """Updates at `source` meet the elements at `target`, if these are in lines of the range or there is none."""
        f = e.f
        if range is None:
            self._meet(e, target, source)
            return
        line = self._line(e, target[:-1])
        if line.is_uniform:
            self._if_within(line, range, lambda: self._meet(self._masked(e, e.mask), target, source))
            return
        first, last = range
        ahead = f.sub(e.as_values(line), f.splat(as_reg(first), e.lanes))
        inside = f.icmp("ult", ahead, f.splat(as_reg(f.sub(last, first)), e.lanes))
        self._meet(self._masked(e, inside if e.mask is None else f.and_(inside, e.mask)), target, source)

    def _masked(self, e: Evaluator, mask: Reg | None) -> Evaluator:
        return self.frame.evaluator(e.lanes, mask)

    def _meet(self, e: Evaluator, target: Sequence[Index], source: Sequence[Index]) -> None:
        self._combine(e, e.value(self.updates, source), e.strided(target, row_major(self.data.shape)))

    def _combine(self, e: Evaluator, x: Reg, offset: Index) -> None:
        """`x` meets the elements at an offset of the result."""
        kind, dtype = self.op.text("kind"), self.data.dtype
        if kind != "set":
            there = e.load(self.data, self.frame.output, offset)
            x = e.spread(x) if there.lanes > 1 else x
            x = round_register(combine(kind, dtype, there, x, e.f), dtype, e.f)
        self._store(e, x, offset)
