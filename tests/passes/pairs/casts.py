"""Pairs for rules/casts.py."""

from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U32
from onnxc.compiler.passes.simplify.rules import casts as r
from tests.passes.golden import N, Pair, boolean, f16, f32, f64, i8, i32, i64, u8

FIRES = {
    r.cast_once: [
        Pair((f16(9),), lambda b, x: b.cast(b.cast(x, F32), F16), lambda b, x: x),
        Pair((f16(9),), lambda b, x: b.cast(b.cast(x, F32), I8), lambda b, x: b.cast(x, I8)),
        Pair((i8(9),), lambda b, x: b.cast(b.cast(x, I64), U8), lambda b, x: b.cast(x, U8)),
        Pair((i8(9),), lambda b, x: b.cast(b.cast(x, F32), I64), lambda b, x: b.cast(x, I64)),
        Pair((boolean(N),), lambda b, x: b.cast(b.cast(x, F32), BOOL), lambda b, x: x),
        Pair((boolean(4),), lambda b, x: b.cast(b.cast(x, I64), F32), lambda b, x: b.cast(x, F32)),
        Pair((i32(9),), lambda b, x: b.cast(b.cast(x, F64), F16), lambda b, x: b.cast(x, F16)),
        Pair((u8(9),), lambda b, x: b.cast(b.cast(x, BF16), F32), lambda b, x: b.cast(x, F32)),
    ],
    r.cast_to_own_type: [
        Pair((f32(3),), lambda b, x: b.unary("neg", b.op("cast", [x], _to(F32))[0]), lambda b, x: b.neg(x)),
    ],
    r.cast_choice: [
        Pair(
            (boolean(4),),
            lambda b, x: b.cast(b.select(x, b.full((4,), 1.5, F32), b.full((4,), 0, F32)), F16),
            lambda b, x: b.select(x, b.cast(b.full((4,), 1.5, F32), F16), b.cast(b.full((4,), 0, F32), F16)),
        )
    ],
    r.bitcast_once: [
        Pair((f32(9),), lambda b, x: b.bitcast(b.bitcast(x, U32), F32), lambda b, x: x),
        Pair((f32(9),), lambda b, x: b.bitcast(b.bitcast(x, U32), I32), lambda b, x: b.bitcast(x, I32)),
    ],
}


def _to(dtype):
    return {"dtype": dtype, "saturate": True, "round_mode": "nearest"}


REFUSES = {
    r.cast_once: [
        Pair((f32(9),), lambda b, x: b.cast(b.cast(x, F16), F32)),
        Pair((i32(9),), lambda b, x: b.cast(b.cast(x, F64), I8)),
        Pair((i64(9),), lambda b, x: b.cast(b.cast(x, F64), I64)),
        Pair((f64(9),), lambda b, x: b.cast(b.cast(x, I64), F64)),
        Pair((f16(9),), lambda b, x: b.cast(b.cast(x, BF16), F32)),
    ],
    r.cast_to_own_type: [Pair((f32(9),), lambda b, x: b.cast(x, F64))],
    r.cast_choice: [Pair((boolean(4), f32(4)), lambda b, x, y: b.cast(b.select(x, y, 0), F16))],
    r.bitcast_once: [Pair((f32(9),), lambda b, x: b.bitcast(x, U32))],
}
