"""Images of few channels that get more of them, and those that stay."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.fill_channels import fill_channels
from tests.passes.golden import M, N, Pair, check_pair, f32

LAST = "n01c,oi01->n01c"


def _convolve(
    b: Builder, x: Value, low: int = 1, high: int = 2, groups: int = 1, spread: int = 1, taps: int = 3
) -> Value:
    w = b.constant(_filters(x, groups, taps))
    ones, spreads = [1] * 2, [spread] * 2
    return b.convolution(
        x, w, ones, [low] * 2, [high] * 2, ones, groups, input_dilations=spreads, dimensions=LAST
    )  # fmt: skip


def _filters(x: Value, groups: int = 1, taps: int = 3) -> np.ndarray:
    channels = x.shape[-1]
    assert isinstance(channels, int)
    return np.random.default_rng(0).standard_normal((6, channels // groups, taps, taps)).astype(np.float32)


def _filled(b: Builder, x: Value, more: int) -> Value:
    """x: f32[N, M, 7, C]"""
    w = b.pad(b.constant(_filters(x)), (0, 0, 0, 0), (0, more, 0, 0))
    image = b.pad(x, (0, 1, 1, 0), (0, 2, 2, more))
    return b.convolution(image, w, [1] * 2, [0] * 2, [0] * 2, [1] * 2, dimensions=LAST)


PAIRS = {
    "three channels": Pair((f32(N, M, 7, 3),), _convolve, lambda b, x: _filled(b, x, 1), rounds=True, sizes=(3, 4)),
    "six channels": Pair((f32(N, M, 7, 6),), _convolve, lambda b, x: _filled(b, x, 2), rounds=True, sizes=(3, 4)),
    "four channels": Pair((f32(N, M, 7, 4),), _convolve),
    "one channel": Pair((f32(N, M, 7, 1),), _convolve),
    "groups": Pair((f32(N, M, 7, 6),), lambda b, x: _convolve(b, x, groups=2)),
    "images with zeros between": Pair((f32(N, M, 7, 3),), lambda b, x: _convolve(b, x, spread=2)),
    "windows of one pixel": Pair((f32(N, M, 7, 6),), lambda b, x: _convolve(b, x, low=0, high=0, taps=1)),
    "what is cut off": Pair((f32(N, M, 7, 3),), lambda b, x: _convolve(b, x, low=-1)),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_channels_are_filled_up_where_there_are_three(pair: str) -> None:
    check_pair(fill_channels, PAIRS[pair])
