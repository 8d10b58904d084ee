"""Tiles of matrix products: how many rows and columns a program makes, and how many programs share a tile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compiler.codegen_gpu.cards import Unit
from compiler.codegen_gpu.cost_model import CostModel, Work, cost_model
from compiler.codegen_gpu.source_builder import power_of_two
from compiler.ir.dims import Dim
from compiler.ir.dtypes import BF16, F16, F32, I8, DType
from compiler.target import Target

TILED_DTYPES = frozenset((F32, F16, BF16, I8))
"""Element types that tensor cores multiply; f32 in three products of its parts, or in one less exact."""

LEAST_ROWS, MOST_PARTS = 16, 16

TYPICAL_SIZE = 512
"""What a size that only a call decides is taken for."""

_UNITS: dict[DType, Unit] = {F32: "tf32", F16: "fp16", BF16: "bf16", I8: "int8"}

_SIDES = (16, 32, 64, 128, 256)

# What a thread can hold of the sums: operands in three parts need registers too.
_SUMS_PER_THREAD = {F32: 64, F16: 128, BF16: 128, I8: 128}

# What is loaded at once along k: rows of 128 bytes, or of 256 where little else is loaded.
_DEPTHS: dict[DType, tuple[int, ...]] = {F32: (32,), F16: (64, 128), BF16: (64, 128), I8: (64, 128)}

_PIPELINE_STAGES = (4, 3, 2)

_ITERATION_BYTES = 4096
"""What could be loaded while an iteration of the pipeline is synchronised."""

_WARP_GROUP_ROWS, _NARROW_SHARE = 64, 0.6
"""Tiles of fewer rows are multiplied by single warps, at this share of the peak."""


@dataclass(frozen=True)
class MatrixTile:
    """A tile of the result, `rows` by `columns`, made `depth` products at a time by so many warps."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.rows} x {self.columns} x {self.depth}, {self.warps} warps, {self.stages} stages"


@dataclass(frozen=True)
class MatrixProducts:
    """`batch` products of [rows, depth] by [depth, columns]; sizes that only a call decides are taken for typical."""

    batch: Dim
    rows: Dim
    columns: Dim
    depth: Dim
    dtype: DType
    input_precision: str = "tf32x3"

    @property
    def is_known(self) -> bool:
        """Whether all sizes are numbers."""
        return all(isinstance(size, int) for size in (self.batch, self.rows, self.columns, self.depth))


@dataclass(frozen=True)
class TileChoice:
    """The tile, how many programs share one, how long that should take, and what was decided against."""

    tile: MatrixTile
    parts: int
    seconds: float
    why: str = ""

    def __str__(self) -> str:
        return f"{self.tile}" + (f", {self.parts} parts" if self.parts > 1 else "")


def choose_tile(products: MatrixProducts, target: Target) -> TileChoice:
    """The tile and the split along k that the cost model finds fastest; the first of equals."""
    model, ranked = cost_model(target), rank_tiles(products, target)
    return replace(ranked[0], why=_reason(products, ranked, model))


def rank_tiles(products: MatrixProducts, target: Target) -> list[TileChoice]:
    """Every tile and split that could be taken, the fastest first by the cost model."""
    model = cost_model(target)
    choices = (
        TileChoice(tile, parts, _seconds(products, tile, parts, model))
        for tile in _tiles(products, model)
        for parts in _splits(products, tile)
    )
    return sorted(choices, key=lambda choice: choice.seconds)


def _reason(products: MatrixProducts, ranked: Sequence[TileChoice], model: CostModel) -> str:
    """Why the first of the choices is it, in a line."""
    best, *others = ranked
    bound = model.estimate(_work(products, best.tile, best.parts)).bound
    text = f"{best}: {best.seconds * 1e6:.1f} us, most of it {bound}"
    if not others:
        return f"{text}; nothing else fits"
    return f"{text}; of {len(ranked)} the next is {others[0]}: {others[0].seconds * 1e6:.1f} us"


def _tiles(products: MatrixProducts, model: CostModel) -> Iterator[MatrixTile]:
    """What fits registers and shared memory, and is not much wider than the product."""
    dtype, item = products.dtype, products.dtype.itemsize
    m, n, k = (_number(size, TYPICAL_SIZE) for size in (products.rows, products.columns, products.depth))
    widest = max(16, power_of_two(m)), max(16, power_of_two(n))
    depths, longest = _DEPTHS[dtype], max(32 if dtype == I8 else 16, power_of_two(k))
    for rows in (side for side in _SIDES if side <= widest[0]):
        for columns in (side for side in _SIDES if side <= widest[1]):
            warps = 8 if rows * columns > 64 * 128 else 4
            if rows * columns > _SUMS_PER_THREAD[dtype] * warps * 32:
                continue
            for depth in dict.fromkeys(min(size, longest) for size in depths if size <= _deepest(rows)):
                stages = next(
                    (s for s in _PIPELINE_STAGES if s * (rows + columns) * depth * item <= _shared(model, dtype)), 0
                )
                if stages:
                    yield MatrixTile(rows, columns, depth, warps, stages)


def _deepest(rows: int) -> int:
    return 128 if rows <= LEAST_ROWS else 64


def _shared(model: CostModel, dtype: DType) -> int:
    """The shared memory that a pipeline may take: half of it, so that two programs run on a multiprocessor."""
    return model.card.shared_bytes_per_sm // 2 - model.card.reserved_shared_bytes


def _splits(products: MatrixProducts, tile: MatrixTile) -> Iterator[int]:
    yield 1
    if products.is_known:
        longest = _number(products.depth, 0) // (8 * tile.depth)
        yield from (parts for parts in (2, 4, 8, 16) if parts <= min(MOST_PARTS, longest))


def _seconds(products: MatrixProducts, tile: MatrixTile, parts: int, model: CostModel) -> float:
    total = model.seconds(_work(products, tile, parts))
    if parts > 1:
        batch, m, n, _ = _numbers(products)
        partial = batch * m * n * 4
        total += model.seconds(Work(memory_bytes=(parts + 1) * partial, programs=max(1, partial // 4096)))
    return total


def _work(products: MatrixProducts, tile: MatrixTile, parts: int) -> Work:
    """What the launch of tiles does."""
    item = products.dtype.itemsize
    batch, m, n, k = _numbers(products)
    row_tiles, column_tiles = -(-m // tile.rows), -(-n // tile.columns)
    programs = batch * row_tiles * column_tiles * parts
    steps = -(-k // (parts * tile.depth))
    operations = 2.0 * programs * steps * tile.rows * tile.columns * tile.depth
    if products.dtype == F32 and products.input_precision == "tf32x3":
        operations *= 3
    if tile.rows < _WARP_GROUP_ROWS:
        operations /= _NARROW_SHARE
    # Small tiles load more than tensor cores can multiply meanwhile.
    loaded = float(programs) * steps * ((tile.rows + tile.columns) * tile.depth * item + _ITERATION_BYTES)
    operands = batch * (m * k + k * n) * item
    return Work(
        memory_bytes=operands + batch * m * n * item,
        cache_bytes=loaded,
        operations=operations,
        unit=_UNITS[products.dtype],
        programs=programs,
        programs_per_sm=2 if tile.warps == 4 else 1,
        steps=max(1, steps // tile.stages),
    )


def _numbers(products: MatrixProducts) -> tuple[int, int, int, int]:
    """Batch, rows, columns and depth."""
    m, n, k = (_number(size, TYPICAL_SIZE) for size in (products.rows, products.columns, products.depth))
    return _number(products.batch, 1), m, n, k


def _number(size: Dim, otherwise: int) -> int:
    return max(1, size) if isinstance(size, int) else otherwise
