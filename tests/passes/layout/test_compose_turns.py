"""Turns of axes with reshapes between them, and chains that stay as they are."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.compose_turns import compose_turns
from tests.passes.golden import M, N, Pair, check_pair, f32
from tests.support.fake_gpu import compile_for_fake
from tests.support.models import model_from_text


def _patches(b: Builder, x: Value) -> Value:
    """Pixels with channels last as rows for each place in patches of 2 x 2."""
    x = b.transpose(x, (0, 3, 1, 2))
    x = b.transpose(b.reshape(x, (N * 24, 2, 2, 2)), (0, 2, 1, 3))
    return b.reshape(b.transpose(b.reshape(x, (N, 6, 8, 4)), (0, 3, 2, 1)), (N * 4, 8, 6))


def _patches_at_once(b: Builder, x: Value) -> Value:
    split = b.reshape(x, (N, 4, 2, 2, 2, 6))
    return b.reshape(b.transpose(split, (0, 2, 4, 1, 3, 5)), (N * 4, 8, 6))


def _pixels(b: Builder, x: Value) -> Value:
    """What `_patches` undoes."""
    x = b.transpose(b.reshape(x, (N, 4, 8, 6)), (0, 3, 2, 1))
    x = b.transpose(b.reshape(x, (N * 24, 2, 2, 2)), (0, 2, 1, 3))
    return b.transpose(b.reshape(x, (N, 6, 8, 4)), (0, 2, 3, 1))


def _pixels_at_once(b: Builder, x: Value) -> Value:
    split = b.reshape(x, (N, 2, 2, 4, 2, 6))
    return b.reshape(b.transpose(split, (0, 3, 1, 4, 2, 5)), (N, 8, 4, 6))


def _there_and_back(b: Builder, x: Value) -> Value:
    """Two turns that undo each other once their axes are split."""
    turned = b.reshape(b.transpose(x, (1, 0)), (4, 3, N))
    return b.reshape(b.transpose(turned, (2, 0, 1)), (N, 12))


def _used_between(b: Builder, x: Value) -> tuple[Value, ...]:
    between = b.reshape(b.transpose(x, (0, 2, 1)), (N, 3, 2, M))
    return b.transpose(between, (0, 2, 1, 3)), b.exp(between)


def _windows(b: Builder, x: Value) -> Value:
    """Attention, whose kernel writes heads last, in windows that become rows of an image."""
    heads = b.transpose(b.attention(x, x, x, None, 0.5), (0, 2, 1, 3))
    return b.transpose(b.reshape(heads, (N, 2, 2, 3, 10)), (0, 2, 1, 3, 4))


PAIRS = {
    "pixels as patches": Pair((f32(N, 8, 4, 6),), _patches, _patches_at_once),
    "patches as pixels": Pair((f32(N * 4, 8, 6),), _pixels, _pixels_at_once),
    "there and back": Pair((f32(N, 12),), _there_and_back, lambda b, x: x),
    "axes of one element": Pair(
        (f32(1, N, 1, 6),),
        lambda b, x: b.transpose(b.reshape(b.transpose(x, (3, 0, 1, 2)), (2, 3, N, 1)), (2, 3, 1, 0)),
        lambda b, x: b.reshape(b.transpose(b.reshape(x, (N, 2, 3)), (0, 2, 1)), (N, 1, 3, 2)),
    ),
    "one turn": Pair((f32(N, 12),), lambda b, x: b.transpose(b.reshape(x, (N, 3, 4)), (0, 2, 1))),
    "runs that share no end": Pair(
        (f32(4, 9),), lambda b, x: b.transpose(b.reshape(b.transpose(x, (1, 0)), (6, 6)), (1, 0))
    ),
    "a size that nothing tells how to split": Pair(
        (f32(2 * N, 6),), lambda b, x: b.transpose(b.reshape(b.transpose(x, (1, 0)), (3 * N, 4)), (1, 0))
    ),
    "no elements": Pair(
        (f32(0, 6),), lambda b, x: b.transpose(b.reshape(b.transpose(x, (1, 0)), (3, 0, 2)), (2, 1, 0))
    ),
    "what attention writes": Pair((f32(2 * N, 2, 6, 5),), _windows),
    "a value that is used between": Pair((f32(N, M, 6),), _used_between),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_turns_with_reshapes_between_are_one(pair: str) -> None:
    check_pair(compose_turns, PAIRS[pair])


UNFOLDED = """<ir_version: 8, opset_import: ["": 17]>
unfolded (float[n, 8, 4, 6] x) => (float[n, 8, 4, 6] y)
    <int64[4] rows = {-1, 2, 2, 2}, int64[4] places = {-1, 6, 8, 4}, int64[3] patches = {-1, 8, 6},
     int64[4] apart = {-1, 4, 8, 6}>
{
  images = Transpose <perm = [0, 3, 1, 2]> (x)
  first = Reshape (images, rows)
  second = Transpose <perm = [0, 2, 1, 3]> (first)
  third = Reshape (second, places)
  fourth = Transpose <perm = [0, 3, 2, 1]> (third)
  fifth = Reshape (fourth, patches)
  whole = Softmax <axis = 1> (fifth)
  sixth = Reshape (whole, apart)
  seventh = Transpose <perm = [0, 3, 2, 1]> (sixth)
  eighth = Reshape (seventh, rows)
  ninth = Transpose <perm = [0, 2, 1, 3]> (eighth)
  tenth = Reshape (ninth, places)
  y = Transpose <perm = [0, 2, 3, 1]> (tenth)
}"""


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_patches_are_turned_once_on_each_side_of_what_is_computed_of_them(batch: int) -> None:
    run = compile_for_fake(model_from_text(UNFOLDED))
    assert len(run.executable.report()["launches"]) <= 2
    x = np.random.default_rng(0).standard_normal((batch, 8, 4, 6)).astype(np.float32)
    y = run.executable.run({"x": x})["y"]
    run.driver.check()
    weights = np.exp(x.reshape(batch, 4, 2, 2, 2, 6))
    expected = (weights / weights.sum((1, 3), keepdims=True)).reshape(x.shape)
    assert (y.shape, y.dtype) == (x.shape, np.float32)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
