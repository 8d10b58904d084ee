"""Tiles of matrix products: how many rows and columns a program makes, and how many programs share a tile."""

from dataclasses import dataclass

from compiler.codegen_gpu.cards import card_of
from compiler.codegen_gpu.source_builder import power_of_two
from compiler.ir.dims import Dim
from compiler.ir.dtypes import BF16, F16, F32, I8, DType
from compiler.target import Target

TILED_DTYPES = frozenset((F32, F16, BF16, I8))
"""Element types that tensor cores multiply; f32 in three products of its parts, or in one less exact."""

LEAST_ROWS, MOST_PARTS = 16, 16

TYPICAL_SIZE = 512
"""What a size that only a call decides is taken for."""


@dataclass(frozen=True)
class MatrixTile:
    """A tile of the result, `rows` by `columns`, made `depth` products at a time by so many warps."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


def choose_tile(rows: Dim, columns: Dim, depth: Dim, dtype: DType) -> MatrixTile:
    """The tile for a product [rows, depth] x [depth, columns]."""
    m, n, k = (size if isinstance(size, int) else TYPICAL_SIZE for size in (rows, columns, depth))
    widest = 64 if dtype == F32 else 128
    tile_m = max(LEAST_ROWS, min(power_of_two(m), widest))
    tile_n = max(LEAST_ROWS, min(power_of_two(n), widest if tile_m > LEAST_ROWS else 128))
    least_depth = 32 if dtype == I8 else 16
    tile_k = max(least_depth, min(power_of_two(k), 32 if dtype == F32 else 64))
    warps = 8 if tile_m * tile_n >= 128 * 128 else 4
    return MatrixTile(tile_m, tile_n, tile_k, warps, 3)


def choose_split(batch: Dim, rows: Dim, columns: Dim, depth: Dim, tile: MatrixTile, target: Target) -> int:
    """How many programs share a tile: enough that every multiprocessor has one, where k is long enough for that."""
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(batch, int) and isinstance(depth, int)):
        return 1
    tiles = batch * -(-rows // tile.rows) * -(-columns // tile.columns)
    missing = card_of(target).sms // max(tiles, 1)
    longest = depth // (8 * tile.depth)
    return max(1, min(MOST_PARTS, missing, longest))
