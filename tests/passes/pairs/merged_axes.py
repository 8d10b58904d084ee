"""Pairs for rules/merged_axes.py."""

from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.passes.simplify.rules import merged_axes as r
from tests.passes.golden import M, N, Pair, f16, f32

FIRES = {
    r.contract_before_merging: [
        Pair(
            (f32(N, M, 3), f32(3, 4)),
            lambda b, x, y: b.dot(b.reshape(x, (N * M, 3)), y, "mk,kn->mn"),
            lambda b, x, y: b.reshape(b.dot(x, y, "abk,kn->abn"), (N * M, 4)),
            rounds=True,
        ),
        Pair(
            (f32(2, N, 3, 4), f32(5, 12)),
            lambda b, x, y: b.dot(b.reshape(x, (2 * N, 12)), y, "mk,nk->mn"),
            lambda b, x, y: b.reshape(b.dot(b.reshape(x, (2, N, 12)), y, "abk,nk->abn"), (2 * N, 5)),
            rounds=True,
        ),
    ],
    r.compute_before_merging: [
        Pair(
            (f32(N, M, 3),),
            lambda b, x: b.exp(b.reshape(x, (N * M, 3))),
            lambda b, x: b.reshape(b.exp(x), (N * M, 3)),
        ),
        Pair(
            (f32(N, M, 3), f32(3)),
            lambda b, x, y: b.add(b.reshape(x, (N * M, 3)), b.broadcast(y, (1,), (N * M, 3))),
            lambda b, x, y: b.reshape(b.add(x, b.broadcast(y, (2,), (N, M, 3))), (N * M, 3)),
        ),
        Pair(
            (f32(N, 3), f32(N, 3)),
            lambda b, x, y: b.mul(b.reshape(x, (N, 1, 3)), b.reshape(y, (N, 1, 3))),
            lambda b, x, y: b.reshape(b.mul(x, y), (N, 1, 3)),
        ),
        Pair(
            (f32(2, 3, 4),),
            lambda b, x: b.gelu(b.reshape(x, (6, 4))),
            lambda b, x: b.reshape(b.gelu(x), (6, 4)),
        ),
    ],
}

REFUSES = {
    r.contract_before_merging: [
        Pair((f32(2, 3, 4), f32(12, 5)), lambda b, x, y: b.dot(b.reshape(x, (2, 12)), y, "mk,kn->mn")),
        Pair((f32(2, 3, 4), f32(6, 4, 5)), lambda b, x, y: b.dot(b.reshape(x, (6, 4)), y, "bk,bkn->bn")),
        Pair((f32(6, 4), f32(4, 5)), lambda b, x, y: b.dot(b.reshape(x, (2, 3, 4)), y, "abk,kn->abn")),
    ],
    r.compute_before_merging: [
        Pair((f32(6, 4),), lambda b, x: b.exp(b.reshape(x, (2, 3, 4)))),
        Pair((f16(N, M, 3),), lambda b, x: b.cast(b.reshape(x, (N * M, 3)), F32)),
        Pair((f32(2, 3), f32(6)), lambda b, x, y: b.add(b.reshape(x, (6,)), y)),
        Pair((f32(2, 3), f32(6)), lambda b, x, y: b.add(b.reshape(x, (6, 1)), b.broadcast(y, (0,), (6, 1)))),
    ],
}
