"""Pairs for rules/reshapes.py."""

from onnxc.compiler.passes.simplify.rules import reshapes as r
from tests.passes.golden import N, Pair, f32

FIRES = {
    r.reshape_nothing: [
        Pair((f32(N, 3),), lambda b, x: b.neg(b.op("reshape", [x], {"shape": (N, 3)})[0]), lambda b, x: b.neg(x)),
    ],
    r.merge_reshapes: [
        Pair(
            (f32(N, 6),),
            lambda b, x: b.reshape(b.reshape(x, (N, 2, 3)), (3, N, 2)),
            lambda b, x: b.reshape(x, (3, N, 2)),
        ),
        Pair((f32(2, 3),), lambda b, x: b.reshape(b.reshape(x, (6,)), (2, 3)), lambda b, x: x),
    ],
    r.reshape_unit_transpose: [
        Pair(
            (f32(1, N, 4),),
            lambda b, x: b.reshape(b.transpose(x, (1, 0, 2)), (N, 2, 2)),
            lambda b, x: b.reshape(x, (N, 2, 2)),
        )
    ],
    r.transpose_units: [
        Pair((f32(1, N, 4),), lambda b, x: b.transpose(x, (1, 2, 0)), lambda b, x: b.reshape(x, (N, 4, 1))),
    ],
    r.split_before_transposing: [
        Pair(
            (f32(N, 2, 3, 4),),
            lambda b, x: b.reshape(b.transpose(b.reshape(x, (2 * N, 3, 4)), (0, 2, 1)), (N, 2, 4, 3)),
            lambda b, x: b.transpose(b.with_shape(b.reshape(x, (2 * N, 3, 4)), (N, 2, 3, 4)), (0, 1, 3, 2)),
        ),
        Pair(
            (f32(2, 3, 4),),
            lambda b, x: b.reshape(b.transpose(b.reshape(x, (6, 4)), (1, 0)), (4, 1, 2, 3)),
            lambda b, x: b.reshape(b.transpose(b.with_shape(b.reshape(x, (6, 4)), (2, 3, 4)), (2, 0, 1)), (4, 1, 2, 3)),
        ),
    ],
    r.reshape_broadcast: [
        Pair(
            (f32(2, 3),),
            lambda b, x: b.reshape(b.broadcast(x, (1, 2), (N, 2, 3)), (N, 6)),
            lambda b, x: b.broadcast(b.reshape(x, (6,)), (1,), (N, 6)),
        ),
        Pair(
            (f32(6),),
            lambda b, x: b.reshape(b.broadcast(x, (2,), (N, 4, 6)), (4 * N, 2, 3)),
            lambda b, x: b.broadcast(b.reshape(x, (2, 3)), (1, 2), (4 * N, 2, 3)),
        ),
        Pair(
            (f32(1, 1),),
            lambda b, x: b.reshape(b.broadcast(x, (0, 1), (4, N)), (N, 2, 2)),
            lambda b, x: b.broadcast(b.reshape(x, ()), (), (N, 2, 2)),
        ),
        Pair(
            (f32(N, 1),),
            lambda b, x: b.reshape(b.broadcast(x, (0, 1), (N, 3)), (N, 1, 3)),
            lambda b, x: b.broadcast(b.reshape(x, (N,)), (0,), (N, 1, 3)),
        ),
    ],
}

REFUSES = {
    r.reshape_nothing: [Pair((f32(2, 3),), lambda b, x: b.reshape(x, (3, 2)))],
    r.merge_reshapes: [
        Pair((f32(2, 3),), lambda b, x: b.reshape(b.transpose(x, (1, 0)), (6,))),
        Pair((f32(5),), lambda b, x: b.reshape(b.reshape(x, (N, 5)), (3, 5))),
    ],
    r.reshape_unit_transpose: [Pair((f32(2, 3),), lambda b, x: b.reshape(b.transpose(x, (1, 0)), (6,)))],
    r.transpose_units: [Pair((f32(1, 2, 3),), lambda b, x: b.transpose(x, (2, 0, 1)))],
    r.split_before_transposing: [
        Pair((f32(6, 4),), lambda b, x: b.reshape(b.transpose(x, (1, 0)), (4, 2, 3))),
        Pair((f32(2, 3, 4),), lambda b, x: b.reshape(b.transpose(b.reshape(x, (6, 4)), (1, 0)), (2, 12))),
        Pair((f32(2, 3, 4),), lambda b, x: b.reshape(b.transpose(b.reshape(x, (6, 4)), (1, 0)), (4, 1, 6))),
    ],
    r.reshape_broadcast: [
        Pair((f32(2, 3),), lambda b, x: b.reshape(b.broadcast(x, (0, 2), (2, 4, 3)), (8, 3))),
        Pair((f32(3, 2),), lambda b, x: b.reshape(b.broadcast(x, (2, 1), (N, 2, 3)), (N, 6))),
    ],
}
