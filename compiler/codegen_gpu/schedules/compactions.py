"""Searches for what is true on a GPU: in ranges, which programs share where there are many elements."""

from collections.abc import Mapping, Sequence

from onnxc.compiler.codegen_gpu.schedules.elements import with_more_warps
from onnxc.compiler.codegen_gpu.source.source_builder import MOST_ELEMENTS_I32
from onnxc.compiler.ir.dtypes import I32, I64, DType
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.schedules import CompactionSchedule, Warps

__all__ = ["compaction_candidates", "compaction_measures", "compaction_of", "count_type"]

BLOCK = 2048
"""Elements of a step: 16 for each thread of 4 warps, whose truth values are read 16 bytes at a time."""

RANGES = 256
"""Ranges of many elements, about two programs for each multiprocessor; each adds up what is true before its own."""

LONGEST_ALONE = 8 * BLOCK
"""Up to so many elements one program takes, in no more time than a second launch."""

_TYPICAL_LENGTH = 1 << 20


def compaction_of(block: Block) -> Op:
    """The op that looks for what is true."""
    return next(op for op in block.ops if op.name == "true_positions")


def count_type(block: Block) -> DType:
    """The type that counts what is true, as wide as indices must be."""
    length = compaction_of(block).operands[0].shape[0]
    return I64 if isinstance(length, int) and length >= MOST_ELEMENTS_I32 else I32


def compaction_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """How many elements are looked at."""
    ranges = Typical(LONGEST_ALONE // 4, 0, LONGEST_ALONE), Typical(_TYPICAL_LENGTH, LONGEST_ALONE + 1)
    return {"length": Measure(compaction_of(problem.block).operands[0].shape[0], ranges)}


def compaction_candidates(problem: KernelProblem, case: Case) -> Sequence[CompactionSchedule]:
    """The one way that serves so many elements."""
    if case.sizes["length"] <= LONGEST_ALONE:
        return (with_more_warps(CompactionSchedule(algorithm="blocks", units=1, block=BLOCK, workers=Warps(4))),)
    length, itemsize = compaction_of(problem.block).operands[0].shape[0], count_type(problem.block).itemsize
    schedule = CompactionSchedule(
        algorithm="blocks",
        units=RANGES,
        block=BLOCK,
        workers=Warps(4),
        shared_bytes=RANGES * itemsize,
        loop_operations=length + RANGES * RANGES,
        # Each range is read twice, and each program reads all counts.
        loop_bytes=length + (RANGES + 1) * RANGES * itemsize,
        why=f"{RANGES} programs share the elements",
    )
    return (with_more_warps(schedule),)
