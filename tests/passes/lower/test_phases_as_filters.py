"""Transposed convolutions to few filters: phases that become filters, and what stays because taps would be zeros."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value, walk
from onnxc.compiler.passes.lower.phases_as_filters import phases_as_filters
from tests.passes.golden import M, N, Pair, assert_same_meaning, built, check_pair, f32
from tests.passes.lower.transposed_convolutions import filters_of, transposed


def _two_phases(b: Builder, x: Value) -> Value:
    """x: f32[N, M, 5], four taps [2, 5, 4] -> two taps [phase * 2, 5, 2]; the result of phase 0 is not the first."""
    return _two_phases_of(b, x, filters_of(2, 5, 4))


def _two_phases_of(b: Builder, x: Value, filters: np.ndarray) -> Value:
    united = b.constant(np.ascontiguousarray(np.concatenate([filters[..., 1::2], filters[..., 0::2]])))
    y = b.convolution(x, united, [1], [1], [1], [1], dimensions="n0c,oi0->n0c")
    joined = b.reshape(b.reshape(y, (N, M + 1, 2, 2)), (N, 2 * M + 2, 2))
    return b.slice(joined, (0, 1, 0), (N, 2 * M, 2))


def _dequantized(b: Builder, x: Value) -> Value:
    """As `_two_phases`, of filters that are bytes times a scale"""
    codes = np.arange(40, dtype=np.int8).reshape(2, 5, 4)
    w = b.mul(b.cast(b.constant(codes), F32), 0.5)
    return b.convolution(x, w, [1], [2], [2], [1], input_dilations=[2], dimensions="n0c,oi0->n0c")


def _two_phases_of_bytes(b: Builder, x: Value) -> Value:
    filters = np.arange(40, dtype=np.float32).reshape(2, 5, 4) / 2
    return _two_phases_of(b, x, filters)


PAIRS = {
    "dequantised filters": Pair((f32(N, M, 5),), _dequantized, _two_phases_of_bytes, rounds=True, sizes=(2, 5)),
    "phases are filters": Pair(
        (f32(N, M, 5),),
        lambda b, x: transposed(b, x, filters_of(2, 5, 4), [2], [2], [2], "n0c,oi0->n0c"),
        _two_phases,
        rounds=True,
        sizes=(2, 5),
    ),
    "taps of zeros would make NaN of infinities": Pair(
        (f32(N, 5, 7),), lambda b, x: transposed(b, x, filters_of(1, 5, 3), [2], [2], [2])
    ),
    "filters that fill a register": Pair(
        (f32(N, 5, 7),), lambda b, x: transposed(b, x, filters_of(16, 5, 2), [2], [1], [1])
    ),
    "as many filters as fill most of a register": Pair(
        (f32(N, 2, 7),), lambda b, x: transposed(b, x, filters_of(14, 2, 4), [4], [3], [3])
    ),
    "no zeros between": Pair((f32(N, 5, 7),), lambda b, x: transposed(b, x, filters_of(1, 5, 2), [1], [1], [1])),
    "groups": Pair((f32(N, 4, 7),), lambda b, x: transposed(b, x, filters_of(2, 2, 2), [2], [1], [1], groups=2)),
    "no filters": Pair((f32(N, 5, 7),), lambda b, x: transposed(b, x, filters_of(0, 5, 2), [2], [1], [1])),
    "no taps": Pair((f32(N, 5, 7),), lambda b, x: transposed(b, x, filters_of(1, 5, 0), [2], [1], [1])),
    "padding known at the call": Pair(
        (f32(N, 5, 7),), lambda b, x: transposed(b, x, filters_of(1, 5, 2), [2], [M], [1])
    ),
    "filters known at the call": Pair(
        (f32(N, 5, 7), f32(1, 5, 2)), lambda b, x, w: b.convolution(x, w, [1], [1], [1], [1], input_dilations=[2])
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_phases_become_filters_where_lanes_are_empty(pair: str) -> None:
    check_pair(phases_as_filters, PAIRS[pair])


@pytest.mark.parametrize(
    ("shape", "filters", "spread", "low", "high", "dimensions"),
    [
        ((N, 3, M), (1, 3, 12), [4], [11], [11], None),
        ((N, 3, M), (1, 3, 12), [4], [0], [13], None),
        ((N, 3, 4), (2, 3, 8), [4], [6], [9], None),
        ((2, 3, 4, M), (1, 3, 4, 4), [2, 2], [2, 3], [3, 2], None),
        ((2, 3, M, 4), (2, 3, 6, 2), [3, 2], [4, 0], [9, 1], None),
        ((2, 3, 5, 4), (3, 3, 3, 4), [1, 4], [1, 3], [1, 5], None),
        ((2, 4, 5, 3), (4, 3, 2, 1), [2, 2], [1, 2], [1, 1], "n01c,0i1o->cn10"),
        ((1, 2, 3, 2, 3), (1, 2, 2, 2, 2), [2, 2, 2], [1, 0, 1], [1, 2, 0], None),
        # Three quarters of the lanes, and 80 in place of 144.
        ((1, 2, 4), (12, 2, 8), [4], [5], [5], None),
        ((1, 2, 3, 4), (8, 2, 3, 3), [3, 3], [2, 2], [2, 2], None),
        ((0, 3, 4), (1, 3, 2), [2], [1], [1], None),
        ((2, 3, 1), (1, 3, 2), [2], [0], [1], None),
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
    after = phases_as_filters(before)
    spreads = [op.ints("input_dilations") for op in walk(after.main.body) if op.name == "convolution"]
    assert spreads == [(1,) * len(spread)]
    assert_same_meaning(before, after, (1, 2, 5), rounds=True)
