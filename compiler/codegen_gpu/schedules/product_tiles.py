"""Tiles of products of matrices, and what launches of them take by the cost model.

Which tiles there are is not known here: contractions.py and convolutions.py name what registers suffice for.
"""

import numpy as np

from onnxc.compiler.codegen_gpu.schedules.cards import Unit, card_of
from onnxc.compiler.codegen_gpu.schedules.cost_model import Amount, Calibration, CostModel, Work
from onnxc.compiler.codegen_gpu.source.source_builder import is_multiple
from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, only_atom
from onnxc.compiler.ir.dtypes import BF16, F8E4M3FN, F8E5M2, F16, F32, I8, DType
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.planning.loops.matrix_products import Problem, gathered_problem
from onnxc.compiler.planning.schedules import Arithmetic, Tile, Warps
from onnxc.compiler.planning.size_ranges import sample_sizes
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = [
    "HALVED_SUMS",
    "TILED_DTYPES",
    "UNITS",
    "WARP_GROUP_ROWS",
    "Products",
    "arithmetic_of",
    "joining_seconds",
    "multiplies",
    "product_seconds",
    "products_of",
    "samples_of",
    "splits",
    "tile_problem",
    "typical_size",
]

TILED_DTYPES = frozenset((F32, F16, BF16, I8, F8E4M3FN, F8E5M2))
"""Element types that tensor cores multiply; f32 in three products of its parts, or in one less exact."""

UNITS: dict[DType, Unit] = {F32: "tf32", F16: "fp16", BF16: "bf16", I8: "int8", F8E4M3FN: "fp8", F8E5M2: "fp8"}
"""Which of its units multiplies them."""

MOST_PARTS = 16
"""How many programs share a tile at most."""

LEAST_ITERATIONS = 8
"""What each of the programs that share a tile does at least."""

TYPICAL_SYMBOL = 8
"""What each symbol of a size with others in it is taken for: images of a batch, heads, sequences."""

MOST_SAMPLED, MOST_SAMPLED_TIMES = 1 << 17, 1 << 7
"""Rows up to which tiles are compared, or so many times the fewest that there can be, as images of a batch."""

GATHERED_BELOW = 256
"""So many rows in one stride fill tiles of their own, which block copies read; fewer are gathered with the others."""

SPLITTING_OPERATIONS = 2.5e5
"""What tensor cores could do while an iteration takes the parts of f32: 80 ns on an H200, of tiles of 64 x 32 to
128 x 128."""

TURNING_SECONDS = 1.1e-10
"""What an iteration takes longer where it turns columns of f32 in shared memory, times the square of their number.

Measured on an H200: 0.1 us for 32 columns, 0.45 for 64, 2.1 for 128, whatever the rows.
"""

HALVED_SUMS = 128
"""Sums of a thread beside which what follows finds no registers: gelu of so many had 40 to 230 bytes of stack."""

WARP_GROUP_ROWS = 64
"""Tiles of fewer rows are multiplied by single warps, where groups of warps multiply."""


@record
class Products:
    """`batch` products of [rows, k] by [k, columns]; k is `segments` of `depth`, and no iteration is in two of them.

    operand_bytes: of both operands of all products, each element once. batch and rows may be arrays, for several calls.
    is_turned: whether columns of f32 lie beside one another, where groups of warps want each along k.
    """

    batch: Amount
    rows: Amount
    columns: int
    segments: int
    depth: int
    operand_bytes: Amount
    dtype: DType
    is_turned: bool = False

    def programs(self, tile: Tile, split: int) -> Amount:
        """How many programs make tiles of the result, so many sharing each."""
        return self.batch * -(-self.rows // tile.rows) * -(-self.columns // tile.columns) * split

    def iterations(self, depth: int) -> int:
        """How often `depth` products are made at a time along k."""
        return self.segments * -(-self.depth // depth)


def multiplies(dtype: DType, target: Target) -> bool:
    """Whether the tensor cores of a target multiply a type."""
    return dtype in TILED_DTYPES and UNITS[dtype] in card_of(target).peak


def arithmetic_of(dtype: DType, sums: DType, f32_operands: str) -> Arithmetic:
    """How tensor cores multiply operands of a type; f32 in the form that the precision asks for."""
    return Arithmetic(f32_operands if dtype == F32 else str(dtype), sums)


def tile_problem(block: Block) -> Problem | None:
    """The contraction of a kernel block as tiles make it."""
    return gathered_problem(block, GATHERED_BELOW)


def products_of(block: Block) -> tuple[Op, ...]:
    """The products of a kernel block, which have the first operand in common."""
    return tuple(op for op in block.ops if op.name == "dot")


def typical_size(size: Dim, usual: int) -> int:
    """What a size is taken for: `usual` where it is one symbol, else what it is where every symbol is typical."""
    if only_atom(size) is not None:
        return usual
    return evaluate(size, dict.fromkeys(symbols_of(size), TYPICAL_SYMBOL))


def samples_of(size: Dim) -> tuple[int, ...]:
    """Numbers that a size of calls may be, from the least that is not 0; none where it is known."""
    if isinstance(size, int):
        return ()
    least = max(1, evaluate(size, dict.fromkeys(symbols_of(size), 1)))
    times = max(MOST_SAMPLED // least, MOST_SAMPLED_TIMES)
    if is_multiple(size, least):
        return tuple(least * multiple for multiple in sample_sizes(1, times))
    return sample_sizes(least, times * least)


def splits(iterations: int) -> tuple[int, ...]:
    """How many programs may share so many iterations."""
    most = min(MOST_PARTS, iterations // LEAST_ITERATIONS)
    return (1, *(parts for parts in (2, 4, 8, 16) if parts <= most))


def product_seconds(
    products: Products, tile: Tile, warps: Warps, split: int, arithmetic: Arithmetic, model: CostModel
) -> Amount:
    """What the launches of tiles take, `split` programs sharing each, with the launch that adds up their parts."""
    total = model.estimate(_work(products, tile, warps, split, arithmetic, model.calibration)).seconds
    if products.is_turned and tile.rows >= WARP_GROUP_ROWS and model.card.multiplies_in_groups:
        steps = -(-products.iterations(tile.depth) // split)
        total = total + TURNING_SECONDS * tile.columns**2 * steps * products.programs(tile, split) / model.card.sms
    if split > 1:
        total = total + joining_seconds(products.batch * products.rows * products.columns, split, model)
    return total


def joining_seconds(elements: Amount, split: int, model: CostModel) -> Amount:
    """What the launch takes that adds up the parts of so many elements."""
    partial = elements * F32.itemsize
    return model.estimate(Work(memory_bytes=(split + 1) * partial, programs=np.maximum(1, partial // 4096))).seconds


def _work(
    products: Products, tile: Tile, warps: Warps, split: int, arithmetic: Arithmetic, calibration: Calibration
) -> Work:
    """What the launch of tiles does."""
    item = products.dtype.itemsize
    programs = products.programs(tile, split)
    steps = -(-products.iterations(tile.depth) // split)
    operations = 2.0 * programs * steps * tile.rows * tile.columns * tile.depth
    if arithmetic.operands == "tf32x3":
        operations = operations * 3 / calibration.split_share + SPLITTING_OPERATIONS * programs * steps
    if tile.rows < WARP_GROUP_ROWS:
        operations /= calibration.narrow_share
    # Small tiles load more than tensor cores can multiply meanwhile.
    loaded = 1.0 * programs * steps * ((tile.rows + tile.columns) * tile.depth * item + calibration.iteration_bytes)
    written = products.batch * products.rows * products.columns * (item if split == 1 else split * F32.itemsize)
    return Work(
        memory_bytes=products.operand_bytes + written,
        cache_bytes=loaded,
        operations=operations,
        unit=UNITS[products.dtype],
        programs=programs,
        programs_per_sm=2 if warps.count == 4 else 1,
        steps=max(1, steps // warps.stages),
    )
