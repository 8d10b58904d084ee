"""Pairs for rules/slices.py."""

from onnxc.compiler.passes.simplify.rules import slices as r
from tests.passes.golden import M, N, Pair, f32

FIRES = {
    r.slice_nothing: [
        Pair((f32(N, 3),), lambda b, x: b.neg(b.op("slice", [x], _whole(N, 3))[0]), lambda b, x: b.neg(x)),
    ],
    r.merge_slices: [
        Pair(
            (f32(9),),
            lambda b, x: b.slice(b.slice(x, (1,), (4,), (2,)), (3,), (2,), (-2,)),
            lambda b, x: b.slice(x, (7,), (2,), (-4,)),
        ),
        Pair(
            (f32(N + 2, 3),),
            lambda b, x: b.slice(b.slice(x, (1, 0), (N, 3)), (0, 1), (N, 1)),
            lambda b, x: b.slice(x, (1, 1), (N, 1)),
        ),
    ],
    r.slice_transposed: [
        Pair(
            (f32(4, N),),
            lambda b, x: b.slice(b.transpose(x, (1, 0)), (0, 1), (N, 2), (1, 2)),
            lambda b, x: b.transpose(b.slice(x, (1, 0), (2, N), (2, 1)), (1, 0)),
        )
    ],
    r.slice_reshaped: [
        Pair(
            (f32(4, N),),
            lambda b, x: b.slice(b.reshape(x, (4, 1, N)), (1, 0, 0), (2, 1, N)),
            lambda b, x: b.reshape(b.slice(x, (1, 0), (2, N)), (2, 1, N)),
        )
    ],
    r.slice_part_of_concatenation: [
        Pair(
            (f32(2, N), f32(3, N)),
            lambda b, x, y: b.slice(b.concatenate([x, y], 0), (3, 0), (2, N)),
            lambda b, x, y: b.slice(y, (1, 0), (2, N)),
        ),
        Pair(
            (f32(N), f32(M)),
            lambda b, x, y: b.slice(b.concatenate([x, y], 0), (N,), (M,)),
            lambda b, x, y: y,
        ),
        Pair(
            (f32(4), f32(3)),
            lambda b, x, y: b.slice(b.concatenate([x, y], 0), (0,), (2,), (2,)),
            lambda b, x, y: b.slice(x, (0,), (2,), (2,)),
        ),
    ],
    r.slice_inside_padding: [
        Pair(
            (f32(3, N),),
            lambda b, x: b.slice(b.pad(x, (2, 1), (2, 1)), (2, 1), (3, N)),
            lambda b, x: x,
        ),
        Pair(
            (f32(5),),
            lambda b, x: b.slice(b.pad(x, (2,), (0,)), (3,), (2,), (3,)),
            lambda b, x: b.slice(x, (1,), (2,), (3,)),
        ),
    ],
}


def _whole(*shape):
    return {"starts": (0,) * len(shape), "shape": shape, "steps": (1,) * len(shape)}


REFUSES = {
    r.slice_nothing: [
        Pair((f32(3),), lambda b, x: b.slice(x, (2,), (3,), (-1,))),
        Pair((f32(3),), lambda b, x: b.slice(x, (0,), (2,))),
    ],
    r.merge_slices: [Pair((f32(9),), lambda b, x: b.slice(b.neg(x), (1,), (4,), (2,)))],
    r.slice_transposed: [
        Pair((f32(4, 5),), lambda b, x: _both(b, b.transpose(x, (1, 0)))),
    ],
    r.slice_reshaped: [
        Pair((f32(4, 6),), lambda b, x: b.slice(b.reshape(x, (4, 2, 3)), (1, 0, 0), (2, 2, 3))),
        Pair((f32(4, 6),), lambda b, x: b.slice(b.reshape(x, (4, 1, 6)), (0, 0, 0), (4, 0, 6))),
    ],
    r.slice_part_of_concatenation: [
        Pair((f32(2), f32(3)), lambda b, x, y: b.slice(b.concatenate([x, y], 0), (1,), (2,))),
        Pair((f32(2), f32(3)), lambda b, x, y: b.slice(b.concatenate([x, y], 0), (4,), (2,), (-1,))),
        Pair((f32(N), f32(3)), lambda b, x, y: b.slice(b.concatenate([x, y], 0), (1,), (2,))),
    ],
    r.slice_inside_padding: [
        Pair((f32(3),), lambda b, x: b.slice(b.pad(x, (2,), (2,)), (1,), (3,))),
        Pair((f32(3),), lambda b, x: b.slice(b.pad(x, (2,), (2,)), (4,), (3,))),
        Pair((f32(3),), lambda b, x: b.slice(b.pad(x, (2,), (2,)), (4,), (3,), (-1,))),
    ],
}


def _both(build, moved):
    return build.slice(moved, (0, 1), (5, 2)), moved
