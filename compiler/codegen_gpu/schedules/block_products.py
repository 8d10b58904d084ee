"""Products with weights of few bits on a GPU: tiles and lines of codes, how these are packed, and what launches take.

All variants of a product read the same codes, so that the length of a run depends on the weights alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Literal

import numpy as np

from onnxc.compiler.codegen_gpu.schedules.cards import WARP_THREADS
from onnxc.compiler.codegen_gpu.schedules.cost_model import Amount, CostModel, Work, cost_model
from onnxc.compiler.codegen_gpu.schedules.elements import joining_of
from onnxc.compiler.codegen_gpu.schedules.product_tiles import (
    UNITS,
    WARP_GROUP_ROWS,
    arithmetic_of,
    joining_seconds,
    samples_of,
    splits,
)
from onnxc.compiler.codegen_gpu.source.source_builder import power_of_two
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import BF16, F16, F32
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.planning.bit_layouts import BYTE, PackedRuns
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.layouts import Permuted, known_sizes
from onnxc.compiler.planning.loops.views import operand_view
from onnxc.compiler.planning.schedules import Arithmetic, BlockProductSchedule, Packing, Tile, Warps
from onnxc.compiler.target import Target

__all__ = [
    "block_candidates",
    "block_cost",
    "block_measures",
    "block_product_of",
    "block_sweep",
    "codes_of",
    "is_native",
    "multiplied",
]

Algorithm = Literal["tiles", "lines"]

MULTIPLIED_DTYPES = (F32, F16, BF16)
"""What rows are multiplied in; codes less an integer as zero point have all their digits in each of them."""

LONGEST_STEP = 128
"""The most codes of a step: what rows meet of them is a tile of shared memory."""

MOST_RUN_BYTES = 128
"""What a product of a run reads of each row: with 256, of f32, tiles of 128 rows had 7 KiB of stack on sm_80."""

_RUNS = (16, 32, 64, 128)
"""Tensor cores multiply 16 along k at least."""

COLUMNS_ALIGNED = 16
"""Columns are filled up to so many, so that a thread loads 16 codes at once."""

MOST_LINES = 8
"""The most rows of lines: each takes registers of its own, and a multiply-add for each code."""

FEW_ROWS = 16
"""So many rows are one tile of the fewest rows of tensor cores."""

MOST_RANGES = 6
"""One row, lines, few, and up to three ranges of many rows: each is a kernel to compile and to load."""

UNPACKING = 4
"""Instructions that make a float of a code: two shifts, a conversion, and the way to the operand of a product.

An estimate: no kernel has been measured."""

_ROWS, _COLUMNS, _LINE_COLUMNS = (16, 32, 64, 128), (32, 64, 128), (16, 32, 64, 128)

_TILE_SUMS = 32
"""What a thread holds of the sums beside those of a block: with 64, weights of 2 bits with zero points, in f16, had 136
bytes of stack, and 4 bits 255 registers."""

_LINE_SUMS = 64
"""The same of lines, whose sums have each place of a run apart."""

_PIPELINE_STAGES = (3, 2)


def is_native(op: Op) -> bool:
    """Whether the model holds the weights, so that they can be packed when it is compiled, and scales are f32."""
    x, _, *spreads = op.operands
    are_held = all(each.op is not None and each.op.name == "constant" for each in op.operands[1:])
    return are_held and x.dtype in MULTIPLIED_DTYPES and all(each.dtype == F32 for each in spreads)


def block_product_of(block: Block) -> Op:
    """The product of a kernel block."""
    return next(op for op in block.ops if op.name == "block_product")


def multiplied(op: Op) -> Value:
    """The rows as they are multiplied: x, or the 16-bit floats that it is widened from."""
    x = op.operands[0]
    is_widened = x.op is not None and x.op.name == "cast" and x.op.operands[0].dtype in (F16, BF16)
    return x.op.operands[0] if x.op is not None and is_widened else x


def codes_of(op: Op) -> PackedRuns:
    """How the codes of a product lie in memory."""
    columns, depth = known_sizes(op.operands[1].shape)
    bits, block = op.int("bits"), op.int("block")
    width = -(-columns // COLUMNS_ALIGNED) * COLUMNS_ALIGNED
    longest = min(LONGEST_STEP * bits // BYTE, MOST_RUN_BYTES // multiplied(op).dtype.itemsize)
    lengths = [length for length in _RUNS if length <= longest]
    # The fewest zeros between blocks, then the fewest runs.
    run = min(lengths, key=lambda length: (-(-min(block, depth) // length) * length, -length))
    return PackedRuns(run, width, columns, depth, bits, block)


def block_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """The rows: one, a few, and ranges of many have kernels of their own."""
    rows = _rows(block_product_of(problem.block))
    few = (Typical(1, 0, 1), Typical(MOST_LINES, 2, MOST_LINES), Typical(FEW_ROWS, MOST_LINES + 1, FEW_ROWS))
    samples = samples_of(rows)
    many = Typical(max(512, *samples[:1]), FEW_ROWS + 1) if samples else Typical(512)
    return {"rows": Measure(rows, (*few, many), samples, MOST_RANGES)}


def block_candidates(
    problem: KernelProblem, case: Case, target: Target, f32_operands: str
) -> Sequence[BlockProductSchedule]:
    """Tiles by tensor cores, and lines where rows are few; both shared along k where calls have a most of them."""
    op = block_product_of(problem.block)
    codes, dtype = codes_of(op), multiplied(op).dtype
    weights, *spreads = op.operands[1:]
    packing = Packing(_parameter(weights, problem), codes)
    columns, blocks = known_sizes(spreads[0].shape)
    turned = tuple(Packing(_parameter(each, problem), Permuted((1, 0), (columns, blocks))) for each in spreads)
    count = product(op.results[0].shape)
    algorithms: tuple[tuple[Algorithm, Arithmetic, Iterator[tuple[Tile, Warps]]], ...] = (
        ("tiles", arithmetic_of(dtype, F32, f32_operands), _tiles(op, case, cost_model(target))),
        ("lines", Arithmetic(str(F32), F32), _lines(op, case, cost_model(target))),
    )
    return [
        BlockProductSchedule(
            algorithm=algorithm,
            tile=tile,
            arithmetic=arithmetic,
            workers=warps,
            packing=packing,
            spreads=turned,
            split=split,
            joining=joining_of(count) if split > 1 else None,
            shared_bytes=_parts_bytes(op, case, split),
            why=f"{codes.bits} bits become floats in registers",
        )
        for algorithm, arithmetic, each in algorithms
        for tile, warps in each
        for split in (splits(codes.steps) if case.is_bounded else (1,))
    ]


def block_cost(problem: KernelProblem, schedule: BlockProductSchedule, case: Case, target: Target) -> float:
    """The seconds that the launches take."""
    return float(_seconds(problem, schedule, case.sizes["rows"], target))


def block_sweep(problem: KernelProblem, schedule: BlockProductSchedule, case: Case, target: Target) -> np.ndarray:
    """The same for each number of rows of a sweep."""
    assert case.sweep is not None, case
    return np.asarray(_seconds(problem, schedule, np.array(case.sweep.samples), target))


def _seconds(problem: KernelProblem, schedule: BlockProductSchedule, rows: Amount, target: Target) -> Amount:
    op, model = block_product_of(problem.block), cost_model(target)
    seconds = model.estimate(_work(op, schedule, np.maximum(1, rows), model)).seconds
    if schedule.split == 1:
        return seconds
    return seconds + joining_seconds(np.maximum(1, rows) * codes_of(op).columns, schedule.split, model)


def _work(op: Op, schedule: BlockProductSchedule, rows: Amount, model: CostModel) -> Work:
    """What the launch of a schedule does, codes unpacked by each program that reads them."""
    codes, dtype, tile = codes_of(op), multiplied(op).dtype, schedule.tile
    assert isinstance(schedule.workers, Warps), schedule
    row_tiles = -(-rows // tile.rows)
    programs = row_tiles * -(-codes.columns // tile.columns) * schedule.split
    steps = -(-codes.steps // schedule.split)
    unpacked = 1.0 * programs * steps * tile.columns * tile.depth
    spreads = sum(F32.itemsize * prod(known_sizes(each.shape)) for each in op.operands[2:])
    weight_bytes = prod(codes.shape) + spreads
    instructions, unit = 2.0 * UNPACKING * unpacked, UNITS[dtype]
    if schedule.algorithm == "lines":
        unit, operations = "fp32", instructions + 2.0 * unpacked * tile.rows
    else:
        products = 2.0 * unpacked * tile.rows * (3 if schedule.arithmetic.operands == "tf32x3" else 1)
        if tile.rows < WARP_GROUP_ROWS:
            products /= model.calibration.narrow_share
        operations = products + instructions * (model.card.peak[unit] / model.card.peak["fp32"])
    read = unpacked * (codes.bits / BYTE + F32.itemsize * len(op.operands[2:]) / codes.block)
    row_bytes = 1.0 * programs * steps * tile.rows * tile.depth * dtype.itemsize
    written = rows * codes.columns * F32.itemsize * schedule.split
    return Work(
        memory_bytes=rows * codes.depth * dtype.itemsize + weight_bytes + written,
        cache_bytes=read + row_bytes + programs * steps * model.calibration.iteration_bytes,
        operations=operations,
        unit=unit,
        programs=programs,
        programs_per_sm=_at_once(schedule.workers.count),
        steps=max(1, steps // schedule.workers.stages),
    )


def _tiles(op: Op, case: Case, model: CostModel) -> Iterator[tuple[Tile, Warps]]:
    """Those whose sums fit registers, and whose pipeline fits shared memory, not much wider than the product."""
    codes = codes_of(op)
    most = case.sizes["rows"] if case.sweep is None else case.sweep.samples[-1]
    # Sums of one block are those of the tile; operands in three parts need the registers, too.
    sums = 2 * _TILE_SUMS if codes.block >= codes.depth and multiplied(op).dtype != F32 else _TILE_SUMS
    for rows in (side for side in _ROWS if side <= max(_ROWS[0], power_of_two(most))):
        for columns in _fitting(_COLUMNS, codes.columns):
            warps = 8 if rows * columns > 64 * 64 else 4
            if rows * columns <= sums * warps * WARP_THREADS:
                yield from _pipelined(Tile(rows, columns, codes.run * codes.parts), warps, op, model)


def _lines(op: Op, case: Case, model: CostModel) -> Iterator[tuple[Tile, Warps]]:
    """For all rows that a call can have, where these are few."""
    codes, most = codes_of(op), case.most["rows"]
    if most is None or most > MOST_LINES:
        return
    rows = power_of_two(most)
    for columns in _fitting(_LINE_COLUMNS, codes.columns):
        for warps in (4, 8):
            if rows * codes.run * columns <= _LINE_SUMS * warps * WARP_THREADS:
                yield from _pipelined(Tile(rows, columns, codes.run * codes.parts), warps, op, model)


def _pipelined(tile: Tile, warps: int, op: Op, model: CostModel) -> Iterator[tuple[Tile, Warps]]:
    """A tile with the most stages that fit the shared memory of a program; nothing where none do."""
    item, card = multiplied(op).dtype.itemsize, model.card
    shared = min(card.shared_bytes, card.shared_bytes_per_sm // _at_once(warps) - card.reserved_shared_bytes)
    stage = tile.rows * tile.depth * item + codes_of(op).run * tile.columns
    # Beside the pipeline lie the codes of a step as they are multiplied.
    for stages in _PIPELINE_STAGES:
        if stages * stage + tile.depth * tile.columns * item <= shared:
            yield tile, Warps(warps, stages)
            return


def _at_once(warps: int) -> int:
    """How many programs of so many warps are to run on a multiprocessor."""
    return 2 if warps == 4 else 1


def _fitting(widths: Sequence[int], columns: int) -> Iterator[int]:
    return (width for width in widths if width <= max(widths[0], power_of_two(columns)))


def _rows(op: Op) -> Dim:
    return product(op.operands[0].shape[:-1])


def _parts_bytes(op: Op, case: Case, split: int) -> Dim:
    """What the programs that share a tile leave for the launch that adds it up."""
    if split == 1:
        return 0
    rows, most = _rows(op), case.most["rows"]
    return split * (rows if most is None else minimum(rows, most)) * codes_of(op).columns * F32.itemsize


def _parameter(value: Value, problem: KernelProblem) -> int:
    view = operand_view(value)
    assert view is not None, value
    return problem.block.parameters.index(view.base)
