"""Orders on a CPU: by heaps, by digits, or several lines at once, and whether a limit is looked for first."""

from onnxc.compiler.codegen_cpu.schedules.element_threads import element_threads
from onnxc.compiler.ir.dtypes import F32, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import OrderingSchedule, Schedule
from onnxc.compiler.target import Target

__all__ = [
    "FEWEST_CHOSEN",
    "LEAST_FULL",
    "LONGEST_RADIX",
    "NARROWEST_CHOICE",
    "WIDEST_CHOICE",
    "fewest_by_digits",
    "ordering_schedule",
    "shortest_by_digits",
]

SHORTEST_FLOATS = {2: 24, 4: 48, 8: 60}
SHORTEST_INTEGERS = {1: 16, 2: 24, 4: 36, 8: 36}
"""Shorter lines, of elements of so many bytes, are sorted by the heap in less time than it takes to count the digits of
each byte. Of integers, which are mostly small, fewer bytes differ.

1024 lines on one core of Zen 5, by the heap and by digits, us: 16 i8 225 and 181, 12 133 and 193; 24 f16 436 and 422;
24 i32 412 and 664, 32 601 and 674; 32 f32 606 and 820, 48 971 and 995, 56 1168 and 1052; 32 i64 900 and 1010, 40 1219
and 1007; 32 f64 898 and 1681, 56 1893 and 2065."""

LONGEST_RADIX = (1 << 32) - 1
"""Counts of digits are kept in 32 bits."""

MOST_KEPT = 64
"""The best so many of a line go through registers, of as many lines at once as there are lanes. Code is written out for
each of them: that for wide keys takes LLVM 0.6 s.

On one core with AVX-512, heaps and lanes, us: the best 8 of 128 lines of 64 f32 26.7 and 6.8, f64 22.2 and 9.7; 4 of
6,400 lines of 8 f32 518 and 21, f64 550 and 26; 5 of 64 lines of 200 11.3 and 7.5; 16 of 512 lines of 100 467 and 39,
f64 649 and 81; 24 of these 643 and 41, f64 897 and 109; 60 of 99 lines of 100 f64 265 and 73; all of 1,024 lines of 32
648 and 62, of 64 1,222 and 256, of 48 f64 1,651 and 269, of 64 f64 by radix 1,970 and 480."""

MOST_NARROW_KEPT = 8
"""The same of wide keys with vectors of 128 bits: the best 20 of 128 lines of 100 i64 54 and 137."""

LONGEST_KEPT = 256
"""Longer lines meet few elements that are better than what they have: a heap looks at a vector of one line at once."""

MOST_STEPS = 1 << 16
"""Lines that cross memory, where a heap looks at one element at once, may be longer with vectors of 512 bits, if their
elements times those that are kept are no more than this.

The best of f32[4, 1000, 16], heaps and lanes, us: 10 75 and 25, 32 166 and 117, 64 346 and 267; of f32[2, 4000, 16] 16
128 and 75, 32 163 and 218; of u8[2, 2000, 40] 32 259 and 327."""

HELD_WIDE, HELD_WIDE_STEPS, MOST_WIDE_STEPS = 12, 1 << 15, 12_000
"""The same of wide keys, so many of which are held in registers with their indices; of more, fewer steps.

The best of i64[4, 1000, 16]: 10 54 and 37, 12 57 and 55, 14 62 and 77, 20 96 and 144; of [4, 500, 64] 24 715 and 368;
of [2, 4000, 16] 6 77 and 33, 8 86 and 89."""

LEAST_FULL = 2
"""Where fewer than one of so many lanes have a line, lines are ordered one after another: the best 8 of 4 lines of 256
took 2.6 us so, and 3.9 with 4 of 16 lanes."""

NARROW_BITS, WIDE_BITS = 128, 512

FEWEST_CHOSEN = 64
WIDEST_CHOICE = 48
NARROWEST_CHOICE = 2
"""The best of so many and more, of lines from NARROWEST_CHOICE to WIDEST_CHOICE times as long, have a limit.

On one core of Zen 5, f32, without and with one: the best 300 of 8,400 normal numbers 23.7 and 15.4 us, rising ones 160
and 16, equal ones 7.9 and 14; 64 of 3,000 5.5 and 5.3, rising 42 and 6; 1,000 of 8,400 75 and 38; 100 of 200 3.9 and
3.3."""


FEWEST_FOR_DIGIT = 64
"""The best of a line, once they are found, are sorted by digits if they are so many for each byte of a key, not by the
heap.

On one core with AVX-512, by the heap and by digits: the best 100 of 8,400 f32 9.7 and 10.5 us, 128 11.5 and 12.0, 300
13.1 and 12.8, 1,000 30.6 and 20.3; 8,000 of 10,000 362 and 169; 100,000 of 200,000 6,320 and 2,012. Of f64 200 of 8,400
18.2 and 22.2, 5,000 of 20,000 517 and 275."""


def fewest_by_digits(key_bits: int) -> int:
    """How many elements with such keys are sorted by digits at least, once they are found."""
    return FEWEST_FOR_DIGIT * key_bits // 8


def shortest_by_digits(dtype: DType) -> int:
    """How long lines of such elements are at least that are sorted whole by digits."""
    return (SHORTEST_FLOATS if dtype.is_float else SHORTEST_INTEGERS)[dtype.itemsize]


def ordering_schedule(problem: KernelProblem, target: Target) -> Schedule:
    """Long lines that are sorted whole, into dense results, by radix; where only a call tells, if they are long."""
    op = next(op for op in problem.block.ops if op.name in ("sort", "top_k"))
    length, stride = op.operands[0].shape[op.int("axis")], row_major(op.results[0].shape)[op.int("axis")]
    count = length if op.name == "sort" else op.dim("k")
    shortest = shortest_by_digits(op.operands[0].dtype)
    is_long = all(not isinstance(size, int) or size >= shortest for size in (length, count))
    fits = not isinstance(length, int) or length <= LONGEST_RADIX
    is_whole = not (isinstance(length, int) and isinstance(count, int) and count < length)
    by_radix = stride == 1 and is_long and fits and is_whole
    threads = element_threads(target)
    lane_axis = _lane_axis(op, threads.lanes)
    if lane_axis is not None and _fits_lanes(op, target):
        return OrderingSchedule(algorithm="lanes", lane_axis=lane_axis, workers=threads)
    return OrderingSchedule(algorithm="radix" if by_radix else "heap", workers=threads)


def _lane_axis(op: Op, lanes: int) -> int | None:
    """The axis along which lines are in lanes: the last one beside theirs, else the longest if that has many."""
    shape = op.operands[0].shape
    others = [axis for axis in range(len(shape)) if axis != op.int("axis")]
    known = [(size, axis) for axis in others if isinstance(size := shape[axis], int)]
    for axis in (*others[-1:], *(axis for axis in others[:-1] if axis == max(known, default=(0, -1))[1])):
        size = shape[axis]
        if not isinstance(size, int) or size * LEAST_FULL >= lanes:
            return axis
    return None


def _fits_lanes(op: Op, target: Target) -> bool:
    """Whether lines are short, for all that is known, and what is kept of each is little."""
    shape, axis = op.operands[0].shape, op.int("axis")
    length, count = shape[axis], op.results[0].shape[axis]
    if not isinstance(length, int) or not isinstance(count, int):
        return False
    is_wide = op.operands[0].dtype.bits > F32.bits
    most = MOST_NARROW_KEPT if is_wide and target.vector_bits <= NARROW_BITS else MOST_KEPT
    steps = MOST_STEPS if not is_wide else HELD_WIDE_STEPS if count <= HELD_WIDE else MOST_WIDE_STEPS
    is_crossed = axis != len(shape) - 1 and target.vector_bits >= WIDE_BITS and length * count <= steps
    return 0 < count <= min(length, most) and (length <= LONGEST_KEPT or is_crossed)
