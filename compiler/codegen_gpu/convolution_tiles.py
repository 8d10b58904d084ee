"""Tiles of convolutions: rows are output pixels, columns output channels, k the taps and channels of the input.

Which tile is fastest is estimated from what an SM multiplies and loads in a clock; where there are few tiles, several
programs share each along k.
"""

from dataclasses import dataclass
from itertools import product as box

from compiler.codegen_gpu.cards import card_of
from compiler.codegen_gpu.matrix_tiles import MOST_PARTS, MatrixTile
from compiler.ir.dims import Dim
from compiler.ir.dtypes import F32, I8, DType
from compiler.target import Target

TYPICAL_SIZE, TYPICAL_PIXELS = 64, 8 * 28 * 28
"""What numbers of channels and of pixels are taken for that only a call decides."""

LARGEST_TILE = {F32: 64 * 64}
"""Elements of a tile beyond which registers do not suffice; f32 operands are split into three parts in registers."""

LARGEST_TILE_OF_16_BITS = 128 * 128

CLOCKS_TO_BEGIN, CLOCKS_TO_ADD_PARTS = 1500, 4000
"""Filling the pipeline and writing a tile; a second launch, of about 2 us."""

BYTES_PER_CLOCK = 32
"""What an SM loads from the L2 cache."""

LOOP_OVERHEAD = 8
"""Channels that could be multiplied while an iteration begins."""

LEAST_CHANNELS = 16
"""Below so many channels per group k runs over taps and channels together, as one axis."""


@dataclass(frozen=True)
class ConvolutionTile:
    """A tile, how many programs share it along k, and whether k is one axis of taps and channels."""

    matrix: MatrixTile
    parts: int
    is_flat: bool


def choose_convolution_tile(
    groups: int, rows: Dim, columns: Dim, channels: Dim, taps: Dim, dtype: DType, target: Target
) -> ConvolutionTile:
    """The tile for `groups` products [rows, taps * channels] x [taps * channels, columns]."""
    m, n = rows if isinstance(rows, int) else TYPICAL_PIXELS, columns if isinstance(columns, int) else TYPICAL_SIZE
    is_flat = isinstance(channels, int) and channels < LEAST_CHANNELS
    c, count = channels if isinstance(channels, int) else TYPICAL_SIZE, taps if isinstance(taps, int) else 9
    depth = _depth(c * count if is_flat else c, dtype)
    iterations = -(-c * count // depth) if is_flat else count * -(-c // depth)
    best = min(
        (_clocks(groups * -(-m // tile_m) * -(-n // tile_n), tile_m, tile_n, depth, iterations, dtype, target), pair)
        for pair in box((16, 32, 64, 128), repeat=2)
        for tile_m, tile_n in [pair]
        if _fits(tile_m, tile_n, m, n, dtype)
    )
    (_, parts), (tile_m, tile_n) = best
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(taps, int)):
        parts = 1
    warps = 8 if tile_m * tile_n >= LARGEST_TILE_OF_16_BITS else 4
    return ConvolutionTile(MatrixTile(tile_m, tile_n, depth, warps, 3), parts, is_flat)


def _depth(channels: int, dtype: DType) -> int:
    """How many channels are multiplied at a time: few iterations, and few behind the last channel."""
    depths = (16, 32) if dtype == F32 else (32, 64) if dtype == I8 else (16, 32, 64)
    return min(depths, key=lambda depth: -(-channels // depth) * (depth + LOOP_OVERHEAD))


def _fits(rows: int, columns: int, m: int, n: int, dtype: DType) -> bool:
    largest = LARGEST_TILE.get(dtype, LARGEST_TILE_OF_16_BITS)
    return rows * columns <= largest and rows < max(2 * m, 32) and columns < max(2 * n, 32)


def _clocks(
    tiles: int, rows: int, columns: int, depth: int, iterations: int, dtype: DType, target: Target
) -> tuple[float, int]:
    """The clocks for all tiles, and how many programs share each."""
    sms = card_of(target).sms
    # Tensor cores multiply 1024 pairs of 16 bits in a clock, and f32 in three products at half that pace; tiles of
    # fewer than 64 rows leave half of them idle.
    pace = 1024 / (6 if dtype == F32 else 1) / (1 if rows >= 64 else 2)
    load = (rows + columns) * dtype.itemsize / BYTES_PER_CLOCK
    clocks = depth * max(rows * columns / pace, load)
    parts = max(1, min(MOST_PARTS, sms // max(tiles, 1), iterations // 8))

    def total(parts: int) -> float:
        waves = -(-tiles * parts // sms)
        added = CLOCKS_TO_ADD_PARTS if parts > 1 else 0
        return waves * (-(-iterations // parts) * clocks + CLOCKS_TO_BEGIN) + added

    return min((total(1), 1), (total(parts), parts))
