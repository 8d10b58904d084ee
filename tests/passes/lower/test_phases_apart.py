"""Transposed convolutions to few filters: phases with taps of their own, and what is left as it is."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value, walk
from onnxc.compiler.passes.lower.phases_apart import phases_apart
from tests.passes.golden import M, N, Pair, assert_same_meaning, built, check_pair, f32
from tests.passes.lower.transposed_convolutions import filters_of, transposed


def _two_phases(b: Builder, x: Value) -> Value:
    """x: f32[N, 16, M], three taps: phase 0 has the one in the middle, phase 1 the first and the last."""
    filters, ones = filters_of(2, 16, 3), [1]
    taps = (np.ascontiguousarray(filters[..., first::2]) for first in (1, 0))
    one, two = (
        b.convolution(x, b.constant(each), ones, [0], [high], ones) for each, high in zip(taps, (0, 1), strict=True)
    )
    together = b.concatenate([b.unsqueeze(one, (0,)), b.unsqueeze(two, (0,))], 0)
    between = b.transpose(together, (1, 2, 3, 0))
    return b.slice(b.reshape(between, (N, 2, 2 * M)), (0, 0, 0), (N, 2, 2 * M - 1))


def _two_phases_of_each_channel(b: Builder, x: Value) -> Value:
    """x: f32[N, 3, M], nine taps: phase 0 has the five of them that are even, phase 1 the others."""
    filters, ones = filters_of(6, 1, 9), [1]
    taps = (np.ascontiguousarray(filters[..., first::2]) for first in (0, 1))
    one, two = (
        b.convolution(x, b.constant(each), ones, [low], [2], ones, groups=3)
        for each, low in zip(taps, (2, 1), strict=True)
    )
    together = b.concatenate([b.unsqueeze(one, (0,)), b.unsqueeze(two, (0,))], 0)
    between = b.transpose(together, (1, 2, 3, 0))
    return b.slice(b.reshape(between, (N, 6, 2 * M)), (0, 0, 0), (N, 6, 2 * M - 1))


PAIRS = {
    "each phase has taps of its own": Pair(
        (f32(N, 16, M),),
        lambda b, x: transposed(b, x, filters_of(2, 16, 3), [2], [1], [1]),
        _two_phases,
        rounds=True,
        sizes=(1, 2, 5),
    ),
    "wide filters of one channel each": Pair(
        (f32(N, 3, M),),
        lambda b, x: transposed(b, x, filters_of(6, 1, 9), [2], [4], [4], groups=3),
        _two_phases_of_each_channel,
        rounds=True,
        sizes=(1, 2, 5),
    ),
    "filters of one channel each": Pair(
        (f32(N, 3, M),), lambda b, x: transposed(b, x, filters_of(6, 1, 8), [2], [4], [3], groups=3)
    ),
    "wide filters of one channel in more than 64 phases": Pair(
        (f32(N, 3, M),), lambda b, x: transposed(b, x, filters_of(3, 1, 65), [65], [64], [64], groups=3)
    ),
    "wide filters of two channels each": Pair(
        (f32(N, 6, M),), lambda b, x: transposed(b, x, filters_of(6, 2, 9), [2], [4], [4], groups=3)
    ),
    "filters that fill lanes": Pair(
        (f32(N, 16, 7),), lambda b, x: transposed(b, x, filters_of(9, 16, 3), [2], [1], [1])
    ),
    "few channels": Pair((f32(N, 15, 7),), lambda b, x: transposed(b, x, filters_of(1, 15, 3), [2], [1], [1])),
    "no zeros between": Pair((f32(N, 16, 7),), lambda b, x: transposed(b, x, filters_of(1, 16, 3), [1], [1], [1])),
    "a phase without taps": Pair((f32(N, 16, 7),), lambda b, x: transposed(b, x, filters_of(1, 16, 2), [3], [1], [1])),
    "groups": Pair((f32(N, 32, 7),), lambda b, x: transposed(b, x, filters_of(2, 16, 3), [2], [1], [1], groups=2)),
    "no filters": Pair((f32(N, 16, 7),), lambda b, x: transposed(b, x, filters_of(0, 16, 3), [2], [1], [1])),
    "no taps": Pair((f32(N, 16, 7),), lambda b, x: transposed(b, x, filters_of(1, 16, 0), [2], [2], [2])),
    "more than sixteen phases": Pair(
        (f32(N, 16, 7),), lambda b, x: transposed(b, x, filters_of(1, 16, 19), [17], [9], [9])
    ),
    "an image that is cut off": Pair(
        (f32(N, 16, 7),), lambda b, x: transposed(b, x, filters_of(1, 16, 3), [2], [0], [1])
    ),
    "padding known at the call": Pair(
        (f32(N, 16, 7),), lambda b, x: transposed(b, x, filters_of(1, 16, 3), [2], [M], [1])
    ),
    "filters known at the call": Pair(
        (f32(N, 16, 7), f32(1, 16, 3)), lambda b, x, w: b.convolution(x, w, [1], [1], [1], [1], input_dilations=[2])
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_phases_are_convolutions_where_lanes_are_empty(pair: str) -> None:
    check_pair(phases_apart, PAIRS[pair])


@pytest.mark.parametrize(
    ("shape", "filters", "spread", "low", "high", "dimensions"),
    [
        ((N, 16, M), (1, 16, 3), [2], [1], [2], None),
        ((N, 16, 4), (8, 16, 9), [4], [5], [8], None),
        ((2, 16, 4, M), (1, 16, 3, 3), [2, 2], [1, 1], [1, 2], None),
        ((2, 16, 5, 4), (3, 16, 3, 5), [1, 2], [1, 2], [1, 2], None),
        ((2, 16, 5, 3), (4, 16, 3, 3), [2, 2], [1, 1], [1, 1], None),
        ((2, 5, 3, 16), (4, 3, 16, 3), [2, 2], [1, 1], [1, 1], "n01c,o0i1->cn10"),
        ((1, 16, 3, 2, 3), (2, 16, 3, 3, 3), [2, 2, 2], [1, 1, 1], [1, 2, 1], None),
        ((0, 16, 4), (1, 16, 3), [2], [1], [1], None),
        ((2, 16, 1), (1, 16, 3), [2], [1], [1], None),
    ],
)
def test_the_results_are_the_same(
    shape: tuple[Dim, ...],
    filters: tuple[int, ...],
    spread: list[int],
    low: list[int],
    high: list[int],
    dimensions: str | None,
) -> None:
    before = built((f32(*shape),), lambda b, x: transposed(b, x, filters_of(*filters), spread, low, high, dimensions))
    after = phases_apart(before)
    spreads = [op.ints("input_dilations") for op in walk(after.main.body) if op.name == "convolution"]
    assert set(spreads) == {(1,) * len(spread)}
    assert_same_meaning(before, after, (1, 2, 5), rounds=True)
