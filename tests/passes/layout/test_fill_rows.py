"""Rows of 16-bit numbers that are filled up before they are multiplied, and those that stay."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F16, F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.fill_rows import fill_rows
from tests.passes.golden import M, N, Pair, boolean, check_pair, f16, f32


def _constant(b: Builder, *shape: Dim, dtype: type = np.float16) -> Value:
    sizes = [size for size in shape if isinstance(size, int)]
    return b.constant(np.random.default_rng(0).integers(-2, 3, sizes).astype(dtype))


def _grown(b: Builder, x: Value, axis: int, more: int) -> Value:
    """x with zeros behind it along an axis, where there are more."""
    return b.pad(x, [0] * x.rank, [more if each == axis else 0 for each in range(x.rank)]) if more else x


def _joined(b: Builder, x: Value, y: Value, more: int = 0, equation: str = "mk,kn->mn") -> Value:
    rows = b.concatenate([x, y], x.rank - 1)
    depth = rows.shape[-1]
    w = _constant(b, depth, 6) if equation.endswith("kn->mn") else _constant(b, 6, depth)
    return b.dot(_grown(b, rows, 1, more), _grown(b, w, w.shape.index(depth), more), equation, F32)


def _computed(b: Builder, x: Value, more: int = 0) -> Value:
    rows = b.mul(x, x)
    w = _constant(b, x.shape[-1], 6)
    return b.dot(_grown(b, rows, x.rank - 1, more), _grown(b, w, 0, more), "bmk,kn->bmn", F32)


def _right(b: Builder, x: Value, more: int = 0) -> Value:
    rows = b.exp(x)
    w = _constant(b, 6, x.shape[-1])
    return b.dot(_grown(b, w, 1, more), _grown(b, rows, 1, more), "nk,mk->nm", F32)


def _behind_a_product(b: Builder, x: Value) -> Value:
    rows = b.max(b.dot(x, _constant(b, 16, 13), "mk,kn->mn", F16), 0.0)
    return b.dot(rows, _constant(b, 13, 6), "mk,kn->mn", F32)


def _of_a_sum(b: Builder, x: Value) -> Value:
    rows = b.reshape(b.reduce(x, "sum", [1]), (x.shape[0], x.shape[2]))
    return b.dot(rows, _constant(b, x.shape[2], 6), "mk,kn->mn", F32)


def _normalised(b: Builder, x: Value) -> Value:
    sums = b.broadcast(b.reshape(b.reduce(x, "sum", [1]), x.shape[:1]), [0], x.shape)
    return b.dot(b.div(x, sums), _constant(b, x.shape[1], 6), "mk,kn->mn", F32)


def _of_two(b: Builder, x: Value) -> tuple[Value, Value]:
    rows = b.exp(x)
    return b.dot(rows, _constant(b, 13, 6), "mk,kn->mn", F32), rows


def _in_a_branch(b: Builder, c: Value, x: Value) -> Value:
    """c: bool[]"""
    inside, other = b.nested(), b.nested()
    rows = inside.parameter("rows", x.type)
    product = inside.dot(inside.exp(rows), _constant(inside, 13, 6), "mk,kn->mn", F32)
    same = other.parameter("same", x.type)
    zeros = other.broadcast(other.constant(np.zeros((), np.float32)), [], product.shape)
    blocks = [inside.block([rows], [product]), other.block([same], [zeros])]
    return b.if_(c, [x], blocks, [product.type])[0]


def _by_a_value(b: Builder, x: Value, w: Value) -> Value:
    return b.dot(b.exp(x), w, "mk,kn->mn", F32)


def _summed_first(b: Builder, x: Value) -> Value:
    return b.dot(b.exp(x), _constant(b, x.shape[0], 6), "km,kn->mn", F32)


def _windows(b: Builder, x: Value, more: int = 0, groups: int = 1, last: bool = True) -> Value:
    image = b.mul(x, x)
    channels = x.shape[-1 if last else 1]
    assert isinstance(channels, int)
    w = _constant(b, 5 * groups, channels // groups, 3)
    image, w = _grown(b, image, 2, more), _grown(b, w, 1, more)
    dimensions = "n0c,oi0->n0c" if last else "nc0,oi0->nc0"
    return b.convolution(image, w, [1], [1], [1], [1], groups, dtype=F32, dimensions=dimensions)


PAIRS = {
    "joined rows": Pair((f16(N, 9), f16(N, 10)), _joined, lambda b, x, y: _joined(b, x, y, 5), rounds=True),
    "columns along k": Pair(
        (f16(N, 9), f16(N, 10)),
        lambda b, x, y: _joined(b, x, y, equation="mk,nk->mn"),
        lambda b, x, y: _joined(b, x, y, 5, "mk,nk->mn"),
        rounds=True,
    ),
    "computed rows": Pair((f16(N, M, 13),), _computed, lambda b, x: _computed(b, x, 3), rounds=True),
    "an even size that eight do not divide": Pair(
        (f16(N, M, 12),), _computed, lambda b, x: _computed(b, x, 4), rounds=True
    ),
    "rows on the right": Pair((f16(N, 17),), _right, lambda b, x: _right(b, x, 7), rounds=True),
    "an odd number of channels": Pair((f16(N, 5, 19),), _windows, lambda b, x: _windows(b, x, 5), rounds=True),
    "rows of eight": Pair((f16(N, M, 16),), _computed),
    "short rows": Pair((f16(N, M, 7),), _computed),
    "no rows": Pair((f16(N, M, 0),), _computed),
    "f32": Pair(
        (f32(N, 9), f32(N, 10)),
        lambda b, x, y: b.dot(b.concatenate([x, y], 1), _constant(b, 19, 6, dtype=np.float32), "mk,kn->mn"),
    ),
    "rows that a call brings": Pair((f16(N, 13),), lambda b, x: b.dot(x, _constant(b, 13, 6), "mk,kn->mn", F32)),
    "rows of a product": Pair((f16(N, 16),), _behind_a_product),
    "rows of sums": Pair((f16(N, 4, 13),), _of_a_sum),
    "normalised rows": Pair((f16(N, 13),), _normalised),
    "rows that something else reads": Pair((f16(N, 13),), _of_two),
    "rows in a branch": Pair((boolean(), f16(N, 13)), _in_a_branch),
    "columns of a call": Pair((f16(N, 13), f16(13, M)), _by_a_value),
    "what is summed lies first": Pair((f16(13, 9),), _summed_first),
    "an even number of channels": Pair((f16(N, 5, 18),), _windows),
    "few channels": Pair((f16(N, 5, 13),), _windows),
    "groups": Pair((f16(N, 5, 38),), lambda b, x: _windows(b, x, groups=2)),
    "channels first": Pair((f16(N, 19, 5),), lambda b, x: _windows(b, x, last=False)),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_rows_that_begin_anywhere_are_filled_up_where_a_kernel_writes_them(pair: str) -> None:
    check_pair(fill_rows, PAIRS[pair])
