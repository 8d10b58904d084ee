"""Reductions on a GPU: tiles of rows by columns, and how many programs share a row."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.codegen_gpu.schedules.cards import card_of
from onnxc.compiler.codegen_gpu.schedules.cost_model import Work, cost_model
from onnxc.compiler.codegen_gpu.schedules.elements import LANES_PER_WARP, with_more_warps
from onnxc.compiler.codegen_gpu.source.arranged_results import computed_value
from onnxc.compiler.codegen_gpu.source.source_builder import power_of_two
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import BF16, F16, F32, I64, DType
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.decompose import decompose_block
from onnxc.compiler.planning.loops.rows import Rows
from onnxc.compiler.planning.loops.views import View, operand_view
from onnxc.compiler.planning.schedules import Joining, ReductionSchedule, Tile, Warps
from onnxc.compiler.target import Target

__all__ = ["part_type", "reduction_candidates", "reduction_cost", "reduction_measures", "rows_of"]

LONGEST_ROW = 8192
"""Elements of a row that stay in registers: 32 for each thread of 8 warps."""

TILE = 1024
"""Elements of a tile where a row is shorter, or where rows are gone through piece by piece."""

MOST_WARPS = 8
"""Of a program: 65,536 registers of a multiprocessor are 255 for each of their threads, all that a thread can have."""

SIDE_BY_SIDE, FEWEST_SIDE_BY_SIDE = 64, 32
"""Rows in a tile where the elements of neighbouring rows lie side by side: of long rows fewer, 64 bytes or more.

With 8 rows the sum of bf16[65536, 1024] along axis 0 took 195 us on an H200, of which memory needs 32."""

SECTOR_BYTES, FEWEST_BYTES = 32, 8
"""What memory gives at once, and the shortest pieces that a row alone reads: others come with those of rows beside it.

An estimate: to read a row into registers once, with four times what it needs, takes what three passes over it do."""

CROSSED_TILE = 4096
"""Elements of a tile of such rows where they are gone through piece by piece: there are few programs for them."""

SPLITS = (1, 16, 32, 64, 128, 256, 512, 1024)
"""How many programs share a row: powers of two, as tiles are; 16 or more, so that parts of all types are aligned."""

FEW_TILES, USUAL_SPLIT = 16, 256
"""Up to so many tiles of rows are shared where only a call tells how many there are; by so many, if long, likewise."""

_TYPICAL_ROWS, _TYPICAL_COLUMNS = 4096, 65536


def reduction_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """Rows and columns of a fold that programs could share: few long rows are told from all others."""
    rows = rows_of(decompose_block(problem.block))
    if not _has_parts(rows):
        return {}
    count, columns = _sizes(rows)
    few = FEW_TILES * _tile(rows).rows
    return {
        "rows": Measure(count, (Typical(_tile(rows).rows, 0, few), Typical(_TYPICAL_ROWS, few + 1))),
        "columns": Measure(columns, (Typical(_TYPICAL_COLUMNS, LONGEST_ROW + 1), Typical(LONGEST_ROW, 0, LONGEST_ROW))),
    }


def reduction_candidates(problem: KernelProblem, case: Case, target: Target) -> Sequence[ReductionSchedule]:
    """Tiles of rows; where there are few long ones, and one value is wanted of each, shared by several programs."""
    rows = rows_of(decompose_block(problem.block))
    tile = _tile(rows)
    return [with_more_warps(_schedule(rows, tile, split, case)) for split in _splits(rows, tile, case)]


def reduction_cost(problem: KernelProblem, schedule: ReductionSchedule, case: Case, target: Target) -> float:
    """The seconds that the launches take; a second launch may take longer than it saves."""
    rows, tile, split = rows_of(decompose_block(problem.block)), schedule.tile, schedule.split
    assert isinstance(schedule.workers, Warps), schedule
    model, columns = cost_model(target), case.sizes["columns"]
    programs = -(-case.sizes["rows"] // tile.rows)
    nbytes = programs * tile.rows * columns * rows.folds[0].operands[0].dtype.itemsize
    at_once = card_of(target).threads_per_sm // (32 * schedule.workers.count)
    pieces = -(-columns // tile.columns)
    work = Work(nbytes, programs=programs * split, programs_per_sm=at_once, steps=-(-pieces // split))
    return model.seconds(work) + (model.seconds(Work(0, programs=programs)) if split > 1 else 0.0)


def part_type(fold: Op) -> DType:
    """The type that a part of a row is kept in: 16-bit floats are rounded only at the end."""
    dtype = fold.operands[0].dtype
    return F32 if dtype in (F16, BF16) else dtype


def rows_of(block: Block) -> Rows:
    """The rows of a block without composites, before their axes are arranged in the result."""
    return Rows(replace(block, results=tuple(map(computed_value, block.results))))


def _part_bytes(fold: Op) -> int:
    """What is kept of a part of a row: what it folds to, and for an extremum its place."""
    return part_type(fold).itemsize + (I64.itemsize if fold.name == "arg_reduce" else 0)


def _warps(tile: Tile) -> Warps:
    return Warps(min(power_of_two(max(1, tile.rows * tile.columns // LANES_PER_WARP)), MOST_WARPS))


def _sizes(rows: Rows) -> tuple[Dim, Dim]:
    count, columns = (product(rows.shape[axis] for axis in axes) for axes in (rows.kept, rows.axes))
    return count, columns


def _tile(rows: Rows) -> Tile:
    """How many rows and columns, powers of two."""
    count, columns = _sizes(rows)
    most_rows = power_of_two(count) if isinstance(count, int) else TILE
    fewest = _fewest_rows(rows)
    if fewest == 1:
        width = power_of_two(columns) if isinstance(columns, int) else TILE
        width = max(1, width if width <= LONGEST_ROW else TILE)
        return Tile(max(1, min(TILE // width, most_rows)), width)
    width = power_of_two(columns) if isinstance(columns, int) else TILE // fewest
    height = max(1, min(max(TILE // width, fewest), SIDE_BY_SIDE, most_rows))
    return Tile(height, min(width, CROSSED_TILE // height))


def _fewest_rows(rows: Rows) -> int:
    """How many rows a tile has at least, so that it reads side by side no less than what memory gives."""
    if not rows.last_is_folded:
        return FEWEST_SIDE_BY_SIDE
    view = _view_of(rows.folds[0].operands[0])
    if view is None or view.shape != rows.shape:
        return 1
    kept, along = ([axis for axis in axes if view.shape[axis] != 1] for axes in (rows.kept, rows.axes))
    is_whole = len(along) == 1 and view.strides[along[0]] == 1
    run = view.shape[along[-1]] if along and view.strides[along[-1]] == 1 else 1
    are_neighbours = bool(kept) and view.strides[kept[-1]] == run
    if not along or is_whole or not are_neighbours or not isinstance(run, int):
        return 1
    nbytes = run * view.base.dtype.itemsize
    return 1 if nbytes >= FEWEST_BYTES else power_of_two(SECTOR_BYTES // max(nbytes, 1))


def _view_of(value: Value) -> View | None:
    """The view of memory that a value is computed from, element by element, through its first operands."""
    while value.op is not None and PRIMITIVES[value.op.name].kind == "pointwise" and value.op.operands:
        value = value.op.operands[0]
    return operand_view(value)


def _has_parts(rows: Rows) -> bool:
    """Whether rows can be folded in parts: there is one fold, and its value for each row is what is wanted."""
    return (
        not rows.writes_rows and bool(rows.axes) and [fold.name for fold in rows.folds] in (["reduce"], ["arg_reduce"])
    )


def _splits(rows: Rows, tile: Tile, case: Case) -> Sequence[int]:
    """How many programs may share a row in a case."""
    count, columns = _sizes(rows)
    if not _has_parts(rows) or case.sizes["columns"] <= LONGEST_ROW:
        return (1,)
    are_few = case.sizes["rows"] <= FEW_TILES * tile.rows
    if not isinstance(columns, int):
        return (USUAL_SPLIT,) if are_few else (1,)
    if not isinstance(count, int) and not are_few:
        return (1,)
    # More programs than pieces of a row would have nothing to do.
    most = max(power_of_two(-(-columns // tile.columns)), SPLITS[1])
    return tuple(split for split in SPLITS if split <= most)


def _schedule(rows: Rows, tile: Tile, split: int, case: Case) -> ReductionSchedule:
    if split == 1:
        return ReductionSchedule(algorithm="tiles", tile=tile, workers=_warps(tile))
    most = case.most["rows"]
    count = _sizes(rows)[0] if most is None else minimum(_sizes(rows)[0], most)
    most_rows = power_of_two(count) if isinstance(count, int) else TILE
    joined = Tile(max(1, min(TILE // split, most_rows)), split)
    return ReductionSchedule(
        algorithm="tiles",
        tile=tile,
        split=split,
        workers=_warps(tile),
        joining=Joining(joined, _warps(joined)),
        shared_bytes=split * count * _part_bytes(rows.folds[0]),
        why=f"{split} programs share a row",
    )
