"""Scans on a GPU: tiles of lines, and how many programs share a line."""

from collections.abc import Mapping, Sequence

from onnxc.compiler.codegen_gpu.schedules.elements import with_more_warps
from onnxc.compiler.codegen_gpu.schedules.reductions import FEW_TILES, LONGEST_ROW, part_type
from onnxc.compiler.codegen_gpu.source.source_builder import power_of_two
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.schedules import ScanSchedule, Tile, Warps

__all__ = ["scan_candidates", "scan_measures", "scan_of"]

_WIDEST, _MOST_LINES, _TILE = 1024, 16, 2048
"""Places of a line in a tile, lines, and elements."""

_MOST_SHARES, _FEWEST_POSITIONS = 256, 4096
"""Programs of a tile of lines, about two for each multiprocessor; they are worth it where each has some tiles to go."""

_TYPICAL_LINES, _TYPICAL_LENGTH = 4096, 65536
"""Where only a call tells them: enough lines to fill a GPU without sharing, and lines too long for one tile."""


def scan_of(block: Block) -> Op:
    """The op that scans."""
    return next(op for op in block.ops if op.name == "scan_axis")


def scan_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """Lines and their length: few long lines are told from all others."""
    op = scan_of(problem.block)
    lines, length = _lines(op)
    few = FEW_TILES * _tile(op).rows
    return {
        "lines": Measure(lines, (Typical(1, 0, few), Typical(_TYPICAL_LINES, few + 1))),
        "length": Measure(length, (Typical(_TYPICAL_LENGTH, LONGEST_ROW + 1), Typical(LONGEST_ROW, 0, LONGEST_ROW))),
    }


def scan_candidates(problem: KernelProblem, case: Case) -> Sequence[ScanSchedule]:
    """The one way that serves so many lines of such a length."""
    op = scan_of(problem.block)
    tile, (lines, length) = _tile(op), _lines(op)
    split = _split(tile, case)
    if split == 1:
        return (with_more_warps(ScanSchedule(algorithm="tiles", tile=tile, workers=Warps(4))),)
    most = case.most["lines"]
    parts = split * (lines if most is None else minimum(lines, most))
    itemsize = part_type(op).itemsize
    schedule = ScanSchedule(
        algorithm="tiles",
        tile=tile,
        split=split,
        workers=Warps(4),
        shared_bytes=parts * itemsize,
        loop_operations=lines * length + parts * split,
        loop_bytes=lines * length * op.operands[0].dtype.itemsize + 2 * parts * itemsize,
        why=f"{split} programs share a line",
    )
    return (with_more_warps(schedule),)


def _lines(op: Op) -> tuple[Dim, Dim]:
    shape, axis = op.results[0].shape, op.int("axis")
    return product((*shape[:axis], *shape[axis + 1 :])), shape[axis]


def _tile(op: Op) -> Tile:
    """Lines by places of each, powers of two."""
    lines, length = _lines(op)
    width = max(1, min(_WIDEST, power_of_two(length))) if isinstance(length, int) else _WIDEST
    most = max(1, power_of_two(lines)) if isinstance(lines, int) else _MOST_LINES
    return Tile(max(1, min(_TILE // width, _MOST_LINES, most)), width)


def _split(tile: Tile, case: Case) -> int:
    """How many programs share the lines of a tile: a power of two, 1 where lines are many or short."""
    tiles, length = -(-case.sizes["lines"] // tile.rows), case.sizes["length"]
    if length <= LONGEST_ROW or tiles > FEW_TILES:
        return 1
    worth = min(_MOST_SHARES, power_of_two(length // _FEWEST_POSITIONS))
    return max(1, min(worth, power_of_two(_MOST_SHARES // max(tiles, 1))))
