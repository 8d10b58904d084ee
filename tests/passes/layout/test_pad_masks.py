"""Rows of masks that are filled up to whole vectors, constant ones and picked ones, and those that stay as they are."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.pad_masks import pad_masks
from tests.passes.golden import M, N, Pair, check_pair, f16, f32, i64

WINDOWS, HEADS = 3, 2
Q = f32(WINDOWS * N, HEADS, 5, 4)


def _table(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _seen(*shape: int) -> np.ndarray:
    return _table(*shape) > 0


def _part(b: Builder, array: np.ndarray) -> Value:
    """A constant as the beginning of rows of 16."""
    whole = b.constant(np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, 16 - array.shape[-1])]))
    attributes = {"starts": (0,) * array.ndim, "shape": array.shape, "steps": (1,) * array.ndim}
    return b.op("slice", [whole], attributes)[0]


def _turned(b: Builder, value: Value) -> Value:
    return b.op("transpose", [value], {"permutation": (0, 1, 3, 2)})[0]


def _wide(b: Builder, value: Value) -> Value:
    return b.op("cast", [value], {"dtype": F32})[0]


def _of_windows(b: Builder, mask: Value) -> Value:
    """A mask [windows, queries, keys] for all heads of all images."""
    queries, keys = mask.shape[1:]
    spread = b.broadcast(mask, (1, 3, 4), (N, WINDOWS, 1, queries, keys))
    return b.reshape(spread, (WINDOWS * N, 1, queries, keys))


def _attended(b: Builder, q: Value, k: Value, mask: Value) -> Value:
    return b.attention(q, k, k, mask, 0.5)


def _chosen(b: Builder, seen: Value) -> Value:
    """0 where a key is seen, -100 where it is not."""
    zero, low = (b.broadcast(b.constant(np.full((), x, np.float32)), (), seen.shape) for x in (0, -100))
    return b.op("select", [seen, zero, low], {})[0]


def _biased(b: Builder, q: Value, k: Value, bias: Value, seen: Value) -> Value:
    """The sum of a bias of heads and of what windows see."""
    shape = (WINDOWS * N, HEADS, 5, 9)
    heads = b.broadcast(bias, (1, 2, 3), shape)
    windows = b.broadcast(_of_windows(b, _chosen(b, seen)), (0, 1, 2, 3), shape)
    return _attended(b, q, k, b.add(heads, windows))


def _both(b: Builder, q: Value, k: Value, table: Value, other: Value) -> tuple[Value, ...]:
    """Attention and something else, both of one constant."""
    whole = b.broadcast(table, (2, 3), (WINDOWS * N, HEADS, 5, 9))
    return _attended(b, q, k, whole), b.add(
        q, b.slice(b.broadcast(other, (2, 3), (*Q.shape[:3], 9)), (0,) * 4, Q.shape)
    )


def _picked(b: Builder, table: Value, places: Value) -> Value:
    """Numbers of heads by distances [queries, keys], with the heads first."""
    return b.transpose(b.gather(table, places, 0), (2, 0, 1))


def _spread(b: Builder, table: Value, places: Value) -> Value:
    """The same, where it is a broadcast that turns."""
    return b.broadcast(b.gather(table, places, 0), (1, 2, 0), (table.shape[1], *places.shape))


def _of_sequences(b: Builder, bias: Value) -> Value:
    """A bias [sequences, keys] for all heads and queries."""
    return b.cast(b.reshape(bias, (bias.shape[0], 1, 1, bias.shape[1])), F32)


def _longer(b: Builder, rows: Value) -> Value:
    """Rows as the beginnings of longer ones, of whole vectors."""
    keys = rows.shape[-1]
    whole = b.pad(rows, [0] * rows.rank, [*[0] * (rows.rank - 1), floordiv(keys + 15, 16) * 16 - keys])
    attributes = {"starts": (0,) * rows.rank, "shape": rows.shape, "steps": (1,) * rows.rank}
    return b.op("slice", [whole], attributes)[0]


def _of_heads(b: Builder, q: Value, k: Value, bias: Value) -> Value:
    shape = (*q.shape[:3], k.shape[2])
    return b.attention(q, k, k, b.cast(b.broadcast(bias, (1, 2, 3), shape), F32), 0.5)


K = f32(WINDOWS * N, HEADS, 9, 4)
K16 = f32(WINDOWS * N, HEADS, 16, 4)
K2 = f32(WINDOWS * N, HEADS, 2, 4)

PAIRS = {
    "of windows and heads": Pair(
        (Q, K),
        lambda b, q, k: _biased(b, q, k, b.constant(_table(2, 5, 9)), b.constant(_seen(WINDOWS, 5, 9))),
        lambda b, q, k: _biased(b, q, k, _part(b, _table(2, 5, 9)), _part(b, _seen(WINDOWS, 5, 9))),
    ),
    "of all queries": Pair(
        (Q, K),
        lambda b, q, k: _attended(b, q, k, b.constant(_table(1, 1, 1, 9))),
        lambda b, q, k: _attended(b, q, k, _part(b, _table(1, 1, 1, 9))),
    ),
    "in 16 bits": Pair(
        (Q, K),
        lambda b, q, k: _attended(b, q, k, _wide(b, b.constant(_table(1, 2, 5, 9).astype(np.float16)))),
        lambda b, q, k: _attended(b, q, k, _wide(b, _part(b, _table(1, 2, 5, 9).astype(np.float16)))),
    ),
    "that something else uses": Pair(
        (Q, K),
        lambda b, q, k: _both(b, q, k, (table := b.constant(_table(5, 9))), table),
        lambda b, q, k: _both(b, q, k, _part(b, _table(5, 9)), b.constant(_table(5, 9))),
    ),
    "of whole vectors": Pair((Q, K16), lambda b, q, k: _attended(b, q, k, b.constant(_table(1, 1, 5, 16)))),
    "of few keys": Pair((Q, K2), lambda b, q, k: _attended(b, q, k, b.constant(_table(1, 1, 5, 2)))),
    "the same for all keys": Pair(
        (Q, K), lambda b, q, k: _attended(b, q, k, b.broadcast(b.constant(_table(5)), (2,), (1, 1, 5, 9)))
    ),
    "turned": Pair(
        (Q, K),
        lambda b, q, k: _attended(b, q, k, _turned(b, b.constant(_table(1, 1, 9, 5)))),
    ),
    "of a call": Pair(
        (Q, K, f32(1, 1, 5, 9)), _attended
    ),
    "that an index picks": Pair(
        (f32(2, HEADS, M, 4), f32(2, HEADS, N, 4), f16(3, HEADS), i64(M, N)),
        lambda b, q, k, table, places: _of_heads(b, q, k, _picked(b, table, places)),
        lambda b, q, k, table, places: _of_heads(b, q, k, _longer(b, _picked(b, table, places))),
    ),
    "that an index picks, of as many heads as keys": Pair(
        (f32(2, 9, 5, 4), f32(2, 9, 9, 4), f16(3, 9), i64(5, 9)),
        lambda b, q, k, table, places: _of_heads(b, q, k, _spread(b, table, places)),
        lambda b, q, k, table, places: _of_heads(b, q, k, _longer(b, _spread(b, table, places))),
    ),
    "that an index picks for each sequence": Pair(
        (f32(N, HEADS, 5, 4), f32(N, HEADS, 9, 4), f16(3, 9), i64(N)),
        lambda b, q, k, table, places: _attended(b, q, k, _of_sequences(b, b.gather(table, places, 0))),
    ),
    "that two indices pick": Pair(
        (f32(2, HEADS, M, 4), f32(2, HEADS, N, 4), f16(3, HEADS), i64(M, N), i64(M, N)),
        lambda b, q, k, table, one, other: _of_heads(
            b, q, k, b.add(_picked(b, table, one), _picked(b, table, other))
        ),
    ),
    "wide, that an index picks": Pair(
        (f32(2, HEADS, M, 4), f32(2, HEADS, N, 4), f32(3, HEADS), i64(M, N)),
        lambda b, q, k, table, places: _of_heads(b, q, k, _picked(b, table, places)),
    ),
    "that are computed": Pair(
        (f32(2, HEADS, M, 4), f32(2, HEADS, N, 4), f16(HEADS, M, N)),
        lambda b, q, k, bias: _of_heads(b, q, k, b.exp(bias)),
    ),
    "of no attention": Pair((f32(M, 9),), lambda b, x: b.add(x, b.constant(_table(9)))),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_masks(pair: Pair) -> None:
    check_pair(pad_masks, pair)
