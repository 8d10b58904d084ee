"""Folds of windows on a CPU: down the rows of a band, or by way of lines that are folded first."""

from math import prod

from onnxc.compiler.codegen_cpu.schedules.element_threads import element_threads
from onnxc.compiler.codegen_cpu.shuffles import LARGEST_SHUFFLED_STRIDE
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.schedules import Schedule, WindowSchedule
from onnxc.compiler.target import Target

__all__ = ["LARGEST_SHARED", "window_schedule"]

BAND_ROWS = 32
"""Rows of the result in a unit of work: enough that the lines folded twice, above each band, do not count."""

LARGEST_SHARED = 5
"""Windows of more rows do not share the folds of their lines: these would not fit the registers."""

LINE_ELEMENTS = 1024
"""The elements of the lines that are on the stack together: a part of the nearest cache.

A line is read at other offsets than it was written at, which waits until its vectors are in the cache: lines of
several rows are written before the first is read. Of f32[4096, 14, 14], maxima of 3 x 3 windows, on one core with
AVX-512 459 and 173 us, with AVX2 522 and 230.

On one core with AVX2, f32[1, 64, 112, 112], by bands and by such lines: maxima of 7 x 7 windows 7 apart 327 and 102
us, sums of 13 x 13 windows 1 apart 10,200 and 1,490 us. On one of Zen 1, maxima of 3 x 3 windows 2 apart 1,732 and 665
us, 1 apart 2,067 and 941 us; of f32[1, 256, 7, 7] 1 apart, whose rows are shorter than a vector, 82 and 88 us."""

LARGEST_LINE = 4096
"""The most elements of a line that is on the stack: windows that reach further are folded by bands."""

MOST_MASKED_VECTORS = 4
"""Rows of so many vectors go down the band where loads take masks, as they do in vectors of 512 bits.

Maxima on one core with AVX-512, by lines and down the bands: 3 x 3 windows 1 apart of 4,096 images of 7 x 7 84 and 39
us, 14 x 14 173 and 89, of 256 of 56 x 56 133 and 103, of 16 of 224 x 224 109 and 101; 5 x 5 1 apart 139 and 75, 240 and
161, 188 and 170, 158 and 176; 3 x 3 2 apart 125 and 35, 127 and 74, 55 and 60, 53 and 56. With AVX2, whose masks are
vectors, 3 x 3 1 apart 81 and 42, 230 and 180, 136 and 137, 125 and 124; 2 apart 56 and 39, 107 and 103, 66 and 100, 61
and 68; on Zen 1 of 64 images of 112 x 112 665 and 1,732."""


def window_schedule(problem: KernelProblem, target: Target) -> Schedule:
    """By lines where windows have several lines, and more than one element in each."""
    threads = element_threads(target)
    op = next(op for op in problem.block.ops if op.name in ("reduce_window", "arg_reduce_window"))
    taps, step = op.ints("window"), op.ints("strides")[-1]
    ahead = (taps[-1] - 1) * op.ints("dilations")[-1]
    strip = max((LINE_ELEMENTS - ahead) // step // threads.lanes, 1) * threads.lanes
    is_folded = op.name == "reduce_window" and taps[-1] > 1 and prod(taps[:-1]) > 1
    fits = (strip - 1) * step + ahead < LARGEST_LINE
    if not is_folded or not fits or _goes_down(op, threads.lanes, target):
        return WindowSchedule(algorithm="bands", block=BAND_ROWS, workers=threads)
    return WindowSchedule(algorithm="lines", block=BAND_ROWS, strip=strip, line_elements=LINE_ELEMENTS, workers=threads)


def _goes_down(op: Op, lanes: int, target: Target) -> bool:
    """Whether windows are few in a row, for all that is known, and what their rows share is folded once."""
    columns = op.results[0].shape[-1]
    is_short = not isinstance(columns, int) or columns <= MOST_MASKED_VECTORS * lanes
    is_shuffled = op.ints("strides")[-1] < LARGEST_SHUFFLED_STRIDE
    is_shared = op.ints("window")[-2] <= LARGEST_SHARED and op.ints("dilations")[-2] == 1
    return target.vector_bits >= 512 and is_short and is_shuffled and is_shared
