"""Padding of images of few channels: where it is written, on which side of a transpose, and where it stays."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.passes.lower.pad_few_channels import pad_few_channels
from tests.passes.golden import M, N, Pair, check_pair, f32


def _convolve(
    b: Builder, x: Value, low: tuple[Dim, ...], high: tuple[Dim, ...], dilation: int = 1, spread: int = 1
) -> Value:
    rank, channels = x.rank - 2, x.shape[-1]
    assert isinstance(channels, int)
    w = b.constant(np.random.default_rng(0).standard_normal((2, channels, *[3] * rank)).astype(np.float32))
    ones = [1] * rank
    taps, images = [dilation] * rank, [spread] * rank
    order = channels_innermost(rank)
    return b.convolution(x, w, ones, low, high, taps, input_dilations=images, dimensions=order)


def _lines(b: Builder, x: Value) -> Value:
    """x: T[N, M, 7, 3] with a column of zeros before and two behind each line, and a line above."""
    lines = b.pad(b.reshape(x, (N, M, 21)), (0, 1, 3), (0, 0, 6))
    return b.reshape(lines, (N, M + 1, 10, 3))


PAIRS = {
    "columns and their channels are one axis": Pair(
        (f32(N, M, 7, 3),),
        lambda b, x: _convolve(b, x, (1, 1), (0, 2)),
        lambda b, x: _convolve(b, _lines(b, x), (0, 0), (0, 0)),
        sizes=(3, 4),
    ),
    "what is only turned is padded as it lies": Pair(
        (f32(N, 3, 5, 7),),
        lambda b, x: _convolve(b, b.transpose(x, (0, 2, 3, 1)), (1, 1), (0, 2)),
        lambda b, x: _convolve(
            b, b.transpose(b.pad(x, (0, 0, 1, 1), (0, 0, 0, 2)), (0, 2, 3, 1)), (0, 0), (0, 0)
        ),
    ),
    "many channels are a run by themselves": Pair((f32(N, 5, 7, 16),), lambda b, x: _convolve(b, x, (1, 1), (0, 2))),
    "no padding along a line": Pair((f32(N, 5, 7, 3),), lambda b, x: _convolve(b, x, (1, 0), (0, 0))),
    "taps that are no neighbours": Pair((f32(N, 5, 7, 3),), lambda b, x: _convolve(b, x, (1, 1), (0, 2), 2)),
    "images with zeros between": Pair((f32(N, 5, 7, 3),), lambda b, x: _convolve(b, x, (1, 1), (0, 2), spread=2)),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_padding_is_written_where_it_makes_runs_longer(pair: str) -> None:
    check_pair(pad_few_channels, PAIRS[pair])
