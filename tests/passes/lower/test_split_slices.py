"""Axes of slices that are split, which are then slices of what is split, and those that stay."""

from collections.abc import Callable

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.lower.split_slices import split_slices
from tests.passes.golden import M, N, Pair, check_pair, f32

Cut = Callable[[Builder, Value], Value]

X = f32(N, M, 24)


def _pair(type: TensorType, before: Cut, after: Cut | None = None) -> Pair:
    """A pair in which something else reads what is sliced, too."""
    beside = None if after is None else lambda b, x: (after(b, x), b.exp(x))
    return Pair((type,), lambda b, x: (before(b, x), b.exp(x)), beside)


PAIRS = {
    "heads of a part": _pair(
        X,
        lambda b, x: b.reshape(b.slice_axis(x, 2, 8, 8), (N, M, 2, 4)),
        lambda b, x: b.slice_axis(b.reshape(x, (N, M, 6, 4)), 2, 2, 2),
    ),
    "split in three, others merged": _pair(
        X,
        lambda b, x: b.reshape(b.slice_axis(x, 2, 12, 12), (N * M, 3, 2, 2)),
        lambda b, x: b.slice_axis(b.reshape(x, (N * M, 6, 2, 2)), 1, 3, 3),
    ),
    "of a part of a part": _pair(
        X,
        lambda b, x: b.reshape(b.slice_axis(b.slice_axis(x, 2, 8, 16), 2, 4, 12), (N, M, 3, 4)),
        lambda b, x: b.slice_axis(b.reshape(x, (N, M, 6, 4)), 2, 3, 3),
    ),
    "of a part whose rows were merged before": _pair(
        X,
        lambda b, x: b.reshape(b.reshape(b.slice_axis(x, 2, 8, 8), (N * M, 8)), (N * M, 2, 4)),
        lambda b, x: b.slice_axis(b.reshape(x, (N * M, 6, 4)), 1, 2, 2),
    ),
    "of a part of a part whose rows were merged": _pair(
        X,
        lambda b, x: b.slice_axis(b.reshape(b.slice_axis(x, 2, 8, 16), (N * M, 16)), 1, 4, 8),
        lambda b, x: b.slice_axis(b.reshape(x, (N * M, 24)), 1, 12, 8),
    ),
    "of a part of a part that is split": _pair(
        X,
        lambda b, x: b.reshape(b.slice_axis(b.reshape(b.slice_axis(x, 2, 8, 16), (N * M, 16)), 1, 4, 8), (N * M, 2, 4)),
        lambda b, x: b.slice_axis(b.reshape(x, (N * M, 6, 4)), 1, 3, 2),
    ),
    "of a part of rows": _pair(
        X, lambda b, x: b.slice_axis(b.reshape(b.slice_axis(x, 2, 8, 14), (N * M, 2, 7)), 1, 1, 1)
    ),
    "from the middle of a head": _pair(X, lambda b, x: b.reshape(b.slice_axis(x, 2, 2, 8), (N, M, 2, 4))),
    "of parts that do not fill the whole": _pair(
        f32(N, 9), lambda b, x: b.reshape(b.slice_axis(x, 1, 0, 8), (N, 2, 4))
    ),
    "of every second element": _pair(X, lambda b, x: b.reshape(b.slice_axis(x, 2, 0, 8, 2), (N, M, 2, 4))),
    "of fewer rows": _pair(f32(N, 5, 8), lambda b, x: b.reshape(b.slice_axis(x, 1, 0, 4), (N, 4, 2, 4))),
    "not split": _pair(X, lambda b, x: b.reshape(b.slice_axis(x, 2, 8, 8), (N * M, 8))),
    "merged with another axis": _pair(f32(N, 2, 24), lambda b, x: b.reshape(b.slice_axis(x, 2, 8, 8), (N, 4, 4))),
    "into parts of unknown size": _pair(f32(N, M * 4), lambda b, x: b.reshape(b.slice_axis(x, 1, 0, M * 2), (N, 2, M))),
    "of unknown size": _pair(f32(N, M * 4), lambda b, x: b.reshape(b.slice_axis(x, 1, 0, M * 2), (N, M, 2))),
    "of what nothing else reads": Pair((X,), lambda b, x: b.reshape(b.slice_axis(x, 2, 8, 8), (N, M, 2, 4))),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_axes_are_split_before_they_are_sliced(pair: str) -> None:
    check_pair(split_slices, PAIRS[pair])
