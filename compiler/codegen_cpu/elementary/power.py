"""pow of f32: 2^(y log2 |x|) with the exponent in f64, and the special cases of C99 (annex F.10.4.4).

The coefficients are minimax fits of our own.
"""

import math

from onnxc.compiler.codegen_cpu.elementary.exponential import EXP2_OFFSET, scaled_exp2_f32
from onnxc.compiler.codegen_cpu.elementary.lanes import (
    DOUBLE,
    absolute,
    at_least,
    at_most,
    long_polynomial,
    to_bits,
    with_sign,
)
from onnxc.compiler.codegen_cpu.elementary.logarithm import split_positive
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, vector_type

# log2(1 + r) / r, minimax on [sqrt(1/2) - 1, sqrt(2) - 1]: log2(1 + r) within 2^-32 of itself, so that an exponent
# of up to 128 is within 2^-25, and the power within 2^-25 of itself.
_LOG2 = (
    1.4426950409394053, -0.7213475252125694, 0.4808983207215593, -0.36067280059413787,
    0.28854064399535323, -0.24050417245533368, 0.20609624413190383, -0.17904697271063286,
    0.15900166789710599, -0.15698227360583256, 0.15485662501943762, -0.08634492289202444,
)  # fmt: skip


def pow(f: FunctionBuilder, x: Reg, y: Reg) -> Reg:
    """x^y of each lane within 1 unit in the last place; NaN for a negative x and a y that is no integer."""
    magnitude = _exp2(f, f.fmul(_widened(f, y), _log2(f, absolute(f, x))))
    is_integer = f.fcmp("oeq", y, _truncated(f, y))
    half = f.fmul(y, 0.5)
    is_odd = f.and_(is_integer, f.fcmp("one", half, _truncated(f, half)))
    result = f.select(is_odd, with_sign(f, magnitude, x), magnitude)
    is_finite_negative = f.and_(f.fcmp("olt", x, 0.0), f.fcmp("ogt", x, -math.inf))
    is_invalid = f.and_(is_finite_negative, f.fcmp("one", y, _truncated(f, y)))
    result = f.select(is_invalid, f.constant(x.type, math.nan), result)
    return f.select(_is_one(f, x, y), f.constant(x.type, 1.0), result)


def _is_one(f: FunctionBuilder, x: Reg, y: Reg) -> Reg:
    """x^0 and 1^y, NaN or not, and (-1)^±inf."""
    is_unit = f.fcmp("oeq", absolute(f, x), 1.0)
    always = f.or_(f.fcmp("oeq", x, 1.0), f.fcmp("oeq", absolute(f, y), math.inf))
    return f.or_(f.fcmp("oeq", y, 0.0), f.and_(is_unit, always))


def _log2(f: FunctionBuilder, a: Reg) -> Reg:
    """log2 of a >= 0 in f64; NaN stays."""
    e, m = split_positive(f, a)
    r = _widened(f, f.fsub(m, 1.0))
    result = f.multiply_add(long_polynomial(f, r, _LOG2), r, f.convert("sitofp", e, r.type))
    pole = f.select(f.fcmp("oeq", a, 0.0), f.constant(a.type, -math.inf), a)
    is_positive = f.and_(f.fcmp("ogt", a, 0.0), f.fcmp("olt", a, math.inf))
    return f.select(is_positive, result, _widened(f, pole))


def _exp2(f: FunctionBuilder, t: Reg) -> Reg:
    """2^t in f32 for t in f64; NaN stays."""
    # The results at the ends of the clamp are 0 and +inf.
    t = at_least(f, at_most(f, t, 128.5), -150.5)
    rounding = DOUBLE.rounding + EXP2_OFFSET
    shifted = f.fadd(t, rounding)
    u = f.convert("fptrunc", f.fsub(t, f.fsub(shifted, rounding)), vector_type("float", t.lanes))
    return scaled_exp2_f32(f, u, f.convert("trunc", to_bits(f, shifted), vector_type("i32", t.lanes)))


def _widened(f: FunctionBuilder, x: Reg) -> Reg:
    return f.convert("fpext", x, vector_type("double", x.lanes))


def _truncated(f: FunctionBuilder, x: Reg) -> Reg:
    return f.intrinsic("llvm.trunc.*", x.type, x)
