"""Quantised tensors of u8 as i8 that are 128 less: tensor cores are told of one kind of bytes.

A quantisation to u8 makes i8, and u8 of that; what moves the u8 moves the i8 in its place, and what widens it widens
the i8, whose 128 join the zero point. So no u8 is in memory where nothing but the caller wants it.
"""

import numpy as np

from onnxc.compiler.ir.dtypes import F32, I8, I32, U8
from onnxc.compiler.ir.makers import made_by, splat_of, unbroadcast
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.signed_bytes import OFFSET, signed, signed_form, unsigned

MOVED = ("transpose", "reshape", "slice", "broadcast", "gather", "gather_along", "gather_nd", "reduce_window")


def sign_bytes(module: Module) -> Module:
    """Makes quantised tensors of u8 those of i8."""
    return rewrite(module, [quantize, move, widen, join_offset])


@rule("cast")
def quantize(op: Op, build: Rewriter) -> Value | None:
    """cast(min(max(x, 0), 255), u8) = u8 of cast(cast(min(max(x, 0), 255), i32) - 128, i8); NaN is 0 in both

    So it is with what is rounded behind that, as the zero point of DynamicQuantizeLinear.
    """
    x = op.operands[0]
    rounded = made_by(x, "round")
    below = _by_splat(x if rounded is None else rounded.operands[0], "min", 255)
    if op.dtype() != U8 or x.dtype != F32 or below is None or _by_splat(below, "max", 0) is None:
        return None
    return unsigned(build.cast(build.sub(build.cast(x, I32), OFFSET), I8), build)


@rule(*MOVED)
def move(op: Op, build: Rewriter) -> Value | None:
    """f(u8 of y) = u8 of f(y), for f a movement, a gather or a maximum"""
    source = signed_form(op.operands[0])
    if source is None or (op.name == "reduce_window" and op.text("kind") != "max"):
        return None
    return unsigned(build.op(op.name, [source, *op.operands[1:]], op.attributes)[0], build)


@rule("cast")
def widen(op: Op, build: Rewriter) -> Value | None:
    """cast(u8 of y) = cast(y) + 128"""
    source = signed_form(op.operands[0])
    if source is None or op.dtype() not in (F32, I32):
        return None
    return build.sub(build.cast(source, op.dtype()), -OFFSET)


@rule("sub")
def join_offset(op: Op, build: Rewriter) -> Value | None:
    """(cast(y) + 128) - z = cast(y) - (z - 128), for z a constant of integers or a cast of u8; exact also in f32"""
    x, z = op.operands
    inner, (zero, axes) = _less_offset(x), unbroadcast(z)
    if inner is None:
        return None
    array, other = build.known_array(zero), _less_offset(zero) or _widened_less_offset(zero, build)
    if array is not None and np.array_equal(array, np.clip(np.rint(array), 0, 255)):
        zero = build.constant(np.asarray(array - OFFSET, array.dtype))
    elif other is not None:
        zero = other
    else:
        return None
    return build.sub(inner, build.broadcast(zero, axes, x.shape))


def _less_offset(value: Value) -> Value | None:
    """What `value` is 128 more than, where `widen` has written it."""
    sum = made_by(value, "sub")
    widened = None if sum is None or splat_of(sum.operands[1]) != -OFFSET else made_by(sum.operands[0], "cast")
    return None if widened is None or widened.operands[0].dtype != I8 else widened.result


def _widened_less_offset(value: Value, build: Rewriter) -> Value | None:
    """What `value` is 128 more than, where it is u8 that nothing here has made, widened."""
    widened = made_by(value, "cast")
    is_byte = widened is not None and widened.operands[0].dtype == U8
    return build.cast(signed(widened.operands[0], build), value.dtype) if widened is not None and is_byte else None


def _by_splat(value: Value, name: str, splat: float) -> Value | None:
    """The operand of an op of two whose other operand is `splat` everywhere."""
    op = made_by(value, name)
    return op.operands[0] if op is not None and splat_of(op.operands[1]) == splat else None
