"""Tiles of convolutions: rows are output pixels, columns output channels, k the taps and channels of the input.

Which tile is fastest is estimated from what an SM multiplies and loads in a clock; where there are few tiles, several
programs share each along k.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.codegen_gpu.cards import card_of
from compiler.codegen_gpu.matrix_tiles import MOST_PARTS, MatrixTile
from compiler.ir.dims import Dim
from compiler.ir.dtypes import F32, I8, DType
from compiler.target import Target

TYPICAL_CHANNELS, TYPICAL_PIXELS, TYPICAL_TAPS = 64, 8 * 28 * 28, 9
"""What sizes are taken for that only a call decides."""

SIDES = (16, 32, 64, 128)

LARGEST_TILE, LARGEST_F32_TILE, LARGEST_FLAT_TILE = 128 * 128, 128 * 64, 64 * 64
"""Elements of a tile for which registers suffice: f32 operands are split into parts there, and gathered ones wait."""

LEAST_CHANNELS = 16
"""Below so many channels per group k runs over taps and channels together, as one axis."""

LOOP_OVERHEAD = 8
"""Channels that could be multiplied while an iteration begins."""

# The model, in clocks of an SM; figures of an H100 by NVIDIA's documents, not measured here.
BYTES_PER_CLOCK = 32
"""What an SM loads from the L2 cache."""

LATENCY = 800
"""From a load to its data, which all stages but one of the pipeline share."""

BEGIN_AND_END, ADD_PARTS = 1500, 4000
"""Filling the pipeline and writing a tile; a second launch, of about 2 us."""

LEAST_ITERATIONS = 8
"""What each of the programs that share a tile does at least."""

STAGE_BYTES = ((8 << 10, 5), (16 << 10, 4))
"""Up to so many bytes of 16-bit numbers in a stage there are so many stages; else, and where f32 waits for tensor
cores rather than for loads, there are 3."""


@dataclass(frozen=True)
class ConvolutionTile:
    """A tile, how many programs share it along k, whether k is one axis of taps and channels, and why that."""

    matrix: MatrixTile
    parts: int
    is_flat: bool
    why: str = ""


@dataclass(frozen=True)
class _Work:
    """What a convolution multiplies: `groups` products of `rows` by `columns`, k in `iterations` of `depth`."""

    groups: int
    rows: int
    columns: int
    depth: int
    iterations: int
    dtype: DType
    target: Target
    is_flat: bool


def choose_convolution_tile(
    groups: int, rows: Dim, columns: Dim, channels: Dim, taps: Dim, dtype: DType, target: Target
) -> ConvolutionTile:
    """The tile for `groups` products [rows, taps * channels] x [taps * channels, columns]."""
    is_flat = isinstance(channels, int) and channels < LEAST_CHANNELS
    c, count = _known(channels, TYPICAL_CHANNELS), _known(taps, TYPICAL_TAPS)
    depth = _depth(c * count if is_flat else c, dtype)
    iterations = -(-c * count // depth) if is_flat else count * -(-c // depth)
    m, n = _known(rows, TYPICAL_PIXELS), _known(columns, TYPICAL_CHANNELS)
    work = _Work(groups, m, n, depth, iterations, dtype, target, is_flat)
    is_known = all(isinstance(size, int) for size in (rows, columns, channels, taps))
    ranked = sorted(
        ((tile, parts) for tile in _tiles(work) for parts in _parts(work, tile, is_known)),
        key=lambda choice: _clocks(work, *choice),
    )
    best, parts = ranked[0]
    return ConvolutionTile(best, parts, is_flat, "; next ".join(_choice_text(work, *choice) for choice in ranked[:2]))


def _choice_text(work: _Work, tile: MatrixTile, parts: int) -> str:
    return f"{tile}{f', {parts} parts' if parts > 1 else ''}: {_clocks(work, tile, parts):.0f} clocks"


def _known(size: Dim, typical: int) -> int:
    return size if isinstance(size, int) else typical


def _depth(channels: int, dtype: DType) -> int:
    """How many channels are multiplied at a time: few iterations, and few behind the last channel."""
    depths = (16, 32) if dtype == F32 else (32, 64) if dtype == I8 else (16, 32, 64)
    return min(depths, key=lambda depth: -(-channels // depth) * (depth + LOOP_OVERHEAD))


def _tiles(work: _Work) -> Iterator[MatrixTile]:
    """The tiles that fit registers, none twice as large as the result."""
    largest = LARGEST_FLAT_TILE if work.is_flat else LARGEST_F32_TILE if work.dtype == F32 else LARGEST_TILE
    for rows in SIDES:
        for columns in SIDES:
            size = rows * columns
            if size <= largest and rows < max(2 * work.rows, 32) and columns < max(2 * work.columns, 32):
                stage = (rows + columns) * work.depth * work.dtype.itemsize
                stages = next((count for most, count in STAGE_BYTES if stage <= most and work.dtype != F32), 3)
                yield MatrixTile(rows, columns, work.depth, 8 if size == largest > LARGEST_FLAT_TILE else 4, stages)


def _parts(work: _Work, tile: MatrixTile, is_known: bool) -> tuple[int, ...]:
    """How many programs may share a tile."""
    missing = card_of(work.target).sms // max(_count(work, tile), 1)
    most = min(MOST_PARTS, missing, work.iterations // LEAST_ITERATIONS)
    return (1, most) if is_known and most > 1 else (1,)


def _count(work: _Work, tile: MatrixTile) -> int:
    return work.groups * -(-work.rows // tile.rows) * -(-work.columns // tile.columns)


def _clocks(work: _Work, tile: MatrixTile, parts: int) -> float:
    """The clocks until all tiles are done."""
    # Tensor cores multiply 1024 pairs of 16 bits in a clock, and f32 in three products at half that pace; tiles of
    # fewer than 64 rows leave half of them idle.
    pace = 1024 / (6 if work.dtype == F32 else 1) / (1 if tile.rows >= 64 else 2)
    load = (tile.rows + tile.columns) * tile.depth * work.dtype.itemsize / BYTES_PER_CLOCK
    multiply = tile.rows * tile.columns * tile.depth / pace
    iteration = max(multiply, load, LATENCY / (tile.stages - 1))
    sms, programs = card_of(work.target).sms, _count(work, tile) * parts
    # Where an SM has several programs, one begins while another ends.
    waves = -(-programs // sms) if programs <= 2 * sms else programs / sms + 0.5
    return waves * (-(-work.iterations // parts) * iteration + BEGIN_AND_END) + (ADD_PARTS if parts > 1 else 0)
