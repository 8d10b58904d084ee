"""Constants whose last axis becomes the one that is summed: bytes, and those of f32 that share their rows."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F16, F32, I8, I32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.depth_last import depth_last
from tests.passes.golden import N, Pair, check_pair, f16, f32, i8


def _array(dtype: DType, seed: int, columns: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, (6, columns)).astype(dtype.numpy)


def _plain(b: Builder, x: Value, dtype: DType, seed: int, columns: int = 5) -> Value:
    sums = F32 if dtype.is_float else I32
    return b.dot(x, b.constant(_array(dtype, seed, columns)), "mk,kn->mn", sums)


def _turned(b: Builder, x: Value, dtype: DType, seed: int) -> Value:
    sums = F32 if dtype.is_float else I32
    return b.dot(x, b.constant(np.ascontiguousarray(_array(dtype, seed).T)), "mk,nk->mn", sums)


def _gate(product: Callable[[Builder, Value, DType, int], Value], dtype: DType) -> Callable[[Builder, Value], Value]:
    def build(b: Builder, x: Value) -> Value:
        return b.mul(b.relu(product(b, x, dtype, 1)), product(b, x, dtype, 2))

    return build


def test_bytes_are_turned() -> None:
    check_pair(depth_last, Pair((i8(N, 6),), lambda b, x: _plain(b, x, I8, 1), lambda b, x: _turned(b, x, I8, 1)))


def test_constants_of_f32_by_which_the_same_rows_are_multiplied_are_turned() -> None:
    check_pair(depth_last, Pair((f32(N, 6),), _gate(_plain, F32), _gate(_turned, F32)))


def _of_two(b: Builder, x: Value, y: Value) -> Value:
    return b.mul(_plain(b, x, F32, 1), _plain(b, y, F32, 2))


def _twice(b: Builder, x: Value) -> Value:
    """A product by a constant that something else reads as well."""
    w = b.constant(_array(F32, 1))
    first, second = b.dot(x, w, "mk,kn->mn", F32), _plain(b, x, F32, 2, 3)
    return b.add(b.reduce(b.add(first, b.slice(w, (0, 0), (1, 5))), "sum", (1,)), b.reduce(second, "sum", (1,)))


@pytest.mark.parametrize("pair", [
    pytest.param(Pair((f32(N, 6),), lambda b, x: _plain(b, x, F32, 1)), id="one product"),
    pytest.param(Pair((f32(N, 6), f32(N, 6)), _of_two), id="of other rows"),
    pytest.param(Pair((f16(N, 6),), _gate(_plain, F16)), id="of 16 bits"),
    pytest.param(Pair((f32(N, 6),), _twice), id="of other shapes, and read twice"),
])  # fmt: skip
def test_others_stay(pair: Pair) -> None:
    check_pair(depth_last, pair)
