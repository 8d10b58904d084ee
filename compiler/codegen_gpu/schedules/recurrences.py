"""Recurrences: how many programs share the units of some rows, and how many tiles of rows are computed at a time.

Programs that share rows wait for each other in every round, so all of them must run at the same time: there are never
more than the card has multiprocessors.
"""

from collections.abc import Mapping

from onnxc.compiler.codegen_gpu.schedules.cards import card_of
from onnxc.compiler.codegen_gpu.source.source_builder import power_of_two
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.schedules import Arithmetic, RecurrenceSchedule, Tile, Warps
from onnxc.compiler.target import Target

__all__ = [
    "CLEARED", "COUNTER_BYTES", "counter_bytes", "exchange_offsets", "exchanged", "recurrence_of",
    "recurrence_schedule",
]  # fmt: skip

COUNTER_BYTES = 128
"""From one counter of programs to the next: a line of the cache for each."""

CLEARED = 1024
"""Words of the counters that a program clears: eight for each thread of four warps."""

_ALONE = 32
"""A program alone computes so many units. An estimate: their products of 32 x 32 take less than meeting others does,
about a microsecond."""

_LEAST_ROWS, _MOST_ROWS = 16, 32
"""Rows of a tile: the least that tensor cores take, and what the sums of four gates leave registers for."""

_UNITS, _MOST_UNITS = 16, 64
"""Units of a program that shares rows: as few as tensor cores take, so that as many multiprocessors as can be read the
weights; more where there are more units than a card has multiprocessors for."""

_DEPTHS = {F32: 16}
"""Products at a time, of other types 64: three products of tf32 keep six parts of both operands in registers, and with
32 of them a GRU of 128 units spills (24 bytes, Triton 3.6.0 for sm_80)."""


def recurrence_of(block: Block) -> Op:
    """The op that a kernel of this kind is built around."""
    return next(op for op in block.ops if op.name == "recurrence")


def recurrence_schedule(problem: KernelProblem, target: Target, f32_operands: str) -> RecurrenceSchedule:
    """The schedule, by the number of units and of rows."""
    op = recurrence_of(problem.block)
    rows, units = op.results[0].shape
    assert isinstance(units, int), op
    most = max(1, card_of(target).sms // len(op.blocks))
    columns = max(16, power_of_two(units)) if units <= _ALONE else _UNITS
    while -(-units // columns) > most and columns < _MOST_UNITS:
        columns *= 2
    parts = -(-units // columns)
    height = min(_MOST_ROWS, max(_LEAST_ROWS, power_of_two(rows))) if isinstance(rows, int) else _LEAST_ROWS
    groups = max(1, most // parts) if parts > 1 else 0
    dtype = exchanged(op.blocks[0])[0].dtype
    return RecurrenceSchedule(
        algorithm="shared" if parts > 1 else "whole",
        tile=Tile(height, columns, min(_DEPTHS.get(dtype, 64), max(16, power_of_two(units)))),
        arithmetic=Arithmetic(f32_operands if dtype == F32 else str(dtype), F32),
        parts=parts,
        groups=groups,
        shared_bytes=exchange_offsets(op, counter_bytes(op, groups))[1],
        workers=Warps(4, 2 if parts == 1 else 4),
        why=f"{units} units by {parts} programs that meet in every round" if parts > 1 else "",
    )


def counter_bytes(op: Op, groups: int) -> int:
    """What the counters take of programs that have met, one for each loop and tile of rows that is computed at once."""
    return len(op.blocks) * groups * COUNTER_BYTES


def exchanged(block: Block) -> tuple[Value, ...]:
    """The values of a cell that products read as a whole, in the order in which they are made."""
    return tuple(dict.fromkeys(op.operands[0] for op in block.ops if op.name == "dot"))


def exchange_offsets(op: Op, start: int) -> tuple[Mapping[Value, Dim], Dim]:
    """Where in the scratch memory from `start` on each exchanged value lies, and the end.

    Each is there twice: some programs still read one round's while others write the next.
    """
    offsets: dict[Value, Dim] = {}
    end: Dim = start
    for value in (value for block in op.blocks for value in exchanged(block)):
        rows, units = value.shape
        offsets[value] = end
        end = end + floordiv(2 * rows * units * value.dtype.itemsize + 15, 16) * 16
    return offsets, end
