"""Pairs for rules/concatenations.py."""

from onnxc.compiler.passes.simplify.rules import concatenations as r
from tests.passes.golden import M, N, Pair, f32

FIRES = {
    r.drop_empty_parts: [
        Pair((f32(2, 0), f32(2, N)), lambda b, x, y: b.concatenate([x, y], 1), lambda b, x, y: y),
        Pair(
            (f32(2), f32(0), f32(N)),
            lambda b, x, y, z: b.concatenate([x, y, z], 0),
            lambda b, x, y, z: b.concatenate([x, z], 0),
        ),
        Pair((f32(0), f32(0)), lambda b, x, y: b.concatenate([x, y], 0), lambda b, x, y: x),
        Pair((f32(3),), lambda b, x: b.neg(b.op("concatenate", [x], {"axis": 0})[0]), lambda b, x: b.neg(x)),
    ],
    r.merge_concatenations: [
        Pair(
            (f32(2), f32(N), f32(M)),
            lambda b, x, y, z: b.concatenate([x, b.concatenate([y, z], 0)], 0),
            lambda b, x, y, z: b.concatenate([x, y, z], 0),
        )
    ],
    r.split_concatenation: [
        Pair(
            (f32(N), f32(M)),
            lambda b, x, y: b.op("concatenate", [x, y] * 17, {"axis": 0})[0],
            lambda b, x, y: b.concatenate([b.concatenate([x, y] * 16, 0), b.concatenate([x, y], 0)], 0),
        )
    ],
    r.join_adjacent_slices: [
        Pair(
            (f32(6, N),),
            lambda b, x: b.concatenate([b.slice(x, (1, 0), (2, N)), b.slice(x, (3, 0), (3, N))], 0),
            lambda b, x: b.slice(x, (1, 0), (5, N)),
        ),
        Pair(
            (f32(6),),
            lambda b, x: b.concatenate([b.slice(x, (5,), (2,), (-2,)), b.slice(x, (1,), (1,), (-2,))], 0),
            lambda b, x: b.slice(x, (5,), (3,), (-2,)),
        ),
        Pair(
            (f32(4), f32(2)),
            lambda b, x, y: b.concatenate([y, b.slice(x, (0,), (1,)), b.slice(x, (1,), (3,))], 0),
            lambda b, x, y: b.concatenate([y, x], 0),
        ),
    ],
    r.pad_nothing: [
        Pair(
            (f32(3),),
            lambda b, x: b.neg(b.op("pad", [x, b.scalar(0, x.dtype)], _around(0, 0))[0]),
            lambda b, x: b.neg(x),
        ),
    ],
    r.merge_paddings: [
        Pair(
            (f32(3), f32()),
            lambda b, x, y: b.pad(b.pad(x, (1,), (0,), y), (2,), (3,), y),
            lambda b, x, y: b.pad(x, (3,), (3,), y),
        )
    ],
}


def _around(low, high):
    return {"low": (low,), "high": (high,)}


REFUSES = {
    r.drop_empty_parts: [
        Pair((f32(N), f32(2)), lambda b, x, y: b.concatenate([x, y], 0)),
        Pair((f32(0, 2), f32(0, 3)), lambda b, x, y: b.concatenate([x, y], 1)),
    ],
    r.merge_concatenations: [
        Pair((f32(2, 2), f32(2, 1), f32(2, 1)), lambda b, x, y, z: b.concatenate([x, b.concatenate([y, z], 1)], 0)),
        Pair((f32(N),), lambda b, x: b.concatenate([b.concatenate([x] * r.MOST_PARTS, 0), x], 0)),
    ],
    r.split_concatenation: [Pair((f32(N),), lambda b, x: b.concatenate([x] * r.MOST_PARTS, 0))],
    r.join_adjacent_slices: [
        Pair((f32(6),), lambda b, x: b.concatenate([b.slice(x, (1,), (2,)), b.slice(x, (4,), (1,))], 0)),
        Pair((f32(6), f32(6)), lambda b, x, y: b.concatenate([b.slice(x, (0,), (2,)), b.slice(y, (2,), (4,))], 0)),
        Pair((f32(6),), lambda b, x: b.concatenate([b.slice(x, (0,), (2,)), b.slice(x, (2,), (2,), (2,))], 0)),
    ],
    r.pad_nothing: [Pair((f32(3),), lambda b, x: b.pad(x, (0,), (1,)))],
    r.merge_paddings: [
        Pair((f32(3), f32(), f32()), lambda b, x, y, z: b.pad(b.pad(x, (1,), (0,), y), (2,), (3,), z)),
    ],
}
