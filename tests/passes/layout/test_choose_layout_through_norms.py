"""Channels last through normalisations of groups of channels: what is left to move, and that the meaning stays."""

from collections.abc import Callable

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import BF16, F32
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.layout.choose_layout_through_norms import choose_layout_through_norms
from onnxc.compiler.passes.pipeline import run_pipeline, verify_step
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from onnxc.compiler.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from onnxc.compiler.passes.simplify.eliminate_dead_code import eliminate_dead_code
from tests.passes.golden import M, N, assert_same_meaning, built, f32
from tests.passes.layout.test_choose_layout import (
    are_innermost,
    convolutions,
    convolve,
    per_channel,
    relu,
    transposes,
    weights,
)

LAYOUT = (choose_layout_through_norms, canonicalize, eliminate_common_subexpressions, eliminate_dead_code)
IMAGE, SIZES = f32(N, 4, M, 6), (1, 2, 3)

Norm = Callable[[Builder, Value], Value]


def tidied(module: Module) -> Module:
    return run_pipeline(module, LAYOUT, [verify_step])


def normal(b: Builder, x: Value) -> Value:
    return b.layer_norm(x, b.full(x.shape[2:], 1.5, F32), b.full(x.shape[2:], 0.25, F32), 2, 1e-5)


def by_squares(b: Builder, x: Value) -> Value:
    return b.rms_norm(x, b.full(x.shape[2:], 1.5, F32), 2, 1e-5)


def joined(groups: int, norm: Norm = normal) -> Norm:
    """Groups in one axis with their pixels, as exporters write them."""

    def make(b: Builder, x: Value) -> Value:
        rows = b.with_shape(x, (x.shape[0], groups, floordiv(product(x.shape[1:]), groups)))
        return b.with_shape(norm(b, rows), x.shape)

    return make


def split(b: Builder, x: Value) -> Value:
    return b.with_shape(normal(b, b.with_shape(x, (x.shape[0], 2, 2, *x.shape[2:]))), x.shape)


def in_16_bits(b: Builder, x: Value) -> Value:
    def norm(b: Builder, rows: Value) -> Value:
        return b.cast(normal(b, b.cast(rows, F32)), BF16)

    return b.cast(joined(2, norm)(b, b.cast(x, BF16)), F32)


NORMS: dict[str, Norm] = {
    "of each channel": normal,
    "of joined groups": joined(2),
    "of groups of one channel": joined(4),
    "by squares": joined(2, by_squares),
    "of split groups": split,
    "of 16 bits": in_16_bits,
}


def between(norm: Norm) -> Norm:
    """A normalisation with a scale, a bias and an activation, between two convolutions."""

    def make(b: Builder, x: Value) -> Value:
        y = norm(b, convolve(b, x, 4))
        return convolve(b, relu(b, b.add(b.mul(y, per_channel(b, y)), per_channel(b, y))), 2)

    return make


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("image", [IMAGE, f32(N, 4, 2, M, 3)], ids=str)
def test_a_normalisation_is_computed_as_pixels_lie(name: str, image: TensorType) -> None:
    before = built((image,), between(NORMS[name]))
    after = tidied(before)
    assert are_innermost(after)
    # Of the input and of the result of the graph, and into and out of the order of the normalisation.
    assert transposes(after) == 4
    read = convolutions(after)[1].operands[0].op
    assert read is not None
    assert read.name == "max"
    assert_same_meaning(before, after, SIZES, rounds=name != "of 16 bits", odd=False)


@pytest.mark.parametrize("name", ["of each channel", "of groups of one channel"])
def test_channels_of_signals_are_normalised_as_they_lie(name: str) -> None:
    before = built((f32(N, 4, M),), between(NORMS[name]))
    after = tidied(before)
    assert transposes(after) == 4
    assert_same_meaning(before, after, SIZES, rounds=True, odd=False)


def test_all_channels_of_a_picture_lie_together() -> None:
    before = built((IMAGE,), between(joined(1)))
    after = tidied(before)
    assert transposes(after) == 2
    assert_same_meaning(before, after, SIZES, rounds=True, odd=False)


def own_factors(b: Builder, x: Value) -> Value:
    """A scale and a bias of each pixel."""
    return b.layer_norm(x, b.constant(weights(2, 6)), b.constant(weights(2, 6)), 2, 1e-5)


def other_rows(b: Builder, x: Value) -> Value:
    """Groups of the channels of two pictures."""
    rows = b.reshape(x, (3, 2, 2 * 4 * 2 * 6 // 2))
    return b.reshape(normal(b, rows), x.shape)


@pytest.mark.parametrize(("shape", "norm"), [((N, 4, 2, 6), own_factors), ((6, 4, 2, 6), other_rows)])
def test_other_normalisations_stay_in_their_order(shape: tuple[int, ...], norm: Norm) -> None:
    before = built((f32(*shape),), between(norm))
    after = tidied(before)
    assert transposes(after) == 4
    (op,) = [op for op in after.main.body.ops if op.name == "layer_norm"]
    (was,) = [op for op in before.main.body.ops if op.name == "layer_norm"]
    assert op.result.shape == was.result.shape
    assert_same_meaning(before, after, SIZES, rounds=True, odd=False)


@pytest.mark.parametrize("name", NORMS)
def test_a_second_run_changes_nothing(name: str) -> None:
    once = tidied(built((IMAGE,), between(NORMS[name])))
    assert transposes(tidied(once)) == transposes(once)
