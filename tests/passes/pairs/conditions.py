"""Pairs for rules/conditions.py."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.simplify.rules import conditions as r
from tests.passes.golden import N, Pair, boolean, f32, i64


def _if(build: Builder, condition: Value, x: Value, result: TensorType) -> tuple[Value, ...]:
    """if condition {-x} else {|x|}"""
    blocks = []
    for name in ("neg", "abs"):
        inner = build.nested()
        taken = inner.parameter("taken", x.type)
        blocks.append(inner.block([taken], [inner.unary(name, taken)]))
    return build.if_(condition, [x], blocks, [result])


def _loop(build: Builder, limit: int, going: bool, x: Value, scans: Sequence[TensorType] = ()) -> tuple[Value, ...]:
    """while: x = -x"""
    inner = build.nested()
    iteration, carried = inner.parameter("iteration", i64()), inner.parameter("carried", x.type)
    turned = inner.neg(carried)
    body = inner.block([iteration, carried], [inner.scalar(True, BOOL), turned, *(turned for _ in scans)])
    operands = (build.scalar(limit, I64), build.scalar(going, BOOL))
    return build.while_(*operands, [x], [], body, [x.type, *scans], "count")


FIRES = {
    r.compare_with_itself: [
        Pair((i64(N),), lambda b, x: b.equal(x, x), lambda b, x: b.full((N,), True, BOOL)),
        Pair((i64(3),), lambda b, x: b.less_equal(x, x), lambda b, x: b.full((3,), True, BOOL)),
        Pair((f32(9),), lambda b, x: b.less(x, x), lambda b, x: b.full((9,), False, BOOL)),
    ],
    r.compare_decided: [
        Pair((f32(N),), lambda b, x: b.less(b.iota((N,), 0, I64), 0), lambda b, x: b.full((N,), False, BOOL)),
        Pair((f32(N),), lambda b, x: b.less_equal(0, b.iota((N,), 0, I64)), lambda b, x: b.full((N,), True, BOOL)),
        Pair((boolean(4),), lambda b, x: b.equal(b.cast(x, I64), 2), lambda b, x: b.full((4,), False, BOOL)),
        Pair((i64(4),), lambda b, x: b.less(b.min(x, 3), 4), lambda b, x: b.full((4,), True, BOOL)),
    ],
    r.negate_comparison: [
        Pair((i64(4), i64(4)), lambda b, x, y: b.not_(b.less(x, y)), lambda b, x, y: b.less_equal(y, x)),
        Pair((i64(4), i64(4)), lambda b, x, y: b.not_(b.less_equal(x, y)), lambda b, x, y: b.less(y, x)),
    ],
    r.compare_bool: [
        Pair((boolean(4),), lambda b, x: b.equal(x, True), lambda b, x: x),
        Pair((boolean(4),), lambda b, x: b.equal(b.cast(x, F32), 0), lambda b, x: b.not_(x)),
        Pair((boolean(4),), lambda b, x: b.equal(b.cast(x, I64), 1), lambda b, x: x),
    ],
    r.compare_bool_with_zero: [Pair((boolean(4),), lambda b, x: b.less(0, b.cast(x, I64)), lambda b, x: x)],
    r.select_decided: [
        Pair((f32(4), f32(4)), lambda b, x, y: b.select(b.scalar(True, BOOL), x, y), lambda b, x, y: x),
        Pair((f32(N), f32(N)), lambda b, x, y: b.select(b.full((N,), False, BOOL), x, y), lambda b, x, y: y),
        Pair((boolean(4), f32(4)), lambda b, x, y: b.select(x, y, y), lambda b, x, y: y),
    ],
    r.select_negated: [
        Pair(
            (boolean(4), f32(4), f32(4)),
            lambda b, x, y, z: b.select(b.not_(x), y, z),
            lambda b, x, y, z: b.select(x, z, y),
        )
    ],
    r.select_bool: [
        Pair((boolean(4),), lambda b, x: b.select(x, *_bools(b, True, False)), lambda b, x: x),
        Pair((boolean(4),), lambda b, x: b.select(x, *_bools(b, False, True)), lambda b, x: b.not_(x)),
        Pair((boolean(4), boolean(4)), lambda b, x, y: b.select(x, y, False), lambda b, x, y: b.and_(x, y)),
        Pair((boolean(4), boolean(4)), lambda b, x, y: b.select(x, True, y), lambda b, x, y: b.or_(x, y)),
    ],
    r.select_again: [
        Pair(
            (boolean(4), f32(4), f32(4), f32(4)),
            lambda b, x, y, z, u: b.select(x, b.select(x, y, z), u),
            lambda b, x, y, z, u: b.select(x, y, u),
        ),
        Pair(
            (boolean(4), f32(4), f32(4), f32(4)),
            lambda b, x, y, z, u: b.select(x, y, b.select(x, z, u)),
            lambda b, x, y, z, u: b.select(x, y, u),
        ),
    ],
    r.take_decided_branch: [
        Pair((f32(4),), lambda b, x: _if(b, b.scalar(True, BOOL), x, f32(4)), lambda b, x: b.neg(x)),
        Pair((f32(N),), lambda b, x: _if(b, b.scalar(False, BOOL), x, f32(N)), lambda b, x: b.abs(x)),
    ],
    r.skip_loop: [
        Pair((f32(4),), lambda b, x: _loop(b, 0, True, x), lambda b, x: x),
        Pair((f32(4),), lambda b, x: _loop(b, 5, False, x), lambda b, x: x),
    ],
}


def _bools(build: Builder, *values: bool) -> tuple[Value, ...]:
    return tuple(build.full((4,), value, BOOL) for value in values)


REFUSES = {
    r.compare_with_itself: [
        Pair((f32(9),), lambda b, x: b.equal(x, x)),
        Pair((f32(9),), lambda b, x: b.less_equal(x, x)),
        Pair((i64(3), i64(3)), lambda b, x, y: b.equal(x, y)),
    ],
    r.compare_decided: [
        Pair((i64(4),), lambda b, x: b.less(x, 0)),
        Pair((f32(N),), lambda b, x: b.less(0, b.iota((N,), 0, I64))),
        Pair((f32(4),), lambda b, x: b.less(b.abs(x), 0)),
        Pair((i64(4),), lambda b, x: b.less(b.add(b.max(x, 0), 1), 0)),
    ],
    r.negate_comparison: [Pair((f32(4), f32(4)), lambda b, x, y: b.not_(b.less(x, y)))],
    r.compare_bool: [
        Pair((boolean(4), boolean(4)), lambda b, x, y: b.equal(x, y)),
        Pair((i64(4),), lambda b, x: b.equal(b.cast(x, F32), 0)),
    ],
    r.compare_bool_with_zero: [
        Pair((boolean(4),), lambda b, x: b.less(1, b.cast(x, I64))),
        Pair((f32(4),), lambda b, x: b.less(0, b.cast(x, I64))),
    ],
    r.select_decided: [
        Pair((boolean(4), f32(4), f32(4)), lambda b, x, y, z: b.select(x, y, z)),
        Pair((f32(2), f32(2)), lambda b, x, y: b.select(b.constant(np.array([True, False])), x, y)),
    ],
    r.select_negated: [Pair((boolean(4), f32(4), f32(4)), lambda b, x, y, z: b.select(x, b.neg(y), z))],
    r.select_bool: [
        Pair((boolean(4), i64(4)), lambda b, x, y: b.select(x, y, 0)),
        Pair((boolean(4), boolean(4)), lambda b, x, y: b.select(x, y, True)),
    ],
    r.select_again: [
        Pair((boolean(4), boolean(4), f32(4)), lambda b, x, y, z: b.select(x, b.select(y, z, 1), 0)),
    ],
    r.take_decided_branch: [
        Pair((f32(4), boolean()), lambda b, x, y: _if(b, y, x, f32(4))),
    ],
    r.skip_loop: [
        Pair((f32(4),), lambda b, x: _loop(b, 1, True, x)),
        Pair((f32(4),), lambda b, x: _loop(b, 0, True, x, [f32(Size.symbol("count"), 4)])),
    ],
}
