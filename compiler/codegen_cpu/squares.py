"""Values whose memory a kernel crosses: squares of them are turned in registers, into a tile that lies as rows do.

A vector goes along the axis that is dense in memory, or would be if some elements were not left out; as many of them as
it has lanes are a square, whose rows, turned, go along the last axis. The tile is as many rows as a line of the cache
has elements, so that all of a line is used while it is there: lines 4096 bytes apart share a set, and push each other
out. It stays in the nearest cache. Where the lines of the result are known not to do so, they are written from the
registers.
"""

from collections.abc import Callable, Mapping, Sequence

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.inner_loops.turned_squares import load_turned, turn_square
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_cpu.schedules.elements import tile_rows
from onnxc.compiler.codegen_cpu.shuffles import load_strided
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load, masked_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.loops.views import View
from onnxc.runtime.records import record


@record
class TurnedTile:
    """A tile of `rows` by `side` columns of a value that is the view of a buffer, close along the axis `crossed`."""

    frame: KernelFrame
    value: Value
    view: View
    crossed: int
    rows: int
    side: int
    tile: Reg

    def fill(self, index: Sequence[Int], stop: Int, is_whole: Reg) -> None:
        """Turns the squares from an index on into the tile; `stop` bounds the columns.

        is_whole: whether the axis has as many rows from there on; else those that there are are turned.
        """
        f, lanes, first, last = self.frame.f, self.frame.lanes, index[-1], self.frame.f.sub(stop, 1)
        left = f.sub(self.frame.size(self.view.shape[self.crossed]), index[self.crossed])

        def square(column: Int, ahead: Int, mask: Reg | None) -> None:
            # Columns behind the last are read as it again: the tile has room for them.
            starts = [f.smin(f.add(column, lane), last) for lane in range(lanes)]
            addresses = [self._source(index, ahead, start) for start in starts]
            for lane, row in enumerate(self._turned(addresses, mask)):
                f.store(row, self._address(f.sub(column, first), f.add(ahead, lane)))

        def whole(column: Int) -> None:
            f.loop(0, self.rows, lanes, lambda ahead: square(column, ahead, None))

        def part(column: Int) -> None:
            f.loop(0, left, lanes, lambda ahead: square(column, ahead, f.tail_mask(lanes, f.sub(left, ahead))))

        def columns(body: Callable[[Int], None]) -> None:
            f.loop(first, stop, lanes, body, at_least_once=True)

        f.if_(is_whole, lambda: columns(whole), lambda: columns(part))

    def write(self, index: Sequence[Int], target: Reg, columns: int) -> None:
        """Turns squares from an index on into whole rows at `target`, as many as a vector has lanes, side by side."""
        f, lanes, memory = self.frame.f, self.frame.lanes, memory_type(self.value.dtype)
        mask = None if columns >= lanes else f.tail_mask(lanes, columns)
        # The last square begins where it ends with the row, and writes some elements again.
        for first in (*range(0, columns - lanes, lanes), max(columns - lanes, 0)):
            starts = [f.add(index[-1], min(first + lane, columns - 1)) for lane in range(lanes)]
            addresses = [self._source(index, 0, start) for start in starts]
            for lane, row in enumerate(self._turned(addresses, None)):
                address = f.gep(target, lane * columns + first, memory)
                f.store(row, address) if mask is None else masked_store(f, row, address, mask)

    def write_through(self, index: Sequence[Int], stop: Int, target: Callable[[Int], Reg], apart: Int) -> None:
        """Turns squares from an index on into as many rows as the tile has, whose columns end at `stop`.

        target(column): where the element of the first row is written; rows are `apart`. There are columns for a vector.
        """
        f, lanes = self.frame.f, self.frame.lanes
        memory = memory_type(self.value.dtype)

        def columns(column: Int) -> None:
            # The last square ends with the row, and writes some elements again.
            first = f.smin(column, f.sub(stop, lanes))
            row = target(first)
            for ahead in range(0, self.rows, lanes):
                source = self._source(index, ahead, first)
                addresses = _in_steps(f, source, self.frame.size(self.view.strides[-1]), lanes, memory)
                *rows, row = _in_steps(f, row, apart, lanes + 1, memory)
                for turned, address in zip(self._turned(addresses, None), rows, strict=True):
                    f.store(turned, address)

        f.loop(index[-1], stop, lanes, columns, at_least_once=True)

    def write_small(self, index: Sequence[Int], stop: Int, target: Callable[[Int], Reg], apart: Int, rows: Int) -> None:
        """As `write_through`, of fewer `rows` than a vector has lanes, or fewer columns, or both."""
        f, lanes = self.frame.f, self.frame.lanes
        last_column, last_row, memory = f.sub(stop, 1), f.sub(rows, 1), memory_type(self.value.dtype)
        exist = f.tail_mask(lanes, rows)

        def columns(column: Int) -> None:
            first = f.smin(column, f.smax(f.sub(stop, lanes), index[-1]))
            addresses = [self._source(index, 0, f.smin(f.add(first, lane), last_column)) for lane in range(lanes)]
            turned, mask, begin = self._turned(addresses, exist), f.tail_mask(lanes, f.sub(stop, first)), target(first)
            # What is behind the last row goes where that does, before it.
            for lane in reversed(range(lanes)):
                address = f.gep(begin, f.mul(f.smin(lane, last_row), apart), memory)
                masked_store(f, turned[lane], address, mask)

        f.loop(index[-1], stop, lanes, columns, at_least_once=True)

    def _turned(self, addresses: Sequence[Reg], mask: Reg | None) -> list[Reg]:
        """The rows of as many columns as a vector has lanes, which begin at these addresses."""
        f, apart = self.frame.f, self.view.strides[self.crossed]
        if mask is None and apart == 1:
            return load_turned(f, addresses, memory_type(self.value.dtype))
        return turn_square(f, [self._load(address, mask) for address in addresses])

    def _source(self, index: Sequence[Int], ahead: Int, column: Int) -> Reg:
        """Where a column of the rows from those of the index and so many more on begins."""
        f, view, e, at = self.frame.f, self.view, self.frame.evaluator(), [*index[:-1], column]
        at[self.crossed] = f.add(at[self.crossed], ahead)
        offset = e.strided([*map(Index, at)], view.strides, view.offset)
        return f.gep(e.pointers[view.base], offset.base, memory_type(self.value.dtype))

    def _load(self, address: Reg, mask: Reg | None) -> Reg:
        """A vector of a column, of rows from an address on."""
        f, lanes, memory = self.frame.f, self.frame.lanes, memory_type(self.value.dtype)
        vector, apart = vector_type(memory, lanes), self.view.strides[self.crossed]
        assert isinstance(apart, int), self.view
        if mask is not None and apart == 1:
            return masked_load(f, vector, address, mask, passthru=f.constant(vector, 0))
        return load_strided(f, vector, address, apart, mask)

    def _address(self, column: Int, row: Int) -> Reg:
        f = self.frame.f
        return f.gep(self.tile, f.add(f.mul(row, self.side), column), memory_type(self.value.dtype))

    def read(self, e: Evaluator, row: Int, column: Index) -> Reg:
        """The value in a row of the tile, at a column from its first on."""
        return e.load(self.value, self.tile, Index(e.f.add(e.f.mul(row, self.side), column.base), column.step))


def _in_steps(f: FunctionBuilder, first: Reg, apart: Int, count: int, memory: str) -> list[Reg]:
    """So many addresses, each as many elements behind the one before: LLVM would multiply for each of them."""
    addresses = [first]
    while len(addresses) < count:
        addresses.append(f.gep(addresses[-1], apart, memory))
    return addresses


def turned_tiles(frame: KernelFrame, crossed: int, side: int, leaves: Mapping[Value, View]) -> Sequence[TurnedTile]:
    """Tiles for values, on the stack, all of as many rows as the longest line of them has elements, if a side has."""
    size = next(iter(leaves.values())).shape[crossed]
    rows = tile_rows(size, side, frame.lanes, [value.dtype for value in leaves])
    return [
        TurnedTile(frame, value, view, crossed, rows, side, frame.f.alloca(memory_type(value.dtype), rows * side))
        for value, view in leaves.items()
    ]
