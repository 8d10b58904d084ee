"""Products of one operand, which become one, and those that stay as they are."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.lower.join_products import join_products
from tests.passes.golden import M, N, Pair, check_pair, f32

X = f32(N, M, 3)
W = np.arange(24, dtype=np.float32).reshape(3, 8) - 11
B = np.arange(8, dtype=np.float32) - 4


def _dot(b: Builder, x: Value, w: np.ndarray, dtype: DType = F32) -> Value:
    return b.dot(x, b.constant(w), "amk,kn->amn", dtype)


def _heads(b: Builder, *values: Value) -> tuple[Value, ...]:
    return tuple(b.reshape(value, (N, M, 2, value.shape[-1] // 2)) for value in values)


def _plus(b: Builder, x: Value, bias: np.ndarray) -> Value:
    return b.add(x, b.broadcast_to(b.constant(bias), x.shape))


def _times(b: Builder, x: Value, scale: np.ndarray) -> Value:
    return b.mul(x, b.broadcast_to(b.constant(scale), x.shape))


def _cut(b: Builder, x: Value) -> tuple[Value, ...]:
    return _heads(b, *(b.slice_axis(x, 2, start, 8) for start in range(0, x.shape[2], 8)))


def _three_alike(b: Builder, x: Value) -> tuple[Value, ...]:
    return _heads(b, *(_dot(b, x, W + shift) for shift in range(3)))


def _rows(b: Builder, x: Value, w: np.ndarray) -> Value:
    """A product by a constant whose rows are columns of the result."""
    return b.dot(x, b.constant(np.ascontiguousarray(w.T)), "amk,nk->amn")


def _two_of_rows(b: Builder, x: Value) -> tuple[Value, ...]:
    return _heads(b, _rows(b, x, W), _rows(b, x, W + 1), _dot(b, x, W + 2))


SQUARE = np.arange(64, dtype=np.float32).reshape(8, 8)


def _both_ways(b: Builder, *inputs: Value) -> tuple[Value, ...]:
    """The same two constants, by rows for one operand and by columns for the other."""
    parts = b.constant(SQUARE), b.constant(SQUARE + 1)
    ways = zip(inputs, ("amk,nk->amn", "amk,kn->amn"), strict=True)
    return _heads(b, *(b.dot(x, part, equation) for x, equation in ways for part in parts))


def _both_ways_joined(b: Builder, *inputs: Value) -> tuple[Value, ...]:
    wholes = (np.concatenate([a, a + 1], axis=1) for a in (SQUARE.T, SQUARE))
    return tuple(part for x, whole in zip(inputs, wholes, strict=True) for part in _cut(b, _dot(b, x, whole)))


def _joined(b: Builder, x: Value) -> tuple[Value, ...]:
    return _cut(b, _dot(b, x, np.concatenate([W, W + 1, W + 2], axis=1)))


def _unlike(b: Builder, x: Value) -> tuple[Value, ...]:
    """A scaled product with a bias, a plain one that is rounded at once, and one with a bias."""
    scaled = _times(b, _plus(b, _dot(b, x, W), B), np.array(0.5, np.float32))
    return _heads(b, b.cast(scaled, BF16), _dot(b, x, W, BF16), b.cast(_plus(b, _dot(b, x, W), B), BF16))


def _unlike_joined(b: Builder, x: Value) -> tuple[Value, ...]:
    y = _dot(b, x, np.concatenate([W, W, W], axis=1))
    y = _plus(b, y, np.concatenate([B, np.full(8, -0.0, np.float32), B]))
    scales = np.repeat(np.array([0.5, 1, 1], np.float32), 8)
    return _cut(b, b.cast(_times(b, y, scales), BF16))


def _gate(b: Builder, x: Value) -> Value:
    return b.mul(_dot(b, x, W), _dot(b, x, W + 1))


def _shared(b: Builder, *inputs: Value) -> tuple[Value, ...]:
    parts = b.constant(W), b.constant(W + 1)
    return _heads(b, *(b.dot(x, part, "amk,kn->amn") for x in inputs for part in parts))


def _shared_joined(b: Builder, *inputs: Value) -> tuple[Value, ...]:
    whole = b.constant(np.concatenate([W, W + 1], axis=1))
    return tuple(part for x in inputs for part in _cut(b, b.dot(x, whole, "amk,kn->amn")))


PAIRS = {
    "queries, keys and values": Pair((X,), _three_alike, _joined, rounds=True),
    "with a bias, a scale, or neither": Pair((X,), _unlike, _unlike_joined, rounds=True),
    "of layers that share weights": Pair((X, X), _shared, _shared_joined, rounds=True),
    "by constants whose rows are columns": Pair((X,), _two_of_rows, _joined, rounds=True),
    "by constants that are turned for one of two": Pair(
        (f32(N, M, 8), f32(N, M, 8)), _both_ways, _both_ways_joined, rounds=True
    ),
    "of a gate, which pointwise ops read": Pair((X,), _gate),
    "that are results": Pair((X,), lambda b, x: (_dot(b, x, W), *_heads(b, _dot(b, x, W + 1)))),
    "whose columns are no whole pieces": Pair(
        (X,), lambda b, x: _heads(b, _dot(b, x, W[:, :6]), _dot(b, x, W[:, :6] + 1))
    ),
    "with different types behind": Pair((X,), lambda b, x: _heads(b, _dot(b, x, W), b.cast(_dot(b, x, W), BF16))),
    "by what a call knows": Pair(
        (X, f32(3, 8), f32(3, 8)), lambda b, x, v, w: _heads(b, *(b.dot(x, each, "amk,kn->amn") for each in (v, w)))
    ),
    "with a bias for each row": Pair(
        (X, f32(N, M)),
        lambda b, x, y: _heads(b, _dot(b, x, W), b.add(_dot(b, x, W + 1), b.broadcast(y, (0, 1), (N, M, 8)))),
    ),
    "of different operands": Pair((X, X), lambda b, x, y: _heads(b, _dot(b, x, W), _dot(b, y, W))),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_products_of_one_operand_are_one(pair: str) -> None:
    check_pair(join_products, PAIRS[pair])
