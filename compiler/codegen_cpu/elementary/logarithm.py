"""log and the inverse hyperbolic functions of f32.

x = 2^e m with sqrt(1/2) <= m < sqrt(2), so that log x = e ln 2 + log m and neither part cancels the other.
Sources: the split of the bits, and the inverse hyperbolic functions by log(1 + y) with the rounding error of 1 + y kept,
are those of FreeBSD's msun, e_logf.c, s_log1pf.c, s_asinhf.c. The coefficients are minimax fits of our own.
"""

import math

from compiler.codegen_cpu.elementary.lanes import absolute, from_bits, multiply_add, polynomial, to_bits, with_sign
from compiler.codegen_host.llvm_ir import FunctionBuilder
from compiler.codegen_host.llvm_values import Float, Reg

# (log(1 + r) - r + r²/2) / r³, minimax on [sqrt(1/2) - 1, sqrt(2) - 1]: log(1 + r) within 2^-27.
_LOG = (
    0.3333333134651184, -0.2500081956386566, 0.2000124156475067, -0.1662341058254242,
    0.14201585948467255, -0.13159598410129547, 0.12762142717838287, -0.07636363059282303,
)  # fmt: skip

_SQRT_HALF_BITS = 0x3F3504F3
LEAST_NORMAL = 2.0**-126

# Squares of far larger numbers are not finite, and from here on asinh x = acosh x = log 2x = log(1 + x/2) + 2 ln 2.
_HUGE = 2.0**30


def log(f: FunctionBuilder, x: Reg) -> Reg:
    """The natural logarithm of each lane within 1 unit in the last place; log(±0) = -inf, NaN below 0 and of NaN."""
    is_subnormal = f.fcmp("olt", x, LEAST_NORMAL)
    scaled = f.fmul(x, 2.0**23)
    e, m = split_float(f, to_bits(f, f.select(is_subnormal, scaled, x)))
    e = f.fadd(f.convert("sitofp", e, x.type), f.select(is_subnormal, f.constant(x.type, -23.0), 0.0))
    result = _log_of_split(f, e, f.fsub(from_bits(f, m), 1.0))
    # `scaled` is +inf or the quiet NaN where x is.
    result = f.select(f.fcmp("olt", x, math.inf), result, scaled)
    pole = f.select(f.fcmp("oeq", x, 0.0), f.constant(x.type, -math.inf), math.nan)
    return f.select(f.fcmp("ole", x, 0.0), pole, result)


def split_float(f: FunctionBuilder, bits: Reg) -> tuple[Reg, Reg]:
    """(e, the bits of m) of the positive normal number 2^e m with these bits, sqrt(1/2) <= m < sqrt(2)."""
    e = f.ashr(f.sub(bits, _SQRT_HALF_BITS), 23)
    return e, f.sub(bits, f.shl(e, 23))


def _log_of_split(f: FunctionBuilder, e: Reg, r: Reg) -> Reg:
    """e ln 2 + log(1 + r)"""
    q = multiply_add(f, polynomial(f, r, _LOG), r, -0.5)
    return multiply_add(f, e, math.log(2), multiply_add(f, f.fmul(r, r), q, r))


def asinh(f: FunctionBuilder, x: Reg) -> Reg:
    """asinh of each lane within 4 units in the last place; ±inf, -0.0 and NaN stay."""
    a = absolute(f, x)
    is_huge = f.fcmp("ogt", a, _HUGE)
    square = f.fmul(a, a)
    root = f.intrinsic("llvm.sqrt.*", x.type, f.fadd(square, 1.0))
    y = f.select(is_huge, f.fmul(a, 0.5), f.fadd(a, f.fdiv(square, f.fadd(root, 1.0))))
    return with_sign(f, _log1p(f, y, f.select(is_huge, f.constant(x.type, 2.0), 0.0)), x)


def acosh(f: FunctionBuilder, x: Reg) -> Reg:
    """acosh of each lane within 4 units in the last place; NaN below 1, +inf and NaN stay."""
    is_huge = f.fcmp("ogt", x, _HUGE)
    excess = f.fsub(x, 1.0)
    root = f.intrinsic("llvm.sqrt.*", x.type, f.fmul(excess, f.fadd(x, 1.0)))
    y = f.select(is_huge, f.fmul(x, 0.5), f.fadd(excess, root))
    result = _log1p(f, y, f.select(is_huge, f.constant(x.type, 2.0), 0.0))
    return f.select(f.fcmp("olt", x, 1.0), f.constant(x.type, math.nan), result)


def atanh(f: FunctionBuilder, x: Reg) -> Reg:
    """atanh of each lane within 4 units in the last place; atanh(±1) = ±inf, NaN beyond, -0.0 and NaN stay."""
    a = absolute(f, x)
    y = f.fdiv(f.fadd(a, a), f.fsub(f.constant(x.type, 1.0), a))
    half = f.fmul(_log1p(f, y, 0.0), 0.5)
    return with_sign(f, f.select(f.fcmp("ogt", a, 1.0), f.constant(x.type, math.nan), half), x)


def _log1p(f: FunctionBuilder, y: Reg, more: Float) -> Reg:
    """log(1 + y) + more ln 2 for y >= 0."""
    total = f.fadd(y, 1.0)
    lost = f.fsub(y, f.fsub(total, 1.0))
    bits = to_bits(f, total)
    e, m = split_float(f, bits)
    # m - 1 is exact; what the sum lost is scaled as m is.
    scale = from_bits(f, f.sub(f.constant(bits.type, 127 << 23), f.shl(e, 23)))
    r = multiply_add(f, lost, scale, f.fsub(from_bits(f, m), 1.0))
    result = _log_of_split(f, f.fadd(f.convert("sitofp", e, y.type), more), r)
    return f.select(f.fcmp("olt", y, math.inf), result, y)
