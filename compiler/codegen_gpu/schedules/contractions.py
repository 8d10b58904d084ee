"""Contractions on a GPU: which tiles there are, how many programs share one, what tensor cores do not multiply."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxc.compiler.codegen_gpu.schedules.block_copies import LEAST_COPIED_ROWS, block_sides
from onnxc.compiler.codegen_gpu.schedules.cost_model import Amount, CostModel, cost_model
from onnxc.compiler.codegen_gpu.schedules.elements import BLOCK, accumulator_of, flat_tile, joining_of
from onnxc.compiler.codegen_gpu.schedules.product_tiles import (
    TILED_DTYPES,
    Products,
    arithmetic_of,
    multiplies,
    product_seconds,
    samples_of,
    splits,
    tile_problem,
    typical_size,
)
from onnxc.compiler.codegen_gpu.source.source_builder import power_of_two
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import BF16, F8E4M3FN, F8E5M2, F16, F32, I8, DType
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.loops.matrix_products import Problem
from onnxc.compiler.planning.schedules import ContractionSchedule, Tile, Warps
from onnxc.compiler.target import Target

__all__ = ["contraction_candidates", "contraction_cost", "contraction_measures", "contraction_sweep"]

LEAST_ROWS = 16
"""The fewest rows that tensor cores multiply."""

FEW_ROWS = 16
"""A product with so many rows at most, as when tokens are generated, is a matter of reading the other operand."""

MANY_ROWS = 64
"""From so many rows on a tile of the fewest rows is never right: others are multiplied by whole groups of warps."""

MOST_RANGES = 9
"""In so many ranges of rows 12 products of usual sizes stay within 1.15 of the best tile, in every element type; most
have 5 or fewer (tests/codegen_gpu/schedules/test_regret.py)."""

TYPICAL_SIZE = 512
"""What columns or a depth that only a call decides are taken for where they are one symbol."""

_SIDES = (16, 32, 64, 128, 256)

# What a thread can hold of the sums: operands in three parts need registers too.
_SUMS_PER_THREAD = {F32: 64, F16: 128, BF16: 128, I8: 128, F8E4M3FN: 128, F8E5M2: 128}

# What is loaded at once along k: rows of 128 bytes, or of 256 where little else is loaded.
_DEPTHS: dict[DType, tuple[int, ...]] = {F32: (32,), **dict.fromkeys((F16, BF16, I8, F8E4M3FN, F8E5M2), (64, 128))}

_PIPELINE_STAGES = (4, 3, 2)

_DESCRIPTOR_BYTES = 128
"""What the copy engine is told of an operand, in memory of each program's own."""


def contraction_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """The sizes of a product; calls are told apart by the number of rows, or of products where rows are known."""
    gemm = tile_problem(problem.block)
    if gemm is None:
        return {}
    batch, sides = product(gemm.sizes[letter] for letter in gemm.outer), (gemm.columns, gemm.depth)
    columns, depth = (Measure(size, (Typical(typical_size(size, TYPICAL_SIZE)),)) for size in sides)
    if isinstance(gemm.rows, int):
        usual = (Typical(typical_size(batch, 1)),)
        return {
            "batch": Measure(batch, usual, samples_of(batch), MOST_RANGES),
            "rows": Measure(gemm.rows, ()),
            "columns": columns,
            "depth": depth,
        }
    samples = samples_of(gemm.rows)
    many = Typical(max(TYPICAL_SIZE, samples[0]))
    ranges = (Typical(FEW_ROWS, 0, FEW_ROWS), replace(many, least=FEW_ROWS + 1)) if samples[0] <= FEW_ROWS else (many,)
    return {
        "batch": Measure(batch, (Typical(typical_size(batch, 1)),)),
        "rows": Measure(gemm.rows, ranges, samples, MOST_RANGES),
        "columns": columns,
        "depth": depth,
    }


def contraction_candidates(
    problem: KernelProblem, case: Case, target: Target, f32_operands: str
) -> Sequence[ContractionSchedule]:
    """Tiles on tensor cores, shared along k or not; for what these do not multiply, the general kernel."""
    gemm = tile_problem(problem.block)
    reason = _no_tiles(gemm, target)
    if gemm is None or reason:
        return (_general(problem, reason),)
    dtype, model = gemm.dot.operands[0].dtype, cost_model(target)
    arithmetic = arithmetic_of(dtype, F32 if dtype.is_float else gemm.dot.dtype(), f32_operands)
    has_sides = block_sides(gemm, target) is not None
    sizes = [case.sizes[name] for name in ("rows", "columns", "depth")]
    if case.sweep is not None and case.sweep.measure == "rows":
        sizes[0] = case.sweep.samples[-1]
    candidates = []
    for tile, warps in _tiles(dtype, sizes, model):
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
                    joining=joining_of(product(gemm.dot.results[0].shape)) if split > 1 else None,
                    shared_bytes=_parts_bytes(gemm, case, split),
                    program_bytes=2 * _DESCRIPTOR_BYTES if copied else 0,
                    programs=_programs(gemm, tile, split) if copied else 0,
                )
            )
    return candidates


def contraction_cost(problem: KernelProblem, schedule: ContractionSchedule, case: Case, target: Target) -> float:
    """The seconds that the launches of tiles take."""
    return float(_seconds(problem, schedule, case.sizes, target))


def contraction_sweep(problem: KernelProblem, schedule: ContractionSchedule, case: Case, target: Target) -> np.ndarray:
    """The same for each number of a sweep."""
    assert case.sweep is not None, case
    sizes: Mapping[str, Amount] = {**case.sizes, case.sweep.measure: np.array(case.sweep.samples)}
    return np.asarray(_seconds(problem, schedule, sizes, target))


def _seconds(
    problem: KernelProblem, schedule: ContractionSchedule, sizes: Mapping[str, Amount], target: Target
) -> Amount:
    """The seconds for sizes; many rows are not for the smallest tiles."""
    dtype = next(op for op in problem.block.ops if op.name == "dot").operands[0].dtype
    assert isinstance(schedule.workers, Warps), schedule
    tile, products = schedule.tile, _products(dtype, sizes)
    seconds = product_seconds(products, tile, schedule.workers, schedule.split, schedule.arithmetic, cost_model(target))
    return np.where((tile.rows <= LEAST_ROWS) & (products.rows >= MANY_ROWS), np.inf, seconds)


def _no_tiles(gemm: Problem | None, target: Target) -> str:
    """Why tensor cores do not multiply the operands; nothing where they do."""
    if gemm is None:
        return "the operands, or what is summed, do not lie in steps of one stride"
    a, b = (operand.dtype for operand in gemm.dot.operands)
    if a != b or not multiplies(a, target):
        known = sorted(str(dtype) for dtype in TILED_DTYPES if multiplies(dtype, target))
        return f"{a} by {b}: tensor cores multiply {', '.join(known)}"
    return "" if gemm.n and gemm.k else "the last axis of the result is of both operands, or nothing is summed"


def _general(problem: KernelProblem, why: str) -> ContractionSchedule:
    dot = next(op for op in problem.block.ops if op.name == "dot")
    block, warps = flat_tile(product(dot.results[0].shape), BLOCK)
    sums = accumulator_of(dot)
    return ContractionSchedule(
        algorithm="general", tile=Tile(1, block), arithmetic=arithmetic_of(sums, sums, "f32"), workers=warps, why=why
    )


def _products(dtype: DType, sizes: Mapping[str, Amount]) -> Products:
    batch, m = (np.maximum(1, sizes[name]) for name in ("batch", "rows"))
    n, k = (max(1, int(sizes[name])) for name in ("columns", "depth"))
    return Products(batch, m, n, 1, k, batch * (m * k + k * n) * dtype.itemsize, dtype)


def _parts_bytes(gemm: Problem, case: Case, split: int) -> Dim:
    """What the programs that share a tile leave for the launch that adds it up."""
    if split == 1:
        return 0
    outer = product(gemm.sizes[letter] for letter in gemm.outer)
    batch, rows = (
        size if (most := case.most[name]) is None else minimum(size, most)
        for name, size in (("batch", outer), ("rows", gemm.rows))
    )
    return split * batch * rows * gemm.columns * F32.itemsize


def _programs(gemm: Problem, tile: Tile, split: int) -> Dim:
    row_tiles = floordiv(gemm.rows + tile.rows - 1, tile.rows)
    column_tiles = floordiv(gemm.columns + tile.columns - 1, tile.columns)
    return product(gemm.sizes[letter] for letter in gemm.outer) * split * row_tiles * column_tiles


def _tiles(dtype: DType, sizes: Sequence[int], model: CostModel) -> Iterator[tuple[Tile, Warps]]:
    """What fits registers and shared memory, and is not much wider than a product of these rows, columns and depth."""
    item, (*sides, length) = dtype.itemsize, (max(1, size) for size in sizes)
    widest = max(16, power_of_two(sides[0])), max(16, power_of_two(sides[1]))
    depths, longest = _DEPTHS[dtype], max(32 if item == 1 else 16, power_of_two(length))
    for rows in (side for side in _SIDES if side <= widest[0]):
        for columns in (side for side in _SIDES if side <= widest[1]):
            warps = 8 if rows * columns > 64 * 128 else 4
            if rows * columns > _SUMS_PER_THREAD[dtype] * warps * 32:
                continue
            for depth in dict.fromkeys(min(size, longest) for size in depths if size <= _deepest(rows)):
                room = _shared(model, rows * columns)
                stages = next((s for s in _PIPELINE_STAGES if s * (rows + columns) * depth * item <= room), 0)
                if stages:
                    yield Tile(rows, columns, depth), Warps(warps, stages)


def _deepest(rows: int) -> int:
    return 128 if rows <= LEAST_ROWS else 64


def _shared(model: CostModel, sums: int) -> int:
    """The shared memory that a pipeline may take: half of it, so that two programs run on a multiprocessor.

    All of it where one program has so many sums that its registers leave none for another.
    """
    card = model.card
    programs = 1 if sums >= card.registers_per_sm // 2 else 2
    return card.shared_bytes_per_sm // programs - card.reserved_shared_bytes
