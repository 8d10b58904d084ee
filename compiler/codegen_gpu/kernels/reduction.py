"""Reductions and normalisations: a tile of rows by columns, folded along the columns.

A composite is decomposed first; what is left is pointwise ops over whole rows, folds of rows, and pointwise ops on what
the folds gave. Rows that fit a tile are read once and stay in registers; longer ones, and those whose length only a
call decides, are gone through once for each fold and once for the result. Where there are few long rows and one value
is wanted for each, several programs share a row and a second launch folds their parts, always in the same order.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.schedules.reductions import part_type, rows_of
from onnxc.compiler.codegen_gpu.source.arranged_results import offset_in_result
from onnxc.compiler.codegen_gpu.source.element_types import register_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.row_folds import COLUMNS, ROWS, fold_columns
from onnxc.compiler.codegen_gpu.source.scalars import literal, table_of
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, unravel
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import BOOL, I64, DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.rows import Rows, identity
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import ReductionSchedule, Tile
from onnxc.compiler.target import Target
from onnxc.runtime.records import record


def is_native(op: Op) -> bool:
    """Whether a fold has a kernel: the bits of integers are not folded."""
    return op.text("kind") not in ("and", "or") or op.operands[0].dtype == BOOL


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a reduction kernel."""
    rows, schedule = rows_of(kernel.block), kernel.scheduled(ReductionSchedule)
    tiles = _RowTiles(open_kernel(kernel, target, rank=2), rows, schedule.tile, schedule.split)
    if schedule.split == 1:
        return tiles.emit()
    frame = open_kernel(kernel, target, rank=2)
    total = _RowTiles(frame, rows, frame.joining.tile, schedule.split)
    return KernelCode((tiles.emit_partial(), total.emit_total()), element_counts(kernel))


@dataclass
class _RowTiles:
    """One launch: a program takes a tile of rows, or one of the `parts` of it, and goes through tiles of columns."""

    frame: KernelFrame
    rows: Rows
    tile: Tile
    parts: int = 1

    def __post_init__(self) -> None:
        rows = self.rows
        self.row_count = product(rows.shape[axis] for axis in rows.kept)
        self.column_count = product(rows.shape[axis] for axis in rows.axes)
        self.tile_rows, self.tile_columns = self.tile.rows, self.tile.columns
        count = self.column_count
        self.fits = isinstance(count, int) and count <= self.tile_columns
        self.tiles = floordiv(self.row_count + self.tile_rows - 1, self.tile_rows)
        self.start: Int = 0
        self.stop: Int | None = None

    def _set_rows(self, tile: Int) -> Int:
        """The rows of a tile: which they are, and which of them exist."""
        frame, b = self.frame, self.frame.b
        row = b.add(b.mul(tile, self.tile_rows), b.lanes(ROWS, self.tile_rows))
        self.row_masks: dict[int, Expr] = {}
        if not (isinstance(self.row_count, int) and self.row_count % self.tile_rows == 0):
            self.row_masks[ROWS] = b.compare(row, "<", frame.size(self.row_count))
        self.kept = unravel(b, row, [frame.size(self.rows.shape[axis]) for axis in self.rows.kept])
        return row

    def emit(self) -> KernelCode:
        """The whole kernel."""
        self._set_rows(self.frame.b.program())
        bound: dict[Value, Expr] = {}
        once = self._tile_at(0) if self.fits else None
        for fold in self.rows.folds:
            folded = self._arg_fold(fold, once, bound) if fold.name == "arg_reduce" else self._fold(fold, once, bound)
            bound[fold.results[0]] = folded
            if once is not None:
                once.e.bound[fold.results[0]] = folded
        if self.rows.writes_rows:
            self._write_rows(once, bound)
        else:
            self._write_folds(bound)
        return self.frame.code((self.tiles,))

    def emit_partial(self) -> DeviceStep:
        """The launch that folds the parts of rows."""
        frame, b = self.frame, self.frame.b
        tile, part = unravel(b, b.program(), [frame.size(self.tiles), self.parts])
        row = self._set_rows(tile)
        length = self.parts * self.tile_columns
        per_part = frame.size(floordiv(self.column_count + length - 1, length) * self.tile_columns)
        self.start = b.mul(part, per_part)
        self.stop = b.minimum(b.add(self.start, per_part), frame.size(self.column_count))
        (fold,) = self.rows.folds
        e = frame.evaluator({ROWS: b.lanes(ROWS, self.tile_rows)}, self.row_masks)
        offset = b.add(b.mul(row, self.parts), part)
        dtype = part_type(fold)
        if fold.name == "arg_reduce":
            extremum, position = self._extremum_and_position(fold, None, {})
            e.store(position, I64, self._positions(dtype), offset)
        else:
            extremum = self._fold(fold, None, {})
        e.store(extremum, dtype, frame.scratch("parts", dtype), offset)
        return frame.step((self.tiles * self.parts,))

    def emit_total(self) -> DeviceStep:
        """The launch that folds the parts, which lie side by side, and writes what is computed from the fold."""
        frame, b = self.frame, self.frame.b
        row, part = self._set_rows(b.program()), b.lanes(COLUMNS, self.parts)
        (fold,) = self.rows.folds
        dtype, kind = part_type(fold), fold.text("kind")
        e = frame.evaluator({ROWS: b.lanes(ROWS, self.tile_rows), COLUMNS: part}, self.row_masks)
        offset = b.add(b.mul(row, self.parts), part)
        x = e.load(dtype, frame.scratch("parts", dtype), offset)
        folded = fold_columns(b, kind, fold.operands[0].dtype, x)
        if fold.name == "arg_reduce":
            ends, none = _tie_rule(fold)
            position = e.load(I64, self._positions(dtype), offset)
            hit = b.let(f"tl.where({_is_same(x, folded, dtype)}, {position}, {none})", position.dims)
            folded = self._first_if_none(fold_columns(b, ends, I64, hit), none)
        self._write_folds({fold.results[0]: folded})
        return frame.step((self.tiles,), frame.joining.workers)

    def _positions(self, dtype: DType) -> Expr:
        """Where the places of extrema lie that parts of rows have: behind the extrema."""
        return self.frame.scratch("places", I64, self.parts * self.row_count * dtype.itemsize)

    # Tiles

    def _tile_at(self, start: Int, bound: Mapping[Value, Expr] | None = None) -> "_Tile":
        """The tile of columns from `start` on."""
        frame, b = self.frame, self.frame.b
        lanes = {ROWS: b.lanes(ROWS, self.tile_rows), COLUMNS: b.lanes(COLUMNS, self.tile_columns)}
        column = b.add(start, lanes[COLUMNS])
        masks = dict(self.row_masks)
        is_whole = isinstance(self.column_count, int) and self.column_count % self.tile_columns == 0
        if not is_whole or self.column_count == 0:
            masks[COLUMNS] = b.compare(column, "<", frame.size(self.column_count))
        folded = unravel(b, column, [frame.size(self.rows.shape[axis]) for axis in self.rows.axes])
        e = frame.evaluator(lanes, masks)
        e.bound.update(bound or {})
        return _Tile(e, self._index(folded), column)

    def _index(self, folded: Sequence[Int]) -> list[Int]:
        positions = dict(zip((*self.rows.kept, *self.rows.axes), (*self.kept, *folded), strict=True))
        return [positions[axis] for axis in range(len(self.rows.shape))]

    def _pieces(self) -> AbstractContextManager[Expr]:
        """The loop over tiles of columns."""
        stop = self.frame.size(self.column_count) if self.stop is None else self.stop
        return self.frame.b.loop(self.start, stop, self.tile_columns, prefix="column")

    def _filled(self, x: Expr, tile: "_Tile", value: float, dtype: DType) -> Expr:
        """`x` in every lane of the tile, `value` behind the end of a row."""
        b, mask = self.frame.b, tile.e.masks.get(COLUMNS)
        filling = literal(b, value, dtype)
        if mask is None and x.dims == {ROWS, COLUMNS}:
            return x
        lanes = f"({tile.e.lanes[ROWS]} >= 0) & " if ROWS not in x.dims else ""
        inside = mask if mask is not None else b.compare(tile.e.lanes[COLUMNS], ">=", 0)
        return b.let(f"tl.where({lanes}{inside}, {x}, {filling})", frozenset((ROWS, COLUMNS)))

    # Folds

    def _fold(self, fold: Op, once: "_Tile | None", bound: Mapping[Value, Expr]) -> Expr:
        b, kind, operand = self.frame.b, fold.text("kind"), fold.operands[0]
        dtype, start = operand.dtype, identity(fold.text("kind"), operand.dtype)
        if once is not None:
            return fold_columns(b, kind, dtype, self._filled(once.value(operand), once, start, dtype))
        total = self._accumulator(start, dtype)
        with self._pieces() as column:
            tile = self._tile_at(column, bound)
            x = self._filled(tile.value(operand), tile, start, dtype)
            b.assign(total, table_of(dtype)[_COMBINES.get(kind, kind)](b, dtype, total, x).text)
        return fold_columns(b, kind, dtype, total)

    def _accumulator(self, start: float, dtype: DType) -> Expr:
        b, shape = self.frame.b, f"[{self.tile_rows}, {self.tile_columns}]"
        zeros = f"tl.zeros({shape}, {register_type(dtype)})"
        return b.variable(
            f"{zeros} + {literal(b, start, dtype)}" if dtype != BOOL else f"{zeros} | {literal(b, start, dtype)}",
            frozenset((ROWS, COLUMNS)),
        )

    def _arg_fold(self, fold: Op, once: "_Tile | None", bound: Mapping[Value, Expr]) -> Expr:
        """The place of the extremum; of the first NaN, or the last, where there is one."""
        return self._first_if_none(self._extremum_and_position(fold, once, bound)[1], _tie_rule(fold)[1])

    def _first_if_none(self, position: Expr, none: int) -> Expr:
        return self.frame.b.let(f"tl.where({position} == {none}, 0, {position})", position.dims)

    def _extremum_and_position(self, fold: Op, once: "_Tile | None", bound: Mapping[Value, Expr]) -> tuple[Expr, Expr]:
        """The extremum of each row, and its place; of a row without elements what stands for none."""
        b, operand, kind = self.frame.b, fold.operands[0], fold.text("kind")
        dtype, start = operand.dtype, identity(kind, operand.dtype)
        ends, none = _tie_rule(fold)

        def position_in(tile: _Tile, extremum: Expr) -> Expr:
            x = tile.value(operand)
            same = b.let(f"{_is_same(x, extremum, dtype)}.to(tl.int1)", x.dims | extremum.dims)
            hit = self._filled(same, tile, False, BOOL)
            wide = tile.e.spread(tile.column, frozenset((ROWS, COLUMNS)))
            return b.let(f"tl.where({hit}, {wide}.to(tl.int64), {none})", hit.dims)

        if once is not None:
            filled = self._filled(once.value(operand), once, start, dtype)
            extremum = fold_columns(b, kind, dtype, filled)
            return extremum, fold_columns(b, ends, I64, position_in(once, extremum))
        total = self._accumulator(start, dtype)
        with self._pieces() as column:
            tile = self._tile_at(column, bound)
            x = self._filled(tile.value(operand), tile, start, dtype)
            b.assign(total, table_of(dtype)[kind](b, dtype, total, x).text)
        extremum = fold_columns(b, kind, dtype, total)
        position = self._accumulator(none, I64)
        with self._pieces() as column:
            b.assign(position, f"tl.{ends}imum({position}, {position_in(self._tile_at(column, bound), extremum)})")
        return extremum, fold_columns(b, ends, I64, position)

    # Results

    def _write_rows(self, once: "_Tile | None", bound: Mapping[Value, Expr]) -> None:
        root = self.rows.root
        with self._pieces() if once is None else nullcontext() as column:
            tile = once if once is not None else self._tile_at(column if column is not None else 0, bound)
            offset = offset_in_result(tile.e, self.frame.root, tile.index)
            tile.e.store(tile.value(root), root.dtype, self.frame.output(), offset)

    def _write_folds(self, bound: Mapping[Value, Expr]) -> None:
        """One value per row, under a shape that may have axes of size 1 where the folded ones were."""
        root, b = self.rows.root, self.frame.b
        e = self.frame.evaluator({ROWS: b.lanes(ROWS, self.tile_rows)}, self.row_masks)
        e.bound.update(bound)
        index: Sequence[Int] = self.kept
        if len(root.shape) == len(self.rows.shape):
            index = self._index([0] * len(self.rows.axes))
        offset = e.strided(index, row_major(root.shape))
        x = e.value(root, index)
        e.store(x, root.dtype, self.frame.output(), e.spread(offset, frozenset((ROWS,))))


@record
class _Tile:
    """A tile of rows by columns, and where it is."""

    e: Evaluator
    index: Sequence[Int]
    column: Int

    def value(self, value: Value) -> Expr:
        """The elements of a value of the block."""
        return self.e.value(value, self.index)


def _tie_rule(fold: Op) -> tuple[str, int]:
    """How the places of extrema fold to the one that is wanted, and what stands for none."""
    return ("max", -1) if fold.flag("last") else ("min", 1 << 62)


def _is_same(x: Expr, extremum: Expr, dtype: DType) -> str:
    """The condition that an element is the extremum, which NaN is where there is one."""
    same = f"({x} == {extremum})"
    return f"({same} | (({x} != {x}) & ({extremum} != {extremum})))" if dtype.is_float else same


_COMBINES = {"sum": "add", "prod": "mul"}
