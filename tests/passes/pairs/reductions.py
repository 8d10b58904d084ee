"""Pairs for rules/reductions.py."""

from onnxc.compiler.ir.dtypes import C64, F32, I64
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.simplify.rules import reductions as r
from tests.passes.golden import M, N, Pair, boolean, f16, f32, i64

FIRES = {
    r.split_window: [
        Pair(
            (f32(2, N, 30),),
            lambda b, x: b.reduce_window(x, "max", (1, 9, 7), (1, 1, 2), (0, 4, 3), (0, 4, 2), (1, 1, 2)),
            lambda b, x: b.reduce_window(
                b.reduce_window(x, "max", (1, 1, 7), (1, 1, 2), (0, 0, 3), (0, 0, 2), (1, 1, 2)),
                "max",
                (1, 9, 1),
                (1, 1, 1),
                (0, 4, 0),
                (0, 4, 0),
                (1, 1, 1),
            ),
        ),
    ],
    r.split_long_window: [
        Pair(
            (f32(N, 300),),
            lambda b, x: b.reduce_window(x, "max", (1, 101), (1, 1), (0, 50), (0, 49), (1, 1)),
            lambda b, x: b.reduce_window(
                b.reduce_window(x, "max", (1, 11), (1, 1), (0, 50), (0, 49), (1, 1)),
                *("max", (1, 10), (1, 1), (0, 0), (0, 0), (1, 10)),
            ),
        ),
        Pair(
            (i64(N, M, 2),),
            lambda b, x: b.reduce_window(x, "min", (1, 61, 1), (2, 2, 1), (1, 3, 0), (0, 2, 0), (1, 3, 1)),
            lambda b, x: b.reduce_window(
                b.reduce_window(x, "min", (1, 6, 1), (2, 1, 1), (1, 3, 0), (0, 2, 0), (1, 3, 1)),
                *("min", (1, 12, 1), (1, 2, 1), (0, 0, 0), (0, 0, 0), (1, 15, 1)),
            ),
        ),
    ],
    r.reduce_units: [
        Pair((f32(1, N),), lambda b, x: b.reduce(x, "max", [0]), lambda b, x: b.reshape(x, (N,))),
        Pair(
            (i64(1, 3, 1),),
            lambda b, x: b.reduce(x, "sum", [0, 1]),
            lambda b, x: b.reduce(b.reshape(x, (3, 1)), "sum", [0]),
        ),
        Pair((f32(3),), lambda b, x: b.neg(b.op("reduce", [x], {"kind": "sum", "axes": ()})[0]), lambda b, x: b.neg(x)),
    ],
    r.search_units: [
        Pair((f32(N, 1),), lambda b, x: b.arg_reduce(x, "max", 1), lambda b, x: b.full((N,), 0, I64)),
    ],
    r.normalize_units: [
        Pair((f32(N, 1, 3),), lambda b, x: b.softmax(x, 1), lambda b, x: b.exp(b.sub(x, x))),
        Pair((f32(N, 1),), lambda b, x: b.log_softmax(x, 1), lambda b, x: b.sub(x, x)),
    ],
    r.merge_reductions: [
        Pair(
            (f32(2, 3, N),),
            lambda b, x: b.reduce(b.reduce(x, "max", [1]), "max", [0]),
            lambda b, x: b.reduce(x, "max", [0, 1]),
        ),
        Pair(
            (i64(2, 3, N),),
            lambda b, x: b.reduce(b.reduce(x, "sum", [0]), "sum", [1]),
            lambda b, x: b.reduce(x, "sum", [0, 2]),
        ),
    ],
    r.reduce_broadcast: [
        Pair(
            (f32(3),),
            lambda b, x: b.reduce(b.broadcast(x, (1,), (2, 3)), "max", [0]),
            lambda b, x: x,
        ),
        Pair(
            (f32(3, 1),),
            lambda b, x: b.reduce(b.broadcast(x, (1, 2), (N, 3, 4)), "min", [1, 2]),
            lambda b, x: b.broadcast(b.reshape(b.reduce(x, "min", [0]), ()), (), (N,)),
        ),
        Pair(
            (boolean(),),
            lambda b, x: b.reduce(b.broadcast(x, (), (2, N)), "and", [0]),
            lambda b, x: b.broadcast(x, (), (N,)),
        ),
        Pair(
            (f32(3, 1),),
            lambda b, x: b.reduce(b.broadcast(x, (1, 2), (N, 3, 4)), "prod", [1]),
            lambda b, x: b.broadcast(b.reduce(x, "prod", [0]), (1,), (N, 4)),
        ),
        Pair(
            (f32(N, 3),),
            lambda b, x: b.reduce(b.broadcast(x, (0, 2), (N, 2, 3, 3)), "sum", [1, 2, 3]),
            lambda b, x: b.mul(b.reduce(x, "sum", [1]), b.full((N,), 6, F32)),
        ),
        Pair(
            (TensorType(C64, (N, 3)),),
            lambda b, x: b.reduce(b.broadcast(x, (0, 2), (N, 5, 3)), "sum", [2]),
            lambda b, x: b.broadcast(b.reduce(x, "sum", [1]), (0,), (N, 5)),
        ),
        Pair(
            (i64(3),),
            lambda b, x: b.reduce(b.broadcast(x, (1,), (5, 3)), "sum", [0]),
            lambda b, x: b.mul(x, b.full((3,), 5, I64)),
        ),
    ],
    r.reduce_regrouped: [
        Pair(
            (i64(N, 2, 3, 4),),
            lambda b, x: b.reduce(b.reshape(x, (N, 2, 12)), "sum", [2]),
            lambda b, x: b.reduce(x, "sum", [2, 3]),
        ),
        Pair(
            (f32(N, 12),),
            lambda b, x: b.reduce(b.reshape(x, (N, 3, 4)), "max", [1, 2]),
            lambda b, x: b.reduce(x, "max", [1]),
        ),
        Pair(
            (f32(2, 3, 4),),
            lambda b, x: b.reduce(b.reshape(x, (6, 1, 4)), "max", [2]),
            lambda b, x: b.reshape(b.reduce(x, "max", [2]), (6, 1)),
        ),
    ],
}


def _deviation(build, x):
    return build.sub(x, build.reduce(x, "max", [1], keepdims=True))


REFUSES = {
    r.split_window: [
        # Windows that share little, that kernels share, of one axis, and sums, which would be rounded on the way.
        Pair((f32(N, 21, 28),), lambda b, x: _square(b, x, "max", 7, 7)),
        Pair((f32(N, 20, 20),), lambda b, x: _square(b, x, "max", 5, 1)),
        Pair((f32(N, 40),), lambda b, x: b.reduce_window(x, "max", (1, 31), (1, 1), (0, 0), (0, 0), (1, 1))),
        Pair((f32(N, 20, 20),), lambda b, x: _square(b, x, "sum", 9, 1)),
    ],
    r.split_long_window: [
        # Sums, windows that are short or share little, and squares, which are parted first.
        Pair((f32(N, 300),), lambda b, x: b.reduce_window(x, "sum", (1, 101), (1, 1), (0, 0), (0, 0), (1, 1))),
        Pair((f32(N, 300),), lambda b, x: b.reduce_window(x, "max", (1, 31), (1, 1), (0, 0), (0, 0), (1, 1))),
        Pair((f32(N, 300),), lambda b, x: b.reduce_window(x, "max", (1, 41), (1, 41), (0, 0), (0, 0), (1, 1))),
        Pair((f32(N, 90, 90),), lambda b, x: _square(b, x, "max", 41, 1)),
    ],
    r.reduce_units: [Pair((f32(N, 2),), lambda b, x: b.reduce(x, "max", [0]))],
    r.search_units: [Pair((f32(1, N),), lambda b, x: b.arg_reduce(x, "max", 1))],
    r.normalize_units: [Pair((f32(1, N),), lambda b, x: b.softmax(x, 1))],
    r.merge_reductions: [Pair((f32(2, 3),), lambda b, x: b.reduce(b.reduce(x, "max", [1]), "min", [0]))],
    r.reduce_broadcast: [
        Pair((f32(3),), lambda b, x: b.reduce(b.broadcast(x, (1,), (N, 3)), "max", [0])),
        # How often only a call knows, or a number that the type does not hold, or that makes NaN of infinity.
        Pair((TensorType(C64, (3,)),), lambda b, x: b.reduce(b.broadcast(x, (1,), (5, 3)), "sum", [0])),
        Pair((f32(3),), lambda b, x: b.reduce(b.broadcast(x, (1,), (N, 3)), "sum", [0])),
        Pair((f16(3),), lambda b, x: b.reduce(b.broadcast(x, (1,), (2049, 3)), "sum", [0])),
        Pair((f32(3),), lambda b, x: b.reduce(b.broadcast(x, (1,), (2, 3)), "prod", [0])),
        Pair((f32(3, 2),), lambda b, x: b.reduce(b.broadcast(x, (1, 0), (2, 3)), "max", [1])),
    ],
    r.reduce_regrouped: [
        Pair((f32(6, 2),), lambda b, x: b.reduce(b.reshape(x, (2, 3, 2)), "sum", [1])),
        Pair((f32(0, 2),), lambda b, x: b.reduce(b.reshape(x, (2, 0)), "sum", [1])),
        Pair((f32(2, 3, 4),), lambda b, x: _deviation(b, b.reshape(x, (2, 12)))),
    ],
}


def _square(build, x, kind, side, stride):
    return build.reduce_window(x, kind, (1, side, side), (1, stride, stride), (0, 0, 0), (0, 0, 0), (1, 1, 1))
