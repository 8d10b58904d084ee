"""Tiles of products of matrices, and what launches of them take by the cost model.

Which tiles there are is not known here: matrix_tiles.py and convolution_tiles.py name what registers suffice for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from onnxc.compiler.codegen_gpu.tiles.cards import Unit
from onnxc.compiler.codegen_gpu.tiles.cost_model import CostModel, Work
from onnxc.compiler.ir.dtypes import BF16, F16, F32, I8, DType

__all__ = ["MatrixTile", "Products", "TileChoice", "choose_fastest", "rank_choices", "splits"]

MOST_PARTS = 16
"""How many programs share a tile at most."""

LEAST_ITERATIONS = 8
"""What each of the programs that share a tile does at least."""

_UNITS: dict[DType, Unit] = {F32: "tf32", F16: "fp16", BF16: "bf16", I8: "int8"}

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
class TileChoice:
    """The tile, how many programs share one, how long that should take, and what was decided against."""

    tile: MatrixTile
    parts: int
    seconds: float
    why: str = ""

    def __str__(self) -> str:
        return f"{self.tile}" + (f", {self.parts} parts" if self.parts > 1 else "")


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
    input_precision: str

    def iterations(self, tile: MatrixTile) -> int:
        """How often a tile's depth is multiplied along k."""
        return self.segments * -(-self.depth // tile.depth)


def choose_fastest(products: Products, candidates: Iterable[tuple[MatrixTile, int]], model: CostModel) -> TileChoice:
    """The tile and the number of programs that share it that the model finds fastest; the first of equals."""
    ranked = rank_choices(products, candidates, model)
    return replace(ranked[0], why=_reason(products, ranked, model))


def rank_choices(
    products: Products, candidates: Iterable[tuple[MatrixTile, int]], model: CostModel
) -> list[TileChoice]:
    """Tiles and how many programs share each, the fastest first."""
    choices = (TileChoice(tile, parts, _seconds(products, tile, parts, model)) for tile, parts in candidates)
    return sorted(choices, key=lambda choice: choice.seconds)


def splits(iterations: int) -> tuple[int, ...]:
    """How many programs may share so many iterations."""
    most = min(MOST_PARTS, iterations // LEAST_ITERATIONS)
    return (1, *(parts for parts in (2, 4, 8, 16) if parts <= most))


def _reason(products: Products, ranked: Sequence[TileChoice], model: CostModel) -> str:
    """Why the first of the choices is it, in a line."""
    best, *others = ranked
    bound = model.estimate(_work(products, best.tile, best.parts)).bound
    text = f"{best}: {best.seconds * 1e6:.1f} us, most of it {bound}"
    if not others:
        return f"{text}; nothing else fits"
    return f"{text}; of {len(ranked)} the next is {others[0]}: {others[0].seconds * 1e6:.1f} us"


def _seconds(products: Products, tile: MatrixTile, parts: int, model: CostModel) -> float:
    total = model.seconds(_work(products, tile, parts))
    if parts > 1:
        partial = products.batch * products.rows * products.columns * F32.itemsize
        total += model.seconds(Work(memory_bytes=(parts + 1) * partial, programs=max(1, partial // 4096)))
    return total


def _work(products: Products, tile: MatrixTile, parts: int) -> Work:
    """What the launch of tiles does."""
    item = products.dtype.itemsize
    row_tiles, column_tiles = -(-products.rows // tile.rows), -(-products.columns // tile.columns)
    programs = products.batch * row_tiles * column_tiles * parts
    steps = -(-products.iterations(tile) // parts)
    operations = 2.0 * programs * steps * tile.rows * tile.columns * tile.depth
    if products.dtype == F32 and products.input_precision == "tf32x3":
        operations *= 3
    if tile.rows < _WARP_GROUP_ROWS:
        operations /= _NARROW_SHARE
    # Small tiles load more than tensor cores can multiply meanwhile.
    loaded = float(programs) * steps * ((tile.rows + tile.columns) * tile.depth * item + _ITERATION_BYTES)
    return Work(
        memory_bytes=products.operand_bytes + products.batch * products.rows * products.columns * item,
        cache_bytes=loaded,
        operations=operations,
        unit=_UNITS[products.dtype],
        programs=programs,
        programs_per_sm=2 if tile.warps == 4 else 1,
        steps=max(1, steps // tile.stages),
    )
