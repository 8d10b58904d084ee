"""Contractions on a GPU: which tiles there are, how many programs share one, what tensor cores do not multiply."""

from collections.abc import Iterator, Mapping, Sequence

from onnxc.compiler.codegen_gpu.schedules.block_copies import LEAST_COPIED_ROWS, block_sides
from onnxc.compiler.codegen_gpu.schedules.cost_model import CostModel, cost_model
from onnxc.compiler.codegen_gpu.schedules.elements import BLOCK, accumulator_of, flat_tile, joining_of
from onnxc.compiler.codegen_gpu.schedules.product_tiles import (
    TILED_DTYPES,
    Products,
    arithmetic_of,
    multiplies,
    product_seconds,
    splits,
)
from onnxc.compiler.codegen_gpu.source.source_builder import power_of_two
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import BF16, F8E4M3FN, F8E5M2, F16, F32, I8, DType
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.matrix_products import Problem, find_problem
from onnxc.compiler.planning.schedules import ContractionSchedule, Tile, Warps
from onnxc.compiler.target import Target

__all__ = ["contraction_candidates", "contraction_cost", "contraction_measures"]

LEAST_ROWS = 16
"""The fewest rows that tensor cores multiply."""

FEW_ROWS = 16
"""A product with so many rows at most, as when tokens are generated, is a matter of reading the other operand."""

TYPICAL_SIZE = 512
"""What a size that only a call decides is taken for."""

_SIDES = (16, 32, 64, 128, 256)

# What a thread can hold of the sums: operands in three parts need registers too.
_SUMS_PER_THREAD = {F32: 64, F16: 128, BF16: 128, I8: 128, F8E4M3FN: 128, F8E5M2: 128}

# What is loaded at once along k: rows of 128 bytes, or of 256 where little else is loaded.
_DEPTHS: dict[DType, tuple[int, ...]] = {F32: (32,), **dict.fromkeys((F16, BF16, I8, F8E4M3FN, F8E5M2), (64, 128))}

_PIPELINE_STAGES = (4, 3, 2)

_DESCRIPTOR_BYTES = 128
"""What the copy engine is told of an operand, in memory of each program's own."""


def contraction_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """The sizes of a product; calls with few rows are told from others, as programs must share the columns there."""
    found = find_problem(problem.block)
    if found is None:
        return {}
    usual = (Typical(TYPICAL_SIZE),)
    batch = product(found.sizes[letter] for letter in found.outer)
    is_told = bool(found.m) and isinstance(batch, int)
    rows = (Typical(FEW_ROWS, 0, FEW_ROWS), Typical(TYPICAL_SIZE, FEW_ROWS + 1)) if is_told else usual
    return {
        "batch": Measure(batch, (Typical(1),)),
        "rows": Measure(found.rows, rows),
        "columns": Measure(found.columns, usual),
        "depth": Measure(found.depth, usual),
    }


def contraction_candidates(
    problem: KernelProblem, case: Case, target: Target, f32_operands: str
) -> Sequence[ContractionSchedule]:
    """Tiles on tensor cores, shared along k or not; for what these do not multiply, the general kernel."""
    found = find_problem(problem.block)
    reason = _no_tiles(found, target)
    if found is None or reason:
        return (_general(problem, reason),)
    dtype, model = found.dot.operands[0].dtype, cost_model(target)
    arithmetic = arithmetic_of(dtype, F32 if dtype.is_float else found.dot.dtype(), f32_operands)
    has_sides = block_sides(found, target) is not None
    candidates = []
    for tile, warps in _tiles(_products(dtype, case), model):
        for split in splits(max(1, case.sizes["depth"]) // tile.depth) if case.is_bounded else (1,):
            copied = has_sides and tile.rows >= LEAST_COPIED_ROWS
            candidates.append(
                ContractionSchedule(
                    algorithm="tiles",
                    tile=tile,
                    arithmetic=arithmetic,
                    workers=warps,
                    split=split,
                    block_copies=copied,
                    joining=joining_of(product(found.dot.results[0].shape)) if split > 1 else None,
                    shared_bytes=_parts_bytes(found, case, split),
                    program_bytes=2 * _DESCRIPTOR_BYTES if copied else 0,
                    programs=_programs(found, tile, split) if copied else 0,
                )
            )
    return candidates


def contraction_cost(problem: KernelProblem, schedule: ContractionSchedule, case: Case, target: Target) -> float:
    """The seconds that the launches of tiles take."""
    dtype = next(op for op in problem.block.ops if op.name == "dot").operands[0].dtype
    assert isinstance(schedule.workers, Warps), schedule
    return product_seconds(
        _products(dtype, case), schedule.tile, schedule.workers, schedule.split, schedule.arithmetic, cost_model(target)
    )


def _no_tiles(found: Problem | None, target: Target) -> str:
    """Why tensor cores do not multiply the operands; nothing where they do."""
    if found is None:
        return "the operands, or what is summed, do not lie in steps of one stride"
    a, b = (operand.dtype for operand in found.dot.operands)
    if a != b or not multiplies(a, target):
        known = sorted(str(dtype) for dtype in TILED_DTYPES if multiplies(dtype, target))
        return f"{a} by {b}: tensor cores multiply {', '.join(known)}"
    return "" if found.n and found.k else "the last axis of the result is of both operands, or nothing is summed"


def _general(problem: KernelProblem, why: str) -> ContractionSchedule:
    dot = next(op for op in problem.block.ops if op.name == "dot")
    block, warps = flat_tile(product(dot.results[0].shape), BLOCK)
    sums = accumulator_of(dot)
    return ContractionSchedule(
        algorithm="general", tile=Tile(1, block), arithmetic=arithmetic_of(sums, sums, "f32"), workers=warps, why=why
    )


def _products(dtype: DType, case: Case) -> Products:
    batch, m, n, k = (max(1, case.sizes[name]) for name in ("batch", "rows", "columns", "depth"))
    return Products(batch, m, n, 1, k, batch * (m * k + k * n) * dtype.itemsize, dtype)


def _parts_bytes(found: Problem, case: Case, split: int) -> Dim:
    """What the programs that share a tile leave for the launch that adds it up."""
    if split == 1:
        return 0
    most = case.most["rows"]
    rows = found.rows if most is None else minimum(found.rows, most)
    return split * product(found.sizes[letter] for letter in found.outer) * rows * found.columns * F32.itemsize


def _programs(found: Problem, tile: Tile, split: int) -> Dim:
    row_tiles = floordiv(found.rows + tile.rows - 1, tile.rows)
    column_tiles = floordiv(found.columns + tile.columns - 1, tile.columns)
    return product(found.sizes[letter] for letter in found.outer) * split * row_tiles * column_tiles


def _tiles(products: Products, model: CostModel) -> Iterator[tuple[Tile, Warps]]:
    """What fits registers and shared memory, and is not much wider than the product."""
    dtype, item = products.dtype, products.dtype.itemsize
    widest = max(16, power_of_two(products.rows)), max(16, power_of_two(products.columns))
    depths, longest = _DEPTHS[dtype], max(32 if item == 1 else 16, power_of_two(products.depth))
    for rows in (side for side in _SIDES if side <= widest[0]):
        for columns in (side for side in _SIDES if side <= widest[1]):
            warps = 8 if rows * columns > 64 * 128 else 4
            if rows * columns > _SUMS_PER_THREAD[dtype] * warps * 32:
                continue
            for depth in dict.fromkeys(min(size, longest) for size in depths if size <= _deepest(rows)):
                stages = next((s for s in _PIPELINE_STAGES if s * (rows + columns) * depth * item <= _shared(model)), 0)
                if stages:
                    yield Tile(rows, columns, depth), Warps(warps, stages)


def _deepest(rows: int) -> int:
    return 128 if rows <= LEAST_ROWS else 64


def _shared(model: CostModel) -> int:
    """The shared memory that a pipeline may take: half of it, so that two programs run on a multiprocessor."""
    return model.card.shared_bytes_per_sm // 2 - model.card.reserved_shared_bytes
