"""Padding and picks before short rows, which are one axis with what is padded; one element is left out."""

from collections.abc import Sequence

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.merge_short_rows import merge_short_rows
from tests.passes.golden import M, N, Pair, check_pair, f32, i64, u8


def _padded(b: Builder, x: Value, low: Sequence[Dim], high: Sequence[Dim]) -> Value:
    return b.pad(x, low, high, b.scalar(1.0, x.dtype))


PAIRS = {
    "pixels of three channels": Pair(
        (f32(2, N, M, 3),),
        lambda b, x: _padded(b, x, (0, 1, 2, 0), (0, 3, 0, 0)),
        lambda b, x: b.reshape(
            _padded(b, b.reshape(x, (2, N, 3 * M)), (0, 1, 6), (0, 3, 0)), (2, N + 4, M + 2, 3)
        ),
    ),
    "bytes, as many as a few vectors": Pair(
        (u8(N, 4, 100),),
        lambda b, x: _padded(b, x, (0, 1, 0), (0, 1, 0)),
        lambda b, x: b.reshape(_padded(b, b.reshape(x, (N, 400)), (0, 100), (0, 100)), (N, 6, 100)),
    ),
    "one channel": Pair(
        (f32(N, 4, 1),),
        lambda b, x: _padded(b, x, (0, 2, 0), (0, 0, 0)),
        lambda b, x: b.reshape(_padded(b, b.reshape(x, (N, 4)), (0, 2), (0, 0)), (N, 6, 1)),
    ),
    "the last axis is padded": Pair((f32(N, 4, 3),), lambda b, x: _padded(b, x, (0, 1, 0), (0, 0, 1))),
    "nothing is padded": Pair((f32(N, 4, 3),), lambda b, x: _padded(b, x, (0, 0, 0), (0, 0, 0))),
    "a part of another": Pair(
        (f32(4, 9, 3),),
        lambda b, x: _padded(b, b.reshape(b.slice(x, (0, 1, 0), (4, 5, 3)), (2, 2, 5, 3)), (0, 1, 0, 0), (0, 0, 0, 0)),
    ),
    "long rows": Pair((f32(N, 4, 64),), lambda b, x: _padded(b, x, (0, 1, 0), (0, 0, 0))),
    "rows of an unknown number": Pair(
        (f32(4, N),),
        lambda b, x: _padded(b, x, (1, 0), (2, 0)),
        lambda b, x: b.reshape(_padded(b, b.reshape(x, (4 * N,)), (N,), (2 * N,)), (7, N)),
    ),
    "rows of nothing": Pair((f32(N, 4, 0),), lambda b, x: _padded(b, x, (0, 1, 0), (0, 0, 0))),
    "what is turned lies otherwise": Pair(
        (f32(N, 3, 4),), lambda b, x: _padded(b, b.transpose(x, (0, 2, 1)), (0, 1, 0), (0, 0, 0))
    ),
    "picked before one element": Pair(
        (f32(N, 4, 1), i64(M)),
        lambda b, x, i: b.gather(x, i, 1),
        lambda b, x, i: b.reshape(b.gather(b.reshape(x, (N, 4)), i, 1), (N, M, 1)),
    ),
    "picked twice before one element": Pair(
        (f32(5, 4, 1), i64(M)),
        lambda b, x, i: b.gather(b.gather(x, i, 0), i, 1),
        lambda b, x, i: b.reshape(b.gather(b.gather(b.reshape(x, (5, 4)), i, 0), i, 1), (M, M, 1)),
    ),
    "picked of one element": Pair((f32(N, 1), i64(M)), lambda b, x, i: b.gather(x, i, 1)),
    "picked before rows": Pair((f32(N, 4, 3), i64(M)), lambda b, x, i: b.gather(x, i, 1)),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_short_rows_are_one_with_what_is_padded(pair: str) -> None:
    check_pair(merge_short_rows, PAIRS[pair])
