"""Convolutions of patches that become products, and all others, which stay."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.patch_products import patch_products
from tests.passes.golden import M, N, Pair, check_pair, f32

LAST, FIRST_TO_LAST = "n01c,oi01->n01c", "nc01,oi01->n01c"


def _convolve(
    b: Builder, x: Value, taps: int = 2, step: int = 2, low: int = 0, dilation: int = 1, order: str = LAST
) -> Value:
    channels = x.shape[x.rank - 1 if order == LAST else 1]
    assert isinstance(channels, int)
    w = b.constant(np.random.default_rng(0).standard_normal((5, channels, taps, taps)).astype(np.float32))
    return b.convolution(x, w, [step] * 2, [low] * 2, [0] * 2, [dilation] * 2, dimensions=order)


def _multiply(b: Builder, x: Value) -> Value:
    """x: f32[N, 3, 4, 6]"""
    w = np.random.default_rng(0).standard_normal((5, 3, 2, 2)).astype(np.float32)
    split = b.reshape(x, (N, 3, 2, 2, 3, 2))
    patches = b.reshape(b.transpose(split, (0, 2, 4, 1, 3, 5)), (N, 2, 3, 12))
    return b.dot(patches, b.reshape(b.constant(w), (5, 12)), "nxyc,oc->nxyo")


PAIRS = {
    "channels first": Pair(
        (f32(N, 3, 4, 6),), lambda b, x: _convolve(b, x, order=FIRST_TO_LAST), _multiply, rounds=True
    ),
    "what is turned": Pair(
        (f32(N, 3, 4, 6),),
        lambda b, x: _convolve(b, b.transpose(x, (0, 2, 3, 1))),
        lambda b, x: _multiply(b, b.transpose(b.transpose(x, (0, 2, 3, 1)), (0, 3, 1, 2))),
        rounds=True,
    ),
    "patches that overlap": Pair((f32(N, 4, 6, 3),), lambda b, x: _convolve(b, x, step=1)),
    "patches that leave some of the image": Pair((f32(N, 5, 6, 3),), _convolve),
    "sizes that only a call tells": Pair((f32(N, M, 6, 3),), _convolve),
    "padding": Pair((f32(N, 4, 6, 3),), lambda b, x: _convolve(b, x, low=2)),
    "taps that are no neighbours": Pair((f32(N, 6, 6, 3),), lambda b, x: _convolve(b, x, dilation=2)),
    "single pixels": Pair((f32(N, 4, 6, 3),), lambda b, x: _convolve(b, x, taps=1, step=1)),
    "many channels": Pair((f32(N, 4, 6, 16),), _convolve),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_patches_are_multiplied_where_they_lie_side_by_side(pair: str) -> None:
    check_pair(patch_products, PAIRS[pair])
