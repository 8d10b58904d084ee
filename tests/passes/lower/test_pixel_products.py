"""Convolutions of single pixels by filters of a call, which become products, and all others, which stay."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F64, I32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.pixel_products import pixel_products
from tests.passes.golden import M, N, Pair, assert_same_meaning, built, check_pair, f32, i8, i32, text_of, u8


def _convolve(b: Builder, x: Value, w: Value, low: int = 0, step: int = 1, groups: int = 1) -> Value:
    ones = [1] * (x.rank - 2)
    return b.convolution(x, w, [step] * len(ones), [low] * len(ones), [0] * len(ones), ones, groups)


def _multiply(b: Builder, x: Value, w: Value) -> Value:
    """x: f32[N, 3, M, 4], w: f32[5, 3, 1, 1]"""
    product = b.dot(b.reshape(w, (5, 3)), b.reshape(x, (N, 3, M * 4)), "oc,ncp->nop")
    return b.reshape(product, (N, 5, M, 4))


def _multiply_groups(b: Builder, x: Value, w: Value) -> Value:
    """x: f32[N, 4, *S], w: f32[6, 2, *1], in two groups"""
    lines = b.reshape(x, (N, 2, 2, M if x.rank > 2 else 1))
    return b.reshape(b.dot(b.reshape(w, (2, 3, 2)), lines, "goc,ngcp->ngop"), (N, 6, *x.shape[2:]))


def _spread(b: Builder, x: Value, w: Value, low: int = 1, high: int = 1, groups: int = 1) -> Value:
    """A convolution over x with zeros between its pixels."""
    ones = [1] * (x.rank - 2)
    padding = [low] * len(ones), [high] * len(ones)
    return b.convolution(x, w, ones, *padding, ones, groups, input_dilations=[2] * len(ones))


def _blocks(b: Builder, x: Value, w: Value) -> Value:
    """x: f32[N, 3, 5, 4], w: f32[6, 3, 2, 2]"""
    turned = b.transpose(b.reverse(b.reverse(w, 2), 3), (0, 2, 3, 1))
    product = b.dot(b.reshape(turned, (24, 3)), b.reshape(x, (N, 3, 20)), "oc,ncp->nop")
    between = b.transpose(b.reshape(product, (N, 6, 2, 2, 5, 4)), (0, 1, 4, 2, 5, 3))
    return b.reshape(between, (N, 6, 10, 8))


IMAGE, LINE = f32(N, 3, M, 4), f32(N, 4, M)

PAIRS = {
    "a product": Pair((IMAGE, f32(5, 3, 1, 1)), _convolve, _multiply, rounds=True),
    "of no channels": Pair(
        (f32(N, 0, 2), f32(5, 0, 1)),
        _convolve,
        lambda b, x, w: b.dot(b.reshape(w, (5, 0)), x, "oc,ncp->nop"),
    ),
    "in another type": Pair(
        (LINE, f32(2, 4, 1)),
        lambda b, x, w: b.convolution(x, w, [1], [0], [0], [1], dtype=F64),
        lambda b, x, w: b.dot(b.reshape(w, (2, 4)), x, "oc,ncp->nop", F64),
        rounds=True,
    ),
    "constant filters": Pair((LINE,), lambda b, x: _convolve(b, x, b.constant(np.ones((2, 4, 1), np.float32)))),
    "several taps": Pair((LINE, f32(2, 4, 3)), lambda b, x, w: _convolve(b, x, w, low=2)),
    "padding": Pair((LINE, f32(2, 4, 1)), lambda b, x, w: _convolve(b, x, w, low=1)),
    "steps": Pair(
        (f32(N, 4, 8), f32(2, 4, 1)),
        lambda b, x, w: _convolve(b, x, w, step=3),
        lambda b, x, w: b.dot(b.reshape(w, (2, 4)), b.slice(x, (0, 0, 0), (N, 4, 3), (1, 1, 3)), "oc,ncp->nop"),
        rounds=True,
    ),
    "groups": Pair((LINE, f32(6, 2, 1)), lambda b, x, w: _convolve(b, x, w, groups=2), _multiply_groups, rounds=True),
    "integers": Pair((i32(N, 4, M), i32(2, 4, 1)), lambda b, x, w: b.convolution(x, w, [1], [0], [0], [1], dtype=I32)),
    "bytes": Pair((u8(N, 4, M), i8(2, 4, 1)), lambda b, x, w: b.convolution(x, w, [1], [0], [0], [1], dtype=F64)),
    "blocks that overlap": Pair((f32(N, 4, 5), f32(2, 4, 3)), lambda b, x, w: _spread(b, x, w, 2, 2)),
    "a part of the blocks": Pair((f32(N, 4, 5), f32(2, 4, 2)), lambda b, x, w: _spread(b, x, w, 0, 1)),
    "blocks of groups": Pair((f32(N, 4, 5), f32(2, 2, 2)), lambda b, x, w: _spread(b, x, w, groups=2)),
    "no spatial axes": Pair(
        (f32(N, 4), f32(6, 2)),
        lambda b, x, w: b.convolution(x, w, [], [], [], [], groups=2),
        _multiply_groups,
        rounds=True,
    ),
    "many constant filters of blocks": Pair(
        (f32(N, 1, 5),), lambda b, x: _spread(b, x, b.constant(np.ones((33, 1, 2), np.float32)))
    ),
    "channels last": Pair(
        (f32(N, M, 4), f32(2, 4, 1)),
        lambda b, x, w: b.convolution(x, w, [1], [0], [0], [1], dimensions="n0c,oi0->n0c"),
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_pixels_are_multiplied_by_filters_of_a_call(pair: str) -> None:
    check_pair(pixel_products, PAIRS[pair])


def test_a_pixel_is_multiplied_for_a_block() -> None:
    types = (f32(N, 3, 5, 4), f32(6, 3, 2, 2))
    before, after = built(types, _spread), built(types, _blocks)
    assert text_of(pixel_products(before)) == text_of(after)
    # The zeros between pixels make NaN of filters that are not finite; kernels of either do not multiply them.
    assert_same_meaning(before, after, (0, 1, 3), rounds=True, odd=False)


@pytest.mark.parametrize("filters", [1, 32])
def test_a_pixel_is_multiplied_for_a_block_by_few_constant_filters(filters: int) -> None:
    w = np.random.default_rng(1).standard_normal((filters, 3, 2)).astype(np.float32)
    rows = np.ascontiguousarray(w[:, :, ::-1].transpose(0, 2, 1).reshape(2 * filters, 3))

    def blocks(b: Builder, x: Value) -> Value:
        product = b.reshape(b.dot(b.constant(rows), x, "oc,ncp->nop"), (N, filters, 2, M))
        return b.reshape(b.transpose(product, (0, 1, 3, 2)), (N, filters, 2 * M))

    before = built((f32(N, 3, M),), lambda b, x: _spread(b, x, b.constant(w)))
    names = [op.name for op in pixel_products(before).main.body.ops]
    assert "convolution" not in names
    assert "dot" in names
    assert_same_meaning(before, built((f32(N, 3, M),), blocks), (0, 1, 3), rounds=True, odd=False)
    assert_same_meaning(before, pixel_products(before), (0, 1, 3), rounds=True, odd=False)
