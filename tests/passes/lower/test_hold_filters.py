"""Filters of one number as constants, up to as many elements as a model of few bytes may ask for."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.hold_filters import hold_filters
from tests.passes.golden import N, Pair, check_pair, f32, f64


def _box(b: Builder, number: Value, *shape: Dim) -> Value:
    return b.broadcast(number, (), shape)


def _convolved(b: Builder, x: Value, w: Value) -> Value:
    return b.convolution(x, w, (1, 1), (0, 0), (0, 0), (1, 1))


PAIRS = {
    "a box": Pair(
        (f32(N, 2, 6, 5),),
        lambda b, x: _convolved(b, x, _box(b, b.constant(np.array(0.04, np.float32)), 3, 2, 3, 2)),
        lambda b, x: _convolved(b, x, b.constant(np.full((3, 2, 3, 2), 0.04, np.float32))),
    ),
    "of f64, and less than nothing": Pair(
        (f64(2, 1, 6, 5),),
        lambda b, x: _convolved(b, x, _box(b, b.constant(np.array(-0.0)), 1, 1, 2, 2)),
        lambda b, x: _convolved(b, x, b.constant(np.full((1, 1, 2, 2), -0.0))),
    ),
    "a number that only the call knows": Pair(
        (f32(1, 1, 6, 5), f32()), lambda b, x, number: _convolved(b, x, _box(b, number, 1, 1, 2, 2))
    ),
    "one number for each filter": Pair(
        (f32(1, 1, 6, 5),),
        lambda b, x: _convolved(b, x, b.broadcast(b.constant(np.arange(2, dtype=np.float32)), (0,), (2, 1, 2, 2))),
    ),
    "filters of an unknown number": Pair(
        (f32(1, 1, 6, 5),), lambda b, x: _convolved(b, x, _box(b, b.constant(np.array(1, np.float32)), N, 1, 2, 2))
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_filters_of_one_number_are_constants(pair: str) -> None:
    check_pair(hold_filters, PAIRS[pair])


def test_more_than_a_model_may_ask_for_stays_a_number() -> None:
    pair = Pair(
        (f32(0, 1024, 2, 1),),
        lambda b, x: _convolved(b, x, _box(b, b.constant(np.array(1, np.float32)), 1025, 1024, 1, 1)),
    )
    check_pair(hold_filters, pair)
