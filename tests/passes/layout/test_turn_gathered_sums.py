"""Weighted sums at indices along the last axis are sums along columns of what was turned."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.turn_gathered_sums import turn_gathered_sums
from tests.passes.golden import M, N, Pair, check_pair, f32

INDICES = np.array([[0, 1, 2], [2, 2, 3], [4, 3, 1], [0, 0, 0]])


def _summed(b: Builder, x: Value, axis: int, kind: str = "sum", weighs_first: bool = False) -> Value:
    """4 sums of 3 elements each, along an axis of 5."""
    picked = b.gather(x, b.constant(INDICES), axis)
    weights = b.constant(np.arange(12, dtype=np.float32).reshape(4, 3) - 5)
    factors = b.broadcast(weights, (axis, axis + 1), picked.shape)
    return b.reduce(b.mul(factors, picked) if weighs_first else b.mul(picked, factors), kind, (axis + 1,))


def _turned(b: Builder, x: Value) -> Value:
    order = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return b.transpose(_summed(b, b.transpose(x, order), x.rank - 2), order)


def _used_twice(b: Builder, x: Value) -> Value:
    picked = b.gather(x, b.constant(INDICES), 1)
    factors = b.broadcast(b.constant(np.ones((4, 3), np.float32)), (1, 2), picked.shape)
    return b.add(b.reduce(b.mul(picked, factors), "sum", (2,)), b.reduce(picked, "max", (2,)))


PAIRS = {
    "lines of images": Pair((f32(N, 3, 9, 5),), lambda b, x: _summed(b, x, 3), _turned),
    "lines whose number only a call knows": Pair((f32(N, M, 5),), lambda b, x: _summed(b, x, 2), _turned),
    "lines alone": Pair((f32(9, 5),), lambda b, x: _summed(b, x, 1), _turned),
    "weights first": Pair((f32(9, 5),), lambda b, x: _summed(b, x, 1, weighs_first=True), _turned),
    "no images": Pair((f32(0, 8, 5),), lambda b, x: _summed(b, x, 2), _turned),
    "few lines": Pair((f32(N, 7, 5),), lambda b, x: _summed(b, x, 2)),
    "one line": Pair((f32(5),), lambda b, x: _summed(b, x, 0)),
    "columns": Pair((f32(N, 5, 9),), lambda b, x: _summed(b, x, 1)),
    "the most of each": Pair((f32(9, 5),), lambda b, x: _summed(b, x, 1, "max")),
    "elements that are wanted besides": Pair((f32(9, 5),), _used_twice),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_sums_along_lines_are_turned(pair: str) -> None:
    check_pair(turn_gathered_sums, PAIRS[pair])
