"""rem, C's fmod: exact for every pair of operands. That of f32 is a long division in f64."""

import math

from onnxc.compiler.codegen_cpu.elementary.lanes import (
    absolute,
    any_lane,
    at_most,
    from_bits,
    to_bits,
    with_sign,
)
from onnxc.compiler.codegen_cpu.elementary.library import call_per_lane
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, vector_type

# The bits of an f64 that a digit of the quotient does not use: 28 bits of it times 24 of the divisor are exact.
_UNUSED_BITS = 25

# Quotients of f64 below it are rounded to no less than what they are without their fraction.
_EXACT_QUOTIENTS = 2.0**53


def rem(f: FunctionBuilder, x: Reg, y: Reg) -> Reg:
    """x - y trunc(x / y) with the sign of x; NaN for an infinite x, for y = 0 and for NaN; x for an infinite y."""
    a, b = absolute(f, x), absolute(f, y)
    is_valid = f.and_(f.fcmp("olt", a, math.inf), f.fcmp("ogt", b, 0.0))
    # An infinite divisor would make NaN of a digit 0, and any other above all f32 gives the same.
    divisor = at_most(f, _widened(f, f.select(is_valid, b, 1.0)), 2.0**200)
    start = _widened(f, f.select(is_valid, a, 0.0))

    def subtract(rest: Reg) -> tuple[Reg]:
        return (_subtract_digit(f, rest, divisor),)

    (rest,) = f.while_((start,), lambda rest: any_lane(f, f.fcmp("oge", absolute(f, rest), divisor)), subtract)
    rest = f.select(f.fcmp("olt", rest, 0.0), f.fadd(rest, divisor), rest)
    result = with_sign(f, f.convert("fptrunc", rest, x.type), x)
    return f.select(is_valid, result, f.constant(x.type, math.nan))


def _subtract_digit(f: FunctionBuilder, rest: Reg, divisor: Reg) -> Reg:
    """The rest less the first 28 bits of rest / divisor times the divisor; barely below 0 where the quotient rounds up.

    Exact: the product has 52 bits, and what is left at most 26, since the bits before cancel.
    """
    bits = to_bits(f, f.fdiv(rest, divisor))
    kept = f.and_(bits, f.constant(bits.type, -1 << _UNUSED_BITS))
    digit = f.intrinsic("llvm.trunc.*", rest.type, from_bits(f, kept))
    return f.multiply_add(f.fneg(digit), divisor, rest)


def _widened(f: FunctionBuilder, x: Reg) -> Reg:
    return f.convert("fpext", x, vector_type("double", x.lanes))


def rem_f64(f: FunctionBuilder, x: Reg, y: Reg) -> Reg:
    """As `rem`: in one step where the quotients of all lanes are below 2^53, else by the C library.

    The step is exact: what is left is a multiple of the last place of the divisor, and no more than the divisor.
    """
    if "fma" not in f.features:
        return call_per_lane(f, "fmod", x, y)
    a, b = absolute(f, x), absolute(f, y)
    quotient = f.fdiv(a, b)
    is_far = f.or_(f.fcmp("uge", quotient, _EXACT_QUOTIENTS), f.fcmp("uge", b, math.inf))

    def subtract() -> tuple[Reg]:
        rest = f.fma(f.fneg(f.intrinsic("llvm.trunc.*", x.type, quotient)), b, a)
        # The quotient may have been rounded up to the next integer.
        rest = f.select(f.fcmp("olt", rest, 0.0), f.fadd(rest, b), rest)
        return (with_sign(f, rest, x),)

    return f.if_(any_lane(f, is_far), lambda: (call_per_lane(f, "fmod", x, y),), subtract)[0]
