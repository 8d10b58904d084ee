"""Ordering: the elements of each line in order, or the best k of them, and where each was.

The best k are kept in a heap that lies in the results. Long lines that are sorted whole, into dense results, go by
radix sort. A unit of work is one line.
"""

from collections.abc import Sequence
from functools import cached_property

from onnxc.compiler.codegen_cpu.heaps import Heap
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.schedules.elements import LONGEST_RADIX, SHORTEST_RADIX
from onnxc.compiler.codegen_cpu.sorting import Ordering, radix_function
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import View, row_major
from onnxc.compiler.planning.schedules import OrderingSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

COMPARISONS = 16
"""About how many times each element of a line is looked at."""

INDEX_BITS = 32
"""Bits of the index in an entry that is one word of 64."""

LONGEST_PACKED = 1 << INDEX_BITS
"""Lines of more elements have indices that need more bits."""


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of an ordering kernel."""
    frame = open_kernel(kernel, name, target)
    op = next(op for op in kernel.block.ops if op.name in ("sort", "top_k"))
    lines = _lines(frame, op, name)
    frame.f.loop(frame.begin, frame.end, 1, lines.unit)
    frame.f.ret()
    shape, axis = op.operands[0].shape, op.int("axis")
    units = product((*shape[:axis], *shape[axis + 1 :]))
    radix = (radix_function(f"{name}_radix", lines.order),) if lines.has_radix else ()
    heaps = tuple(entries.heap.function() for entries in (lines.packed, lines.paired) if entries is not None)
    return KernelCode(name, (frame.f, *radix, *heaps), units, frame.grain(shape[axis] * COMPARISONS))


def _lines(frame: KernelFrame, op: Op, name: str) -> "_Lines":
    operand, axis = op.operands[0], op.int("axis")
    order = Ordering(operand.dtype, op.flag("descending" if op.name == "sort" else "largest"))
    source, view = operand_in_memory(frame, operand)
    stride = row_major(op.results[0].shape)[axis]
    length, *strides = (frame.size(size) for size in (operand.shape[axis], view.strides[axis], stride))
    count = length if op.name == "sort" else frame.f.smin(frame.size(op.dim("k")), length)
    return _Lines(frame, op, name, order, source, view, length, count, *strides)


@record
class _Line:
    """One line: the addresses of its first element in the operand and in the results."""

    source: Reg
    values: Reg
    indices: Reg


@record
class _Entries:
    """What is in a heap for each element: its key and its index, in the two results, or both in a word of the second.

    One word is compared and moved in half the time, and has room for keys of up to 32 bits.
    """

    heap: Heap
    order: Ordering

    @property
    def is_packed(self) -> bool:
        return len(self.heap.words) == 1

    def arrays(self, line: _Line) -> tuple[Reg, ...]:
        """Where the heap of a line lies."""
        return (line.indices,) if self.is_packed else (line.values, line.indices)

    def entry(self, x: Reg, index: Int, f: FunctionBuilder) -> tuple[Int, ...]:
        """That of an element and its index."""
        key = self.order.key(x, f)
        if not self.is_packed:
            return key, index
        return (f.or_(f.shl(f.convert("zext", key, "i64"), INDEX_BITS), index),)

    def index(self, entry: Sequence[Reg], f: FunctionBuilder) -> Reg:
        """Where the element was."""
        return f.and_(entry[0], f.constant("i64", (1 << INDEX_BITS) - 1)) if self.is_packed else entry[1]

    def root_key(self, line: _Line, f: FunctionBuilder) -> Reg:
        """The key of what comes last."""
        root = self.heap.load(f, self.arrays(line), 0)[0]
        return register(f.convert("trunc", f.lshr(root, INDEX_BITS), self.order.element)) if self.is_packed else root


@record
class _Lines:
    """One kernel. Lines have `count` results; strides are those of a line of the operand and of the results."""

    frame: KernelFrame
    op: Op
    name: str
    order: Ordering
    source: Reg
    view: View
    length: Int
    count: Int
    source_stride: Int
    stride: Int

    @property
    def has_radix(self) -> bool:
        return self.frame.kernel.scheduled(OrderingSchedule).algorithm == "radix"

    @cached_property
    def packed(self) -> _Entries | None:
        """Entries of one word, where keys leave room for an index."""
        if self.order.key_bits > INDEX_BITS:
            return None
        return _Entries(Heap(f"{self.name}_sift_packed", ("i64",)), self.order)

    @cached_property
    def paired(self) -> _Entries | None:
        """Entries of two words, for all lines or for those too long for the others; None where there are none."""
        if self.packed is not None and isinstance(self.length, int) and self.length <= LONGEST_PACKED:
            return None
        return _Entries(Heap(f"{self.name}_sift", (self.order.element, "i64")), self.order)

    def unit(self, ordinal: Reg) -> None:
        """The results of one line."""
        f, line = self.frame.f, self._line(ordinal)
        if not self.has_radix:
            self._by_heaps(line)
            return
        fits = f.icmp("ule", f.sub(self.length, SHORTEST_RADIX), LONGEST_RADIX - SHORTEST_RADIX)
        sorts = f.and_(fits, f.icmp("eq", self.count, self.length))
        operands = (line.source, self.source_stride, line.values, line.indices, self.length)
        f.if_(sorts, lambda: f.call(f"{self.name}_radix", "void", *operands), lambda: self._by_heaps(line))

    def _by_heaps(self, line: _Line) -> None:
        f, packed, paired = self.frame.f, self.packed, self.paired
        if packed is None or paired is None:
            (only,) = (entries for entries in (packed, paired) if entries is not None)
            self._by_heap(line, only)
            return
        fits = f.icmp("ule", self.length, LONGEST_PACKED)
        f.if_(fits, lambda: self._by_heap(line, packed), lambda: self._by_heap(line, paired))

    def _line(self, ordinal: Reg) -> _Line:
        f, shape = self.frame.f, self.op.operands[0].shape
        others = [axis for axis in range(len(shape)) if axis != self.op.int("axis")]
        coordinates = self.frame.split(ordinal, [shape[axis] for axis in others])

        def offset_of(strides: Sequence[Dim], offset: Dim) -> Int:
            total = self.frame.size(offset)
            for axis, coordinate in zip(others, coordinates, strict=True):
                total = f.add(total, f.mul(coordinate, self.frame.size(strides[axis])))
            return total

        start = offset_of(row_major(self.op.results[0].shape), 0)
        values, indices = self.frame.outputs
        element = self.order.element
        return _Line(
            f.gep(self.source, offset_of(self.view.strides, self.view.offset), element),
            f.gep(values, start, element),
            f.gep(indices, start, "i64"),
        )

    # The heap

    def _by_heap(self, line: _Line, entries: _Entries) -> None:
        """The first k in a heap, whose root is the last of them; everything better replaces it; then all in order."""
        f, heap, count, stride = self.frame.f, entries.heap, self.count, self.stride
        arrays = entries.arrays(line)

        def settle(ordinal: Int) -> None:
            hole = f.sub(f.sub(f.sdiv(count, 2), 1), ordinal)
            heap.sift(f, arrays, stride, hole, count, heap.load(f, arrays, f.mul(hole, stride)))

        def take_last(ordinal: Int) -> None:
            end = f.sub(f.sub(count, 1), ordinal)
            offset = f.mul(end, stride)
            moved, root = heap.load(f, arrays, offset), heap.load(f, arrays, 0)
            heap.store(f, arrays, offset, root)
            heap.sift(f, arrays, stride, 0, end, moved)

        def fill(index: Int) -> None:
            heap.store(f, arrays, f.mul(index, stride), entries.entry(self._element(line, index), index, f))

        f.loop(0, count, 1, fill)
        f.loop(0, f.sdiv(count, 2), 1, settle)
        if self.op.name == "top_k":
            f.if_(f.icmp("sgt", count, 0), lambda: self._improve(line, entries))
        f.loop(0, f.sub(count, 1), 1, take_last)
        f.loop(0, count, 1, lambda ordinal: self._finish(line, entries, ordinal))

    def _improve(self, line: _Line, entries: _Entries) -> None:
        """Everything from place `count` on against the root, which goes where something is better."""
        f, lanes, heap, arrays = self.frame.f, self.frame.lanes, entries.heap, entries.arrays(line)

        def element(index: Int) -> None:
            x = self._element(line, index)
            better = f.icmp("ult", self.order.key(x, f), entries.root_key(line, f))
            f.if_(better, lambda: heap.sift(f, arrays, self.stride, 0, self.count, entries.entry(x, index, f)))

        def vector(start: Int) -> None:
            type = vector_type(self.order.element, lanes)
            keys = self.order.key(f.load(type, f.gep(line.source, start, self.order.element)), f)
            better = f.icmp("ult", keys, f.splat(entries.root_key(line, f), lanes))
            f.if_(f.reduce_lanes("or", better), lambda: each_set(start, better))

        def each_set(start: Int, better: Reg) -> None:
            bits = f.convert("zext", f.convert("bitcast", better, f"i{lanes}"), "i64")

            def lowest(bits: Reg) -> tuple[Int]:
                element(f.add(start, f.intrinsic("llvm.cttz.*", "i64", bits, f.constant("i1", 1))))
                return (f.and_(bits, f.sub(bits, 1)),)

            f.while_((bits,), lambda bits: f.icmp("ne", bits, 0), lowest)

        whole = self.count
        if self.source_stride == 1:
            whole = f.add(self.count, f.mul(f.udiv(f.sub(self.length, self.count), lanes), lanes))
            f.loop(self.count, whole, lanes, vector)
        f.loop(whole, self.length, 1, element)

    def _finish(self, line: _Line, entries: _Entries, ordinal: Int) -> None:
        """What the entry in a slot stands for, as the results."""
        f, offset = self.frame.f, self.frame.f.mul(ordinal, self.stride)
        own_index = entries.index(entries.heap.load(f, entries.arrays(line), offset), f)
        f.store(self._element(line, own_index), f.gep(line.values, offset, self.order.element))
        f.store(own_index, f.gep(line.indices, offset, "i64"))

    def _element(self, line: _Line, index: Int) -> Reg:
        f, element = self.frame.f, self.order.element
        return f.load(element, f.gep(line.source, f.mul(index, self.source_stride), element))
