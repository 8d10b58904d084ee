"""Pairs for rules/broadcasts.py."""

from onnxc.compiler.ir.dtypes import F16
from onnxc.compiler.passes.simplify.rules import broadcasts as r
from tests.passes.golden import M, N, Pair, boolean, f32

FIRES = {
    r.broadcast_nothing: [
        Pair(
            (f32(N, 3),), lambda b, x: b.neg(b.op("broadcast", [x], _spread((0, 1), (N, 3)))[0]), lambda b, x: b.neg(x)
        ),
    ],
    r.merge_broadcasts: [
        Pair(
            (f32(3),),
            lambda b, x: b.broadcast(b.broadcast(x, (1,), (2, 3)), (2, 0), (3, N, 2)),
            lambda b, x: b.broadcast(x, (0,), (3, N, 2)),
        ),
        Pair(
            (f32(1, N),),
            lambda b, x: b.broadcast(b.broadcast(x, (0, 1), (4, N)), (1, 2), (2, 4, N)),
            lambda b, x: b.broadcast(x, (1, 2), (2, 4, N)),
        ),
    ],
    r.broadcast_transposed: [
        Pair(
            (f32(2, N),),
            lambda b, x: b.broadcast(b.transpose(x, (1, 0)), (0, 2), (N, 3, 2)),
            lambda b, x: b.broadcast(x, (2, 0), (N, 3, 2)),
        )
    ],
    r.broadcast_reshaped: [
        Pair(
            (f32(N, 3),),
            lambda b, x: b.broadcast(b.reshape(x, (N, 1, 3)), (0, 1, 2), (N, 4, 3)),
            lambda b, x: b.broadcast(x, (0, 2), (N, 4, 3)),
        ),
        Pair(
            (f32(1, 3),),
            lambda b, x: b.broadcast(b.reshape(x, (3, 1)), (0, 1), (3, 2)),
            lambda b, x: b.broadcast(b.reshape(x, (3,)), (0,), (3, 2)),
        ),
    ],
    r.transpose_broadcast: [
        Pair(
            (f32(2, 3),),
            lambda b, x: b.transpose(b.broadcast(x, (0, 2), (2, N, 3)), (2, 0, 1)),
            lambda b, x: b.broadcast(x, (1, 0), (3, 2, N)),
        )
    ],
    r.slice_broadcast: [
        Pair(
            (f32(5, 1),),
            lambda b, x: b.slice(b.broadcast(x, (1, 2), (N, 5, 6)), (0, 1, 2), (N, 2, 3), (1, 2, 1)),
            lambda b, x: b.broadcast(b.slice(x, (1, 0), (2, 1), (2, 1)), (1, 2), (N, 2, 3)),
        ),
        Pair(
            (f32(),),
            lambda b, x: b.slice(b.broadcast(x, (), (7,)), (6,), (3,), (-2,)),
            lambda b, x: b.broadcast(x, (), (3,)),
        ),
    ],
    r.compute_before_broadcast: [
        Pair(
            (f32(3),),
            lambda b, x: b.exp(b.broadcast(x, (1,), (N, 3))),
            lambda b, x: b.broadcast(b.exp(x), (1,), (N, 3)),
        ),
        Pair(
            (f32(3), f32(2)),
            lambda b, x, y: b.add(b.broadcast(x, (2,), (2, N, 3)), b.broadcast(y, (0,), (2, N, 3))),
            lambda b, x, y: b.broadcast(
                b.add(b.broadcast(x, (1,), (2, 3)), b.broadcast(y, (0,), (2, 3))), (0, 2), (2, N, 3)
            ),
        ),
        Pair(
            (boolean(N, 1), f32()),
            lambda b, x, y: b.select(b.broadcast(x, (0, 1), (N, 4)), *[b.broadcast(y, (), (N, 4))] * 2),
            lambda b, x, y: b.broadcast(
                b.select(b.reshape(x, (N,)), b.broadcast(y, (), (N,)), b.broadcast(y, (), (N,))), (0,), (N, 4)
            ),
        ),
        Pair(
            (f32(),),
            lambda b, x: b.cast(b.broadcast(x, (), (2, 2)), F16),
            lambda b, x: b.broadcast(b.cast(x, F16), (), (2, 2)),
        ),
    ],
}


def _spread(axes, shape):
    return {"axes": axes, "shape": shape}


REFUSES = {
    r.broadcast_nothing: [
        Pair((f32(2, 2),), lambda b, x: b.broadcast(x, (1, 0), (2, 2))),
        Pair((f32(N),), lambda b, x: b.broadcast(x, (0,), (M,)), sizes=(1,)),
    ],
    r.merge_broadcasts: [Pair((f32(3),), lambda b, x: b.broadcast(b.neg(x), (1,), (2, 3)))],
    r.broadcast_transposed: [Pair((f32(3, 2),), lambda b, x: b.broadcast(b.neg(x), (1, 0), (2, 3)))],
    r.broadcast_reshaped: [
        Pair((f32(6),), lambda b, x: b.broadcast(b.reshape(x, (2, 3)), (0, 2), (2, N, 3))),
        Pair((f32(1, 3),), lambda b, x: b.broadcast(b.reshape(x, (3,)), (0,), (3, N))),
    ],
    r.transpose_broadcast: [Pair((f32(2, 3),), lambda b, x: b.transpose(x, (1, 0)))],
    r.slice_broadcast: [Pair((f32(7),), lambda b, x: b.slice(x, (1,), (3,)))],
    r.compute_before_broadcast: [
        Pair((f32(3), f32(N, 3)), lambda b, x, y: b.add(x, y)),
        Pair((f32(3), f32(2)), lambda b, x, y: b.add(b.broadcast(x, (1,), (2, 3)), b.broadcast(y, (0,), (2, 3)))),
        Pair((f32(1, 3),), lambda b, x: b.neg(x)),
    ],
}
