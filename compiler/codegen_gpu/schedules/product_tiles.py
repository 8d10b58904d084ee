"""Tiles of products of matrices, and what launches of them take by the cost model.

Which tiles there are is not known here: contractions.py and convolutions.py name what registers suffice for.
"""

from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.schedules.cards import Unit, card_of
from onnxc.compiler.codegen_gpu.schedules.cost_model import Calibration, CostModel, Work
from onnxc.compiler.ir.dtypes import BF16, F8E4M3FN, F8E5M2, F16, F32, I8, DType
from onnxc.compiler.planning.schedules import Arithmetic, Tile, Warps
from onnxc.compiler.target import Target

__all__ = ["TILED_DTYPES", "UNITS", "Products", "arithmetic_of", "multiplies", "product_seconds", "splits"]

TILED_DTYPES = frozenset((F32, F16, BF16, I8, F8E4M3FN, F8E5M2))
"""Element types that tensor cores multiply; f32 in three products of its parts, or in one less exact."""

UNITS: dict[DType, Unit] = {F32: "tf32", F16: "fp16", BF16: "bf16", I8: "int8", F8E4M3FN: "fp8", F8E5M2: "fp8"}
"""Which of its units multiplies them."""

MOST_PARTS = 16
"""How many programs share a tile at most."""

LEAST_ITERATIONS = 8
"""What each of the programs that share a tile does at least."""

_WARP_GROUP_ROWS = 64
"""Tiles of fewer rows are multiplied by single warps."""


@dataclass(frozen=True)
class Products:
    """`batch` products of [rows, k] by [k, columns]; k is `segments` of `depth`, and no iteration is in two of them.

    operand_bytes: of both operands of all products, each element once.
    """

    batch: int
    rows: int
    columns: int
    segments: int
    depth: int
    operand_bytes: int
    dtype: DType

    def iterations(self, depth: int) -> int:
        """How often `depth` products are made at a time along k."""
        return self.segments * -(-self.depth // depth)


def multiplies(dtype: DType, target: Target) -> bool:
    """Whether the tensor cores of a target multiply a type."""
    return dtype in TILED_DTYPES and UNITS[dtype] in card_of(target).peak


def arithmetic_of(dtype: DType, sums: DType, f32_operands: str) -> Arithmetic:
    """How tensor cores multiply operands of a type; f32 in the form that the precision asks for."""
    return Arithmetic(f32_operands if dtype == F32 else str(dtype), sums)


def splits(iterations: int) -> tuple[int, ...]:
    """How many programs may share so many iterations."""
    most = min(MOST_PARTS, iterations // LEAST_ITERATIONS)
    return (1, *(parts for parts in (2, 4, 8, 16) if parts <= most))


def product_seconds(
    products: Products, tile: Tile, warps: Warps, split: int, arithmetic: Arithmetic, model: CostModel
) -> float:
    """What the launches of tiles take, `split` programs sharing each, with the launch that adds up their parts."""
    total = model.seconds(_work(products, tile, warps, split, arithmetic, model.calibration))
    if split > 1:
        partial = products.batch * products.rows * products.columns * F32.itemsize
        total += model.seconds(Work(memory_bytes=(split + 1) * partial, programs=max(1, partial // 4096)))
    return total


def _work(
    products: Products, tile: Tile, warps: Warps, split: int, arithmetic: Arithmetic, calibration: Calibration
) -> Work:
    """What the launch of tiles does."""
    item = products.dtype.itemsize
    row_tiles, column_tiles = -(-products.rows // tile.rows), -(-products.columns // tile.columns)
    programs = products.batch * row_tiles * column_tiles * split
    steps = -(-products.iterations(tile.depth) // split)
    operations = 2.0 * programs * steps * tile.rows * tile.columns * tile.depth
    if arithmetic.operands == "tf32x3":
        operations *= 3
    if tile.rows < _WARP_GROUP_ROWS:
        operations /= calibration.narrow_share
    # Small tiles load more than tensor cores can multiply meanwhile.
    loaded = float(programs) * steps * ((tile.rows + tile.columns) * tile.depth * item + calibration.iteration_bytes)
    return Work(
        memory_bytes=products.operand_bytes + products.batch * products.rows * products.columns * item,
        cache_bytes=loaded,
        operations=operations,
        unit=UNITS[products.dtype],
        programs=programs,
        programs_per_sm=2 if warps.count == 4 else 1,
        steps=max(1, steps // warps.stages),
    )
