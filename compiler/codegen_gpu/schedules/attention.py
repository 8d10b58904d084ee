"""Attention on a GPU: tiles of queries by keys, and how many programs share the keys."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from onnxc.compiler.codegen_gpu.schedules.cards import card_of
from onnxc.compiler.codegen_gpu.schedules.cost_model import Amount, Work, cost_model
from onnxc.compiler.codegen_gpu.schedules.product_tiles import (
    UNITS,
    WARP_GROUP_ROWS,
    arithmetic_of,
    samples_of,
    typical_size,
)
from onnxc.compiler.codegen_gpu.source.source_builder import power_of_two
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.op_facts import operands_along_last, values_along_last
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.views import operand_view
from onnxc.compiler.planning.schedules import AttentionSchedule, Joining, Tile, Warps
from onnxc.compiler.target import Target

__all__ = [
    "LEAST_SIZE",
    "attention_candidates",
    "attention_cost",
    "attention_measures",
    "attention_sweep",
    "is_native",
    "longer_rows",
]

LEAST_SIZE, WIDEST = 16, 256
"""What tensor cores multiply at least; the widest head whose sums stay in registers."""

SLICES = (1, 4, 8, 16, 32, 64)
"""How many programs share the keys: powers of two, as tiles are; 4 or more, so that what they leave is aligned."""

FEW_QUERIES, LEAST_KEYS, USUAL_SLICES = 32, 512, 16
"""Up to so many queries, of all sequences, share so many keys or more, in so many slices, where a call tells the sizes.

Both are a matter of the time that a second launch takes: fewer keys are a few tiles for one program.
"""

HALVES, MOST_RANGES = 2, 2
"""How often the queries of a tile are halved where there are few programs; the ranges of queries that have tiles."""

COMPUTING_WARPS, COMPUTED_WIDTH = 8, 64
"""Warps of a program that computes what it reads: llama_small_decode, which turns queries and narrows its cache, has
kernels of 255 registers and stack in 4 warps. Heads up to this width have as many queries then as groups of warps
multiply on such a card, as keys are computed for each tile of them: 128 by 1152 keys in f32 took 87 us, in two tiles
154 us, for 32 sequences on an H200."""

JOINED = 1024
"""Elements of the result in a program that joins slices."""

_TYPICAL_QUERIES, _TYPICAL_KEYS = 1024, 4096

# Queries, keys, warps and stages of a tile for heads up to a width: of those for which registers suffice the fastest on
# the card, or where none was measured, the largest. In f32 for sm_90, by Triton 3.9: heads of 64 had 255 registers and
# 24 bytes of stack in tiles of 32 queries, which single warps multiply, and have 180 to 239 in tiles of 64; heads of
# 128 have 320 bytes of stack and more in these where they have a mask.
_Shape = tuple[int, int, int, int]
_F32_TILES: Mapping[int, Sequence[tuple[int, _Shape]]] = {
    80: ((32, (64, 32, 4, 2)), (64, (32, 32, 4, 2)), (128, (32, 16, 8, 2)), (256, (16, 16, 8, 2))),
    90: ((64, (64, 32, 4, 2)), (128, (32, 16, 8, 2)), (256, (16, 16, 8, 2))),
}
_TILES: Mapping[int, Sequence[tuple[int, _Shape]]] = {
    80: ((64, (64, 64, 4, 2)), (128, (64, 32, 4, 2)), (256, (64, 32, 8, 2))),
    90: ((64, (64, 64, 4, 2)), (128, (128, 64, 8, 3)), (256, (64, 32, 8, 2))),
}


def is_native(op: Op) -> bool:
    """Whether the heads are of a known width that fits, in a type that tensor cores multiply."""
    q, _, v, *_ = op.operands
    widths = (q.shape[3], v.shape[3])
    fits = all(isinstance(width, int) and 0 < width <= WIDEST for width in widths)
    return fits and q.dtype in (F32, F16, BF16)


def attention_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """Queries of all sequences, and keys: few queries with many keys are told from all others."""
    op = _attention(problem)
    queries, keys = op.operands[0].shape[0] * op.operands[0].shape[2], op.operands[1].shape[2]
    if not _may_share(op):
        usual = Typical(typical_size(queries, _TYPICAL_QUERIES))
        return {
            "queries": Measure(queries, (usual,), samples_of(queries), MOST_RANGES),
            "keys": Measure(keys, (Typical(typical_size(keys, LEAST_KEYS)),)),
        }
    return {
        "queries": Measure(queries, (Typical(1, 0, FEW_QUERIES), Typical(_TYPICAL_QUERIES, FEW_QUERIES + 1))),
        "keys": Measure(keys, (Typical(_TYPICAL_KEYS, LEAST_KEYS), Typical(LEAST_KEYS - 1, 0, LEAST_KEYS - 1))),
    }


def attention_candidates(
    problem: KernelProblem, case: Case, target: Target, f32_operands: str
) -> Sequence[AttentionSchedule]:
    """Tiles of queries; where there are few of them and many keys, programs that share the keys.

    These are alike in more warps, for which registers suffice where they do not in few.
    """
    op = _attention(problem)
    if _may_share(op):
        shared = [_schedule(op, split, case, target, f32_operands) for split in _splits(op, case)]
        return [*shared, *(each for schedule in shared if (each := _in_more_warps(schedule)) is not None)]
    largest = _schedule(op, 1, case, target, f32_operands)
    tile = largest.tile
    heights = (tile.rows >> halves for halves in range(HALVES + 1))
    schedules = [replace(largest, tile=replace(tile, rows=rows)) for rows in heights if rows >= LEAST_SIZE]
    return [replace(each, fallbacks=_with_half_of_the_keys(each)) for each in schedules]


def _with_half_of_the_keys(schedule: AttentionSchedule) -> tuple[AttentionSchedule, ...]:
    """The same queries by fewer keys at a time, where groups of warps multiply f32, parts of which are in registers.

    By Triton 3.9 for sm_90: 64 x 32 with a bias of 197 x 197 had 88 bytes of stack, 64 x 16 none; 32 x 32 had 112.
    """
    tile, is_f32 = schedule.tile, schedule.arithmetic.operands not in ("f16", "bf16")
    if not is_f32 or tile.rows < WARP_GROUP_ROWS or tile.columns // 2 < LEAST_SIZE:
        return ()
    return (replace(schedule, tile=replace(tile, columns=tile.columns // 2)),)


def _in_more_warps(schedule: AttentionSchedule) -> AttentionSchedule | None:
    warps = schedule.workers
    if not isinstance(warps, Warps) or warps.count >= COMPUTING_WARPS:
        return None
    return replace(schedule, workers=Warps(COMPUTING_WARPS, warps.stages))


def attention_cost(problem: KernelProblem, schedule: AttentionSchedule, case: Case, target: Target) -> float:
    """The seconds that the launches take; a second launch may take longer than it saves."""
    if not _may_share(_attention(problem)):
        return float(_tiles_seconds(problem, schedule, case.sizes["queries"], case, target))
    q, k, v, *_ = _attention(problem).operands
    batch = q.shape[0] if isinstance(q.shape[0], int) else 1
    heads, groups, width, value_width = known_sizes((q.shape[1], k.shape[1], q.shape[3], v.shape[3]))
    model, keys, split = cost_model(target), case.sizes["keys"], schedule.split
    pieces = -(-keys // schedule.tile.columns)
    nbytes = batch * groups * keys * (width + value_width) * k.dtype.itemsize
    programs = batch * (heads if split == 1 else groups * split)
    one = model.seconds(Work(nbytes, programs=programs, programs_per_sm=4, steps=-(-pieces // split)))
    return one + (model.seconds(Work(0, programs=batch * heads)) if split > 1 else 0.0)


def attention_sweep(problem: KernelProblem, schedule: AttentionSchedule, case: Case, target: Target) -> np.ndarray:
    """The seconds for each number of queries of a sweep, where no programs share keys."""
    assert case.sweep is not None, case
    return np.asarray(_tiles_seconds(problem, schedule, np.array(case.sweep.samples), case, target))


def _tiles_seconds(
    problem: KernelProblem, schedule: AttentionSchedule, queries: Amount, case: Case, target: Target
) -> Amount:
    """The seconds of a launch in which each program goes through all keys with its queries."""
    q, k, v, *_ = _attention(problem).operands
    heads, groups, width, value_width = known_sizes((q.shape[1], k.shape[1], q.shape[3], v.shape[3]))
    tile, item, keys = schedule.tile, k.dtype.itemsize, case.sizes["keys"]
    of_sequence = q.shape[2] if isinstance(q.shape[2], int) else case.sizes["keys"]
    sequences = queries / max(1, of_sequence)
    programs = np.maximum(1, np.ceil(sequences * heads * -(-of_sequence // tile.rows)))
    pieces = -(-keys // tile.columns)
    products = programs * pieces * tile.rows * tile.columns * (width + value_width)
    if tile.rows < WARP_GROUP_ROWS:
        products = products / cost_model(target).calibration.narrow_share
    work = Work(
        memory_bytes=item * (queries * heads + sequences * keys * groups) * (width + value_width),
        cache_bytes=programs * pieces * tile.columns * (width + value_width) * item,
        operations=2.0 * products,
        unit=UNITS[q.dtype],
        programs=programs,
        programs_per_sm=2,
        steps=max(1, pieces // 2),
    )
    return cost_model(target).estimate(work).seconds


def _attention(problem: KernelProblem) -> Op:
    return next(op for op in problem.block.ops if op.name == "attention")


def _may_share(op: Op) -> bool:
    """Whether there may be fewer queries than keys, as when tokens are generated."""
    queries, keys = op.operands[0].shape[2], op.operands[1].shape[2]
    is_long = keys != queries and not op.flag("causal")
    return is_long and not (isinstance(queries, int) and queries > FEW_QUERIES) and bool(op.operands[0].shape[1])


def _splits(op: Op, case: Case) -> Sequence[int]:
    """How many programs may share the keys in a case."""
    if not _may_share(op):
        return (1,)
    batch, queries, keys = op.operands[0].shape[0], op.operands[0].shape[2], op.operands[1].shape[2]
    is_known = isinstance(batch, int) and isinstance(queries, int)
    if is_known and isinstance(keys, int):
        return SLICES
    if case.sizes["queries"] > FEW_QUERIES:
        return (1,)
    if isinstance(keys, int):
        return SLICES
    return (USUAL_SLICES,) if case.sizes["keys"] >= LEAST_KEYS else (1,)


def _schedule(op: Op, split: int, case: Case, target: Target, f32_operands: str) -> AttentionSchedule:
    q, k, v, *_ = op.operands
    width, value_width, heads, groups = known_sizes((q.shape[3], v.shape[3], q.shape[1], k.shape[1]))
    widths = max(LEAST_SIZE, power_of_two(width)), max(LEAST_SIZE, power_of_two(value_width))
    rows, keys, warps, stages = _tile(q.dtype, max(widths), target)
    if any(operand_view(operand) is None for operand in (q, k, v)):
        warps = max(warps, COMPUTING_WARPS)
        if q.dtype != F32 and max(widths) <= COMPUTED_WIDTH and card_of(target).multiplies_in_groups:
            rows = max(rows, warps // 4 * WARP_GROUP_ROWS)
    queries = q.shape[2]
    known = power_of_two(queries) if isinstance(queries, int) else rows
    if split > 1:
        # All heads of a group; where only a call tells the queries, for one of each.
        known = power_of_two((heads // groups if groups else 1) * (queries if isinstance(queries, int) else 1))
    tile = Tile(max(LEAST_SIZE, min(rows, known)), keys)
    slice_bytes = _slices_count(op, split, case) * F32.itemsize if split > 1 else 0
    is_small = split > 1 and tile.rows == LEAST_SIZE and max(widths) < WIDEST
    return AttentionSchedule(
        tile=tile,
        widths=widths,
        arithmetic=arithmetic_of(q.dtype, F32, f32_operands),
        workers=Warps(min(4, warps) if is_small else warps, stages),
        split=split,
        joining=Joining(Tile(max(1, JOINED // widths[1]), widths[1]), Warps(4)) if split > 1 else None,
        slice_bytes=slice_bytes,
        mask_columns=_mask_columns(op),
        shared_bytes=slice_bytes * (2 + value_width),
        why=f"{split} programs share the keys" if split > 1 else "",
    )


def _mask_columns(op: Op) -> Dim:
    """How many columns parts of the mask have in memory, if all that have more than there are keys have as many."""
    columns = {*longer_rows(op).values()}
    return columns.pop() if len(columns) == 1 else 0


def longer_rows(op: Op) -> Mapping[Value, Dim]:
    """The parameters of a kernel whose rows begin with those of a part of the mask, and how long these are."""
    along = [value for mask in op.operands[3:] for value in values_along_last(mask)]
    held = {value: _held_row(value) for value in along if operands_along_last(value) is None}
    # What is read in another order, too, is read as far as there are keys.
    others = _made_of([value for value, row in held.items() if row is None])
    rows = {row: row.shape[-1] for row in held.values() if row is not None and row not in others}
    return {row: columns for row, columns in rows.items() if columns != op.operands[1].shape[2]}


def _made_of(values: Sequence[Value]) -> Set[Value]:
    """These values and all that they are computed of."""
    reached, waiting = set[Value](), [*values]
    while waiting:
        value = waiting.pop()
        if value not in reached:
            reached.add(value)
            waiting += value.op.operands if value.op is not None else ()
    return reached


def _held_row(value: Value) -> Value | None:
    """What a value is the beginning of, along the last axis; None where it is no part of anything in memory."""
    part = made_by(value, "slice")
    if part is None or part.operands[0].op is not None or (part.ints("steps")[-1], part.dims("starts")[-1]) != (1, 0):
        return None
    return part.operands[0]


def _slices_count(op: Op, split: int, case: Case) -> Dim:
    """Slices of all rows, of as many queries as there are at most."""
    q = op.operands[0]
    queries, most = q.shape[0] * q.shape[2], case.most["queries"]
    return (queries if most is None else minimum(queries, most)) * q.shape[1] * split


def _tile(dtype: DType, width: int, target: Target) -> _Shape:
    tiles = _F32_TILES if dtype == F32 else _TILES
    shapes = tiles[min(max(tiles), card_of(target).architecture)]
    return next(shape for most, shape in shapes if width <= most)
