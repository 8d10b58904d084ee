"""Ordering: the elements of each line in order, or the best k of them, and where each was.

The best k are kept in a heap that lies in the results. Long lines that are sorted whole, into dense results, go by
radix sort, as do many that were found to be the best. The best few of short lines are kept in registers, of as many
lines at once as there are lanes. A unit of work is one line, or the lines of a vector.
"""

from collections.abc import Sequence
from functools import cached_property

from onnxc.compiler.codegen_cpu.heaps import Heap
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.ordered_lanes import OrderedLanes
from onnxc.compiler.codegen_cpu.rank_limits import limit_function
from onnxc.compiler.codegen_cpu.schedules.orders import (
    FEWEST_CHOSEN,
    LEAST_FULL,
    LONGEST_RADIX,
    NARROWEST_CHOICE,
    WIDEST_CHOICE,
    fewest_by_digits,
    shortest_by_digits,
)
from onnxc.compiler.codegen_cpu.sorting import Ordering, radix_function
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load, masked_store
from onnxc.compiler.codegen_host.llvm_values import FALSE, Int, Reg, as_reg, register, vector_type
from onnxc.compiler.ir.dims import Dim, floordiv, product
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
    helpers = [entries.heap.function() for entries in (lines.packed, lines.paired) if entries is not None]
    if lines.has_limit:
        helpers.append(limit_function(lines.limit_name, lines.order, frame.lanes))
    if lines.algorithm == "radix":
        helpers.append(radix_function(f"{name}_radix", lines.order))
    if lines.has_digits:
        helpers.append(radix_function(lines.chosen_name, lines.order, is_chosen=True))
    work = op.operands[0].shape[op.int("axis")] * COMPARISONS
    units, work = (lines.groups, work * frame.lanes) if lines.algorithm == "lanes" else (lines.sizes, work)
    return KernelCode(name, (frame.f, *helpers), product(units), frame.grain(work))


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
    def algorithm(self) -> str:
        """How lines are ordered."""
        return self.frame.kernel.scheduled(OrderingSchedule).algorithm

    @property
    def has_limit(self) -> bool:
        """Whether it may pay to find a limit first: the best many of dense lines."""
        is_dense = self.op.name == "top_k" and self.source_stride == 1
        return is_dense and not (isinstance(self.count, int) and self.count < FEWEST_CHOSEN)

    @property
    def has_digits(self) -> bool:
        """Whether it may pay to sort the best by their digits: many, into dense results."""
        is_dense = self.op.name == "top_k" and self.stride == 1 and self.algorithm != "lanes"
        return is_dense and not (isinstance(self.count, int) and self.count < self._fewest_by_digits)

    @property
    def _fewest_by_digits(self) -> int:
        return fewest_by_digits(self.order.key_bits)

    @property
    def chosen_name(self) -> str:
        return f"{self.name}_radix_chosen"

    @property
    def limit_name(self) -> str:
        return f"{self.name}_limit"

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The axes along which lines lie side by side, that of the lanes last."""
        lane_axis = self.frame.kernel.scheduled(OrderingSchedule).lane_axis
        others = (axis for axis in range(self.op.operands[0].rank) if axis != self.op.int("axis"))
        return tuple(sorted(others, key=lambda axis: axis == lane_axis))

    @cached_property
    def sizes(self) -> tuple[Dim, ...]:
        """How many lines there are along each of these."""
        return tuple(self.op.operands[0].shape[axis] for axis in self.others)

    @cached_property
    def groups(self) -> tuple[Dim, ...]:
        """The same where as many lines of the last of these axes are taken together as there are lanes."""
        *outer, last = self.sizes
        return (*outer, floordiv(last + self.frame.lanes - 1, self.frame.lanes))

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
        """The results of one line, or of the lines of a vector."""
        if self.algorithm == "lanes":
            self._group(ordinal)
            return
        f, line = self.frame.f, self._line(self.frame.split(ordinal, self.sizes))
        if self.algorithm == "heap":
            self._by_heaps(line)
            return
        shortest = shortest_by_digits(self.op.operands[0].dtype)
        fits = f.icmp("ule", f.sub(self.length, shortest), LONGEST_RADIX - shortest)
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

    def _line(self, coordinates: Sequence[Int]) -> _Line:
        """The line at coordinates along `others`."""
        f = self.frame.f

        def offset_of(strides: Sequence[Dim], offset: Dim) -> Int:
            total = self.frame.size(offset)
            for axis, coordinate in zip(self.others, coordinates, strict=True):
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

    # Several lines

    def _group(self, ordinal: Reg) -> None:
        """The lines of a vector together, or one after another where they are few."""
        frame, f, lanes = self.frame, self.frame.f, self.frame.lanes
        *outer, group = frame.split(ordinal, self.groups)
        first = f.mul(group, lanes)
        left = f.smin(f.sub(frame.size(self.sizes[-1]), first), lanes)

        def together(mask: Reg | None) -> None:
            self._by_lanes(self._line((*outer, first)), mask)

        def one_by_one() -> None:
            f.loop(0, left, 1, lambda ahead: self._by_heaps(self._line((*outer, f.add(first, ahead)))))

        def part() -> None:
            are_many = f.icmp("sge", left, lanes // LEAST_FULL)
            f.if_(are_many, lambda: together(f.tail_mask(lanes, left)), one_by_one)

        f.if_(f.icmp("eq", left, lanes), lambda: together(None), part)

    def _by_lanes(self, line: _Line, mask: Reg | None) -> None:
        """The best of a line and of its neighbours along the last of the other axes, in the lanes of a mask."""
        frame, f, lanes, element, axis = self.frame, self.frame.f, self.frame.lanes, self.order.element, self.others[-1]
        beside = frame.size(self.view.strides[axis])
        beside_results = frame.size(row_major(self.op.results[0].shape)[axis])
        i64_lanes, type = vector_type("i64", lanes), vector_type(element, lanes)
        ids = f.lane_ids(i64_lanes)
        lines = f.mul(ids, f.splat(as_reg(beside), lanes))
        result_lines = f.mul(ids, f.splat(as_reg(beside_results), lanes))

        def read(position: Int) -> Reg:
            address = f.gep(line.source, f.mul(position, self.source_stride), element)
            if beside == 1:
                return f.load(type, address) if mask is None else masked_load(f, type, address, mask)
            return f.gather(type, address, lines, mask)

        def write(x: Reg, address: Reg) -> None:
            if beside_results != 1:
                f.scatter(x, address, result_lines, mask)
            elif mask is None:
                f.store(x, address)
            else:
                masked_store(f, x, address, mask)

        count = self.op.results[0].shape[self.op.int("axis")]
        assert isinstance(count, int), count
        for ordinal, narrow in enumerate(OrderedLanes(f, self.order, count, self.length, read).indices()):
            index = register(f.convert("zext", narrow, i64_lanes))
            offsets = f.add(lines, f.mul(index, f.splat(as_reg(self.source_stride), lanes)))
            offset = f.mul(ordinal, self.stride)
            write(f.gather(type, line.source, offsets, mask), f.gep(line.values, offset, element))
            write(index, f.gep(line.indices, offset, "i64"))

    # The heap

    def _by_heap(self, line: _Line, entries: _Entries) -> None:
        """The first k in a heap, whose root is the last of them; everything better replaces it; then all in order.

        Where many are wanted, they are the first k of those that may be among the best.
        """
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

        def first() -> Sequence[Int]:
            f.loop(0, count, 1, lambda index: self._put(line, entries, index, index))
            return (count,)

        behind = f.if_(self._is_limited(), lambda: (self._fill_below_limit(line, entries),), first)[0]
        f.loop(0, f.sdiv(count, 2), 1, settle)
        if self.op.name == "top_k":
            f.if_(f.icmp("sgt", count, 0), lambda: self._improve(line, entries, behind))

        def in_turn() -> None:
            f.loop(0, f.sub(count, 1), 1, take_last)
            f.loop(0, count, 1, lambda ordinal: self._finish(line, entries, ordinal))

        if not self.has_digits:
            in_turn()
            return
        are_many, fits = f.icmp("sge", count, self._fewest_by_digits), f.icmp("ule", self.length, LONGEST_RADIX)
        f.if_(f.and_(are_many, fits), lambda: self._by_digits(line, entries), in_turn)

    def _by_digits(self, line: _Line, entries: _Entries) -> None:
        """The indices of what is in the heap, from the first to the last, in its place; then all in order.

        These are of the elements that are no worse than the root, and of such that equal it up to where it was.
        """
        f, lanes = self.frame.f, self.frame.lanes
        root_key = entries.root_key(line, f)
        root = entries.index(entries.heap.load(f, entries.arrays(line), 0), f)
        behind = f.add(root, 1)

        def put(index: Int, filled: Int) -> Int:
            narrow = register(f.convert("trunc", as_reg(index), "i32"))
            f.store(narrow, f.gep(line.indices, filled, "i32"))
            return f.add(filled, 1)

        def vector(start: Int, filled: Int) -> Sequence[Int]:
            type = vector_type(self.order.element, lanes)
            keys = self.order.key(f.load(type, f.gep(line.source, start, self.order.element)), f)
            limit, until = f.splat(root_key, lanes), f.tail_mask(lanes, f.sub(behind, start))
            chosen = f.or_(f.icmp("ult", keys, limit), f.and_(f.icmp("eq", keys, limit), until))
            bits = f.convert("zext", f.convert("bitcast", chosen, f"i{lanes}"), "i64")

            def lowest(bits: Reg, filled: Reg) -> Sequence[Int]:
                index = f.add(start, f.intrinsic("llvm.cttz.*", "i64", bits, f.constant("i1", 1)))
                return f.and_(bits, f.sub(bits, 1)), put(index, filled)

            return f.while_((bits, filled), lambda bits, _: f.icmp("ne", bits, 0), lowest)[1:]

        def element(index: Int, filled: Int) -> Sequence[Int]:
            key = self.order.key(self._element(line, index), f)
            is_equal = f.and_(f.icmp("eq", key, root_key), f.icmp("ule", index, root))
            is_chosen = f.or_(f.icmp("ult", key, root_key), is_equal)
            return f.if_(is_chosen, lambda: (put(index, filled),), lambda: (filled,))

        whole: Int = f.mul(f.udiv(self.length, lanes), lanes) if self.source_stride == 1 else 0
        filled = f.loop(0, whole, lanes, vector, (0,)) if self.source_stride == 1 else (0,)
        f.loop(whole, self.length, 1, element, filled)
        operands = (line.source, self.source_stride, line.values, line.indices, self.count)
        f.call(self.chosen_name, "void", *operands)

    def _is_limited(self) -> Reg:
        """Whether it pays to find a limit first, and its counts fit their 32 bits."""
        f, count, length = self.frame.f, self.count, self.length
        if not self.has_limit:
            return FALSE
        is_narrow = f.icmp("slt", length, f.mul(count, WIDEST_CHOICE))
        has_room = f.icmp("sge", length, f.mul(count, NARROWEST_CHOICE))
        is_counted = f.icmp("ule", length, LONGEST_RADIX)
        return f.conjunction([is_narrow, has_room, is_counted, f.icmp("sge", count, FEWEST_CHOSEN)])

    def _put(self, line: _Line, entries: _Entries, index: Int, slot: Int) -> None:
        """The entry of an element, into a slot of the heap."""
        f = self.frame.f
        entry = entries.entry(self._element(line, index), index, f)
        entries.heap.store(f, entries.arrays(line), f.mul(slot, self.stride), entry)

    def _fill_below_limit(self, line: _Line, entries: _Entries) -> Int:
        """The first k elements up to a limit, into the heap; the position behind the last of them."""
        f, lanes, element = self.frame.f, self.frame.lanes, self.order.element
        limit = f.call(self.limit_name, element, line.source, self.length, self.count)
        type = vector_type(element, lanes)

        def vector(start: Reg, filled: Reg, _: Reg) -> Sequence[Int]:
            at = f.smin(start, f.sub(self.length, lanes))
            keys = self.order.key(f.load(type, f.gep(line.source, at, element)), f)
            below = f.convert("bitcast", f.icmp("ule", keys, f.splat(limit, lanes)), f"i{lanes}")
            bits = f.and_(f.convert("zext", below, "i64"), f.shl(f.constant("i64", -1), f.sub(start, at)))

            def lowest(bits: Reg, filled: Reg, _: Reg) -> Sequence[Int]:
                index = f.add(at, f.intrinsic("llvm.cttz.*", "i64", bits, f.constant("i1", 1)))
                self._put(line, entries, index, filled)
                return f.and_(bits, f.sub(bits, 1)), f.add(filled, 1), f.add(index, 1)

            def goes_on(bits: Reg, filled: Reg, _: Reg) -> Reg:
                return f.and_(f.icmp("ne", bits, 0), f.icmp("slt", filled, self.count))

            _, filled, behind = f.while_((bits, filled, 0), goes_on, lowest)
            return f.add(at, lanes), filled, behind

        *_, behind = f.while_((0, 0, 0), lambda _, filled, __: f.icmp("slt", filled, self.count), vector)
        return behind

    def _improve(self, line: _Line, entries: _Entries, behind: Int) -> None:
        """Everything from place `behind` on against the root, which goes where something is better."""
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

        whole = behind
        if self.source_stride == 1:
            whole = f.add(behind, f.mul(f.udiv(f.sub(self.length, behind), lanes), lanes))
            f.loop(behind, whole, lanes, vector)
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
