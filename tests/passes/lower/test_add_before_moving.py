"""Sums and gates that move before the reshapes and transposes of products, and those that stay."""

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import BF16
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.add_before_moving import add_before_moving
from tests.passes.golden import M, N, Pair, check_pair, f32

IMAGE, X, W = f32(N, 4, 9), f32(2 * N, 2, 5), f32(5, 9)


def _product(b: Builder, x: Value, w: Value) -> Value:
    return b.dot(x, w, "abk,kn->abn")


def _turned(b: Builder, y: Value) -> Value:
    """[2 N, 2, C] -> [N, 4, C], the two axes of size 2 turned."""
    split = b.reshape(y, (N, 2, 2, y.shape[2]))
    return b.reshape(b.transpose(split, (0, 2, 1, 3)), (N, 4, y.shape[2]))


def _turned_back(b: Builder, r: Value) -> Value:
    split = b.transpose(b.reshape(r, (N, 2, 2, r.shape[2])), (0, 2, 1, 3))
    return b.reshape(split, (2 * N, 2, r.shape[2]))


def _roll(b: Builder, x: Value) -> Value:
    return b.concatenate([b.slice_axis(x, 1, 1, 3), b.slice_axis(x, 1, 0, 1)], 1)


def _cycled(b: Builder, y: Value) -> Value:
    """[2 N, 2, C] -> [2, 2, N, C]"""
    return b.transpose(b.reshape(y, (N, 2, 2, y.shape[2])), (1, 2, 0, 3))


def _cycled_back(b: Builder, r: Value) -> Value:
    return b.reshape(b.transpose(r, (2, 0, 1, 3)), (2 * N, 2, r.shape[3]))


PAIRS = {
    "of a product": Pair(
        (X, W, IMAGE),
        lambda b, x, w, r: b.add(_turned(b, _product(b, x, w)), r),
        lambda b, x, w, r: _turned(b, b.add(_product(b, x, w), _turned_back(b, r))),
        rounds=True,
    ),
    "of a product whose axes go round": Pair(
        (X, W, f32(2, 2, N, 9)),
        lambda b, x, w, r: b.add(_cycled(b, _product(b, x, w)), r),
        lambda b, x, w, r: _cycled(b, b.add(_product(b, x, w), _cycled_back(b, r))),
        rounds=True,
    ),
    "with what nothing has written": Pair(
        (X, W, IMAGE),
        lambda b, x, w, r: b.add(b.cast(b.cast(r, BF16), r.dtype), _turned(b, b.exp(_product(b, x, w)))),
    ),
    "of rolled rows": Pair(
        (IMAGE, f32(N * 4, 9)),
        lambda b, x, r: b.add(r, b.reshape(_roll(b, x), (N * 4, 9))),
        lambda b, x, r: b.reshape(b.add(_roll(b, x), b.reshape(r, (N, 4, 9))), (N * 4, 9)),
    ),
    "with a rounded residual that others read": Pair(
        (X, W, IMAGE),
        lambda b, x, w, r: _with_rounded(b, _turned(b, b.cast(_product(b, x, w), BF16)), b.tanh(r)),
        lambda b, x, w, r: _with_rounded_inside(b, b.cast(_product(b, x, w), BF16), b.tanh(r)),
        rounds=True,
    ),
    "whose product another op reads": Pair(
        (X, W, IMAGE),
        lambda b, x, w, r: _shared(b, _turned(b, _product(b, x, w)), r),
    ),
    "of what is only moved": Pair((f32(2 * N, 2, 9), IMAGE), lambda b, y, r: b.add(_turned(b, y), r)),
    "with the last axis moved": Pair(
        (f32(N, M, 5), W, f32(N, 9, M)),
        lambda b, x, w, r: b.add(b.transpose(_product(b, x, w), (0, 2, 1)), r),
        lambda b, x, w, r: b.transpose(b.add(_product(b, x, w), b.transpose(r, (0, 2, 1))), (0, 2, 1)),
        rounds=True,
    ),
    "by a gate that is half of what is in memory": Pair(
        (f32(N, M, 5), W, f32(N, 9, 2 * M)),
        lambda b, x, w, r: b.mul(b.transpose(_product(b, x, w), (0, 2, 1)), _half(b, r)),
        lambda b, x, w, r: b.transpose(b.mul(_product(b, x, w), b.transpose(_half(b, r), (0, 2, 1))), (0, 2, 1)),
        rounds=True,
    ),
    "by a gate that is half of what is in memory, in another shape": Pair(
        (X, W, f32(N, 4, 18)),
        lambda b, x, w, r: b.mul(_turned(b, _product(b, x, w)), _half(b, r)),
    ),
}


def _half(b: Builder, r: Value) -> Value:
    """The first half of the last axis."""
    return b.slice_axis(r, 2, 0, floordiv(r.shape[2], 2))


def _shared(b: Builder, y: Value, r: Value) -> tuple[Value, Value]:
    return b.add(y, r), b.exp(y)


def _with_rounded(b: Builder, y: Value, r: Value) -> tuple[Value, Value]:
    residual = b.cast(r, BF16)
    return b.add(y, residual), b.exp(residual)


def _with_rounded_inside(b: Builder, y: Value, r: Value) -> tuple[Value, Value]:
    residual = b.cast(r, BF16)
    return _turned(b, b.add(y, _turned_back(b, residual))), b.exp(residual)


@pytest.mark.parametrize("pair", PAIRS)
def test_sums_and_gates_move_before_what_moves_products(pair: str) -> None:
    check_pair(add_before_moving, PAIRS[pair])
