"""Ranges of a size that one candidate serves well: as few as keep each close to the best one everywhere.

Costs are compared at samples of the size. Nothing here knows what costs are of.
"""

import numpy as np

__all__ = ["NEAR_BEST", "divide", "regrets", "sample_sizes"]

NEAR_BEST = 1.12
"""How much more than the best candidate one may cost in its range. Each further range is a kernel to compile; the cost
models are not exact to a tenth, and between samples there are steps of the same order."""

MORE_REGRET = 1.02
"""By how much this is raised at a time where there would be too many ranges."""

_PER_OCTAVE = 32
"""Samples in a doubling of the size: of up to 512 rows, every tile of 16 begins with a sample of its own."""


def sample_sizes(least: int, most: int) -> tuple[int, ...]:
    """Sizes from `least` to `most`, equally far in ratio, in pairs: what is tiled is full, and then begins another."""
    sizes = {least, most}
    for octave in range(most.bit_length()):
        step = max(1, (1 << octave) // _PER_OCTAVE)
        full = range(1 << octave, 2 << octave, step)
        sizes |= {size + ahead for size in full for ahead in (0, 1)}
    return tuple(sorted(size for size in sizes if least <= size <= most))


def regrets(costs: np.ndarray) -> np.ndarray:
    """Of each candidate (row) what it costs against the best one, for each sample (column); inf is no candidate."""
    ratios: np.ndarray = costs / costs.min(axis=0)
    return ratios


def divide(bounded: np.ndarray, unbounded: np.ndarray, most: int) -> list[tuple[int, int]]:
    """The first and last sample of each range, in order, `most` at most; the last range has no end.

    bounded, unbounded: the regrets of the candidates for ranges with and without an end; those without end are judged
    against the best of both.
    """
    limit = NEAR_BEST
    while len(ranges := _divided(bounded, unbounded, limit)) > most:
        limit *= MORE_REGRET
    return ranges


def _divided(bounded: np.ndarray, unbounded: np.ndarray, limit: float) -> list[tuple[int, int]]:
    """The fewest ranges in each of which a candidate stays within the limit, but for the last one."""
    last = bounded.shape[1] - 1
    ranges, first = [], 0
    endless = _first_of_last(unbounded, limit)
    while first < endless:
        end = _last_of_first(bounded[:, first:endless], limit) + first
        ranges.append((first, end))
        first = end + 1
    return [*ranges, (first, last)]


def _first_of_last(ratios: np.ndarray, limit: float) -> int:
    """The first sample from which on one candidate stays within the limit; the last sample where there is none."""
    misses: np.ndarray = ratios > limit
    ends: list[int] = [int(np.flatnonzero(row)[-1]) + 1 if row.any() else 0 for row in misses]
    last: int = ratios.shape[1] - 1
    return min(*ends, last)


def _last_of_first(ratios: np.ndarray, limit: float) -> int:
    """The last sample up to which one candidate stays within the limit; the first where none does there."""
    misses: np.ndarray = ratios > limit
    ends: list[int] = [int(row.argmax()) if row.any() else len(row) for row in misses]
    return max(*ends, 1) - 1
