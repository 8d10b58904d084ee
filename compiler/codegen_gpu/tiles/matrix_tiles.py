"""Tiles of matrix products: how many rows and columns a program makes, and how many programs share a tile."""

from collections.abc import Iterator
from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.source.source_builder import power_of_two
from onnxc.compiler.codegen_gpu.tiles.cost_model import CostModel, cost_model
from onnxc.compiler.codegen_gpu.tiles.product_tiles import (
    MatrixTile,
    Products,
    TileChoice,
    choose_fastest,
    rank_choices,
    splits,
)
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BF16, F16, F32, I8, DType
from onnxc.compiler.target import Target

TILED_DTYPES = frozenset((F32, F16, BF16, I8))
"""Element types that tensor cores multiply; f32 in three products of its parts, or in one less exact."""

LEAST_ROWS = 16

TYPICAL_SIZE = 512
"""What a size that only a call decides is taken for."""

_SIDES = (16, 32, 64, 128, 256)

# What a thread can hold of the sums: operands in three parts need registers too.
_SUMS_PER_THREAD = {F32: 64, F16: 128, BF16: 128, I8: 128}

# What is loaded at once along k: rows of 128 bytes, or of 256 where little else is loaded.
_DEPTHS: dict[DType, tuple[int, ...]] = {F32: (32,), F16: (64, 128), BF16: (64, 128), I8: (64, 128)}

_PIPELINE_STAGES = (4, 3, 2)


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

    def typical(self) -> Products:
        """The same in numbers."""
        m, n, k = (_number(size, TYPICAL_SIZE) for size in (self.rows, self.columns, self.depth))
        batch = _number(self.batch, 1)
        operand_bytes = batch * (m * k + k * n) * self.dtype.itemsize
        return Products(batch, m, n, 1, k, operand_bytes, self.dtype, self.input_precision)


def choose_tile(products: MatrixProducts, target: Target) -> TileChoice:
    """The tile and the split along k that the cost model finds fastest; the first of equals."""
    model = cost_model(target)
    return choose_fastest(products.typical(), _candidates(products, model), model)


def rank_tiles(products: MatrixProducts, target: Target) -> list[TileChoice]:
    """Every tile and split that could be taken, the fastest first by the cost model."""
    model = cost_model(target)
    return rank_choices(products.typical(), _candidates(products, model), model)


def _candidates(products: MatrixProducts, model: CostModel) -> Iterator[tuple[MatrixTile, int]]:
    sizes = products.typical()
    for tile in _tiles(sizes, model):
        for parts in splits(sizes.depth // tile.depth) if products.is_known else (1,):
            yield tile, parts


def _tiles(products: Products, model: CostModel) -> Iterator[MatrixTile]:
    """What fits registers and shared memory, and is not much wider than the product."""
    dtype, item = products.dtype, products.dtype.itemsize
    widest = max(16, power_of_two(products.rows)), max(16, power_of_two(products.columns))
    depths, longest = _DEPTHS[dtype], max(32 if dtype == I8 else 16, power_of_two(products.depth))
    for rows in (side for side in _SIDES if side <= widest[0]):
        for columns in (side for side in _SIDES if side <= widest[1]):
            warps = 8 if rows * columns > 64 * 128 else 4
            if rows * columns > _SUMS_PER_THREAD[dtype] * warps * 32:
                continue
            for depth in dict.fromkeys(min(size, longest) for size in depths if size <= _deepest(rows)):
                stages = next((s for s in _PIPELINE_STAGES if s * (rows + columns) * depth * item <= _shared(model)), 0)
                if stages:
                    yield MatrixTile(rows, columns, depth, warps, stages)


def _deepest(rows: int) -> int:
    return 128 if rows <= LEAST_ROWS else 64


def _shared(model: CostModel) -> int:
    """The shared memory that a pipeline may take: half of it, so that two programs run on a multiprocessor."""
    return model.card.shared_bytes_per_sm // 2 - model.card.reserved_shared_bytes


def _number(size: Dim, otherwise: int) -> int:
    return max(1, size) if isinstance(size, int) else otherwise
