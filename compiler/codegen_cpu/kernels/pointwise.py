"""Pointwise kernels: one value, computed element by element along its rows, in tiles where memory is crossed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from onnxc.compiler.codegen_cpu.copies import Span, copy_row
from onnxc.compiler.codegen_cpu.doubled_columns import are_doubled, doubled_pick, write_doubled, write_pairs
from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.padded_rows import framed_pad, write_framed_row, write_padded_row
from onnxc.compiler.codegen_cpu.repeated_rows import picked_again, write_or_repeat
from onnxc.compiler.codegen_cpu.schedules.elements import (
    CACHE_SETS,
    MOST_IN_A_SET,
    SMALLEST_CROSSED,
    element_domain,
)
from onnxc.compiler.codegen_cpu.short_rows import ShortRows, emit_short_rows
from onnxc.compiler.codegen_cpu.shuffles import LARGEST_SHUFFLED_STRIDE
from onnxc.compiler.codegen_cpu.squares import TurnedTile, turned_tiles
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dim_symbols import lone_symbol
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.domain import Domain, crossed_axis, is_crossed, is_uniform, substituted_domain
from onnxc.compiler.planning.loops.indices import picks_rows
from onnxc.compiler.planning.loops.inner_columns import inner_columns
from onnxc.compiler.planning.loops.merged_axes import merged_axes
from onnxc.compiler.planning.loops.views import View, operand_view, row_major
from onnxc.compiler.planning.schedules import PointwiseSchedule
from onnxc.compiler.planning.sink_movements import sink_movements
from onnxc.compiler.target import Target
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.records import record

LARGEST_FEW_COLUMNS = 4
"""Symbolic columns up to which squares have code of their own: the batches that are asked for one by one, at most."""

NARROW_BYTES = 128
"""Rows up to which squares go to the result without a tile between. Rows of 16 bytes took 0.33 times as long so, of 64
bytes 0.6 and of 96 bytes 0.8; of 256 bytes as long or longer."""


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a pointwise kernel."""
    frame = open_kernel(sink_movements(kernel), name, target)
    schedule = frame.kernel.scheduled(PointwiseSchedule)
    domain = element_domain(frame.kernel.block, schedule.ones)
    if schedule.algorithm == "squares":
        assert domain is not None, kernel
        return _emit_squares(frame, domain, schedule.block)
    if schedule.algorithm == "short":
        assert domain is not None, kernel
        return emit_short_rows(frame, domain, schedule.block)
    units, grain = _emit_rows(frame, domain, schedule.block)
    frame.f.ret()
    return KernelCode(name, (frame.f,), units, grain)


def _emit_rows(frame: KernelFrame, domain: Domain | None, row_block: int) -> tuple[Dim, Dim]:
    """Rows of the domain, or of the result, its last axes as one where that can be; (units, grain) of the work."""
    if domain is None:
        return _emit_picked_rows(frame, row_block)
    view = domain.leaves.get(frame.root)
    if view is not None and domain.shape and view.strides[-1] == 1:
        return _emit_copies(frame, domain, view, row_block)
    return _emit_computed_rows(frame, domain, row_block)


def _emit_computed_rows(frame: KernelFrame, domain: Domain, row_block: int) -> tuple[Dim, Dim]:
    """Rows of which each vector is computed; what is the same for all of a row is found once.

    LLVM does not know that what is stored is not what is read again, and leaves it where it is: the sum of f16[128, 1]
    and f16[1, 768] took 92 us so, and takes 48.
    """
    if not domain.shape:
        return write_rows(frame, domain.shape, row_block, lambda e, i: _store(frame, e, domain, i))
    repeated = {value: view for value, view in domain.leaves.items() if view.strides[-1] == 0}
    varying = replace(domain, leaves={value: view for value, view in domain.leaves.items() if value not in repeated})
    wanted = _same_along_rows(frame.kernel.block, repeated)

    def write(outer: Sequence[Index], start: Int, stop: Int) -> None:
        common, index = frame.evaluator(), (*outer, Index(start))
        _begin_row(common, domain, outer)
        common.bind_views(repeated, index)
        bound = {value: common.value(value, index) for value in wanted}

        def vector(e: Evaluator, column: Index) -> None:
            e.bound.update(bound)
            _store(frame, e, varying, (*outer, column))

        write_row(frame, start, stop, vector)

    return write_parts(frame, domain.shape, row_block, write)


def _begin_row(e: Evaluator, domain: Domain, outer: Sequence[Index]) -> None:
    """Finds where a row begins, so that its vectors only add to that."""
    for strides, first in (
        (domain.output, domain.first),
        *((view.strides, view.offset) for view in domain.leaves.values()),
    ):
        e.strided((*outer, Index()), strides, first)


def _same_along_rows(block: Block, repeated: Collection[Value]) -> tuple[Value, ...]:
    """The accesses that are `repeated` along rows and what is computed of such alone, as far as others read it."""
    same, read = dict.fromkeys(repeated), set(block.results)
    for op in block.ops:
        if PRIMITIVES[op.name].kind != "pointwise":
            continue
        constants = same.keys() & set(op.operands)
        if constants and all(operand in same or is_uniform(operand) for operand in op.operands):
            same |= dict.fromkeys(op.results)
        else:
            read |= constants
    return tuple(value for value in same if value in read)


def _emit_copies(frame: KernelFrame, domain: Domain, view: View, row_block: int) -> tuple[Dim, Dim]:
    """Rows that are copied as they lie in memory."""

    def copy(outer: Sequence[Index], start: Int, stop: Int) -> None:
        e, index = frame.evaluator(), (*outer, Index(start))
        source = Span(e.pointers[view.base], e.strided(index, view.strides, view.offset).base)
        target = Span(frame.output, e.strided(index, domain.output, domain.first).base)

        def vectors() -> None:
            write_moved_row(frame, start, stop, lambda e, i: _store(frame, e, domain, (*outer, i)))

        copy_row(frame.f, frame.root.dtype, source, target, frame.f.sub(stop, start), vectors)

    return write_parts(frame, domain.shape, row_block, copy)


_WriteRow = Callable[[Sequence[Index], Int, Int], None]
"""Writes a row, by its coordinates, from a column to another."""


def _emit_picked_rows(frame: KernelFrame, row_block: int) -> tuple[Dim, Dim]:
    """Rows of the result; what indices that are data say of a row is found once, and between paddings is no mask."""
    shape = frame.root.shape
    if not shape:
        return write_rows(frame, shape, row_block, lambda e, index: _store(frame, e, None, index))
    kept = len(shape) - merged_axes([frame.root], 0)
    merged = (Index(),) * (len(shape) - kept - 1)
    inner = None if merged else inner_columns(frame.root)
    is_wide = inner is not None and not (isinstance(inner.width, int) and inner.width < frame.lanes)

    def begin(outer: Sequence[Index]) -> Evaluator:
        """Knows what is the same for all of a row."""
        common = frame.evaluator()
        common.strided((*outer, *merged, Index()), row_major(shape))
        find_positions(common, frame.root, (*outer, *merged, Index(0, 1)))
        return common

    def write(outer: Sequence[Index], start: Int, stop: Int) -> None:
        common = begin(outer)

        def vector(e: Evaluator, column: Index) -> None:
            e.positions.update(common.positions)
            _store(frame, e, None, (*outer, *merged, column))

        whole = partial(write_row, frame, start, stop, vector)
        if inner is None or not is_wide:
            whole()
            return
        pad = framed_pad(frame.root, inner)
        if pad is None:
            write_padded_row(frame, inner, start, stop, vector, whole)
            return

        def put(e: Evaluator, column: Index, x: Reg) -> None:
            offset = e.strided((*outer, column), row_major(shape))
            e.store(to_memory(x, frame.root.dtype, frame.f), frame.output, memory_type(frame.root.dtype), offset)

        write_framed_row(frame, inner, pad, (outer, start, stop), put, whole)

    again = None if merged else picked_again(frame.root)
    pick = None if merged or frame.lanes == 1 else doubled_pick(frame.root)
    parts = partial(write_parts, frame, (*shape[:kept], product(shape[kept:])), row_block)

    def written() -> tuple[Dim, Dim]:
        return parts(write if again is None else partial(write_or_repeat, frame, again, write))

    if pick is None:
        return written()
    work = list[tuple[Dim, Dim]]()
    frame.f.if_(
        are_doubled(frame, pick.operands[1]),
        lambda: work.append(parts(_doubled(frame, pick, again, begin))),
        lambda: work.append(written()),
    )
    return work[0]


def _doubled(
    frame: KernelFrame, pick: Op, again: Value | None, begin: Callable[[Sequence[Index]], Evaluator]
) -> _WriteRow:
    """Writes rows that have each column twice; both at once where the indices `again` say that each row is there twice.

    begin: gives what is the same for all of a row.
    """

    def double(outer: Sequence[Index], start: Int, stop: Int, rows: int = 1) -> None:
        write_doubled(frame, pick.operands[0], begin(outer), outer, start, stop, rows)

    if again is None:
        return double
    are_twice = are_doubled(frame, again)

    def rows(outer: Sequence[Index], start: Int, stop: Int) -> None:
        alone = partial(write_or_repeat, frame, again, double, outer, start, stop)
        both = partial(double, outer, start, stop)
        frame.f.if_(are_twice, lambda: write_pairs(frame, outer, start, both, alone), alone)

    return rows


def find_positions(e: Evaluator, value: Value, index: Sequence[Index]) -> None:
    """Finds what indices that are data say of a row: once, and not for each of its vectors."""
    pending, seen = [value], set[Value]()
    while pending:
        value = pending.pop()
        op = value.op
        if op is None or value.rank != len(index) or value in seen:
            continue
        seen.add(value)
        if PRIMITIVES[op.name].kind == "pointwise":
            pending += reversed(op.operands)
        if picks_rows(op):
            position, _ = e.gathered(op, index)
            find_positions(e, op.operands[0], position)
        elif op.name == "gather" and op.operands[1].rank == 1:
            # Columns are picked, of a row that other indices may pick.
            _find_line(e, op.operands[0], index)


def _find_line(e: Evaluator, line: Value, index: Sequence[Index]) -> None:
    """Finds where a line begins in memory of which columns are picked."""
    op = line.op
    if op is not None and op.name == "gather" and picks_rows(op):
        _find_line(e, op.operands[0], e.gathered(op, index)[0])
    elif op is not None and op.name == "reshape":
        e.strided(index, row_major(line.shape))
    elif (view := operand_view(line)) is not None:
        e.strided(index, view.strides, view.offset)


def _store(frame: KernelFrame, e: Evaluator, domain: Domain | None, index: Sequence[Index]) -> None:
    root = frame.root
    if domain is None:
        offset = e.strided(index, row_major(root.shape))
    else:
        e.bind_views(domain.leaves, index)
        offset = e.strided(index, domain.output, domain.first)
    x = e.bound.get(root)
    x = x if x is not None else e.value(root, index)
    e.store(to_memory(x, root.dtype, frame.f), frame.output, memory_type(root.dtype), offset)


def _emit_squares(frame: KernelFrame, domain: Domain, side: int) -> KernelCode:
    """A unit is a square of rows along the crossed axis by columns along the last.

    Units go along the crossed axis first, so that what is read is mostly in order: f32[3152, 384] takes 3.3 ms,
    3.8 the other way.
    """
    f, shape, crossed = frame.f, domain.shape, crossed_axis(domain, SMALLEST_CROSSED, LARGEST_SHUFFLED_STRIDE)
    assert crossed is not None, frame.kernel
    last = len(shape) - 1
    others = [axis for axis in range(last) if axis != crossed]
    few = _few_columns(frame, domain, crossed)
    # Where columns are few, as many more rows.
    are_counted = few or isinstance(shape[last], int)
    rows: Dim = side * maximum(floordiv(side, maximum(shape[last], 1)), 1) if are_counted else side
    counts = [floordiv(shape[axis] + length - 1, length) for axis, length in ((last, side), (crossed, rows))]
    units = [shape[axis] for axis in others] + counts
    row_side = frame.size(rows)
    leaves = domain.leaves.items()
    turned = {value: view for value, view in leaves if is_crossed(view, crossed, LARGEST_SHUFFLED_STRIDE)}
    tiles = turned_tiles(frame, crossed, side, turned)

    def unit(ordinal: Reg) -> None:
        *outer, column, row = frame.split(ordinal, units)
        (first_row, row_stop), (first, stop) = (
            (f.mul(ordinal, length), f.smin(f.mul(f.add(ordinal, 1), length), frame.size(shape[axis])))
            for ordinal, axis, length in ((row, crossed, row_side), (column, last, side))
        )
        outside = dict(zip(others, outer, strict=True))
        square = _Square(frame, domain, crossed, tuple(tiles), first, stop)

        def write(choices: Sequence[ShortRows]) -> None:
            if not choices:
                f.loop(
                    first_row,
                    row_stop,
                    tiles[0].rows,
                    lambda row: square.rows(outside, row, row_stop),
                    at_least_once=True,
                )
                return
            short, *others = choices
            is_it = f.icmp("eq", frame.size(shape[last]), short.columns)
            f.if_(is_it, lambda: short.write(outer, first_row, row_stop), lambda: write(others))

        write(few)

    f.loop(frame.begin, frame.end, 1, unit, at_least_once=True)
    f.ret()
    return KernelCode(frame.f.name, (f,), product(units), frame.grain(side * side))


def _few_columns(frame: KernelFrame, domain: Domain, crossed: int) -> tuple[ShortRows, ...]:
    """The same rows for each small number of columns, where it is a symbol: such squares would be nearly empty.

    f32[N, 128, 12, 64] with the axes in the order 1, 2, 3, 0 takes 790 us by squares where N is 1, and 30 us so.
    """
    columns = domain.shape[-1]
    symbol = lone_symbol(columns)
    if crossed != len(domain.shape) - 2 or symbol is None or domain.output[crossed] != columns:
        return ()
    return tuple(
        ShortRows(frame, substituted_domain(domain, {symbol: count}), count)
        for count in range(1, LARGEST_FEW_COLUMNS + 1)
    )


@record
class _Square:
    """Columns from `first` to `stop` of a kernel that reads what lies in `tiles`, turned."""

    frame: KernelFrame
    domain: Domain
    crossed: int
    tiles: tuple[TurnedTile, ...]
    first: Int
    stop: Int

    def rows(self, outside: Mapping[int, Int], start: Int, row_stop: Int) -> None:
        """As many rows as a tile has, or up to the last."""
        f, columns, count = self.frame.f, self._whole_columns(), self.tiles[0].rows
        start = self._first(start)
        by_tiles = partial(self._rows_of_tiles, outside, start, row_stop)
        is_straight = self.frame.kernel.scheduled(PointwiseSchedule).straight
        if columns is None and not is_straight:
            by_tiles()
            return
        size = self.frame.size(self.domain.shape[self.crossed])
        if columns is None:
            conditions = [f.icmp("sge", size, count), *self._can_be_straight()]
            otherwise = partial(self._small, outside, start, by_tiles) if self._can_be_small() else by_tiles
            f.if_(f.conjunction(conditions), lambda: self._straight(outside, start), otherwise)
            return

        def write(row: Int) -> None:
            index = self._index(outside, row)
            self.tiles[0].write(index, self._target(index), columns)

        def whole() -> None:
            f.loop(start, f.add(start, count), self.frame.lanes, write)

        f.if_(f.icmp("sge", size, count), whole, by_tiles)

    @property
    def _is_move(self) -> bool:
        """Whether elements are only moved: one may be written again, for no operand can be where it lies."""
        return [tile.value for tile in self.tiles] == [self.frame.root]

    def _first(self, start: Int) -> Int:
        """Where the rows from `start` on begin: the last ones that are moved end with the axis, and are moved again in
        part, if it has as many as a tile."""
        f, size, count = self.frame.f, self.frame.size(self.domain.shape[self.crossed]), self.tiles[0].rows
        if not self._is_move:
            return start
        return f.smin(start, f.smax(f.sub(size, count), 0))

    def _can_be_straight(self) -> Sequence[Reg]:
        """Whether rows have a whole vector, and no more of them share a set of the cache than it has room for.

        More do where a row ends so close to a multiple of all sets that they begin on one line.
        """
        f, stride = self.frame.f, self.frame.size(self.domain.output[self.crossed])
        columns, lanes = self.frame.size(self.domain.shape[-1]), self.frame.lanes
        is_whole = [] if isinstance(columns, int) else [f.icmp("sge", columns, lanes)]
        if isinstance(stride, int):
            return is_whole
        near = CACHE_LINE_BYTES // MOST_IN_A_SET
        nbytes = f.add(f.mul(stride, self.frame.root.dtype.itemsize), near - 1)
        return [*is_whole, f.icmp("uge", f.and_(nbytes, CACHE_SETS * CACHE_LINE_BYTES - 1), 2 * near - 1)]

    def _straight(self, outside: Mapping[int, Int], start: Int) -> None:
        """As many rows as a tile has, from registers to the result."""
        index = self._index(outside, start)
        apart = self.frame.size(self.domain.output[self.crossed])
        self.tiles[0].write_through(index, self.stop, lambda column: self._target([*index[:-1], column]), apart)

    def _can_be_small(self) -> bool:
        """Whether fewer rows or columns than a vector has lanes may go through registers.

        Masks are to be cheap, and rows to lie side by side: of others each begins a line of the cache, which the next
        rows would push out before it is whole.
        """
        rows, columns = self.domain.shape[self.crossed], self.domain.shape[-1]
        is_square, is_known = self.tiles[0].rows == self.frame.lanes, isinstance(rows, int) and isinstance(columns, int)
        is_dense = self.domain.output[self.crossed] == columns
        return is_square and is_dense and not is_known and "avx512bw" in self.frame.f.features

    def _small(self, outside: Mapping[int, Int], start: Int, otherwise: Callable[[], None]) -> None:
        """Fewer rows or columns than a vector has lanes.

        f32[1, 128, 12, 64] of unknown sizes with its last axes exchanged takes 11.3 us so on Zen 5, and 21.4 by tiles.
        """
        f, frame, lanes = self.frame.f, self.frame, self.frame.lanes
        rows, columns = (frame.size(self.domain.shape[axis]) for axis in (self.crossed, len(self.domain.shape) - 1))
        is_small = f.icmp("slt", f.smin(rows, columns), lanes)
        index, apart = self._index(outside, start), frame.size(self.domain.output[self.crossed])

        def target(column: Int) -> Reg:
            return self._target([*index[:-1], column])

        rows = f.smin(rows, lanes)
        f.if_(is_small, lambda: self.tiles[0].write_small(index, self.stop, target, apart, rows), otherwise)

    def _target(self, index: Sequence[Int]) -> Reg:
        """Where the result has the element at an index."""
        domain, frame = self.domain, self.frame
        offset = frame.evaluator().strided(list(map(Index, index)), domain.output, domain.first).base
        return frame.f.gep(frame.output, offset, memory_type(frame.root.dtype))

    def _index(self, outside: Mapping[int, Int], row: Int) -> list[Int]:
        """Where a row of the square begins."""
        rank = len(self.domain.shape)
        return [{**outside, self.crossed: row, rank - 1: self.first}[axis] for axis in range(rank)]

    def _whole_columns(self) -> int | None:
        """The columns of rows that are only moved, lie side by side, and are narrow; None of others."""
        columns, root = self.domain.shape[-1], self.frame.root
        if not self._is_move or self.domain.output[self.crossed] != columns:
            return None
        return columns if isinstance(columns, int) and columns * root.dtype.itemsize <= NARROW_BYTES else None

    def _rows_of_tiles(self, outside: Mapping[int, Int], start: Int, row_stop: Int) -> None:
        """The rows by way of a tile for each value that is turned."""
        f, rank, count = self.frame.f, len(self.domain.shape), self.tiles[0].rows
        size = self.frame.size(self.domain.shape[self.crossed])
        is_whole = f.icmp("sge", size if self._is_move else f.sub(size, start), count)
        for tile in self.tiles:
            tile.fill(self._index(outside, start), self.stop, is_whole)

        def row(position: Int) -> None:
            outer = {**outside, self.crossed: position}
            before = [Index(outer[axis]) for axis in range(rank - 1)]
            write_row(self.frame, self.first, self.stop, lambda e, column: self._write(e, start, before, column))

        f.loop(start, f.smin(f.add(start, count), row_stop), 1, row, at_least_once=True)

    def _write(self, e: Evaluator, start: Int, before: Sequence[Index], column: Index) -> None:
        f = e.f
        for tile in self.tiles:
            row = f.sub(before[self.crossed].base, start)
            e.bound[tile.value] = tile.read(e, row, Index(f.sub(column.base, self.first), column.step))
        turned = {tile.value for tile in self.tiles}
        rest = {value: view for value, view in self.domain.leaves.items() if value not in turned}
        _store(self.frame, e, replace(self.domain, leaves=rest), (*before, column))


def write_rows(
    frame: KernelFrame, shape: Sequence[Dim], row_block: int, write: Callable[[Evaluator, Sequence[Index]], None]
) -> tuple[Dim, Dim]:
    """Loops over a box, vectors along its last axis, a masked one at the end of a row; (units, grain) of the work.

    row_block: the most elements of a row in a unit.
    """

    def part(outer: Sequence[Index], start: Int, stop: Int) -> None:
        write_row(frame, start, stop, lambda e, column: write(e, (*outer, column) if shape else ()))

    return write_parts(frame, shape, row_block, part)


def write_parts(
    frame: KernelFrame, shape: Sequence[Dim], row_block: int, write: Callable[[Sequence[Index], Int, Int], None]
) -> tuple[Dim, Dim]:
    """write(outer, start, stop) for parts of the rows of a box, a unit of work each, and the coordinates before.

    The first part of each row comes before the second of any: mostly there is one, and rows are the loop inside.
    """
    f = frame.f
    rows, length = tuple(shape[:-1]), shape[-1] if shape else 1
    blocks = floordiv(length + row_block - 1, row_block)

    def unit(block: Int, *row: Int) -> None:
        start = f.mul(block, row_block)
        stop = frame.size(length) if blocks == 1 else f.smin(f.add(start, row_block), frame.size(length))
        write(tuple(map(Index, row)), start, stop)

    frame.each_unit((blocks, *rows), unit)
    return product(rows) * blocks, frame.grain(minimum(length, row_block))


def write_row(frame: KernelFrame, start: Int, stop: Int, write: Callable[[Evaluator, Index], None]) -> None:
    """`write` at vectors of columns from `start` to `stop`, several together while there are, the last one masked."""
    f, lanes = frame.f, frame.lanes
    together = lanes * frame.threads.together
    for step in dict.fromkeys((together, lanes)):
        whole = f.add(start, f.mul(f.sdiv(f.sub(stop, start), step), step))
        f.loop(start, whole, step, lambda column, step=step: write(frame.evaluator(step), Index(column, 1)))
        start = whole
    rest = f.sub(stop, whole)
    if rest == 0:
        return
    if rest == 1:
        write(frame.evaluator(lanes=1), Index(whole, 0))
        return

    def tail() -> None:
        write(frame.evaluator(mask=f.tail_mask(lanes, rest)), Index(whole, 1))

    f.if_(f.icmp("sgt", rest, 0), tail)


def write_moved_row(frame: KernelFrame, start: Int, stop: Int, write: Callable[[Evaluator, Index], None]) -> None:
    """As `write_row` for elements that are only moved: of a row of unknown length the last vector writes some again.

    Slices of 8 f32 take 0.8 of the time that they take with a masked vector behind the others, of 33 0.75, of 60 0.8.
    """
    f, lanes, count = frame.f, frame.lanes, frame.f.sub(stop, start)
    if isinstance(count, int):
        write_row(frame, start, stop, write)
        return

    def whole() -> None:
        last = f.sub(stop, lanes)
        f.loop(start, last, lanes, lambda column: write(frame.evaluator(), Index(column, 1)))
        write(frame.evaluator(), Index(last, 1))

    def few() -> None:
        write(frame.evaluator(mask=f.tail_mask(lanes, count)), Index(start, 1))

    f.if_(f.icmp("sge", count, lanes), whole, few)
