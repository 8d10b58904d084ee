"""Ordering: the elements of each line in order, or the best k of them, and where each was.

The best k are kept in a heap that lies in the two results. Long lines that are sorted whole, into dense results, go by
radix sort. A unit of work is one line.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.schedules.elements import LONGEST_RADIX, SHORTEST_RADIX
from onnxc.compiler.codegen_cpu.sorting import Ordering, radix_function, sift_function
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import OrderingSchedule
from onnxc.compiler.planning.views import View, row_major
from onnxc.compiler.target import Target

COMPARISONS = 16
"""About how many times each element of a line is looked at."""


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of an ordering kernel."""
    frame = open_kernel(kernel, name, target)
    op = next(op for op in kernel.block.ops if op.name in ("sort", "top_k"))
    lines = _lines(frame, op, name)
    frame.f.loop(frame.begin, frame.end, 1, lines.unit)
    frame.f.ret()
    shape, axis = op.operands[0].shape, op.int("axis")
    units = product((*shape[:axis], *shape[axis + 1 :]))
    sift = sift_function(f"{name}_sift", lines.order)
    functions = (radix_function(f"{name}_radix", lines.order), sift) if lines.has_radix else (sift,)
    return KernelCode(name, (frame.f, *functions), units, frame.grain(shape[axis] * COMPARISONS))


def _lines(frame: KernelFrame, op: Op, name: str) -> "_Lines":
    operand, axis = op.operands[0], op.int("axis")
    order = Ordering(operand.dtype, op.flag("descending" if op.name == "sort" else "largest"))
    source, view = operand_in_memory(frame, operand)
    stride = row_major(op.results[0].shape)[axis]
    sizes = (frame.size(size) for size in (operand.shape[axis], view.strides[axis], stride))
    return _Lines(frame, op, name, order, source, view, *sizes)


@dataclass(frozen=True)
class _Line:
    """One line: the addresses of its first element in the operand and in the results."""

    source: Reg
    values: Reg
    places: Reg


@dataclass(frozen=True)
class _Lines:
    """One kernel. Strides are those of a line of the operand and of the results."""

    frame: KernelFrame
    op: Op
    name: str
    order: Ordering
    source: Reg
    view: View
    length: Int
    source_stride: Int
    stride: Int

    @property
    def has_radix(self) -> bool:
        return self.frame.kernel.scheduled(OrderingSchedule).algorithm == "radix"

    def unit(self, number: Reg) -> None:
        """The results of one line."""
        f = self.frame.f
        line = self._line(number)
        if not self.has_radix:
            self._by_heap(line)
            return
        fits = f.icmp("ule", f.sub(self.length, SHORTEST_RADIX), LONGEST_RADIX - SHORTEST_RADIX)
        operands = (line.source, self.source_stride, line.values, line.places, self.length)
        f.if_(fits, lambda: f.call(f"{self.name}_radix", "void", *operands), lambda: self._by_heap(line))

    def _line(self, number: Reg) -> _Line:
        f, shape = self.frame.f, self.op.operands[0].shape
        others = [axis for axis in range(len(shape)) if axis != self.op.int("axis")]
        coordinates = self.frame.split(number, [shape[axis] for axis in others])

        def place(strides: Sequence[Dim], offset: Dim) -> Int:
            total = self.frame.size(offset)
            for axis, coordinate in zip(others, coordinates, strict=True):
                total = f.add(total, f.mul(coordinate, self.frame.size(strides[axis])))
            return total

        start = place(row_major(self.op.results[0].shape), 0)
        values, places = self.frame.outputs
        element = self.order.element
        return _Line(
            f.gep(self.source, place(self.view.strides, self.view.offset), element),
            f.gep(values, start, element),
            f.gep(places, start, "i64"),
        )

    # The heap

    def _by_heap(self, line: _Line) -> None:
        """The first k in a heap, whose root is the last of them; everything better replaces it; then all in order."""
        f, element = self.frame.f, self.order.element
        count = self.length
        if self.op.name == "top_k":
            count = f.smin(self.frame.size(self.op.dim("k")), self.length)

        def fill(number: Int) -> None:
            place = f.mul(number, self.stride)
            f.store(self._element(line, number), f.gep(line.values, place, element))
            f.store(number, f.gep(line.places, place, "i64"))

        def settle(number: Int) -> None:
            hole = f.sub(f.sub(f.sdiv(count, 2), 1), number)
            self._sift(line, hole, count, self._kept(line, hole))

        def take_last(number: Int) -> None:
            end = f.sub(f.sub(count, 1), number)
            moved, root = self._kept(line, end), self._kept(line, 0)
            place = f.mul(end, self.stride)
            f.store(root[0], f.gep(line.values, place, element))
            f.store(root[1], f.gep(line.places, place, "i64"))
            self._sift(line, 0, end, moved)

        f.loop(0, count, 1, fill)
        f.loop(0, f.sdiv(count, 2), 1, settle)
        if self.op.name == "top_k":
            f.if_(f.icmp("sgt", count, 0), lambda: self._improve(line, count))
        f.loop(0, f.sub(count, 1), 1, take_last)

    def _improve(self, line: _Line, count: Int) -> None:
        """Everything from place `count` on against the root, which goes where something is better."""
        f, lanes = self.frame.f, self.frame.lanes

        def element(number: Int) -> None:
            x = self._element(line, number)
            f.if_(f.icmp("ult", self.order.key(x, f), self._root_key(line)), lambda: replace(number, x))

        def replace(number: Int, x: Reg) -> None:
            self._sift(line, 0, count, (x, number))

        def vector(start: Int) -> None:
            type = vector_type(self.order.element, lanes)
            keys = self.order.key(f.load(type, f.gep(line.source, start, self.order.element)), f)
            better = f.icmp("ult", keys, f.splat(self._root_key(line), lanes))
            f.if_(f.reduce_lanes("or", better), lambda: each(start, f.add(start, lanes)))

        def each(start: Int, stop: Int) -> None:
            f.loop(start, stop, 1, element)

        whole = count
        if self.source_stride == 1:
            whole = f.add(count, f.mul(f.udiv(f.sub(self.length, count), lanes), lanes))
            f.loop(count, whole, lanes, vector)
        each(whole, self.length)

    def _root_key(self, line: _Line) -> Reg:
        return self.order.key(self.frame.f.load(self.order.element, line.values), self.frame.f)

    def _element(self, line: _Line, number: Int) -> Reg:
        f, element = self.frame.f, self.order.element
        return f.load(element, f.gep(line.source, f.mul(number, self.source_stride), element))

    def _kept(self, line: _Line, number: Int) -> tuple[Reg, Reg]:
        """An entry of the heap: its value, and the place it is from."""
        f, element = self.frame.f, self.order.element
        place = f.mul(number, self.stride)
        return f.load(element, f.gep(line.values, place, element)), f.load("i64", f.gep(line.places, place, "i64"))

    def _sift(self, line: _Line, hole: Int, size: Int, pair: tuple[Reg, Int]) -> None:
        operands = (line.values, line.places, self.stride, hole, size, *pair)
        self.frame.f.call(f"{self.name}_sift", "void", *operands)
