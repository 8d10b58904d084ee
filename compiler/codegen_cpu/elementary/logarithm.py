"""log of f32 and f64, the inverse hyperbolic functions of f32.

x = 2^e m with sqrt(1/2) <= m < sqrt(2), so that log x = e ln 2 + log m and neither part cancels the other.
Sources: the split of the bits, and the inverse hyperbolic functions by log(1 + y) with the rounding error of 1 + y, are
those of FreeBSD's msun, e_logf.c, s_log1pf.c and s_asinhf.c. The coefficients are minimax fits of our own.
"""

import math

from onnxc.compiler.codegen_cpu.elementary.lanes import (
    absolute,
    as_exponent,
    format_of,
    from_bits,
    long_polynomial,
    to_bits,
    with_sign,
)
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Float, Reg

# (log(1 + r) - r + r²/2) / r³, minimax on [sqrt(1/2) - 1, sqrt(2) - 1]: log(1 + r) within 2^-27 and 2^-56.
_LOG = {
    "float": (
        0.3333333134651184, -0.2500081956386566, 0.2000124156475067, -0.1662341058254242, 0.14201585948467255,
        -0.13159598410129547, 0.12762142717838287, -0.07636363059282303,
    ),
    "double": (
        0.3333333333333314, -0.2499999999998807, 0.20000000000067186, -0.1666666666980448, 0.1428571427990638,
        -0.12499999693333785, 0.11111111165251515, -0.10000015133201548, 0.09090923148016311, -0.08332914672011611,
        0.0769154822204793, -0.07149441621838556, 0.06684354971351797, -0.06196398348199656, 0.05669830974811775,
        -0.0568094868840925, 0.0650102504305186, -0.059702144931837745, 0.026068002829234313,
    ),
}  # fmt: skip

_SQRT_HALF_BITS = {"i32": 0x3F3504F3, "i64": 0x3FE6A09E667F3BCD}

# Squares of far larger numbers are not finite, and from here on asinh x = acosh x = log 2x = log(1 + x/2) + 2 ln 2.
_HUGE = 2.0**30


def log(f: FunctionBuilder, x: Reg) -> Reg:
    """The natural logarithm of each lane, f32 within 1 and f64 within 2 units in the last place.

    log(±0) = -inf, NaN below 0; +inf and NaN stay.
    """
    e, m = split_positive(f, x)
    result = _log_of_split(f, f.convert("sitofp", e, x.type), f.fsub(m, 1.0))
    # A product is +inf or the quiet NaN where x is one; this one is there already.
    result = f.select(f.fcmp("olt", x, math.inf), result, _out_of_subnormals(f, x))
    pole = f.select(f.fcmp("oeq", x, 0.0), f.constant(x.type, -math.inf), math.nan)
    return f.select(f.fcmp("ole", x, 0.0), pole, result)


def split_positive(f: FunctionBuilder, x: Reg) -> tuple[Reg, Reg]:
    """(e, m) of the positive finite number 2^e m, sqrt(1/2) <= m < sqrt(2); anything for others."""
    format = format_of(x)
    is_subnormal = f.fcmp("olt", x, format.least_normal)
    e, m = _split_normal(f, f.select(is_subnormal, _out_of_subnormals(f, x), x))
    return f.sub(e, f.select(is_subnormal, f.constant(e.type, format.mantissa_bits), f.constant(e.type, 0))), m


def _out_of_subnormals(f: FunctionBuilder, x: Reg) -> Reg:
    return f.fmul(x, 2.0 ** format_of(x).mantissa_bits)


def _split_normal(f: FunctionBuilder, x: Reg) -> tuple[Reg, Reg]:
    bits, shift = to_bits(f, x), format_of(x).mantissa_bits
    e = f.ashr(f.sub(bits, _SQRT_HALF_BITS[bits.element]), shift)
    return e, from_bits(f, f.sub(bits, f.shl(e, shift)))


def _log_of_split(f: FunctionBuilder, e: Reg, r: Reg) -> Reg:
    """e ln 2 + log(1 + r)"""
    q = f.multiply_add(long_polynomial(f, r, _LOG[r.element]), r, -0.5)
    return f.multiply_add(e, math.log(2), f.multiply_add(f.fmul(r, r), q, r))


def asinh(f: FunctionBuilder, x: Reg) -> Reg:
    """asinh of each f32 lane within 4 units in the last place; ±inf, -0.0 and NaN stay."""
    a = absolute(f, x)
    is_huge = f.fcmp("ogt", a, _HUGE)
    square = f.fmul(a, a)
    root = f.intrinsic("llvm.sqrt.*", x.type, f.fadd(square, 1.0))
    y = f.select(is_huge, f.fmul(a, 0.5), f.fadd(a, f.fdiv(square, f.fadd(root, 1.0))))
    return with_sign(f, _log1p(f, y, f.select(is_huge, f.constant(x.type, 2.0), 0.0)), x)


def acosh(f: FunctionBuilder, x: Reg) -> Reg:
    """acosh of each f32 lane within 4 units in the last place; NaN below 1, +inf and NaN stay."""
    is_huge = f.fcmp("ogt", x, _HUGE)
    excess = f.fsub(x, 1.0)
    root = f.intrinsic("llvm.sqrt.*", x.type, f.fmul(excess, f.fadd(x, 1.0)))
    y = f.select(is_huge, f.fmul(x, 0.5), f.fadd(excess, root))
    result = _log1p(f, y, f.select(is_huge, f.constant(x.type, 2.0), 0.0))
    return f.select(f.fcmp("olt", x, 1.0), f.constant(x.type, math.nan), result)


def atanh(f: FunctionBuilder, x: Reg) -> Reg:
    """atanh of each f32 lane within 4 units in the last place; atanh(±1) = ±inf, NaN beyond, -0.0 and NaN stay."""
    a = absolute(f, x)
    y = f.fdiv(f.fadd(a, a), f.fsub(1.0, a))
    half = f.fmul(_log1p(f, y, 0.0), 0.5)
    return with_sign(f, f.select(f.fcmp("ogt", a, 1.0), f.constant(x.type, math.nan), half), x)


def _log1p(f: FunctionBuilder, y: Reg, twos: Float) -> Reg:
    """log(1 + y) + twos ln 2 for y >= 0."""
    total = f.fadd(y, 1.0)
    lost = f.fsub(y, f.fsub(total, 1.0))
    e, m = _split_normal(f, total)
    # m - 1 is exact; what the sum lost is scaled as m is.
    scale = as_exponent(f, f.sub(f.constant(e.type, format_of(y).bias), e))
    r = f.multiply_add(lost, scale, f.fsub(m, 1.0))
    result = _log_of_split(f, f.fadd(f.convert("sitofp", e, y.type), twos), r)
    return f.select(f.fcmp("olt", y, math.inf), result, y)
