"""Pairs for rules/contractions.py."""

import numpy as np

from onnxc.compiler.ir.dtypes import F16, F32
from onnxc.compiler.passes.simplify.rules import contractions as r
from tests.passes.golden import N, Pair, f16, f32

FIRES = {
    r.contract_broadcast: [
        Pair(
            (f32(2, 3), f32(N, 3, 4)),
            lambda b, x, y: b.dot(b.broadcast(x, (1, 2), (N, 2, 3)), y, "bmk,bkn->bmn"),
            lambda b, x, y: b.dot(x, y, "mk,bkn->bmn"),
            rounds=True,
        ),
        Pair(
            (f32(N, 2, 3), f32(1, 3)),
            lambda b, x, y: b.dot(x, b.broadcast(y, (0, 1), (N, 3)), "bmk,bk->bm"),
            lambda b, x, y: b.dot(x, b.reshape(y, (3,)), "bmk,k->bm"),
            rounds=True,
        ),
    ],
    r.sum_own_letters: [
        Pair(
            (f32(N, 3), f32(2, 4)),
            lambda b, x, y: b.dot(x, y, "ab,kn->abn"),
            lambda b, x, y: b.dot(x, b.reduce(y, "sum", (0,)), "ab,n->abn"),
            rounds=True,
        ),
        Pair(
            (f32(N, 3), f32(2, 0, 3)),
            lambda b, x, y: b.dot(x, y, "ab,jkb->b"),
            lambda b, x, y: b.dot(b.reduce(x, "sum", (0,)), b.reduce(y, "sum", (0, 1)), "b,b->b"),
            rounds=True,
        ),
        Pair(
            (f16(4, 3), f16(5, 2)),
            lambda b, x, y: b.dot(x, y, "ab,kn->abn"),
            lambda b, x, y: b.cast(b.dot(b.cast(x, F32), b.reduce(b.cast(y, F32), "sum", (0,)), "ab,n->abn"), F16),
            rounds=True,
        ),
    ],
    r.convolve_padded: [
        Pair(
            (f32(1, 2, N), f32(3, 2, 1)),
            lambda b, x, y: b.convolution(b.pad(x, (0, 0, 1), (0, 0, 2)), y, (2,), (1,), (0,), (1,)),
            lambda b, x, y: b.convolution(x, y, (2,), (2,), (2,), (1,)),
            rounds=True,
        ),
        Pair(
            (f32(2, N, 1), f32(3, 2, 1)),
            lambda b, x, y: _labelled(b, b.pad(x, (0, 1, 0), (0, 2, 0)), y, 0, 1),
            lambda b, x, y: _labelled(b, x, y, 1, 3),
            rounds=True,
        ),
    ],
    r.fold_padded: [
        Pair(
            (f32(2, 5),),
            lambda b, x: b.reduce_window(b.pad(x, (0, 1), (0, 2), -np.inf), "max", *_window()),
            lambda b, x: b.reduce_window(x, "max", (1, 3), (1, 2), (0, 1), (0, 2), (1, 1)),
        ),
        Pair(
            (f32(2, 5),),
            lambda b, x: b.reduce_window(b.pad(x, (1, 0), (0, 0), 0), "sum", *_window()),
            lambda b, x: b.reduce_window(x, "sum", (1, 3), (1, 2), (1, 0), (0, 0), (1, 1)),
            rounds=True,
        ),
    ],
}


def _window():
    return (1, 3), (1, 2), (0, 0), (0, 0), (1, 1)


REFUSES = {
    r.contract_broadcast: [
        Pair((f32(2, 3), f32(3, 4)), lambda b, x, y: b.dot(b.broadcast(x, (1, 2), (N, 2, 3)), y, "bmk,kn->bmn")),
        Pair((f32(2, 3), f32(3, 4)), lambda b, x, y: b.dot(x, y, "mk,kn->mn")),
    ],
    r.sum_own_letters: [
        Pair((f32(2, 3), f32(3, 4)), lambda b, x, y: b.dot(x, y, "mk,kn->mn")),
        Pair(
            (
                f32(2, 3),
                f32(
                    4,
                ),
            ),
            lambda b, x, y: b.dot(x, y, "ab,n->abn"),
        ),
    ],
    r.convolve_padded: [
        Pair((f32(1, 2, 4), f32(3, 2, 1)), lambda b, x, y: _convolved(b, b.pad(x, (0, 0, 1), (0, 0, 2), 1), y)),
        Pair((f32(1, 1, 4), f32(3, 2, 1)), lambda b, x, y: _convolved(b, b.pad(x, (0, 1, 1), (0, 0, 2)), y)),
        Pair((f32(2, 4, 1), f32(3, 2, 1)), lambda b, x, y: _labelled(b, b.pad(x, (0, 1, 1), (0, 0, 0)), y, 0, 0)),
        Pair(
            (f32(1, 2, 4), f32(3, 2, 1)),
            lambda b, x, y: b.convolution(b.pad(x, (0, 0, 1), (0, 0, 2)), y, (1,), (0,), (0,), (1,), 1, (2,)),
        ),
    ],
    r.fold_padded: [
        Pair((f32(2, 5),), lambda b, x: b.reduce_window(b.pad(x, (0, 1), (0, 2), 0), "max", *_window())),
    ],
}


def _labelled(build, x, w, low, high):
    return build.convolution(x, w, (2,), (low,), (high,), (1,), dimensions="c0n,oi0->c0n")


def _convolved(build, x, w):
    return build.convolution(x, w, (1,), (0,), (0,), (1,))
