"""Pairs for rules/gathers.py."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.simplify.rules import gathers as r
from tests.passes.golden import M, N, Pair, boolean, f32, i64


def _at(build: Builder, *places: int) -> Value:
    return build.constant(np.array(places, np.int64))


def _count(build: Builder, size: object) -> Value:
    return build.iota((size,), 0, I64)


def _grid(build: Builder, rows: object, columns: object) -> Value:
    """i64[rows, columns, 2]: the coordinates of each place."""
    shape = (rows, columns, 1)
    down = build.broadcast(_count(build, rows), (0,), shape)
    along = build.broadcast(_count(build, columns), (1,), shape)
    return build.concatenate([down, along], 2)


def _flat(build: Builder, rows: object, columns: object) -> Value:
    """i64[rows, 1, columns]: the place in a row-major table of each place."""
    shape = (rows, 1, columns)
    down = build.mul(build.broadcast(_count(build, rows), (0,), shape), build.size(columns))
    return build.add(build.broadcast(_count(build, columns), (2,), shape), down)


FIRES = {
    r.gather_at_constants: [
        Pair((f32(5, N),), lambda b, x: b.gather(x, _at(b, 1, 2, 3), 0), lambda b, x: b.slice(x, (1, 0), (3, N))),
        Pair((f32(5),), lambda b, x: b.gather(x, _at(b, 4, 2, 0), 0), lambda b, x: b.slice(x, (4,), (3,), (-2,))),
        Pair(
            (f32(N, 5),),
            lambda b, x: b.gather(x, b.scalar(3, I64), 1),
            lambda b, x: b.reshape(b.slice(x, (0, 3), (N, 1)), (N,)),
        ),
    ],
    r.gather_runs: [
        Pair(
            (f32(N, 20),),
            lambda b, x: b.gather(x, _at(b, 0, 0, *range(20), 18, 17), 1),
            lambda b, x: b.concatenate(
                [
                    b.broadcast(b.slice(x, (0, 0), (N, 1)), (0, 1), (N, 3)),
                    b.slice(x, (0, 1), (N, 19)),
                    b.slice(x, (0, 18), (N, 2), (1, -1)),
                ],
                1,
            ),
        ),
        Pair(
            (f32(40),),
            lambda b, x: b.gather(x, _at(b, 7, *range(20, 40)), 0),
            lambda b, x: b.concatenate([b.slice(x, (7,), (1,)), b.slice(x, (20,), (20,))], 0),
        ),
    ],
    r.gather_moved_indices: [
        Pair(
            (f32(5, 2), i64(3)),
            lambda b, x, y: b.gather(x, b.broadcast(y, (1,), (N, 3)), 0),
            lambda b, x, y: b.broadcast(b.gather(x, y, 0), (1, 2), (N, 3, 2)),
        ),
        Pair(
            (f32(2, 5), i64(3)),
            lambda b, x, y: b.gather(x, b.reshape(y, (3, 1)), 1),
            lambda b, x, y: b.reshape(b.gather(x, y, 1), (2, 3, 1)),
        ),
    ],
    r.gather_in_order: [
        Pair((f32(N, 2),), lambda b, x: b.gather(x, _count(b, N), 0), lambda b, x: x),
        Pair(
            (f32(N + M),),
            lambda b, x: b.gather(x, b.add(_count(b, N), b.size(M)), 0),
            lambda b, x: b.slice(x, (M,), (N,)),
        ),
        Pair(
            (f32(8),),
            lambda b, x: b.gather(x, b.slice(_count(b, 8), (2,), (4,)), 0),
            lambda b, x: b.slice(x, (2,), (4,)),
        ),
    ],
    r.gather_flat_grid: [
        Pair(
            (boolean(N, M),),
            lambda b, x: b.gather(b.reshape(x, (N * M,)), _flat(b, N, M), 0),
            lambda b, x: b.broadcast(x, (0, 2), (N, 1, M)),
        ),
        Pair(
            (f32(2, 3, 4),),
            lambda b, x: b.gather(b.reshape(x, (2, 12)), _flat(b, 3, 4), 1),
            lambda b, x: b.broadcast(x, (0, 1, 3), (2, 3, 1, 4)),
        ),
    ],
    r.gather_transposed: [
        Pair(
            (f32(3, 99), i64(2, 1)),
            lambda b, x, y: b.gather(b.transpose(x, (1, 0)), y, 0),
            lambda b, x, y: b.transpose(b.gather(x, y, 1), (1, 2, 0)),
        ),
        Pair(
            (f32(2, 80, N), i64()),
            lambda b, x, y: b.gather(b.transpose(x, (2, 1, 0)), y, 1),
            lambda b, x, y: b.transpose(b.gather(x, y, 1), (1, 0)),
        ),
    ],
    r.gather_grid: [
        Pair((boolean(N, M),), lambda b, x: b.gather_nd(x, _grid(b, N, M)), lambda b, x: x),
        Pair(
            (f32(M, N, 2),),
            lambda b, x: b.gather_nd(x, b.concatenate(_swapped(b), 2)),
            lambda b, x: b.broadcast(x, (1, 0, 2), (N, M, 2)),
        ),
    ],
    r.gather_of_one_axis: [
        Pair(
            (f32(5, N, 2), i64(M, 3, 1)),
            lambda b, x, y: b.gather_nd(x, y),
            lambda b, x, y: b.gather(x, b.reshape(y, (M, 3)), 0),
        ),
        Pair(
            (f32(5), i64(1)),
            lambda b, x, y: b.gather_nd(x, y),
            lambda b, x, y: b.gather(x, b.reshape(y, ()), 0),
        ),
    ],
}


def _swapped(build: Builder) -> list[Value]:
    shape = (N, M, 1)
    return [build.broadcast(_count(build, M), (1,), shape), build.broadcast(_count(build, N), (0,), shape)]


REFUSES = {
    r.gather_at_constants: [
        Pair((f32(5),), lambda b, x: b.gather(x, _at(b, 1, 2, 4), 0)),
        Pair((f32(5),), lambda b, x: b.gather(x, _at(b, 3, 4, 5), 0)),
        Pair((f32(5),), lambda b, x: b.gather(x, _at(b, 2, 2), 0)),
        Pair((f32(N),), lambda b, x: b.gather(x, _at(b, 0), 0)),
        Pair((f32(5),), lambda b, x: b.gather(x, _at(b), 0)),
    ],
    r.gather_runs: [
        Pair((f32(20, N),), lambda b, x: b.gather(x, _at(b, 0, *range(20)), 0)),
        Pair((f32(N, 15),), lambda b, x: b.gather(x, _at(b, 0, 0, *range(1, 15)), 1)),
        Pair((f32(99),), lambda b, x: b.gather(x, _at(b, 5, 8, 2, *range(60)), 0)),
        Pair((f32(99),), lambda b, x: b.gather(x, _at(b, *range(20), *range(30, 50), *range(60, 80)), 0)),
        Pair((f32(99),), lambda b, x: b.gather(x, _at(b, *range(0, 80, 2)), 0)),
        Pair((f32(20),), lambda b, x: b.gather(x, _at(b, 0, *range(21)), 0)),
    ],
    r.gather_moved_indices: [
        Pair((f32(5), i64(6)), lambda b, x, y: b.gather(x, b.reshape(y, (2, 3)), 0)),
        Pair((f32(5), i64(2, 3)), lambda b, x, y: b.gather(x, b.transpose(y, (1, 0)), 0)),
    ],
    r.gather_in_order: [
        Pair((f32(4),), lambda b, x: b.gather(x, _count(b, N), 0)),
        Pair((f32(4),), lambda b, x: b.gather(x, b.add(_count(b, 3), 2), 0)),
        Pair((f32(9),), lambda b, x: b.gather(x, b.mul(_count(b, 3), 2), 0)),
        Pair((f32(4), i64(4)), lambda b, x, y: b.gather(x, y, 0)),
    ],
    r.gather_flat_grid: [
        Pair((f32(N, M),), lambda b, x: b.gather(b.reshape(x, (N * M,)), _flat(b, M, N), 0)),
        Pair((f32(N, M),), lambda b, x: b.gather(b.reshape(x, (N * M,)), b.add(_flat(b, N, M), 1), 0)),
        Pair((f32(N, M), i64(N, M)), lambda b, x, y: b.gather(b.reshape(x, (N * M,)), y, 0)),
    ],
    r.gather_transposed: [
        Pair((f32(3, 99), i64(7)), lambda b, x, y: b.gather(b.transpose(x, (1, 0)), y, 0)),
        Pair((f32(3, 99), i64(N)), lambda b, x, y: b.gather(b.transpose(x, (1, 0)), y, 0)),
    ],
    r.gather_grid: [
        Pair((f32(M, N),), lambda b, x: b.gather_nd(x, _grid(b, N, M))),
        Pair((f32(N, N),), lambda b, x: b.gather_nd(x, b.concatenate([_swapped(b)[1]] * 2, 2))),
        Pair((f32(N, M), i64(3, 2)), lambda b, x, y: b.gather_nd(x, y)),
    ],
    r.gather_of_one_axis: [
        Pair((f32(5, 4), i64(M, 2)), lambda b, x, y: b.gather_nd(x, y)),
        Pair((f32(5, 4), i64(5, 3, 1)), lambda b, x, y: b.gather_nd(x, y, 1)),
    ],
}
