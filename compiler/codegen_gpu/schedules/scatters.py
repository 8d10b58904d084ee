"""Scatters on a GPU: few updates are looked through, of many the last ones are found, or all are sorted by their rows.

A row is what an update goes to: a slice of the data, or an element of it where indices are along an axis.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from onnxc.compiler.codegen_gpu.schedules.elements import BLOCK, flat_tile, with_smaller_tiles
from onnxc.compiler.codegen_gpu.schedules.radix import RadixSort, digits_of
from onnxc.compiler.codegen_gpu.source.source_builder import MOST_ELEMENTS_I32
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import I32
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.schedules import Digits, ScatterSchedule, Warps
from onnxc.runtime.records import record

__all__ = ["Updates", "radix_of", "scatter_candidates", "scatter_measures", "scatter_of"]

MOST_SEEN = 64
"""So many updates each element looks through in one launch of a few microseconds, before it is written."""

SEGMENT_BLOCK = 256
"""Elements of a program that goes through the updates of its rows: all of them wait for the row that has most."""

_FEW_ROWS, _TYPICAL_ROWS = 1 << 18, 1 << 20
"""Rows that two digits tell apart, and what stands for more."""


@record
class Updates:
    """The updates of a scatter, in their order, and the rows that they go to."""

    op: Op

    @cached_property
    def outer(self) -> tuple[Dim, ...]:
        """The sizes of the box of updates."""
        shape = self.op.operands[1].shape
        return shape if self.op.name == "scatter_along" else shape[:-1]

    @cached_property
    def depth(self) -> int:
        """How many axes of the data tell rows apart; the others are within a row."""
        data, indices, _ = self.op.operands
        depth = data.rank if self.op.name == "scatter_along" else indices.shape[-1]
        assert isinstance(depth, int), indices
        return depth

    @cached_property
    def count(self) -> Dim:
        """How many updates there are."""
        return product(self.outer)

    @cached_property
    def rows(self) -> Dim:
        """How many rows there are."""
        return product(self.op.operands[0].shape[: self.depth])

    @cached_property
    def elements(self) -> Dim:
        """How many elements the data have."""
        return product(self.op.operands[0].shape)

    @cached_property
    def seen(self) -> Dim:
        """How many updates may go to an element, by its place alone."""
        op = self.op
        return op.operands[1].shape[op.int("axis")] if op.name == "scatter_along" else self.count


def scatter_of(block: Block) -> Op:
    """The op that scatters."""
    return next(op for op in block.ops if op.name in ("scatter_along", "scatter_nd"))


def radix_of(updates: Updates, digits: Digits) -> RadixSort:
    """The sort of the updates by their rows."""
    return RadixSort(1, updates.count, I32, digits)


def scatter_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """How many updates an element has to look through; where they are sorted, how many rows they go to."""
    updates = Updates(scatter_of(problem.block))
    seen = Measure(updates.seen, (Typical(MOST_SEEN // 4, 0, MOST_SEEN), Typical(BLOCK, MOST_SEEN + 1)))
    if updates.op.text("kind") == "set":
        return {"updates": seen}
    rows = Measure(updates.rows, (Typical(_FEW_ROWS, 0, _FEW_ROWS), Typical(_TYPICAL_ROWS, _FEW_ROWS + 1)))
    return {"updates": seen, "rows": rows}


def scatter_candidates(problem: KernelProblem, case: Case) -> Sequence[ScatterSchedule]:
    """The one way that serves so many updates."""
    updates = Updates(scatter_of(problem.block))
    counts = (updates.elements, updates.rows, product(updates.op.operands[2].shape))
    is_wide = any(isinstance(count, int) and count >= MOST_ELEMENTS_I32 for count in counts)
    if case.sizes["updates"] <= MOST_SEEN or is_wide or updates.rows == 0:
        return (_flat(updates),)
    return (_last(updates) if updates.op.text("kind") == "set" else _sorted(updates, case),)


def _flat(updates: Updates) -> ScatterSchedule:
    block, warps = flat_tile(updates.elements, BLOCK)
    work = updates.elements * updates.seen
    return with_smaller_tiles(ScatterSchedule(algorithm="flat", block=block, workers=warps, loop_operations=work))


def _last(updates: Updates) -> ScatterSchedule:
    ordinals = updates.rows * I32.itemsize
    schedule = ScatterSchedule(
        algorithm="last",
        block=BLOCK,
        workers=Warps(4),
        shared_bytes=ordinals,
        loop_operations=updates.count,
        loop_bytes=2 * ordinals + updates.count * I32.itemsize,
        why="the last of many updates is looked for first",
    )
    return with_smaller_tiles(schedule)


def _sorted(updates: Updates, case: Case) -> ScatterSchedule:
    most = case.most["rows"]
    bits = (most - 1).bit_length() if most else I32.bits - 1
    radix = radix_of(updates, digits_of(bits))
    starts = updates.rows * I32.itemsize
    schedule = ScatterSchedule(
        algorithm="sorted",
        block=SEGMENT_BLOCK,
        digits=radix.digits,
        workers=Warps(1),
        shared_bytes=radix.end + starts,
        loop_operations=radix.operations + product(updates.op.operands[2].shape),
        loop_bytes=radix.traffic_bytes + 2 * starts + 4 * updates.count * I32.itemsize,
        why="updates are many, and their order decides",
    )
    return with_smaller_tiles(schedule)
