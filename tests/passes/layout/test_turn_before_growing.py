"""Images whose pixels are repeated are turned before."""

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.turn_before_growing import turn_before_growing
from tests.passes.golden import M, N, Pair, check_pair, f32

FIRST = (0, 3, 1, 2)


def _grown(b: Builder, x: Value) -> Value:
    """Each pixel of x[n, h, w, c] three times along lines, twice along columns."""
    n, h, w, c = x.shape
    return b.reshape(b.broadcast(x, (0, 1, 3, 5), (n, h, 3, w, 2, c)), (n, h * 3, w * 2, c))


def _grown_planes(b: Builder, x: Value) -> Value:
    n, c, h, w = x.shape
    return b.reshape(b.broadcast(x, (0, 1, 2, 4), (n, c, h, 3, w, 2)), (n, c, h * 3, w * 2))


def _used_twice(b: Builder, x: Value) -> Value:
    grown = _grown(b, x)
    return b.add(b.transpose(grown, FIRST), b.reshape(grown, (N, 5, 12, 6)))


PAIRS = {
    "pixels, along both axes": Pair(
        (f32(N, 4, M, 5),),
        lambda b, x: b.transpose(_grown(b, x), FIRST),
        lambda b, x: _grown_planes(b, b.transpose(x, FIRST)),
    ),
    "samples": Pair(
        (f32(2, N, 5),),
        lambda b, x: b.transpose(b.reshape(b.broadcast(x, (0, 1, 3), (2, N, 4, 5)), (2, N * 4, 5)), (0, 2, 1)),
        lambda b, x: b.reshape(b.broadcast(b.transpose(x, (0, 2, 1)), (0, 1, 2), (2, 5, N, 4)), (2, 5, N * 4)),
    ),
    "another order is wanted": Pair((f32(N, 4, 3, 5),), lambda b, x: b.transpose(_grown(b, x), (0, 3, 2, 1))),
    "others read them as they lie": Pair((f32(N, 4, 3, 5),), _used_twice),
    "channels are repeated": Pair(
        (f32(2, 3, 4, 5),),
        lambda b, x: b.transpose(b.reshape(b.broadcast(x, (0, 1, 2, 3), (2, 3, 4, 5, 2)), (2, 3, 4, 10)), FIRST),
    ),
    "whole lines are repeated": Pair(
        (f32(2, 3, 4, 5),),
        lambda b, x: b.transpose(b.reshape(b.broadcast(x, (0, 2, 3, 4), (2, 2, 3, 4, 5)), (2, 6, 4, 5)), FIRST),
    ),
    "a line that is made longer": Pair(
        (f32(2, 1, 4, 5),),
        lambda b, x: b.transpose(b.reshape(b.broadcast(x, (0, 1, 3, 4), (2, 3, 2, 4, 5)), (2, 6, 4, 5)), FIRST),
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_what_grows_is_turned_before(pair: str) -> None:
    check_pair(turn_before_growing, PAIRS[pair])
