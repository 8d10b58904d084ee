"""Broadcasts that turn what they repeat: several copies are of what was turned before, few are turned each."""

import pytest

from onnxc.compiler.passes.lower.turn_before_repeating import turn_before_repeating
from tests.passes.golden import M, N, Pair, check_pair, f32

PAIRS = {
    "pixels, twice each way": Pair(
        (f32(N, M, 3, 5),),
        lambda b, x: b.broadcast(x, (0, 2, 4, 1), (N, 5, M, 2, 3, 2)),
        lambda b, x: b.broadcast(b.transpose(x, (0, 3, 1, 2)), (0, 1, 2, 4), (N, 5, M, 2, 3, 2)),
    ),
    "copies in front": Pair(
        (f32(N, M),),
        lambda b, x: b.broadcast(x, (2, 1), (4, M, N)),
        lambda b, x: b.broadcast(b.transpose(x, (1, 0)), (1, 2), (4, M, N)),
    ),
    "an axis of one that is made longer": Pair(
        (f32(N, 1, M),),
        lambda b, x: b.broadcast(x, (2, 1, 0), (M, 4, N)),
        lambda b, x: b.broadcast(b.transpose(x, (2, 1, 0)), (0, 1, 2), (M, 4, N)),
    ),
    "too few copies": Pair((f32(N, M),), lambda b, x: b.broadcast(x, (2, 1), (3, M, N))),
    "an unknown number of copies": Pair((f32(N, M),), lambda b, x: b.broadcast(x, (2, 1), (N, M, N))),
    "in order": Pair((f32(N, M),), lambda b, x: b.broadcast(x, (0, 2), (N, 4, M))),
    "axes before the last one turned": Pair((f32(N, M, 3),), lambda b, x: b.broadcast(x, (2, 1, 3), (4, M, N, 3))),
    "one column": Pair((f32(N, 1),), lambda b, x: b.broadcast(x, (2, 1), (4, 1, N))),
    "one number": Pair((f32(1, 1),), lambda b, x: b.broadcast(x, (1, 0), (4, 4))),
    "a scalar": Pair((f32(),), lambda b, x: b.broadcast(x, (), (2, 4))),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_what_is_repeated_is_turned_before(pair: str) -> None:
    check_pair(turn_before_repeating, PAIRS[pair])
