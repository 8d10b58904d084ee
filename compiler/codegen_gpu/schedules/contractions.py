"""Contractions on a GPU: which tiles there are, how many programs share one, what tensor cores do not multiply."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxc.compiler.codegen_gpu.schedules.block_copies import ALIGNED_BYTES, LEAST_COPIED_ROWS, block_sides
from onnxc.compiler.codegen_gpu.schedules.cards import WARP_THREADS
from onnxc.compiler.codegen_gpu.schedules.cost_model import Amount, CostModel, cost_model
from onnxc.compiler.codegen_gpu.schedules.elements import (
    BLOCK,
    accumulator_of,
    flat_tile,
    joining_of,
    with_smaller_tiles,
)
from onnxc.compiler.codegen_gpu.schedules.product_tiles import (
    HALVED_SUMS,
    TILED_DTYPES,
    WARP_GROUP_ROWS,
    Products,
    arithmetic_of,
    multiplies,
    product_seconds,
    products_of,
    samples_of,
    splits,
    tile_problem,
    typical_size,
)
from onnxc.compiler.codegen_gpu.source.source_builder import is_multiple, power_of_two
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import BF16, F8E4M3FN, F8E5M2, F16, F32, I8, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.layouts import Permuted, known_sizes
from onnxc.compiler.planning.loops.matrix_products import Problem
from onnxc.compiler.planning.schedules import Arithmetic, ContractionSchedule, Packing, Tile, Warps
from onnxc.compiler.target import Target

__all__ = ["contraction_candidates", "contraction_cost", "contraction_measures", "contraction_sweep", "makes_together"]

LEAST_ROWS = 16
"""The fewest rows that tensor cores multiply."""

LEAST_COLUMNS = 16
"""The fewest columns of a tile of each product."""

FEW_ROWS = 16
"""A product with so many rows at most, as when tokens are generated, is a matter of reading the other operand."""

MANY_ROWS = 64
"""From so many rows on a tile of the fewest rows is never right: others are multiplied by whole groups of warps."""

MOST_RANGES, MOST_F32_RANGES = 9, 10
"""In so many ranges of rows 12 products of usual sizes stay within 1.15 of the best tile, in every element type; most
have 5 or fewer (tests/codegen_gpu/schedules/test_regret.py). An iteration of f32 costs something whatever its tile."""

TYPICAL_SIZE = 512
"""What columns or a depth that only a call decides are taken for where they are one symbol."""

_SIDES = (16, 32, 64, 128, 256)

# What a thread can hold of the sums: operands in three parts need registers too.
_SUMS_PER_THREAD = {F32: 64, F16: 128, BF16: 128, I8: 128, F8E4M3FN: 128, F8E5M2: 128}

SINGLE_WARP_SUMS = 32
"""The same of f32 in three parts where single warps multiply, which have both operands in registers: with 64, tiles of
128 x 64 to 256 x 64 had 40 to 280 bytes of stack on sm_80."""

# Larger tiles have 8 warps, groups of which share no rows of f32. Two programs of 4 run on a multiprocessor: one
# multiplies while the other one stores.
_FOUR_WARPS = {F32: 64 * 64, **dict.fromkeys((I8, F8E4M3FN, F8E5M2), 64 * 128), **dict.fromkeys((F16, BF16), 128 * 128)}

# What is loaded at once along k: rows of 128 bytes, or of 256 where little else is loaded.
_DEPTHS: dict[DType, tuple[int, ...]] = {F32: (32,), **dict.fromkeys((F16, BF16, I8, F8E4M3FN, F8E5M2), (64, 128))}

_PIPELINE_STAGES = (4, 3, 2)

COPIED_STAGES = 3
"""Stages of blocks that the copy engine brings, at least: one that is multiplied, and two on their way. Where half of
the shared memory has room for two, as of 256 x 64 x 64, blocks are half as deep, of which it has room for four."""

RESIDENT_TILE = 128 * 128
"""The elements of tiles whose programs stay, two on a multiprocessor: [4096, 768] by [768, 2304] of bf16 took 34 us on
an H200 with a program for each, 28 with 264 that stay, and 32 with 132 that make tiles of twice the size."""

HANDED_OVER, HANDED_OVER_SECONDS = Tile(128, 256, 64), 32 / 28
"""The tile whose blocks warps of their own copy, and what it takes by that of tiles of half the columns, two programs
of which are on a multiprocessor. Measured on an H200 without such warps; with them it has not run, so that it is a
candidate for sweeps and never the first."""

_DESCRIPTOR_BYTES = 128
"""What the copy engine is told of an operand, in memory of each program's own."""


def makes_together(first: Op, second: Op) -> bool:
    """Whether two products of the same rows by constants of one shape are made by one kernel.

    16-bit columns that begin at multiples of 16 bytes are read as they lie, and so are those of f32 that lie along
    what is summed: others would be packed.
    """
    (x, w), (y, v) = first.operands, second.operands
    _, right, result = parse_equation(first.text("equation"))
    is_alike = x == y and w.tensor == v.tensor and first.text("equation") == second.text("equation")
    is_constant = all(each.op is not None and each.op.name == "constant" for each in (w, v))
    if not is_alike or not is_constant or w.rank != 2 or x.dtype != w.dtype:
        return False
    if x.dtype == F32:
        return right[0] == result[-1]
    is_whole = is_multiple(w.shape[-1], ALIGNED_BYTES // x.dtype.itemsize)
    return x.dtype in (F16, BF16) and is_whole and right[-1] == result[-1]


def contraction_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """The sizes of a product; calls are told apart by the number of rows, or of products where rows are known."""
    gemm = tile_problem(problem.block)
    if gemm is None:
        return {}
    most = MOST_F32_RANGES if gemm.dot.operands[0].dtype == F32 else MOST_RANGES
    batch, sides = product(gemm.sizes[letter] for letter in gemm.outer), (gemm.columns, gemm.depth)
    columns, depth = (Measure(size, (Typical(typical_size(size, TYPICAL_SIZE)),)) for size in sides)
    if isinstance(gemm.rows, int):
        usual = (Typical(typical_size(batch, 1)),)
        return {
            "batch": Measure(batch, usual, samples_of(batch), most),
            "rows": Measure(gemm.rows, ()),
            "columns": columns,
            "depth": depth,
        }
    samples = samples_of(gemm.rows)
    many = Typical(max(TYPICAL_SIZE, samples[0]))
    ranges = (Typical(FEW_ROWS, 0, FEW_ROWS), replace(many, least=FEW_ROWS + 1)) if samples[0] <= FEW_ROWS else (many,)
    return {
        "batch": Measure(batch, (Typical(typical_size(batch, 1)),)),
        "rows": Measure(gemm.rows, ranges, samples, most),
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
    packing = _packing(problem, gemm)
    has_sides = block_sides(gemm, target, packing is not None) is not None
    count = len(products_of(problem.block))
    sizes = [case.sizes["rows"], count * case.sizes["columns"], case.sizes["depth"]]
    if case.sweep is not None and case.sweep.measure == "rows":
        sizes[0] = case.sweep.samples[-1]
    candidates: list[ContractionSchedule] = []
    stored = max(value.dtype.itemsize for value in problem.block.results) if has_sides and not gemm.outer else 0
    most_sums = _most_sums(arithmetic, dtype, model)
    for whole, warps in _tiles(dtype, sizes, stored, most_sums, model, is_copied=has_sides):
        # Tiles of several products take what one of all their columns does.
        tile = replace(whole, columns=whole.columns // count)
        if tile.columns < LEAST_COLUMNS:
            continue
        for split in splits(max(1, case.sizes["depth"]) // tile.depth) if case.is_bounded else (1,):
            copied = has_sides and tile.rows >= LEAST_COPIED_ROWS
            resident = _resident(gemm, whole, model) if copied and split == 1 else 0
            if resident and whole.rows * whole.columns != _resident_tile(stored):
                continue
            programs = _programs(gemm, tile, split)
            schedule = ContractionSchedule(
                algorithm="tiles",
                tile=tile,
                arithmetic=arithmetic,
                workers=warps,
                split=split,
                block_copies=copied,
                packing=packing,
                joining=joining_of(product(gemm.dot.results[0].shape)) if split > 1 else None,
                shared_bytes=count * _parts_bytes(gemm, case, split),
                program_bytes=(1 + count) * _DESCRIPTOR_BYTES if copied else 0,
                programs=0 if not copied else minimum(programs, resident) if resident else programs,
                resident=resident,
                products=count,
            )
            candidates.append(replace(schedule, fallbacks=_in_quarters(schedule, warps)))
    return [*candidates, *_handing_over(gemm, candidates, sizes, stored, model)]


def _handing_over(
    gemm: Problem, candidates: Sequence[ContractionSchedule], sizes: Sequence[int], stored: int, model: CostModel
) -> Iterator[ContractionSchedule]:
    """The largest tile, whose blocks are copied by warps of their own, beside one whose programs stay."""
    alike = next((each for each in candidates if each.resident), None)
    tile = HANDED_OVER
    is_filled = sizes[0] >= tile.rows and sizes[1] >= tile.columns and sizes[2] >= tile.depth
    if alike is None or _resident_tile(stored) != RESIDENT_TILE or not (model.card.hands_over and is_filled):
        return
    if alike.products > 1:
        return
    # What is stored goes through shared memory by halves of the rows.
    item, room = gemm.dot.operands[0].dtype.itemsize, model.card.shared_bytes_per_sm - model.card.reserved_shared_bytes
    room -= max(stored, item) * tile.rows * tile.columns // 2
    stages = _stages(tile, item, room)
    programs, resident = _programs(gemm, tile, 1), model.card.sms
    yield replace(
        alike,
        tile=tile,
        workers=Warps(8, stages),
        programs=minimum(programs, resident),
        resident=resident,
        hands_over=True,
        fallbacks=(),
    )


def _in_quarters(schedule: ContractionSchedule, warps: Warps) -> tuple[ContractionSchedule, ...]:
    """The same tile with what follows it computed in quarters, where it is computed in halves.

    By Triton 3.9 for sm_90, of f16: 128 x 128 to which a bias and f32 are added had 168 bytes of stack in halves, and
    128 x 256 of 50257 columns of f32 24 bytes; in quarters both had none, with 206 and 180 registers.
    """
    sums = schedule.products * schedule.tile.rows * schedule.tile.columns // (warps.count * WARP_THREADS)
    return (replace(schedule, quarters=True),) if sums >= HALVED_SUMS else ()


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
    """The seconds for sizes; many rows are not for the smallest tiles, nor are tiles shared that fill the card."""
    gemm = tile_problem(problem.block)
    assert gemm is not None, problem
    assert isinstance(schedule.workers, Warps), schedule
    is_turned = schedule.packing is None and gemm.b_stride(gemm.k) != 1
    count, model = schedule.products, cost_model(target)
    products = _products(gemm.dot.operands[0].dtype, {**sizes, "columns": count * sizes["columns"]}, is_turned)
    tile, workers = replace(schedule.tile, columns=count * schedule.tile.columns), schedule.workers
    if schedule.hands_over:
        tile, workers = replace(tile, columns=tile.columns // 2), replace(workers, count=workers.count // 2)
    seconds = product_seconds(products, tile, workers, schedule.split, schedule.arithmetic, model)
    if schedule.hands_over:
        seconds = HANDED_OVER_SECONDS * seconds
    is_filled = products.programs(tile, 1) >= 2 * model.card.sms
    is_poor = (tile.rows <= LEAST_ROWS) & (products.rows >= MANY_ROWS) | is_filled & (schedule.split > 1)
    return np.where(is_poor, np.inf, seconds)


def _packing(problem: KernelProblem, gemm: Problem) -> Packing | None:
    """Constant columns one after the other along k, as tensor cores read all but 16-bit numbers.

    Others are turned in shared memory, which takes longer than the product. 16-bit ones where lines of columns do not
    begin at multiples of 16 bytes, so that neither blocks nor vectors are copied.
    """
    base, depth, columns = gemm.b.base, gemm.depth, gemm.columns
    uses = [operand for op in problem.block.ops for operand in op.operands].count(base)
    parameter = problem.block.parameters.index(base)
    is_turned = (gemm.b_strides[gemm.n], gemm.b_stride(gemm.k)) == (1, columns)
    is_narrow = base.dtype in (F16, BF16) and is_multiple(columns, ALIGNED_BYTES // base.dtype.itemsize)
    if is_narrow or base.shape != (depth, columns) or not is_turned or uses != 1:
        return None
    return Packing(parameter, Permuted((1, 0), known_sizes(base.shape))) if problem.is_constant(parameter) else None


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
    schedule = ContractionSchedule(
        algorithm="general", tile=Tile(1, block), arithmetic=arithmetic_of(sums, sums, "f32"), workers=warps, why=why
    )
    return with_smaller_tiles(schedule)


def _products(dtype: DType, sizes: Mapping[str, Amount], is_turned: bool) -> Products:
    batch, m = (np.maximum(1, sizes[name]) for name in ("batch", "rows"))
    n, k = (max(1, int(sizes[name])) for name in ("columns", "depth"))
    operand_bytes = batch * (m * k + k * n) * dtype.itemsize
    return Products(batch, m, n, 1, k, operand_bytes, dtype, is_turned and dtype == F32)


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


def _resident_tile(stored: int) -> int:
    """The elements of tiles whose programs stay: of wider results two programs would have no shared memory at once."""
    return RESIDENT_TILE if stored <= 2 else 2 * RESIDENT_TILE


def _resident(gemm: Problem, tile: Tile, model: CostModel) -> int:
    """The programs that run at once of large tiles; each describes its blocks once, and loads while it stores."""
    is_large = tile.rows * tile.columns >= RESIDENT_TILE and not gemm.outer
    return model.card.sms * _at_once(model, tile.rows * tile.columns) if is_large else 0


def _most_sums(arithmetic: Arithmetic, dtype: DType, model: CostModel) -> int:
    """How many sums a thread can hold."""
    in_parts = arithmetic.operands == "tf32x3" and not model.card.multiplies_in_groups
    return SINGLE_WARP_SUMS if in_parts else _SUMS_PER_THREAD[dtype]


def _tiles(
    dtype: DType, sizes: Sequence[int], stored: int, most_sums: int, model: CostModel, *, is_copied: bool
) -> Iterator[tuple[Tile, Warps]]:
    """What fits registers and shared memory, and is not much wider than a product of these rows, columns and depth.

    stored: bytes of an element of the result where programs of large tiles stay; they store half a tile at a time.
    most_sums: of a thread. is_copied: whether tiles of enough rows are copied in blocks.
    """
    item, (*sides, length) = dtype.itemsize, (max(1, size) for size in sizes)
    widest = max(16, power_of_two(sides[0])), max(16, power_of_two(sides[1]))
    depths, longest = _DEPTHS[dtype], max(32 if item == 1 else 16, power_of_two(length))
    for rows in (side for side in _SIDES if side <= widest[0]):
        for columns in (side for side in _SIDES if side <= widest[1]):
            is_of_one_group = dtype == F32 and rows <= WARP_GROUP_ROWS and model.card.multiplies_in_groups
            warps = 8 if rows * columns > _FOUR_WARPS[dtype] and not is_of_one_group else 4
            if rows * columns > most_sums * warps * WARP_THREADS:
                continue
            for depth in dict.fromkeys(min(size, longest) for size in depths if size <= _deepest(rows)):
                room = _shared(model, rows * columns)
                if rows * columns >= RESIDENT_TILE:
                    # Half a tile goes through shared memory to be stored, of groups of 4 warps each a half of that.
                    room -= stored * rows * columns // (16 // warps)
                tile = Tile(rows, columns, depth)
                if is_copied and rows >= LEAST_COPIED_ROWS and _stages(tile, item, room) < COPIED_STAGES:
                    tile = replace(tile, depth=depth // 2)
                if stages := _stages(tile, item, room):
                    yield tile, Warps(warps, stages)


def _stages(tile: Tile, item: int, room: int) -> int:
    """How many stages of a pipeline so many bytes have room for; 0 where it is less than two."""
    stage_bytes = (tile.rows + tile.columns) * tile.depth * item
    return next((stages for stages in _PIPELINE_STAGES if stages * stage_bytes <= room), 0)


def _deepest(rows: int) -> int:
    return 128 if rows <= LEAST_ROWS else 64


def _shared(model: CostModel, sums: int) -> int:
    """The shared memory that a pipeline may take: half of it, so that two programs run on a multiprocessor.

    All of it where one program has so many sums that its registers leave none for another.
    """
    return model.card.shared_bytes_per_sm // _at_once(model, sums) - model.card.reserved_shared_bytes


def _at_once(model: CostModel, sums: int) -> int:
    """How many programs with so many sums are to run on a multiprocessor."""
    return 1 if sums >= model.card.registers_per_sm // 2 else 2
