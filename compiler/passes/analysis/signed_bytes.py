"""Bytes of u8 as i8 that are 128 less, and the way back: both are the flip of one bit."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I8, U8
from onnxc.compiler.ir.makers import made_by, splat_of
from onnxc.compiler.ir.module import Value

__all__ = ["OFFSET", "signed", "signed_form", "unsigned"]

OFFSET = 128
"""What u8 is more than the i8 that stands for it."""


def unsigned(value: Value, build: Builder) -> Value:
    """The u8 that is 128 more than `value`, of i8."""
    return build.bitcast(build.xor(value, -OFFSET), U8)


def signed(value: Value, build: Builder) -> Value:
    """The i8 that is 128 less than `value`, of u8."""
    form = signed_form(value)
    return build.bitcast(build.xor(value, OFFSET), I8) if form is None else form


def signed_form(value: Value) -> Value | None:
    """The i8 that `value` is the u8 of, where `unsigned` has made it."""
    bits = made_by(value, "bitcast")
    flipped = made_by(bits.operands[0], "xor") if bits is not None and value.dtype == U8 else None
    if flipped is None or flipped.result.dtype != I8 or splat_of(flipped.operands[1]) != -OFFSET:
        return None
    return flipped.operands[0]
