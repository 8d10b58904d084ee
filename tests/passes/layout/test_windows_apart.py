"""Filters of one channel whose windows share no element: where they become sums of planes, and what the sums are."""

from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Value, walk
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.layout.write_planes import write_planes
from tests.passes.golden import M, Make, N, assert_same_meaning, built, f32, f64


def _convolve(
    b: Builder, last: Value, *taps: int, filters: int = 1, steps: Sequence[int] = (), low: int = 0, groups: int = 0
) -> Value:
    """A convolution of an image whose channels lie last, so many filters for each of them, whose result is planes."""
    channels, spatial = last.shape[-1], len(taps)
    assert isinstance(channels, int)
    drawn = np.random.default_rng(0).standard_normal((channels * filters, channels // (groups or channels), *taps))
    w, ones, padding = b.constant(drawn.astype(last.dtype.numpy)), [1] * spatial, [low] * spatial
    dimensions = channels_innermost(spatial)
    y = b.convolution(last, w, steps or taps, padding, padding, ones, groups or channels, dimensions=dimensions)
    return b.transpose(y, (0, y.rank - 1, *range(1, y.rank - 1)))


def _depthwise(
    b: Builder, x: Value, *taps: int, filters: int = 1, steps: Sequence[int] = (), low: int = 0, groups: int = 0
) -> Value:
    """The same of planes."""
    last = b.transpose(x, (0, *range(2, x.rank), 1))
    return _convolve(b, last, *taps, filters=filters, steps=steps, low=low, groups=groups)


def _computed(b: Builder, x: Value) -> Value:
    """With a bias and ReLU behind it."""
    y = _depthwise(b, x, 4, 4)
    return b.max(b.add(y, b.broadcast(b.constant(np.arange(3, dtype=np.float32)), (1,), y.shape)), 0.0)


def _channels_last(b: Builder, x: Value) -> Value:
    y = _depthwise(b, x, 4, 4)
    return b.exp(b.transpose(y, (0, 2, 3, 1)))


SUMMED: dict[str, tuple[TensorType, Make]] = {
    "windows that fill the image": (f32(2, 3, 8, 12), lambda b, x: _depthwise(b, x, 4, 4)),
    "elements behind the last window": (f32(2, 3, 11, 14), lambda b, x: _depthwise(b, x, 4, 4)),
    "one window": (f32(1, 5, 7, 7), lambda b, x: _depthwise(b, x, 7, 7)),
    "any number of images": (f32(N, 3, 8, 12), lambda b, x: _depthwise(b, x, 4, 4)),
    "any number of lines": (f32(N, 2, M + 4, 8), lambda b, x: _depthwise(b, x, 4, 4)),
    "long lines of any length": (f32(1, 2, N + 2, M + 16), lambda b, x: _depthwise(b, x, 2, 16)),
    "several filters for each channel": (f32(2, 3, 8, 12), lambda b, x: _depthwise(b, x, 3, 3, filters=2)),
    "long lines by several filters": (f32(2, 3, 4, 33), lambda b, x: _depthwise(b, x, 2, 16, filters=2)),
    "few taps of lines that are whole vectors": (f32(2, 3, 6, 48), lambda b, x: _depthwise(b, x, 3, 3)),
    "lines alone": (f32(2, 3, 64), lambda b, x: _depthwise(b, x, 4)),
    "three axes": (f32(2, 3, 4, 6, 8), lambda b, x: _depthwise(b, x, 2, 3, 4)),
    "f64": (f64(2, 3, 8, 12), lambda b, x: _depthwise(b, x, 4, 4)),
    "with what follows": (f32(2, 3, 8, 12), _computed),
    "a result that is read channels last": (f32(2, 3, 8, 12), _channels_last),
}

KEPT: dict[str, tuple[TensorType, Make]] = {
    "windows that share elements": (f32(2, 3, 12, 12), lambda b, x: _depthwise(b, x, 4, 4, steps=(2, 4))),
    "windows with gaps": (f32(2, 3, 12, 12), lambda b, x: _depthwise(b, x, 4, 4, steps=(5, 5))),
    "padding": (f32(2, 3, 12, 12), lambda b, x: _depthwise(b, x, 4, 4, low=1)),
    "few taps of lines that are not whole vectors": (f32(2, 3, 12, 9), lambda b, x: _depthwise(b, x, 3, 3)),
    "two taps": (f32(2, 3, 12, 16), lambda b, x: _depthwise(b, x, 8, 2)),
    "short lines of any length": (f32(2, 3, 8, N + 4), lambda b, x: _depthwise(b, x, 4, 4)),
    "no whole window in a line": (f32(2, 3, 8, 3), lambda b, x: _depthwise(b, x, 4, 4)),
    "filters of several channels": (f32(2, 16, 8, 8), lambda b, x: _depthwise(b, x, 4, 4, groups=4)),
    "one channel": (f32(2, 1, 8, 8), lambda b, x: _depthwise(b, x, 4, 4, filters=32)),
    "an image that lies channels last": (f32(2, 8, 12, 32), lambda b, x: _convolve(b, x, 4, 4)),
}


@pytest.mark.parametrize("case", SUMMED)
def test_windows_become_sums(case: str) -> None:
    type, make = SUMMED[case]
    before = built((type,), make)
    after = write_planes(before)
    verify_module(after)
    assert "convolution" not in {op.name for op in walk(after.main.body)}
    assert_same_meaning(before, after, (0, 1, 3), rounds=True)


@pytest.mark.parametrize("case", KEPT)
def test_convolutions_that_are_kept(case: str) -> None:
    type, make = KEPT[case]
    after = write_planes(built((type,), make))
    assert "convolution" in {op.name for op in walk(after.main.body)}


def test_an_element_meets_one_tap() -> None:
    """An infinity makes NaN of no other result, though the taps beside its own are 0."""
    x = np.zeros((1, 2, 4, 8), np.float32)
    x[0, 1, 0, 4] = np.inf

    def convolved(b: Builder, image: Value) -> Value:
        w = b.constant(np.eye(4, dtype=np.float32)[None, None].repeat(2, axis=0) + 1)
        y = b.convolution(
            b.transpose(image, (0, 2, 3, 1)), w, (4, 4), (0, 0), (0, 0), (1, 1), 2, dimensions=channels_innermost(2)
        )
        return b.transpose(y, (0, 3, 1, 2))

    before = built((f32(1, 2, 4, 8),), convolved)
    for module in (before, write_planes(before)):
        (y,) = interpret(module, {"x": x, "sizes": np.zeros((0, 0), np.bool_)})
        np.testing.assert_array_equal(y, [[[[0, 0]], [[0, np.inf]]]])
