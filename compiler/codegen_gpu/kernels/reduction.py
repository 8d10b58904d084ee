"""Reductions and normalisations: a tile of rows by columns, folded along the columns.

A composite is decomposed first; what is left is pointwise ops over whole rows, folds of rows, and pointwise ops on what
the folds gave. Rows that fit a tile are read once and stay in registers; longer ones, and those whose length only a
call decides, are gone through once for each fold and once for the result. Where there are few long rows and one value
is wanted for each, several programs share a row and a second launch folds their parts, always in the same order.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from onnxc.compiler.codegen_gpu.source.element_types import register_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import LANES_PER_WARP, KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.row_folds import COLUMNS, ROWS, fold_columns
from onnxc.compiler.codegen_gpu.source.scalars import literal, table_of
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, power_of_two, unravel
from onnxc.compiler.codegen_gpu.tiles.cards import card_of
from onnxc.compiler.codegen_gpu.tiles.cost_model import Work, cost_model
from onnxc.compiler.codegen_gpu.variants import few_and_long
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, I64, DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.rows import Rows, identity
from onnxc.compiler.planning.views import row_major
from onnxc.compiler.target import Target

LONGEST_ROW = 8192
"""Elements of a row that stay in registers: 32 for each thread of 8 warps."""

TILE = 1024
"""Elements of a tile where a row is shorter, or where rows are gone through piece by piece."""

MOST_WARPS = 8

SIDE_BY_SIDE, FEWEST_SIDE_BY_SIDE = 32, 8
"""Rows in a tile where the elements of neighbouring rows lie side by side: of long rows fewer, 32 bytes or more."""

CROSSED_TILE = 4096
"""Elements of a tile of such rows where they are gone through piece by piece: there are few programs for them."""

PARTS = (1, 16, 32, 64, 128, 256, 512, 1024)
"""How many programs share a row: powers of two, as tiles are; 16 or more, so that parts of all types are aligned."""

FEW_TILES, USUAL_PARTS = 16, 256
"""Up to so many tiles of rows are shared where only a call tells how many there are; by so many, if long, likewise."""


def is_native(op: Op) -> bool:
    """Whether a fold has a kernel: the bits of integers are not folded."""
    return op.text("kind") not in ("and", "or") or op.operands[0].dtype == BOOL


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a reduction kernel."""
    rows = Rows(kernel.block)
    tiles = _RowTiles(open_kernel(kernel, target, rank=2), rows, _choose_tile(rows))
    general = tiles.emit()
    parts = 1 if tiles.fits or not _has_parts(rows) else _choose_parts(tiles)
    if parts == 1:
        return general
    known = isinstance(tiles.row_count, int) and isinstance(tiles.column_count, int)
    most = tiles.row_count if known else FEW_TILES * tiles.tile_rows
    assert isinstance(most, int), most
    shared = _emit_shared(kernel, target, parts, minimum(tiles.row_count, most))
    # What is not longer is not worth a second launch.
    return few_and_long(shared, general, (tiles.row_count, most), (tiles.column_count, LONGEST_ROW + 1))


def _emit_shared(kernel: Kernel, target: Target, parts: int, row_count: Dim) -> KernelCode:
    """The launches where so many programs share each tile of rows; `row_count`: the most rows that there are then."""
    rows = Rows(kernel.block)
    partial = _RowTiles(open_kernel(kernel, target, rank=2), rows, _choose_tile(rows), parts)
    most_rows = power_of_two(row_count) if isinstance(row_count, int) else TILE
    tile = max(1, min(TILE // parts, most_rows)), parts
    total = _RowTiles(open_kernel(kernel, target, rank=2), rows, tile, parts)
    steps = replace(partial.emit_partial(), why=f"{parts} programs share a row"), total.emit_total()
    return KernelCode(steps, parts * row_count * _part_type(rows.folds[0]).itemsize, element_counts(kernel))


def _choose_tile(rows: Rows) -> tuple[int, int]:
    """How many rows and columns, powers of two."""
    count, columns = (product(rows.shape[axis] for axis in axes) for axes in (rows.kept, rows.axes))
    most_rows = power_of_two(count) if isinstance(count, int) else TILE
    if rows.last_is_folded:
        width = power_of_two(columns) if isinstance(columns, int) else TILE
        width = max(1, width if width <= LONGEST_ROW else TILE)
        return max(1, min(TILE // width, most_rows)), width
    width = power_of_two(columns) if isinstance(columns, int) else TILE // FEWEST_SIDE_BY_SIDE
    height = max(1, min(max(TILE // width, FEWEST_SIDE_BY_SIDE), SIDE_BY_SIDE, most_rows))
    return height, min(width, CROSSED_TILE // height)


def _has_parts(rows: Rows) -> bool:
    """Whether rows can be folded in parts: there is one fold, and its value for each row is what is wanted."""
    return not rows.writes_rows and bool(rows.axes) and [fold.name for fold in rows.folds] == ["reduce"]


def _choose_parts(tiles: "_RowTiles") -> int:
    """How many programs are to share a row; 1 where a second launch takes longer than it saves."""
    columns, rows, target = tiles.column_count, tiles.row_count, tiles.frame.target
    if not isinstance(columns, int):
        return USUAL_PARTS
    model, pieces = cost_model(target), -(-columns // tiles.tile_columns)
    programs = -(-rows // tiles.tile_rows) if isinstance(rows, int) else 1
    nbytes = programs * tiles.tile_rows * columns * tiles.rows.folds[0].operands[0].dtype.itemsize
    at_once = card_of(target).threads_per_sm // (32 * tiles.warps)

    def seconds(parts: int) -> float:
        work = Work(nbytes, programs=programs * parts, programs_per_sm=at_once, steps=-(-pieces // parts))
        return model.seconds(work) + (model.seconds(Work(0, programs=programs)) if parts > 1 else 0.0)

    return min(PARTS, key=seconds)


def _part_type(fold: Op) -> DType:
    """The type that a part of a row is kept in: 16-bit floats are rounded only at the end."""
    dtype = fold.operands[0].dtype
    return F32 if dtype in (F16, BF16) else dtype


@dataclass
class _RowTiles:
    """One launch: a program takes a tile of rows, or one of the `parts` of it, and goes through tiles of columns."""

    frame: KernelFrame
    rows: Rows
    tile: tuple[int, int]
    parts: int = 1

    def __post_init__(self) -> None:
        rows = self.rows
        self.row_count = product(rows.shape[axis] for axis in rows.kept)
        self.column_count = product(rows.shape[axis] for axis in rows.axes)
        self.tile_rows, self.tile_columns = self.tile
        count = self.column_count
        self.fits = isinstance(count, int) and count <= self.tile_columns
        self.tiles = floordiv(self.row_count + self.tile_rows - 1, self.tile_rows)
        warps = power_of_two(max(1, self.tile_rows * self.tile_columns // LANES_PER_WARP))
        self.warps = min(warps, MOST_WARPS)
        self.start: Int = 0
        self.stop: Int | None = None

    def _place_rows(self, tile: Int) -> Int:
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
        self._place_rows(self.frame.b.program())
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
        return self.frame.code((self.tiles,), warps=self.warps)

    def emit_partial(self) -> DeviceStep:
        """The launch that folds the parts of rows."""
        frame, b = self.frame, self.frame.b
        tile, part = unravel(b, b.program(), [frame.size(self.tiles), self.parts])
        row = self._place_rows(tile)
        length = self.parts * self.tile_columns
        per_part = frame.size(floordiv(self.column_count + length - 1, length) * self.tile_columns)
        self.start = b.mul(part, per_part)
        self.stop = b.minimum(b.add(self.start, per_part), frame.size(self.column_count))
        (fold,) = self.rows.folds
        e = frame.evaluator({ROWS: b.lanes(ROWS, self.tile_rows)}, self.row_masks)
        place = b.add(b.mul(row, self.parts), part)
        dtype = _part_type(fold)
        e.store(self._fold(fold, None, {}), dtype, frame.scratch("parts", dtype), place)
        return frame.step((self.tiles * self.parts,), warps=self.warps)

    def emit_total(self) -> DeviceStep:
        """The launch that folds the parts, which lie side by side, and writes what is computed from the fold."""
        frame, b = self.frame, self.frame.b
        row, part = self._place_rows(b.program()), b.lanes(COLUMNS, self.parts)
        (fold,) = self.rows.folds
        dtype = _part_type(fold)
        e = frame.evaluator({ROWS: b.lanes(ROWS, self.tile_rows), COLUMNS: part}, self.row_masks)
        x = e.load(dtype, frame.scratch("parts", dtype), b.add(b.mul(row, self.parts), part))
        self._write_folds({fold.results[0]: fold_columns(b, fold.text("kind"), fold.operands[0].dtype, x)})
        return frame.step((self.tiles,), warps=self.warps)

    # Tiles

    def _tile_at(self, start: Int, bound: Mapping[Value, Expr] | None = None) -> "_Tile":
        """The tile of columns from `start` on."""
        frame, b = self.frame, self.frame.b
        lanes = {ROWS: b.lanes(ROWS, self.tile_rows), COLUMNS: b.lanes(COLUMNS, self.tile_columns)}
        column = b.add(start, lanes[COLUMNS])
        masks = dict(self.row_masks)
        if not (isinstance(self.column_count, int) and self.column_count % self.tile_columns == 0):
            masks[COLUMNS] = b.compare(column, "<", frame.size(self.column_count))
        folded = unravel(b, column, [frame.size(self.rows.shape[axis]) for axis in self.rows.axes])
        e = frame.evaluator(lanes, masks)
        e.bound.update(bound or {})
        return _Tile(e, self._index(folded), column)

    def _index(self, folded: Sequence[Int]) -> list[Int]:
        places = dict(zip((*self.rows.kept, *self.rows.axes), (*self.kept, *folded), strict=True))
        return [places[axis] for axis in range(len(self.rows.shape))]

    def _pieces(self) -> AbstractContextManager[Expr]:
        """The loop over tiles of columns."""
        stop = self.frame.size(self.column_count) if self.stop is None else self.stop
        return self.frame.b.loop(self.start, stop, self.tile_columns, prefix="column")

    def _filled(self, x: Expr, tile: "_Tile", value: float, dtype: DType) -> Expr:
        """`x` in every lane of the tile, `value` behind the end of a row."""
        b, mask = self.frame.b, tile.e.masks.get(COLUMNS)
        number = literal(b, value, dtype)
        if mask is None and x.dims == {ROWS, COLUMNS}:
            return x
        lanes = f"({tile.e.lanes[ROWS]} >= 0) & " if ROWS not in x.dims else ""
        inside = mask if mask is not None else b.compare(tile.e.lanes[COLUMNS], ">=", 0)
        return b.let(f"tl.where({lanes}{inside}, {x}, {number})", frozenset((ROWS, COLUMNS)))

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
        b, operand, kind = self.frame.b, fold.operands[0], fold.text("kind")
        dtype, start = operand.dtype, identity(kind, operand.dtype)
        ends = "max" if fold.flag("last") else "min"
        none = -1 if fold.flag("last") else (1 << 62)

        def place(tile: _Tile, extremum: Expr) -> Expr:
            x = tile.value(operand)
            same = f"({x} == {extremum})"
            if dtype.is_float:
                same = f"({same} | (({x} != {x}) & ({extremum} != {extremum})))"
            hit = self._filled(b.let(f"{same}.to(tl.int1)", x.dims | extremum.dims), tile, False, BOOL)
            wide = tile.e.spread(tile.column, frozenset((ROWS, COLUMNS)))
            return b.let(f"tl.where({hit}, {wide}.to(tl.int64), {none})", hit.dims)

        def found_or_first(found: Expr) -> Expr:
            return b.let(f"tl.where({found} == {none}, 0, {found})", found.dims)

        if once is not None:
            filled = self._filled(once.value(operand), once, start, dtype)
            extremum = fold_columns(b, kind, dtype, filled)
            return found_or_first(fold_columns(b, ends, I64, place(once, extremum)))
        total = self._accumulator(start, dtype)
        with self._pieces() as column:
            tile = self._tile_at(column, bound)
            x = self._filled(tile.value(operand), tile, start, dtype)
            b.assign(total, table_of(dtype)[kind](b, dtype, total, x).text)
        extremum = fold_columns(b, kind, dtype, total)
        found = self._accumulator(none, I64)
        with self._pieces() as column:
            b.assign(found, f"tl.{ends}imum({found}, {place(self._tile_at(column, bound), extremum)})")
        return found_or_first(fold_columns(b, ends, I64, found))

    # Results

    def _write_rows(self, once: "_Tile | None", bound: Mapping[Value, Expr]) -> None:
        root = self.rows.root
        with self._pieces() if once is None else nullcontext() as column:
            tile = once if once is not None else self._tile_at(column if column is not None else 0, bound)
            place = tile.e.strided(tile.index, row_major(self.rows.shape))
            tile.e.store(tile.value(root), root.dtype, self.frame.output(), place)

    def _write_folds(self, bound: Mapping[Value, Expr]) -> None:
        """One value per row, under a shape that may have axes of size 1 where the folded ones were."""
        root, b = self.rows.root, self.frame.b
        e = self.frame.evaluator({ROWS: b.lanes(ROWS, self.tile_rows)}, self.row_masks)
        e.bound.update(bound)
        index: Sequence[Int] = self.kept
        if len(root.shape) == len(self.rows.shape):
            index = self._index([0] * len(self.rows.axes))
        place = e.strided(index, row_major(root.shape))
        x = e.value(root, index)
        e.store(x, root.dtype, self.frame.output(), e.spread(place, frozenset((ROWS,))))


@dataclass(frozen=True)
class _Tile:
    """A tile of rows by columns, and where it is."""

    e: Evaluator
    index: Sequence[Int]
    column: Int

    def value(self, value: Value) -> Expr:
        """The elements of a value of the block."""
        return self.e.value(value, self.index)


_COMBINES = {"sum": "add", "prod": "mul"}
