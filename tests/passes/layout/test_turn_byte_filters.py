"""Filters of bytes that only the call knows are turned; constants, floats and filters of one channel stay."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.contractions import all_channels_innermost, channels_first, channels_innermost
from onnxc.compiler.passes.layout.turn_byte_filters import turn_byte_filters
from tests.passes.golden import M, N, Pair, check_pair, f32, i8, u8


def _convolved(b: Builder, x: Value, w: Value, *, groups: int = 1, dimensions: str = channels_innermost(2)) -> Value:
    dtype = None if x.dtype.is_float else I32
    return b.convolution(x, w, (1, 1), (1, 1), (1, 1), (1, 1), groups=groups, dtype=dtype, dimensions=dimensions)


def _turned(b: Builder, x: Value, w: Value, *, groups: int = 1) -> Value:
    return _convolved(b, x, b.transpose(w, (0, 2, 3, 1)), groups=groups, dimensions=all_channels_innermost(2))


PAIRS = {
    "filters of a call": Pair((u8(N, 5, 5, 6), i8(4, 6, 3, 2)), _convolved, _turned),
    "of groups": Pair(
        (i8(1, 5, 5, 6), i8(4, 3, 3, 3)),
        lambda b, x, w: _convolved(b, x, w, groups=2),
        lambda b, x, w: _turned(b, x, w, groups=2),
    ),
    "constants": Pair((u8(1, 5, 5, 2),), lambda b, x: _convolved(b, x, b.constant(np.ones((4, 2, 3, 3), np.int8)))),
    "floats": Pair((f32(1, 5, 5, 2), f32(4, 2, 3, 3)), _convolved),
    "a channel each": Pair((u8(1, 5, 5, 4), u8(4, 1, 3, 3)), lambda b, x, w: _convolved(b, x, w, groups=4)),
    "filters of an unknown number": Pair((u8(1, 5, 5, 2), u8(N, 2, 3, 3)), _convolved, _turned),
    "taps of an unknown number": Pair((u8(1, 5, 5, 2), u8(4, 2, 3, M)), _convolved),
    "groups of an unknown number": Pair(
        (u8(1, 5, 5, 4), u8(2 * N, 2, 3, 3)), lambda b, x, w: _convolved(b, x, w, groups=2)
    ),
    "channels first": Pair(
        (u8(1, 2, 5, 5), u8(4, 2, 3, 3)), lambda b, x, w: _convolved(b, x, w, dimensions=channels_first(2))
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_filters_of_a_call_are_turned(pair: str) -> None:
    check_pair(turn_byte_filters, PAIRS[pair])
