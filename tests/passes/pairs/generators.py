"""Pairs for rules/generators.py."""

import numpy as np

from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.passes.simplify.rules import generators as r
from tests.passes.golden import N, Pair


def _array(build, array):
    return build.constant(np.asarray(array))


NAN = np.full((3,), np.nan, np.float32)

FIRES = {
    r.shrink_uniform_constant: [
        Pair((), lambda b: _array(b, np.full((2, 3), 0.5, np.float32)), lambda b: b.full((2, 3), 0.5, F32)),
        Pair((), lambda b: _array(b, np.array([[0.5]], np.float32)), lambda b: b.full((1, 1), 0.5, F32)),
        Pair((), lambda b: _array(b, NAN), lambda b: b.broadcast(_array(b, NAN[0]), (), (3,))),
    ],
    r.count_instead: [
        Pair((), lambda b: _array(b, np.arange(17)), lambda b: b.iota((17,), 0, I64)),
        Pair(
            (), lambda b: _array(b, np.arange(32).reshape(1, 32)), lambda b: b.reshape(b.iota((32,), 0, I64), (1, 32))
        ),
    ],
    r.shrink_counter: [
        Pair((), lambda b: b.iota((2, N), 1, I64), lambda b: b.broadcast(b.iota((N,), 0, I64), (1,), (2, N))),
    ],
    r.make_sizes_constant: [
        Pair((), lambda b: _sizes(b, (2, 3), False), lambda b: _array(b, np.array([2, 3]))),
        Pair((), lambda b: _sizes(b, (2,), True), lambda b: b.scalar(2, I64)),
    ],
}


def _sizes(build, values, scalar):
    return build.op("sizes", (), {"values": values, "dtype": I64, "scalar": scalar})[0]


REFUSES = {
    r.shrink_uniform_constant: [
        Pair((), lambda b: _array(b, np.array([0.0, -0.0], np.float32))),
        Pair((), lambda b: _array(b, np.zeros((0,), np.float32))),
        Pair((), lambda b: b.scalar(0.5, F32)),
        Pair((), lambda b: _array(b, np.array([2, 2]))),
    ],
    r.count_instead: [
        Pair((), lambda b: _array(b, np.arange(16))),
        Pair((), lambda b: _array(b, np.arange(1, 20))),
        Pair((), lambda b: _array(b, np.arange(20.0))),
    ],
    r.shrink_counter: [Pair((), lambda b: b.iota((N,), 0, I64))],
    r.make_sizes_constant: [Pair((), lambda b: b.sizes((2, N)))],
}
