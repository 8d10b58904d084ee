"""Pairs for rules/scatters.py."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.simplify.rules import scatters as r
from tests.passes.golden import N, Pair, f32, i64


def _set(build: Builder, x: Value, rows: Sequence[int], updates: Value, kind: str = "set") -> Value:
    return build.scatter_nd(build.neg(x), build.constant(np.array(rows, np.int64)[:, None]), updates, kind)


def _picked(build: Builder, x: Value, hit: Sequence[bool], updates: Value, rows: Sequence[int]) -> Value:
    picked = build.gather(updates, build.constant(np.array(rows, np.int64)), 0)
    return build.select(build.broadcast(build.constant(np.array(hit)), (0,), x.shape), picked, build.neg(x))


def _joined(build: Builder, x: Value, updates: Value) -> Value:
    return build.concatenate([build.slice_axis(x, 0, 0, 1), updates, build.slice_axis(x, 0, 3, 2)], 0)


FIRES = {
    r.scatter_at_constants: [
        Pair(
            (f32(5, N), f32(2, N)),
            lambda b, x, u: _set(b, x, [1, 2], u),
            lambda b, x, u: _joined(b, b.neg(x), u),
        ),
        Pair(
            (f32(5, N), f32(2, N)),
            lambda b, x, u: _set(b, x, [0, 1], u),
            lambda b, x, u: b.concatenate([u, b.slice(b.neg(x), (2, 0), (3, N))], 0),
        ),
        Pair(
            (f32(5), f32(1)),
            lambda b, x, u: _set(b, x, [4], u),
            lambda b, x, u: b.concatenate([b.slice(b.neg(x), (0,), (4,)), u], 0),
        ),
        Pair((f32(3, N), f32(3, N)), lambda b, x, u: _set(b, x, [0, 1, 2], u), lambda b, x, u: u),
        Pair(
            (f32(5, N), f32(3, N)),
            lambda b, x, u: _set(b, x, [0, 2, 4], u),
            lambda b, x, u: _picked(b, x, [True, False, True, False, True], u, [0, 0, 1, 0, 2]),
        ),
        # The last of two updates of one row stays.
        Pair(
            (f32(3, N), f32(3, N)),
            lambda b, x, u: _set(b, x, [2, 0, 2], u),
            lambda b, x, u: _picked(b, x, [True, False, True], u, [1, 0, 2]),
        ),
        Pair(
            (f32(3, N), f32(4, N)),
            lambda b, x, u: _set(b, x, [2, 0, 1, 2], u),
            lambda b, x, u: b.gather(u, b.constant(np.array([1, 2, 3])), 0),
        ),
        Pair((f32(1, N), f32(1, N)), lambda b, x, u: _set(b, x, [0], u), lambda b, x, u: u),
    ]
}  # fmt: skip

REFUSES = {
    r.scatter_at_constants: [
        Pair((f32(5, N), f32(2, N)), lambda b, x, u: _set(b, x, [1, 3], u, "add")),
        Pair((f32(5, N), f32(2, N)), lambda b, x, u: b.scatter_nd(x, b.constant(np.array([[1], [2]])), u, "set")),
        Pair((f32(N, 5), f32(1, 5)), lambda b, x, u: _set(b, x, [1], u)),
        Pair((f32(5, N), f32(2, N)), lambda b, x, u: _set(b, x, [4, 5], u)),
        Pair((f32(5, N), f32(0, N)), lambda b, x, u: _set(b, x, [], u)),
        Pair((f32(5, N), f32(2, N), i64(2, 1)), lambda b, x, u, i: b.scatter_nd(b.neg(x), i, u, "set")),
        Pair(
            (f32(5, 4), f32(2)),
            lambda b, x, u: b.scatter_nd(b.neg(x), b.constant(np.array([[1, 2], [3, 0]])), u, "set"),
        ),
    ]
}
