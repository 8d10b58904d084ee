"""Windows before few channels: what is turned for them, what is one axis, and what stays as it lies."""

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.windows_of_few_channels import windows_of_few_channels
from tests.passes.golden import M, N, Pair, check_pair, f32


def _folded(b: Builder, x: Value, kind: str, taps: tuple[int, ...], step: int = 1) -> Value:
    """Windows of so many taps, padded but along axes of one, `step` apart where they are folded."""
    low, high = [size // 2 for size in taps], [(size - 1) // 2 for size in taps]
    strides = [step if size > 1 else 1 for size in taps]
    return b.reduce_window(x, kind, taps, strides, low, high, [1] * len(taps))


def _turned(b: Builder, x: Value, kind: str, taps: tuple[int, ...], step: int = 1) -> Value:
    """The same of an image whose channels lie last, by way of one whose channels come first."""
    last = x.rank - 1
    first = b.transpose(x, (0, last, *range(1, last)))
    return b.transpose(_folded(b, first, kind, (1, 1, *taps), step), (0, *range(2, last + 1), 1))


def _without_channels(b: Builder, x: Value) -> Value:
    folded = _folded(b, b.reshape(x, (N, 1, M, 9)), "max", (1, 1, 3, 3))
    return b.reshape(folded, (N, M, 9, 1))


def _with_columns(b: Builder, x: Value) -> Value:
    return b.reshape(_folded(b, b.reshape(x, (N, 7, 4 * M)), "max", (1, 3, 1)), (N, 7, M, 4))


PAIRS = {
    "maxima of few channels": Pair(
        (f32(N, 7, M, 4),), lambda b, x: _folded(b, x, "max", (1, 3, 3, 1)), lambda b, x: _turned(b, x, "max", (3, 3))
    ),
    "sums that are apart": Pair(
        (f32(N, M, 9, 8),),
        lambda b, x: _folded(b, x, "sum", (1, 2, 2, 1), 2),
        lambda b, x: _turned(b, x, "sum", (2, 2), 2),
        rounds=True,
    ),
    "a signal": Pair(
        (f32(N, M, 24),), lambda b, x: _folded(b, x, "max", (1, 5, 1)), lambda b, x: _turned(b, x, "max", (5,))
    ),
    "one channel": Pair((f32(N, M, 9, 1),), lambda b, x: _folded(b, x, "max", (1, 3, 3, 1)), _without_channels),
    "one column": Pair((f32(N, 7, M, 4),), lambda b, x: _folded(b, x, "max", (1, 3, 1, 1)), _with_columns),
    "many channels": Pair((f32(N, 7, M, 25),), lambda b, x: _folded(b, x, "max", (1, 3, 3, 1))),
    "channels known at the call": Pair((f32(N, 7, 9, M),), lambda b, x: _folded(b, x, "max", (1, 3, 3, 1))),
    "no channels": Pair((f32(N, 7, 9, 0),), lambda b, x: _folded(b, x, "max", (1, 3, 3, 1))),
    "channels that are folded": Pair((f32(N, 7, 9, 8),), lambda b, x: _folded(b, x, "max", (1, 3, 3, 3))),
    "no more columns than channels": Pair((f32(N, M, 8, 8),), lambda b, x: _folded(b, x, "max", (1, 3, 3, 1))),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_windows_go_along_columns_where_channels_are_few(pair: str) -> None:
    check_pair(windows_of_few_channels, PAIRS[pair])
