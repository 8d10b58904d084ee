"""Pairs for rules/orderings.py."""

from onnxc.compiler.passes.simplify.rules import orderings as r
from tests.passes.golden import N, Pair, f32

FIRES = {
    r.sort_all: [
        Pair((f32(2, 5),), lambda b, x: b.top_k(x, 5, 1), lambda b, x: b.sort(x, 1, descending=True)),
        Pair((f32(N, 2),), lambda b, x: b.top_k(x, N, 0, largest=False), lambda b, x: b.sort(x, 0)),
    ],
}

REFUSES = {r.sort_all: [Pair((f32(2, 5),), lambda b, x: b.top_k(x, 4, 1))]}
