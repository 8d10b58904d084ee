"""Pairs for rules/arithmetic.py."""

import numpy as np

from onnxc.compiler.ir.dtypes import F16, F32, I64
from onnxc.compiler.passes.simplify.rules import arithmetic as r
from tests.passes.golden import N, Pair, boolean, f16, f32, i8, i64, u8


def _vector(b, *numbers):
    return b.constant(np.array(numbers, np.float32))


FIRES = {
    r.order_constant_right: [
        Pair((f32(3),), lambda b, x: b.add(1, x), lambda b, x: b.add(x, 1)),
        Pair((f32(3),), lambda b, x: b.equal(_vector(b, 1, 2, 3), x), lambda b, x: b.equal(x, _vector(b, 1, 2, 3))),
        Pair((i64(N),), lambda b, x: b.xor(5, x), lambda b, x: b.xor(x, 5)),
    ],
    r.add_nothing: [
        Pair((f32(9),), lambda b, x: b.add(x, -0.0), lambda b, x: x),
        Pair((i64(),), lambda b, x: b.add(x, 0), lambda b, x: x),
    ],
    r.subtract_nothing: [
        Pair((f32(9),), lambda b, x: b.sub(x, 0.0), lambda b, x: x),
        Pair((u8(N),), lambda b, x: b.sub(x, 0), lambda b, x: x),
    ],
    r.subtract_from_nothing: [
        Pair((f32(9),), lambda b, x: b.sub(-0.0, x), lambda b, x: b.neg(x)),
        Pair((i8(5),), lambda b, x: b.sub(0, x), lambda b, x: b.neg(x)),
    ],
    r.cancel_integer: [
        Pair((i64(N),), lambda b, x: b.sub(x, x), lambda b, x: b.full((N,), 0, I64)),
        Pair((boolean(4),), lambda b, x: b.xor(x, x), lambda b, x: b.full((4,), 0, x.dtype)),
    ],
    r.scale_by_one: [
        Pair((f32(9),), lambda b, x: b.mul(x, 1), lambda b, x: x),
        Pair((f16(9),), lambda b, x: b.div(x, 1), lambda b, x: x),
        Pair((f32(9),), lambda b, x: b.mul(x, -1), lambda b, x: b.neg(x)),
        Pair((i8(5),), lambda b, x: b.div(x, -1), lambda b, x: b.neg(x)),
    ],
    r.multiply_integer_by_nothing: [
        Pair((i64(N),), lambda b, x: b.mul(x, 0), lambda b, x: b.full((N,), 0, I64)),
        Pair((boolean(3),), lambda b, x: b.and_(x, False), lambda b, x: b.full((3,), False, x.dtype)),
    ],
    r.combine_with_neutral: [
        Pair((boolean(3),), lambda b, x: b.and_(x, True), lambda b, x: x),
        Pair((i64(4),), lambda b, x: b.and_(x, -1), lambda b, x: x),
        Pair((u8(4),), lambda b, x: b.and_(x, 255), lambda b, x: x),
        Pair((i64(4),), lambda b, x: b.or_(x, 0), lambda b, x: x),
        Pair((boolean(3),), lambda b, x: b.or_(x, True), lambda b, x: b.full((3,), True, x.dtype)),
        Pair((i64(4),), lambda b, x: b.xor(x, 0), lambda b, x: x),
    ],
    r.combine_with_itself: [
        Pair((f32(9),), lambda b, x: b.max(x, x), lambda b, x: x),
        Pair((i64(4),), lambda b, x: b.and_(x, x), lambda b, x: x),
    ],
    r.undo_twice: [
        Pair((f32(9),), lambda b, x: b.neg(b.neg(x)), lambda b, x: x),
        Pair((boolean(3),), lambda b, x: b.not_(b.not_(x)), lambda b, x: x),
        Pair((i8(4),), lambda b, x: b.neg(b.neg(x)), lambda b, x: x),
    ],
    r.do_once: [Pair((f32(9),), lambda b, x: b.abs(b.abs(x)), lambda b, x: b.abs(x))],
    r.round_integer: [
        Pair((i64(4),), lambda b, x: b.floor(x), lambda b, x: x),
        Pair((i64(4),), lambda b, x: b.ceil(b.cast(x, F16)), lambda b, x: b.cast(x, F16)),
        Pair((f32(9),), lambda b, x: b.floor(b.round(x)), lambda b, x: b.round(x)),
    ],
    r.drop_sign: [
        Pair((f32(9),), lambda b, x: b.abs(b.neg(x)), lambda b, x: b.abs(x)),
        Pair((), lambda b: b.abs(b.iota((4,), 0, I64)), lambda b: b.iota((4,), 0, I64)),
    ],
    r.add_negated: [
        Pair((f32(9), f32(9)), lambda b, x, y: b.add(x, b.neg(y)), lambda b, x, y: b.sub(x, y)),
        Pair((f32(9), f32(9)), lambda b, x, y: b.add(b.neg(x), y), lambda b, x, y: b.sub(y, x)),
        Pair((f32(9), f32(9)), lambda b, x, y: b.sub(x, b.neg(y)), lambda b, x, y: b.add(x, y)),
    ],
    r.multiply_negated: [
        Pair((f32(9), f32(9)), lambda b, x, y: b.mul(b.neg(x), b.neg(y)), lambda b, x, y: b.mul(x, y)),
        Pair((i8(9), i8(9)), lambda b, x, y: b.mul(b.neg(x), b.neg(y)), lambda b, x, y: b.mul(x, y)),
        Pair((f32(9), f32(9)), lambda b, x, y: b.div(b.neg(x), b.neg(y)), lambda b, x, y: b.div(x, y)),
        Pair((f32(9),), lambda b, x: b.mul(b.neg(x), 3), lambda b, x: b.mul(x, -3)),
    ],
    r.divide_by_power_of_two: [
        Pair((f32(9),), lambda b, x: b.div(x, 8), lambda b, x: b.mul(x, 0.125)),
        Pair((f16(9),), lambda b, x: b.div(x, -0.5), lambda b, x: b.mul(x, -2)),
        Pair(
            (f32(2, 3),), lambda b, x: b.div(x, _vector(b, 2, 4, 0.5)), lambda b, x: b.mul(x, _vector(b, 0.5, 0.25, 2))
        ),
    ],
    r.expand_power: [
        Pair((f32(9),), lambda b, x: b.pow(x, 0), lambda b, x: b.full((9,), 1, F32)),
        Pair((f32(9),), lambda b, x: b.pow(x, 1), lambda b, x: x),
        Pair((f32(9),), lambda b, x: b.pow(x, 2), lambda b, x: b.mul(x, x)),
        Pair((i64(9),), lambda b, x: b.pow(x, 3), lambda b, x: b.mul(b.mul(x, x), x)),
        Pair((f32(9),), lambda b, x: b.pow(x, 3), lambda b, x: b.mul(b.mul(x, x), x), rounds=True),
        Pair((f32(9),), lambda b, x: b.pow(x, -1), lambda b, x: b.div(b.full((9,), 1, F32), x)),
        Pair(
            (f32(9),),
            lambda b, x: b.pow(b.add(b.mul(x, x), 1e-3), 0.5),
            lambda b, x: b.sqrt(b.add(b.mul(x, x), 1e-3)),
        ),
    ],
    r.bound_beyond_reach: [
        Pair((f32(9),), lambda b, x: b.max(x, -np.inf), lambda b, x: x),
        Pair((f32(9),), lambda b, x: b.min(x, np.inf), lambda b, x: x),
        Pair((f32(N),), lambda b, x: b.max(b.iota((N,), 0, I64), 0), lambda b, x: b.iota((N,), 0, I64)),
        Pair((u8(5),), lambda b, x: b.min(x, 255), lambda b, x: x),
    ],
    r.divide_evenly: [
        Pair((i64(4),), lambda b, x: b.rem(x, 1), lambda b, x: b.full((4,), 0, I64)),
        Pair((), lambda b: b.rem(b.iota((4,), 0, I64), 4), lambda b: b.iota((4,), 0, I64)),
    ],
    r.gather_constants: [
        Pair((i64(4),), lambda b, x: b.add(b.add(x, 2), 3), lambda b, x: b.add(x, 5)),
        Pair((i8(4),), lambda b, x: b.mul(b.mul(x, 100), 2), lambda b, x: b.mul(x, -56)),
        Pair((f32(9),), lambda b, x: b.min(b.min(x, 2), 1), lambda b, x: b.min(x, 1)),
    ],
    r.shift_by_nothing: [Pair((i64(4),), lambda b, x: b.shift_left(x, 0), lambda b, x: x)],
}

REFUSES = {
    r.order_constant_right: [Pair((f32(3),), lambda b, x: b.sub(1, x)), Pair((f32(3),), lambda b, x: b.add(x, 1))],
    r.add_nothing: [Pair((f32(9),), lambda b, x: b.add(x, 0.0))],
    r.subtract_nothing: [Pair((f32(9),), lambda b, x: b.sub(x, -0.0))],
    r.subtract_from_nothing: [Pair((f32(9),), lambda b, x: b.sub(0.0, x))],
    r.cancel_integer: [Pair((f32(9),), lambda b, x: b.sub(x, x))],
    r.scale_by_one: [Pair((f32(9),), lambda b, x: b.div(1, x)), Pair((u8(9),), lambda b, x: b.mul(x, 255))],
    r.multiply_integer_by_nothing: [Pair((f32(9),), lambda b, x: b.mul(x, 0))],
    r.combine_with_neutral: [Pair((i64(4),), lambda b, x: b.and_(x, 1)), Pair((u8(4),), lambda b, x: b.or_(x, 1))],
    r.combine_with_itself: [Pair((f32(9), f32(9)), lambda b, x, y: b.max(x, y))],
    r.undo_twice: [Pair((f32(9),), lambda b, x: b.neg(b.abs(x)))],
    r.do_once: [Pair((f32(9),), lambda b, x: b.abs(b.sign(x)))],
    r.round_integer: [Pair((f32(9),), lambda b, x: b.floor(x))],
    r.drop_sign: [Pair((i64(9),), lambda b, x: b.abs(x))],
    r.add_negated: [Pair((f32(9), f32(9)), lambda b, x, y: b.sub(b.neg(x), y))],
    r.multiply_negated: [
        Pair((i8(9), i8(9)), lambda b, x, y: b.div(b.neg(x), b.neg(y))),
        Pair((f32(9), f32(9)), lambda b, x, y: b.mul(b.neg(x), y)),
    ],
    r.divide_by_power_of_two: [
        Pair((f32(9),), lambda b, x: b.div(x, 3)),
        Pair((f32(9),), lambda b, x: b.div(x, 0)),
        Pair((f32(9),), lambda b, x: b.div(x, 2.0**126)),
        Pair((i64(9),), lambda b, x: b.div(x, 2)),
        Pair((f32(2, 2),), lambda b, x: b.div(x, _vector(b, 2, 3))),
    ],
    r.expand_power: [
        Pair((f32(9),), lambda b, x: b.pow(x, 0.5)),
        Pair((f32(9),), lambda b, x: b.pow(b.mul(x, x), 0.5)),
        Pair((f32(9),), lambda b, x: b.pow(x, -0.5)),
        Pair((i64(9),), lambda b, x: b.pow(x, -1)),
        Pair((f32(9), f32(9)), lambda b, x, y: b.pow(x, y)),
    ],
    r.bound_beyond_reach: [
        Pair((f32(9),), lambda b, x: b.max(b.abs(x), 0)),
        Pair((f32(9),), lambda b, x: b.max(x, np.inf)),
        Pair((i64(9),), lambda b, x: b.max(x, 0)),
    ],
    r.divide_evenly: [Pair((i64(4),), lambda b, x: b.rem(x, 4)), Pair((f32(4),), lambda b, x: b.rem(x, 1))],
    r.gather_constants: [
        Pair((f32(9),), lambda b, x: b.add(b.add(x, 2), 3)),
        Pair((i64(9),), lambda b, x: b.mul(b.add(x, 2), 3)),
    ],
    r.shift_by_nothing: [Pair((i64(4),), lambda b, x: b.shift_left(x, 1))],
}
