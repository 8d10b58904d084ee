"""Rows that are shorter than a vector: several of them in each, as of pixels with three channels or what is repeated.

A lane is an element of one of the rows. What lies as the result does is one load, what is repeated along the rows a
load and a shuffle, everything else is gathered at offsets that each vector has in common.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_cpu.element_types import from_memory, memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame
from onnxc.compiler.codegen_host.llvm_ir import as_reg
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.planning.domain import Domain
from onnxc.compiler.planning.views import View


def emit_short_rows(frame: KernelFrame, domain: Domain, block: int) -> KernelCode:
    """A unit of work is `block` rows, neighbours along the axis before the last."""
    f, (*outer, rows, columns) = frame.f, domain.shape
    assert isinstance(columns, int), domain
    blocks = floordiv(rows + block - 1, block)
    short = _ShortRows(frame, domain, columns)

    def unit(ordinal: Reg) -> None:
        *coordinates, number = frame.split(ordinal, (*outer, blocks))
        start = f.mul(number, block)
        stop = f.smin(f.add(start, block), frame.size(rows))
        whole = f.add(start, f.mul(f.sdiv(f.sub(stop, start), short.together), short.together))
        f.loop(start, whole, short.together, lambda row: short.write(coordinates, row, None))
        left = f.sub(stop, whole)
        f.if_(f.icmp("sgt", left, 0), lambda: short.write(coordinates, whole, left))

    f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
    f.ret()
    return KernelCode(f.name, (f,), product(outer) * blocks, frame.grain(minimum(rows, block) * columns))


@dataclass(frozen=True)
class _ShortRows:
    """The kernel: `together` rows of so many `columns` are a vector, whose last lanes may be empty."""

    frame: KernelFrame
    domain: Domain
    columns: int

    @property
    def together(self) -> int:
        """How many rows a vector holds."""
        return self.frame.lanes // self.columns

    def write(self, outer: Sequence[Int], row: Int, left: Int | None) -> None:
        """The elements of a vector of rows, or of the `left` ones."""
        frame, f, root = self.frame, self.frame.f, self.frame.root
        used = self.together * self.columns if left is None else f.mul(left, self.columns)
        e = frame.evaluator(mask=None if used == frame.lanes else f.tail_mask(frame.lanes, used))
        for value, view in self.domain.leaves.items():
            e.bound[value] = self._load(e, view, (*outer, row), left)
        start = self._start(e, self.domain.output, (*outer, row))
        x = to_memory(e.spread(e.value(root, ())), root.dtype, f)
        e.store(x, frame.output, memory_type(root.dtype), Index(start, 1))

    def _start(self, e: Evaluator, strides: Sequence[Dim], index: Sequence[Int], offset: Dim = 0) -> Int:
        return e.strided([Index(position) for position in index], strides[:-1], offset).base

    def _load(self, e: Evaluator, view: View, index: Sequence[Int], left: Int | None) -> Reg:
        start = self._start(e, view.strides, index, view.offset)
        *_, row, column = view.strides
        if (row, column) == (1, 0):
            return self._repeated(e, view, start, left)
        if row == column * self.columns:
            return e.read(view.base, Index(start, e.size(column)))
        return e.read(view.base, Index(start, 0, self._offsets(e, row, column)))

    def _offsets(self, e: Evaluator, row: Dim, column: Dim) -> Reg:
        """Where the element of each lane lies behind the first."""
        f, lanes, type = e.f, range(self.frame.lanes), vector_type("i64", self.frame.lanes)
        steps = [lane // self.columns for lane in lanes], [lane % self.columns for lane in lanes]
        if isinstance(row, int) and isinstance(column, int):
            return f.constant(type, [a * row + b * column for a, b in zip(*steps, strict=True)])
        rows, columns = (
            f.mul(f.constant(type, step), f.splat(as_reg(e.size(stride)), self.frame.lanes))
            for step, stride in zip(steps, (row, column), strict=True)
        )
        return register(f.add(rows, columns))

    def _repeated(self, e: Evaluator, view: View, start: Int, left: Int | None) -> Reg:
        """An element for each row, in all lanes of the row."""
        f, memory = e.f, memory_type(view.base.dtype)
        address, vector = f.gep(e.pointers[view.base], start, memory), vector_type(memory, self.together)
        if left is None:
            loaded = f.load(vector, address)
        else:
            mask = f.tail_mask(self.together, left)
            loaded = f.masked_load(vector, address, mask, passthru=f.constant(vector, 0))
        lanes = [min(lane // self.columns, self.together - 1) for lane in range(self.frame.lanes)]
        return from_memory(f.shuffle(loaded, None, lanes), view.base.dtype, f)
