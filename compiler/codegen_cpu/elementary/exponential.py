"""exp and the hyperbolic functions of f32.

2^t = 2^n 2^u with n = round(t) and |u| <= 1/2, and e^x the same with ln 2 as the unit. n is found by adding a number so
large that the sum has no fraction bits: it is then both a float (the sum less that number) and an integer (the low bits
of the sum).
Sources of the method: W. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980), for the reduction;
S. Moshier, Cephes 2.8, single/expf.c and tanhf.c, for the forms. The coefficients are minimax fits of our own.
"""

from compiler.codegen_cpu.elementary.lanes import (
    absolute,
    at_least,
    at_most,
    from_bits,
    multiply_add,
    polynomial,
    to_bits,
    with_sign,
)
from compiler.codegen_host.llvm_ir import FunctionBuilder
from compiler.codegen_host.llvm_values import Reg

LOG2_E = 1.4426950408889634

# ln 2 in two parts; the product of the first, of 15 bits, with any n here is exact.
_LN2_HIGH = 0.693145751953125
_LN2_LOW = 1.4286068203094173e-06

# 1.5 * 2^23: a number near it has no fraction bits, and its low bits are n + the offset that was added with it.
ROUNDING = 12582912.0

# (e^r - 1 - r) / r², minimax on [-ln 2 / 2, ln 2 / 2]: e^r within 2^-28.
_EXP = (0.4999999403953552, 0.1666652113199234, 0.04166826605796814, 0.008368683978915215, 0.001382094924338162)

# 2^u, minimax on [-1/2, 1/2] with 2^0 = 1: within 2^-28.
EXP2 = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.05550359934568405, 0.009618505835533142, 0.0013390806270763278,
    0.0001532647293061018,
)  # fmt: skip

# (tanh(x) / x - 1) / x² in x², minimax on [0, 0.625²]: tanh within 2^-27.
_TANH = (-0.3333328068256378, 0.13331405818462372, -0.05373651534318924, 0.02062816731631756, -0.0056922961957752705)
_TANH_SPLIT = 0.625


def exp(f: FunctionBuilder, x: Reg) -> Reg:
    """e^x of each lane within 1 unit in the last place; 0, subnormals and +inf where the result is; NaN stays NaN."""
    # Beyond the clamp the result is 0 or +inf already, and n is -150 to 128 within.
    x = at_least(f, at_most(f, x, 89.0), -104.0)
    offset = 154
    shifted = multiply_add(f, x, LOG2_E, ROUNDING + offset)
    n = f.fsub(shifted, ROUNDING + offset)
    r = multiply_add(f, n, -_LN2_LOW, multiply_add(f, n, -_LN2_HIGH, x))
    # 2^n is two factors whose exponents add up to n + offset - 2 * 127: it may be no normal number itself.
    scaled = polynomial(f, r, [2.0 ** (2 * 127 - offset) * c for c in (1.0, 1.0, *_EXP)])
    bits = to_bits(f, shifted)
    half = f.shl(f.lshr(bits, 1), 23)
    other_half = f.sub(f.shl(bits, 23), half)
    return f.fmul(f.fmul(scaled, from_bits(f, half)), from_bits(f, other_half))


def tanh(f: FunctionBuilder, x: Reg) -> Reg:
    """tanh of each lane within 2 units in the last place; |tanh| <= 1, tanh(±inf) = ±1, -0.0 and NaN stay.

    x + x³ P(x²) near 0, and 1 - 2 / (e^2|x| + 1) beyond.
    """
    a = absolute(f, x)
    square = f.fmul(a, a)
    near = multiply_add(f, f.fmul(square, a), polynomial(f, square, _TANH), a)
    # From 9.1 on tanh is 1.
    bounded = at_most(f, a, 10.0)
    shifted = multiply_add(f, bounded, 2 * LOG2_E, ROUNDING + 127)
    u = multiply_add(f, bounded, 2 * LOG2_E, f.fsub(ROUNDING + 127, shifted))
    sum = multiply_add(f, polynomial(f, u, EXP2), from_bits(f, f.shl(to_bits(f, shifted), 23)), 1.0)
    far = f.fadd(f.fdiv(f.constant(x.type, -2.0), sum), 1.0)
    return with_sign(f, f.select(f.fcmp("ogt", a, _TANH_SPLIT), far, near), x)
