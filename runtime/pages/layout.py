"""Where the boxes of a graph go: rows by the longest path, the order within a row by barycentres.

Time and room are linear in boxes and edges, but for the sorting of rows. Nothing here knows what a box stands for.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from onnxc.runtime.records import record

__all__ = ["BOX_HEIGHT", "ROW_HEIGHT", "Layout", "Point", "layered"]

Point = tuple[float, float]
"""x and y, in units of a page that is not zoomed."""

BOX_HEIGHT = 40
ROW_HEIGHT = 90
GAP = 24
BEND_WIDTH = 12

# A row of so many boxes is 10 screens wide at the zoom at which names can be read; more of them get rows of their own.
MOST_IN_A_ROW = 100

# Swin's 1,900 nodes look no better after eight sweeps than after four.
SWEEPS = 4

# Where a graph leans is judged by so many rows above and below a row, which are several layers of a network, and is
# mended where it comes to more than a box: in between, what is straight stays so.
LEANING_ROWS = 40
LEAST_LEAN = 200

# Edges bend around boxes at one point a row. What is beyond twice the boxes goes straight, the longest edges first: a
# chain in which every box uses the first one would have as many points as the square of its length.
BENDS_FOR_A_BOX = 2


@record
class Layout:
    """The middle of each box in x and its top in y, and for each edge the points that it goes through."""

    boxes: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]


def layered(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> Layout:
    """A layout in which edges go down, from boxes to boxes that come later; other edges do not decide anything.

    widths: of the boxes, in an order of execution. edges: pairs of indices.
    """
    down = [(source, target) for source, target in edges if source < target]
    rows = _split_wide(_rows(len(widths), down))
    chains, all_widths, all_rows = _with_bends(widths, rows, down)
    links = [link for chain in chains for link in pairwise(chain) if all_rows[link[1]] == all_rows[link[0]] + 1]
    above, below = _neighbours(len(all_widths), links)
    ordered = _ordered(all_rows, above, below)
    xs = _upright(ordered, _positions(ordered, all_widths, above, below))
    bends = iter(chains)
    routes = (next(bends) if source < target else (source, target) for source, target in edges)
    return Layout(
        tuple((round(xs[box], 1), rows[box] * ROW_HEIGHT) for box in range(len(widths))),
        tuple(_route(chain, xs, all_rows) for chain in routes),
    )


def _rows(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The row of each box: below all that lead to it; what nothing leads to is right above what first uses it."""
    above, below = _neighbours(count, edges)
    rows = [0] * count
    for box in range(count):
        rows[box] = 1 + max((rows[source] for source in above[box]), default=-1)
    for box in reversed(range(count)):
        if below[box] and not above[box]:
            rows[box] = max(0, min(rows[target] for target in below[box]) - 1)
    return rows


def _split_wide(rows: Sequence[int]) -> list[int]:
    """The rows, in which no edge is, with those that hold too much made several."""
    members = _grouped(rows)
    split, first = [0] * len(rows), 0
    for row in members:
        for ordinal, box in enumerate(row):
            split[box] = first + ordinal // MOST_IN_A_ROW
        first += -(-len(row) // MOST_IN_A_ROW)
    return split


def _grouped(rows: Sequence[int]) -> list[list[int]]:
    members: list[list[int]] = [[] for _ in range(max(rows, default=-1) + 1)]
    for box, row in enumerate(rows):
        members[row].append(box)
    return members


def _with_bends(
    widths: Sequence[float], rows: Sequence[int], edges: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, ...]], list[float], list[int]]:
    """For each edge the boxes and bends that it goes through, then the widths and rows of boxes and bends."""
    all_widths, all_rows = list(widths), list(rows)
    chains = [(source, target) for source, target in edges]
    result: list[tuple[int, ...]] = [*chains]
    budget = BENDS_FOR_A_BOX * len(widths)
    for ordinal in sorted(range(len(edges)), key=lambda k: rows[edges[k][1]] - rows[edges[k][0]]):
        source, target = edges[ordinal]
        between = range(rows[source] + 1, rows[target])
        if len(between) > budget:
            break
        budget -= len(between)
        first = len(all_rows)
        all_rows += between
        all_widths += [BEND_WIDTH] * len(between)
        result[ordinal] = (source, *range(first, len(all_rows)), target)
    return result, all_widths, all_rows


def _neighbours(count: int, links: Iterable[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """For each box those above it and those below it."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in links:
        above[target].append(source)
        below[source].append(target)
    return above, below


def _ordered(rows: Sequence[int], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> list[list[int]]:
    """The boxes and bends of each row from left to right, near the middle of those that they are linked with."""
    members = _grouped(rows)
    ranks = [0.0] * len(rows)
    for row in members:
        _rank(row, ranks)
    for sweep in range(SWEEPS):
        linked = below if sweep % 2 else above
        for row in reversed(members) if sweep % 2 else members:
            middles = {box: _mean(ranks, linked[box], ranks[box]) for box in row}
            row.sort(key=middles.__getitem__)
            _rank(row, ranks)
    return members


def _rank(row: Sequence[int], ranks: list[float]) -> None:
    """Ranks of rows of different length can be compared: they are distances from the middle."""
    for ordinal, box in enumerate(row):
        ranks[box] = ordinal - (len(row) - 1) / 2


def _mean(values: Sequence[float], indices: Sequence[int], default: float) -> float:
    return sum(values[index] for index in indices) / len(indices) if indices else default


def _positions(
    members: Sequence[Sequence[int]],
    widths: Sequence[float],
    above: Sequence[Sequence[int]],
    below: Sequence[Sequence[int]],
) -> list[float]:
    """The middle of each box and bend: near the mean of those it is linked with, in order and without overlap."""
    xs = [0.0] * len(widths)
    for sweep in range(SWEEPS + 1):
        linked = below if sweep % 2 else above
        for row in reversed(members) if sweep % 2 else members:
            wanted = [_mean(xs, linked[box], xs[box]) for box in row]
            for box, x in zip(row, _apart(wanted, [widths[box] for box in row]), strict=True):
                xs[box] = x
    return xs


def _upright(members: Sequence[Sequence[int]], xs: Sequence[float]) -> list[float]:
    """The same, rows moved as wholes so that the graph as it goes down leans to no side.

    Layers that are alike, each a little to the right of the one above it, would end far from the first.
    """
    means = [sum(xs[box] for box in row) / len(row) if row else 0.0 for row in members]
    sums = [0.0, *accumulate(means)]
    moved, shift = list(xs), 0.0
    for k, row in enumerate(members):
        first, last = max(0, k - LEANING_ROWS), min(len(means), k + LEANING_ROWS + 1)
        lean = (sums[last] - sums[first]) / (last - first)
        if abs(lean - shift) > LEAST_LEAN:
            shift = lean
        for box in row:
            moved[box] -= shift
    return moved


def _apart(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Positions in the same order whose boxes do not overlap.

    Pushing only to the right keeps apart, and so does pushing only to the left; so does the mean of both.
    """
    steps = [(a + b) / 2 + GAP for a, b in pairwise(widths)]
    right, left = list(wanted), list(wanted)
    for k, step in enumerate(steps):
        right[k + 1] = max(right[k + 1], right[k] + step)
    for k in reversed(range(len(steps))):
        left[k] = min(left[k], left[k + 1] - steps[k])
    return [(a + b) / 2 for a, b in zip(right, left, strict=True)]


def _route(chain: Sequence[int], xs: Sequence[float], rows: Sequence[int]) -> tuple[Point, ...]:
    """From the bottom of the first box through the middle of the bends to the top of the last."""
    source, *bends, target = chain
    middle = BOX_HEIGHT / 2
    inner = ((round(xs[bend], 1), rows[bend] * ROW_HEIGHT + middle) for bend in bends)
    start = (round(xs[source], 1), float(rows[source] * ROW_HEIGHT + BOX_HEIGHT))
    return (start, *inner, (round(xs[target], 1), float(rows[target] * ROW_HEIGHT)))
