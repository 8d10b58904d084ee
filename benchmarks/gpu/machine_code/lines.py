"""What machine code is held to: a line for each thing that slow kernels have, or fast ones must have."""

from collections.abc import Iterator, Mapping

from benchmarks.gpu.machine_code.compiled_model import CompiledModel, TakenKernel
from onnxc.compiler.codegen_gpu.schedules.cards import WARP_GROUPS_FROM, card_of
from onnxc.compiler.codegen_gpu.schedules.product_tiles import WARP_GROUP_ROWS, tile_problem
from onnxc.compiler.ir.dtypes import F8E4M3FN, F8E5M2, I8
from onnxc.compiler.planning.schedules import Arithmetic, Tile, Warps
from onnxc.compiler.target import Target

__all__ = [
    "broken_by_kernel", "broken_by_model", "grouped_instruction", "is_large_product", "is_stem", "lacks_grouped",
    "stages_of",
]  # fmt: skip

COLD_SECONDS, WARM_SECONDS = 60.0, 2.0

LEAST_STAGES = 3
"""Of block copies: one block is multiplied, one is there, one is under way."""

COPIED_BYTES = 2
"""Of an element that the engine copies for a product: 16-bit floats alone (schedules/block_copies.py)."""

GROUP_WARPS = 4

STEM_CHANNELS = 4
"""A convolution of so many channels is the first of a network: those of an image."""

GROUPED: Mapping[str, str] = {str(I8): "IGMMA", str(F8E4M3FN): "QGMMA", str(F8E5M2): "QGMMA"}
"""What groups of warps multiply operands by, where that is not HGMMA."""

BYTES = ("IGMMA", "IMMA", "QGMMA", "QMMA", "UTCIMMA", "UTCQMMA")

QUANTISED = frozenset((
    "QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger",
    "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm",
))  # fmt: skip
"""Operators of models whose products are of bytes."""

PRODUCTS = ("contraction", "convolution")
"""Kinds of kernels that may be such products."""


def broken_by_kernel(kernel: TakenKernel, target: Target) -> Iterator[str]:
    """What a kernel lacks, or has and should not have."""
    code = kernel.code
    if kernel.device.stack_bytes:
        yield f"{kernel.device.stack_bytes} bytes of stack"
    if code.narrow_loads and not is_stem(kernel):
        yield f"{code.narrow_loads} loads of one byte or two in the loop that multiplies"
    if is_large_product(kernel) and lacks_grouped(kernel, target):
        yield f"a large product without {grouped_instruction(kernel, target) or 'tensor cores'}"
    yield from _broken_copies(kernel)


def _broken_copies(kernel: TakenKernel) -> Iterator[str]:
    """What is wrong with copies of blocks, and the warps that make them."""
    code, stages, schedule = kernel.code, stages_of(kernel), kernel.planned.schedule
    if getattr(schedule, "block_copies", False) and _multiplies(kernel) and not code.block_copies:
        yield "the plan has block copies, the code none"
    if stages is not None and stages < LEAST_STAGES:
        yield f"block copies in {stages} stages"
    if getattr(schedule, "hands_over", False) and _multiplies(kernel) and not code.handings_over:
        yield "no registers are handed over"


def broken_by_model(model: CompiledModel) -> Iterator[str]:
    """What a whole model lacks, or takes too long for."""
    products = [kernel for kernel in model.kernels if kernel.planned.kind in PRODUCTS]
    is_quantised = bool(products) and any(kernel.operators & QUANTISED for kernel in model.kernels)
    if is_quantised and not any(kernel.code.matrix.get(kind) for kernel in products for kind in BYTES):
        yield "a quantised model without products of bytes on tensor cores"
    if model.least_s >= COLD_SECONDS:
        yield f"{model.least_s:.0f} s to compile on two cores"
    if model.warm_s >= WARM_SECONDS:
        yield f"{model.warm_s:.1f} s to compile again"


def is_large_product(kernel: TakenKernel) -> bool:
    """Whether tiles have as many rows, and programs as many warps, as multiply as a group."""
    tile, workers = (getattr(kernel.planned.schedule, name, None) for name in ("tile", "workers"))
    is_large = isinstance(tile, Tile) and tile.rows >= WARP_GROUP_ROWS
    return is_large and isinstance(workers, Warps) and workers.count >= GROUP_WARPS and _multiplies(kernel)


def is_stem(kernel: TakenKernel) -> bool:
    """Whether it is a convolution of the few channels of an image."""
    for op in kernel.planned.block.ops:
        if op.name == "convolution":
            channels = op.operands[1].shape[1]
            return isinstance(channels, int) and channels <= STEM_CHANNELS and op.int("groups") == 1
    return False


def stages_of(kernel: TakenKernel) -> int | None:
    """In how many stages blocks are copied, which the shared memory has room for; None where none or too few are."""
    schedule = kernel.planned.schedule
    tile, workers = (getattr(schedule, name, None) for name in ("tile", "workers"))
    if not kernel.code.block_copies or not isinstance(tile, Tile) or not isinstance(workers, Warps):
        return None
    product = tile_problem(kernel.planned.block)
    if product is not None and isinstance(product.depth, int) and product.depth <= (LEAST_STAGES - 1) * tile.depth:
        return None
    columns = getattr(schedule, "products", 1) * tile.columns
    stage = (tile.rows + columns) * tile.depth * COPIED_BYTES
    return min(workers.stages, kernel.device.shared_bytes // stage)


def lacks_grouped(kernel: TakenKernel, target: Target) -> bool:
    """Whether its code has not what multiplies its operands fastest."""
    wanted = grouped_instruction(kernel, target)
    return not (kernel.code.matrix.get(wanted) if wanted else kernel.code.matrix)


def grouped_instruction(kernel: TakenKernel, target: Target) -> str:
    """What groups of warps multiply its operands by; empty where a target has others, and each is as good."""
    if card_of(target).architecture != WARP_GROUPS_FROM:
        return ""
    arithmetic = getattr(kernel.planned.schedule, "arithmetic", None)
    return GROUPED.get(arithmetic.operands, "HGMMA") if isinstance(arithmetic, Arithmetic) else "HGMMA"


def _multiplies(kernel: TakenKernel) -> bool:
    """Whether this launch multiplies, and does not only join what others have multiplied."""
    return "tl.dot" in kernel.source.text
