"""Pairs for rules/transposes.py."""

from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.passes.simplify.rules import transposes as r
from tests.passes.golden import N, Pair, f16, f32

FIRES = {
    r.transpose_nothing: [
        Pair(
            (f32(2, 3),), lambda b, x: b.neg(b.op("transpose", [x], {"permutation": (0, 1)})[0]), lambda b, x: b.neg(x)
        ),
    ],
    r.merge_transposes: [
        Pair(
            (f32(2, 3, 4),),
            lambda b, x: b.transpose(b.transpose(x, (1, 2, 0)), (0, 2, 1)),
            lambda b, x: b.transpose(x, (1, 0, 2)),
        ),
        Pair((f32(2, N),), lambda b, x: b.transpose(b.transpose(x, (1, 0)), (1, 0)), lambda b, x: x),
    ],
    r.contract_transposed: [
        Pair(
            (f32(3, 2), f32(3, 4)),
            lambda b, x, y: b.dot(b.transpose(x, (1, 0)), y, "mk,kn->mn"),
            lambda b, x, y: b.dot(x, y, "km,kn->mn"),
            rounds=True,
        ),
        Pair(
            (f16(N, 2, 3), f16(N, 4, 3)),
            lambda b, x, y: b.dot(b.transpose(x, (1, 0, 2)), b.transpose(y, (2, 1, 0)), "mbk,knb->bmn", F32),
            lambda b, x, y: b.dot(x, y, "bmk,bnk->bmn", F32),
            rounds=True,
        ),
    ],
    r.transpose_contraction: [
        Pair(
            (f32(2, 3), f32(3, N)),
            lambda b, x, y: b.transpose(b.dot(x, y, "mk,kn->mn"), (1, 0)),
            lambda b, x, y: b.dot(x, y, "mk,kn->nm"),
            rounds=True,
        )
    ],
    r.reduce_computed_of_transposed: [
        Pair(
            (f32(2, 3, N),),
            lambda b, x: b.reduce(b.mul(b.exp(b.transpose(x, (2, 0, 1))), 0.5), "max", [1]),
            lambda b, x: b.reduce(b.transpose(b.mul(b.exp(x), 0.5), (2, 0, 1)), "max", [1]),
        ),
        Pair(
            (f32(2, N),),
            lambda b, x: b.reduce(_square(b, b.transpose(x, (1, 0))), "sum", [0]),
            lambda b, x: b.reduce(b.transpose(_square(b, x), (1, 0)), "sum", [0]),
        ),
    ],
    r.reduce_transposed: [
        Pair(
            (f32(2, 3, N),),
            lambda b, x: b.reduce(b.transpose(x, (2, 0, 1)), "max", [1]),
            lambda b, x: b.transpose(b.reduce(x, "max", [0]), (1, 0)),
        ),
        Pair(
            (f32(2, 3),),
            lambda b, x: b.reduce(b.transpose(x, (1, 0)), "sum", [0, 1]),
            lambda b, x: b.reduce(x, "sum", [0, 1]),
            rounds=True,
        ),
    ],
    r.window_transposed: [
        Pair(
            (f32(2, 5, N),),
            lambda b, x: b.reduce_window(
                b.transpose(x, (2, 0, 1)), "max", (1, 1, 3), (1, 1, 2), (0, 0, 1), (0, 0, 2), (1, 1, 1)
            ),
            lambda b, x: b.transpose(
                b.reduce_window(x, "max", (1, 3, 1), (1, 2, 1), (0, 1, 0), (0, 2, 0), (1, 1, 1)), (2, 0, 1)
            ),
        ),
    ],
}

REFUSES = {
    r.transpose_nothing: [Pair((f32(2, 2),), lambda b, x: b.transpose(x, (1, 0)))],
    r.merge_transposes: [Pair((f32(2, 3),), lambda b, x: b.transpose(b.neg(x), (1, 0)))],
    r.contract_transposed: [Pair((f32(2, 3), f32(3, 2)), lambda b, x, y: b.dot(x, b.neg(y), "mk,kn->mn"))],
    r.transpose_contraction: [
        Pair((f32(2, 3), f32(3, 2)), lambda b, x, y: _twice(b, b.dot(x, y, "mk,kn->mn"))),
        Pair((f32(5, 2, 3), f32(5, 3, 4)), lambda b, x, y: b.transpose(b.dot(x, y, "amk,akn->amn"), (1, 2, 0))),
    ],
    r.reduce_computed_of_transposed: [
        Pair((f32(2, 3),), lambda b, x: b.reduce(b.transpose(x, (1, 0)), "max", [1])),
        Pair((f32(2, 3),), lambda b, x: b.reduce(b.exp(x), "max", [1])),
        Pair((f32(2, 3),), lambda b, x: _deviation(b, b.exp(b.transpose(x, (1, 0))))),
        Pair((f32(2, 3), f32(3, 2)), lambda b, x, y: b.reduce(b.mul(b.transpose(x, (1, 0)), y), "max", [1])),
        Pair((f32(2, 3),), lambda b, x: _beside(b, b.transpose(x, (1, 0)))),
    ],
    r.reduce_transposed: [
        Pair((f32(2, 3),), lambda b, x: b.reduce(b.neg(x), "max", [1])),
        Pair((f32(2, 3),), lambda b, x: _deviation(b, b.transpose(x, (1, 0)))),
    ],
    r.window_transposed: [
        Pair((f32(2, 3),), lambda b, x: _pairs(b, b.neg(x))),
        Pair((f32(2, 3),), lambda b, x: _pairs_beside(b, b.transpose(x, (1, 0)))),
    ],
}


def _square(build, x):
    return build.mul(x, x)


def _beside(build, x):
    return build.sub(x, build.reduce(build.exp(x), "max", [1], keepdims=True))


def _deviation(build, x):
    return build.sub(x, build.reduce(x, "max", [1], keepdims=True))


def _twice(build, product):
    return build.transpose(product, (1, 0)), product


def _pairs(build, x):
    return build.reduce_window(x, "max", (1, 2), (1, 1), (0, 0), (0, 1), (1, 1))


def _pairs_beside(build, x):
    return build.sub(_pairs(build, x), x)
