"""Pairs for rules/orderings.py."""

from onnxc.compiler.passes.simplify.rules import orderings as r
from tests.passes.golden import N, Pair, f32, i64

FIRES = {
    r.sort_all: [
        Pair((f32(2, 5),), lambda b, x: b.top_k(x, 5, 1), lambda b, x: b.sort(x, 1, descending=True)),
        Pair((f32(N, 2),), lambda b, x: b.top_k(x, N, 0, largest=False), lambda b, x: b.sort(x, 0)),
    ],
    r.search_first: [
        Pair((f32(N, 5),), lambda b, x: b.top_k(x, 1, 1), lambda b, x: _first(b, x, "max", 1)),
        # A guard holds that there is an element, as of any k.
        Pair(
            (i64(N, 4),),
            lambda b, x: b.top_k(x, 1, 0, largest=False),
            lambda b, x: _first(b, x, "min", 0),
            sizes=(1, 3),
        ),
    ],
}

REFUSES = {
    r.sort_all: [Pair((f32(2, 5),), lambda b, x: b.top_k(x, 4, 1))],
    r.search_first: [
        Pair((f32(2, 5),), lambda b, x: b.top_k(x, 2, 1)),
        Pair((f32(2, 5),), lambda b, x: b.top_k(x, 1, 1, largest=False)),
        Pair((f32(5, N),), lambda b, x: b.top_k(x, 1, 0)),
    ],
}


def _first(build, x, kind, axis):
    index = build.unsqueeze(build.arg_reduce(x, kind, axis), (axis,))
    return build.gather_along(x, index, axis), index
