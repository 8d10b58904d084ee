"""Results as planes: what is turned behind a convolution, and where channels stay last."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import channels_innermost, image_labels
from onnxc.compiler.passes.layout.write_planes import write_planes
from tests.passes.golden import M, N, Pair, built, check_pair, f32

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def _convolve(
    b: Builder, x: Value, filters: int, planes: bool = False, spread: int = 1, groups: int = 1, step: int = 1
) -> Value:
    channels = x.shape[-1]
    assert isinstance(channels, int)
    w = b.constant(np.random.default_rng(0).standard_normal((filters, channels // groups, 3, 3)).astype(np.float32))
    dimensions = "n01c,oi01->nc01" if planes else channels_innermost(2)
    ones = (1, 1)
    spreads, steps = (spread, spread), (step, step)
    return b.convolution(x, w, steps, ones, ones, ones, groups, input_dilations=spreads, dimensions=dimensions)


def _scattered(b: Builder, x: Value, *taps: int, planes: bool = False, dilation: int = 1, step: int = 1) -> Value:
    """A convolution of one channel by 4 filters, without padding."""
    w = b.constant(np.random.default_rng(0).standard_normal((4, 1, *taps)).astype(np.float32))
    none, steps, dilations = ([count] * len(taps) for count in (0, step, dilation))
    last = channels_innermost(len(taps))
    dimensions = f"{last.split('->')[0]}->{image_labels(len(taps))}" if planes else last
    return b.convolution(x, w, steps, none, none, dilations, dimensions=dimensions)


def _columns(b: Builder, x: Value, planes: bool = False) -> Value:
    """One filter of 3 x 1 taps for each channel."""
    w = b.constant(np.random.default_rng(0).standard_normal((24, 1, 3, 1)).astype(np.float32))
    dimensions = "n01c,oi01->nc01" if planes else channels_innermost(2)
    return b.convolution(x, w, (1, 1), (1, 0), (1, 0), (1, 1), 24, dimensions=dimensions)


def _weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _pixels(b: Builder, planes: Value, filters: int, groups: int = 1, step: int = 1) -> Value:
    """Single pixels of planes that are turned, convolved with a bias and turned back."""
    w, bias = b.constant(_weights(filters, 8 // groups, 1, 1)), b.constant(_weights(filters))
    none, ones, steps = (0, 0), (1, 1), (step, step)
    last = b.transpose(planes, LAST)
    y = b.convolution(last, w, steps, none, none, ones, groups, dimensions=channels_innermost(2))
    return b.transpose(b.relu(b.add(y, b.broadcast(bias, (3,), y.shape))), FIRST)


def _multiplied(b: Builder, planes: Value, filters: int, groups: int = 1) -> Value:
    """The same as a product of matrices."""
    w, bias = b.constant(_weights(filters, 8 // groups, 1, 1)), b.constant(_weights(filters))
    pixels = product(planes.shape[2:])
    if groups == 1:
        y = b.dot(b.reshape(w, (filters, 8)), b.reshape(planes, (planes.shape[0], 8, pixels)), "oc,ncp->nop")
        added = b.add(y, b.broadcast(bias, (1,), y.shape))
    else:
        lines = b.reshape(planes, (planes.shape[0], groups, 8 // groups, pixels))
        y = b.dot(b.reshape(w, (groups, filters // groups, 8 // groups)), lines, "goc,ngcp->ngop")
        added = b.add(y, b.broadcast(b.reshape(bias, (groups, filters // groups)), (1, 2), y.shape))
    return b.reshape(b.relu(added), (planes.shape[0], filters, *planes.shape[2:]))


def _behind(b: Builder, planes: Value) -> Value:
    return b.transpose(planes, (0, *range(2, planes.rank), 1))


def _biased(b: Builder, y: Value, axis: int) -> Value:
    return b.add(y, b.broadcast(b.constant(np.arange(4, dtype=np.float32)), (axis,), y.shape))


def _gated(b: Builder, y: Value) -> Value:
    return b.mul(y, b.max(y, 0.0))


def _used_twice(b: Builder, x: Value) -> Value:
    y = _convolve(b, x, 16)
    return b.concatenate([b.transpose(y, FIRST), b.reshape(y, (2, 16, 20, 20))], 0)


def _chain(b: Builder, y: Value) -> Value:
    """2 to the power of 100 ways from the result to y."""
    for _ in range(100):
        y = b.add(y, y)
    return y


PAIRS = {
    "few filters": Pair(
        (f32(N, 20, 20, 8),),
        lambda b, x: b.transpose(_convolve(b, x, 4), FIRST),
        lambda b, x: _convolve(b, x, 4, planes=True),
    ),
    "one filter, of which the other order is another name": Pair(
        (f32(2, 20, 20, 8),),
        lambda b, x: b.reshape(_convolve(b, x, 1), (2, 1, 20, 20)),
        lambda b, x: _convolve(b, x, 1, planes=True),
    ),
    "with what follows": Pair(
        (f32(2, 20, 20, 8),),
        lambda b, x: b.transpose(_gated(b, _biased(b, _convolve(b, x, 4), 3)), FIRST),
        lambda b, x: _gated(b, _biased(b, _convolve(b, x, 4, planes=True), 1)),
    ),
    "with what is planes already": Pair(
        (f32(2, 20, 20, 8), f32(2, 4, 20, 20)),
        lambda b, x, y: b.transpose(b.add(_convolve(b, x, 4), b.transpose(y, LAST)), FIRST),
        lambda b, x, y: b.add(_convolve(b, x, 4, planes=True), y),
    ),
    "a residual lies channels last": Pair(
        (f32(2, 20, 20, 8), f32(2, 20, 20, 16)),
        lambda b, x, y: b.transpose(b.add(_convolve(b, x, 16), y), FIRST),
    ),
    "another order is wanted": Pair((f32(2, 20, 20, 8),), lambda b, x: b.transpose(_convolve(b, x, 16), (0, 1, 3, 2))),
    "others read it channels last": Pair((f32(2, 20, 20, 8),), _used_twice),
    "more pointwise ops than a model has in a row": Pair(
        (f32(2, 20, 20, 8),), lambda b, x: b.transpose(_chain(b, _convolve(b, x, 16)), FIRST)
    ),
    "many products for each result": Pair(
        (f32(2, 20, 20, 64),), lambda b, x: b.transpose(_convolve(b, x, 64), FIRST)
    ),
    "windows of more channels than the stack has room for": Pair(
        (f32(1, 6, 5, 2000),), lambda b, x: b.transpose(_convolve(b, x, 4), FIRST)
    ),
    "one channel under taps along a column": Pair(
        (f32(N, 20, 20, 1),),
        lambda b, x: _gated(b, _biased(b, _scattered(b, x, 3, 1), 3)),
        lambda b, x: _behind(b, _gated(b, _biased(b, _scattered(b, x, 3, 1, planes=True), 1))),
        sizes=(1, 2),
    ),
    "one channel of three axes": Pair(
        (f32(N, 5, 4, 3, 1),),
        lambda b, x: _scattered(b, x, 3, 2, 1),
        lambda b, x: _behind(b, _scattered(b, x, 3, 2, 1, planes=True)),
        sizes=(1, 2),
    ),
    "one channel under taps that are apart": Pair(
        (f32(2, 20, 1),),
        lambda b, x: _scattered(b, x, 3, dilation=2),
        lambda b, x: _behind(b, _scattered(b, x, 3, dilation=2, planes=True)),
    ),
    "one channel beside what lies channels last": Pair(
        (f32(2, 6, 5, 1), f32(2, 4, 5, 4)),
        lambda b, x, y: b.add(_scattered(b, x, 3, 1), y),
        lambda b, x, y: b.add(_behind(b, _scattered(b, x, 3, 1, planes=True)), y),
    ),
    "two of one channel": Pair(
        (f32(2, 6, 5, 1),),
        lambda b, x: b.add(_scattered(b, x, 3, 1), _scattered(b, b.exp(x), 3, 1)),
        lambda b, x: _behind(
            b, b.add(_scattered(b, x, 3, 1, planes=True), _scattered(b, b.exp(x), 3, 1, planes=True))
        ),
    ),
    "one channel that is turned first": Pair(
        (f32(2, 6, 5, 1),),
        lambda b, x: b.transpose(_gated(b, _scattered(b, x, 3, 1)), FIRST),
        lambda b, x: _gated(b, _scattered(b, x, 3, 1, planes=True)),
    ),
    "one channel whose taps lie side by side": Pair((f32(2, 6, 5, 1),), lambda b, x: _scattered(b, x, 3, 2)),
    "one channel under one tap": Pair((f32(2, 6, 5, 1),), lambda b, x: _scattered(b, x, 1, 1)),
    "one channel whose rows are one pixel": Pair((f32(2, 6, 1, 1),), lambda b, x: _scattered(b, x, 3, 1)),
    "one channel in wide steps": Pair((f32(2, 9, 9, 1),), lambda b, x: _scattered(b, x, 3, 1, step=3)),
    "few filters, channels last": Pair(
        (f32(N, 20, 20, 8),),
        lambda b, x: _convolve(b, x, 4),
        lambda b, x: _behind(b, _convolve(b, x, 4, planes=True)),
        sizes=(0, 1, 2),
    ),
    "one filter, channels last, of which the other order is another name": Pair(
        (f32(N, 20, 20, 8),),
        lambda b, x: _gated(b, _convolve(b, x, 1)),
        lambda b, x: b.reshape(_gated(b, _convolve(b, x, 1, planes=True)), (N, 20, 20, 1)),
        sizes=(0, 1, 2),
    ),
    "groups of few filters": Pair(
        (f32(2, 20, 20, 24),),
        lambda b, x: _convolve(b, x, 12, groups=3),
        lambda b, x: _behind(b, _convolve(b, x, 12, planes=True, groups=3)),
    ),
    "few of a group, for which there are lanes": Pair((f32(2, 20, 20, 8),), lambda b, x: _convolve(b, x, 8, groups=4)),
    "filters that fill a vector": Pair((f32(2, 20, 20, 8),), lambda b, x: _convolve(b, x, 16)),
    "few taps of one channel each, of an image that is turned": Pair(
        (f32(1, 24, 40, 40),),
        lambda b, x: b.transpose(_columns(b, b.transpose(x, LAST)), FIRST),
        lambda b, x: _columns(b, b.transpose(x, LAST), planes=True),
    ),
    "few taps of one channel each, of pixels that lie side by side": Pair(
        (f32(1, 40, 40, 24),), lambda b, x: b.transpose(_columns(b, x), FIRST)
    ),
    "several filters for each channel": Pair(
        (f32(2, 8, 20, 20),),
        lambda b, x: b.transpose(_convolve(b, b.transpose(x, LAST), 32, groups=8), FIRST),
        lambda b, x: _convolve(b, b.transpose(x, LAST), 32, planes=True, groups=8),
    ),
    "several filters for each channel, channels last": Pair(
        (f32(2, 20, 20, 8),),
        lambda b, x: _convolve(b, x, 32, groups=8),
        lambda b, x: _behind(b, _convolve(b, x, 32, planes=True, groups=8)),
    ),
    "one filter for each of many channels": Pair(
        (f32(2, 32, 20, 20),), lambda b, x: b.transpose(_convolve(b, b.transpose(x, LAST), 32, groups=32), FIRST)
    ),
    "few taps of one channel each, of pixels that were repeated": Pair(
        (f32(1, 20, 40, 24),),
        lambda b, x: b.transpose(
            _columns(b, b.reshape(b.broadcast(x, (0, 1, 3, 4), (1, 20, 2, 40, 24)), (1, 40, 40, 24))), FIRST
        ),
    ),
    "windows in steps of few channels": Pair(
        (f32(1, 3, 64, 64),),
        lambda b, x: b.transpose(_convolve(b, b.transpose(x, LAST), 8, step=2), FIRST),
        lambda b, x: _convolve(b, b.transpose(x, LAST), 8, planes=True, step=2),
    ),
    "windows in steps of many channels, which planes would copy apart": Pair(
        (f32(8, 256, 14, 14),), lambda b, x: b.transpose(_convolve(b, b.transpose(x, LAST), 16, step=2), FIRST)
    ),
    "windows in steps of short rows": Pair(
        (f32(8, 128, 7, 7),), lambda b, x: b.transpose(_convolve(b, b.transpose(x, LAST), 8, step=2), FIRST)
    ),
    "single pixels of planes": Pair(
        (f32(2, 8, 20, 20),), lambda b, x: _pixels(b, x, 12), lambda b, x: _multiplied(b, x, 12)
    ),
    "single pixels of planes of a size of a call": Pair(
        (f32(N, 8, M, 20),), lambda b, x: _pixels(b, x, 12), lambda b, x: _multiplied(b, x, 12)
    ),
    "single pixels of groups": Pair(
        (f32(2, 8, 20, 20),), lambda b, x: _pixels(b, x, 12, groups=2), lambda b, x: _multiplied(b, x, 12, groups=2)
    ),
    "every other pixel of planes": Pair(
        (f32(2, 8, 19, 20),),
        lambda b, x: _pixels(b, x, 12, step=2),
        lambda b, x: _multiplied(b, b.slice(x, (0, 0, 0, 0), (2, 8, 10, 10), (1, 1, 2, 2)), 12),
    ),
    "every fifth pixel of planes": Pair(
        (f32(2, 8, 31, 36),),
        lambda b, x: _pixels(b, x, 12, step=5),
        lambda b, x: _multiplied(b, b.slice(x, (0, 0, 0, 0), (2, 8, 7, 8), (1, 1, 5, 5)), 12),
    ),
    "single pixels to many filters, of small planes": Pair((f32(2, 8, 1, 3),), lambda b, x: _pixels(b, x, 256)),
    "one pixel of few channels is too little": Pair((f32(2, 1, 1, 8),), lambda b, x: _convolve(b, x, 4)),
    "a transposed convolution to few filters": Pair(
        (f32(2, 9, 9, 8),),
        lambda b, x: b.transpose(_convolve(b, x, 4, spread=2), FIRST),
        lambda b, x: _convolve(b, x, 4, planes=True, spread=2),
    ),
    "a transposed convolution to many": Pair(
        (f32(2, 9, 9, 8),), lambda b, x: b.transpose(_convolve(b, x, 64, spread=2), FIRST)
    ),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_results_are_planes_where_that_is_less_work(pair: str) -> None:
    check_pair(write_planes, PAIRS[pair])


@pytest.mark.parametrize(("line", "expected"), [(100, "n0c"), (200, "nc0")])
def test_filters_of_a_call_that_meet_long_lines_write_planes(line: int, expected: str) -> None:
    def build(b: Builder, x: Value, w: Value) -> Value:
        ones = (1,)
        return b.transpose(b.convolution(x, w, ones, ones, ones, ones, dimensions=channels_innermost(1)), (0, 2, 1))

    module = write_planes(built([f32(1, line, 80), f32(128, 80, 3)], build))
    (convolution,) = (op for op in module.main.body.ops if op.name == "convolution")
    assert convolution.text("dimensions").partition("->")[2] == expected
