"""How a search for what is true is shared, and how its words become positions."""

from onnxc.compiler.codegen_cpu.schedules.element_threads import GRAIN_ELEMENTS
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.module import Block
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.schedules import CompactionSchedule, Threads
from onnxc.compiler.target import Target

__all__ = ["FEWEST_IN_VECTORS", "WORD", "compaction_schedule"]

WORD = 64
"""Elements that are bits of one word."""

FEWEST_IN_VECTORS = 8
"""From so many bits of a word on vectors are put together, and below each bit is taken by itself.

NonZero of 1,000,003 truth values with AVX-512, us with 1, 4, 8, 16 and none in vectors, where 3 % are true: 165, 73,
62, 62, 60; 10 %: 188, 175, 116, 160, 165; 25 %: 188, 189, 190, 193, 231; half: 195, 191, 192, 194, 325.
"""

RANGE_ELEMENTS = 65536
"""The fewest elements that are worth a range of their own: 3 to 13 us, by the times above."""

MOST_RANGES = 2
"""What is true before its ranges a thread counts itself: of three, two would count as much as there is."""


def compaction_schedule(problem: KernelProblem, target: Target) -> CompactionSchedule:
    """Whole vectors of the widest elements; those of 512 bits are put together by one instruction."""
    (op,) = (op for op in problem.block.ops if op.name == "true_positions")
    ranges = floordiv(product(op.operands[0].shape), RANGE_ELEMENTS)
    lanes = min(target.vector_bits // _widest(problem.block), WORD)
    return CompactionSchedule(
        algorithm="vectors" if "avx512f" in target.features else "bits",
        units=minimum(maximum(ranges, 1), MOST_RANGES),
        workers=Threads(lanes, GRAIN_ELEMENTS),
    )


def _widest(block: Block) -> int:
    """The bits of the widest elements that are looked at."""
    values = (*block.parameters, *(operand for op in block.ops for operand in op.operands))
    return max(8, *(value.dtype.bits for value in values))
