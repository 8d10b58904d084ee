"""exp, sigmoid and tanh of f32 and f64, sinh and cosh of f32.

2^t = 2^n 2^u with n = round(t) and |u| <= 1/2, and e^x the same with ln 2 as the unit. n comes of adding a constant so
large that the sum has no fraction bits: it is then a float (the sum less that constant) and an integer (the low bits of
the sum).
Sources of the method: W. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980), for the reduction;
S. Moshier, Cephes 2.8, single/expf.c and tanhf.c, for the forms. The coefficients are minimax fits of our own.
"""

import math
from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.elementary.lanes import (
    FLOAT,
    absolute,
    as_exponent,
    at_least,
    at_most,
    format_of,
    from_bits,
    polynomial,
    to_bits,
    with_sign,
)
from onnxc.compiler.codegen_cpu.elementary.roots_of_two import ROOT_BITS, has_roots, root_of_two
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.runtime.records import record

LOG2_E = math.log2(math.e)


@record
class _Exp:
    """exp of a format.

    low, high: where the result has become 0 and inf. offset: even, and positive when added to n, which is
    round(low / ln 2) at least. ln2_high: ln 2 to so few bits that its product with any n is exact; ln2_low: the rest.
    coefficients: (e^r - 1 - r) / r², minimax on [-ln 2 / 2, ln 2 / 2].
    """

    low: float
    high: float
    offset: int
    ln2_high: float
    ln2_low: float
    coefficients: tuple[float, ...]

    def scaled_unit(self, bias: int) -> float:
        """What `scale_by_power` leaves to be multiplied with."""
        return 2.0 ** (2 * bias - self.offset)


# e^r is within 2^-28 and 2^-57.
_EXP = {
    "float": _Exp(
        -104.0, 89.0, 154, 0.693145751953125, 1.4286068203094173e-06,
        (0.4999999403953552, 0.1666652113199234, 0.04166826605796814, 0.008368683978915215, 0.001382094924338162),
    ),
    "double": _Exp(
        -746.0, 710.0, 1080, 0.6931471805598903, 5.497923018708371e-14,
        (
            0.5000000000000011, 0.1666666666666649, 0.04166666666652874, 0.008333333333452828, 0.0013888888943737977,
            0.0001984126958274811, 2.4801493115768896e-05, 2.7557527419869886e-06, 2.7630217048618255e-07,
            2.5016604563048196e-08,
        ),
    ),
}  # fmt: skip

EXP2 = {
    "float": (
        1.0, 0.6931471824645996, 0.24022647738456726, 0.05550359934568405, 0.009618505835533142,
        0.0013390806270763278, 0.0001532647293061018,
    ),
    "double": (
        1.0, 0.6931471805599453, 0.2402265069591007, 0.05550410866482349, 0.009618129107629872, 0.001333355814598562,
        0.00015403530390339216, 1.525273422844532e-05, 1.3215489530781074e-06, 1.0177901656713253e-07,
        7.053821297220029e-09, 4.4785106678591184e-10, 2.7281877229703713e-11,
    ),
}  # fmt: skip
"""2^u in u, minimax on [-1/2, 1/2] with 2^0 = 1: within 2^-28 and 2^-59."""

_NEAR_ONE = (1.0, 0.5000162124633789, 0.16667057573795319)
"""(e^r - 1) / r in r, minimax on [-ln 2 / 32, ln 2 / 32]: e^r within 2^-29."""

_NEAR_ONE_EXP2 = (0.6931471824645996, 0.24023428559303284, 0.05550595000386238)
"""(2^u - 1) / u in u, minimax on [-1/32, 1/32]: 2^u within 2^-29."""

# Here tanh is 1 after rounding, and has been for a while.
_TANH_BOUND = {"float": 10.0, "double": 20.0}

# (sinh(x) / x - 1) / x² in x², minimax on [0, 1]: sinh within 2^-25.
_SINH = (0.1666671633720398, 0.008330270648002625, 0.00020373340521473438)


def exp(f: FunctionBuilder, x: Reg) -> Reg:
    """e^x of each lane, f32 within 1 and f64 within 2 units in the last place; NaN stays.

    The result is 0, subnormal or +inf where it should be.
    """
    format, table = format_of(x), _EXP[x.element]
    x = at_least(f, at_most(f, x, table.high), table.low)
    rounding = format.rounding + table.offset
    shifted = f.multiply_add(x, LOG2_E, rounding)
    n = f.fsub(shifted, rounding)
    if x.type == _SCALED_TYPE and _SCALED_FEATURE in f.features:
        return _scaled(f, _exp_of_reduced(f, x, n, 1.0), n)
    return scale_by_power(f, _exp_of_reduced(f, x, n, table.scaled_unit(format.bias)), to_bits(f, shifted))


_SCALED_TYPE, _SCALED_FEATURE = "<16 x float>", "avx512f"


def _scaled(f: FunctionBuilder, x: Reg, n: Reg) -> Reg:
    """x 2^n, rounded once, by the instruction for it: exp takes 14 instructions in place of 18, with the same bits."""
    every_lane, rounding = f.constant("i16", -1), f.constant("i32", _CURRENT_ROUNDING)
    return f.call("llvm.x86.avx512.mask.scalef.ps.512", x.type, x, n, f.constant(x.type, 0), every_lane, rounding)


_CURRENT_ROUNDING = 4
"""What instructions of AVX-512 call the rounding that is in force."""


_NO_POWER = {"float": -88.0, "double": -709.0}
"""Here n is -bias, whose power of two is 0 as a number's exponent is written."""

_LEAST_NORMAL_POWER = -87.33654
"""The least f32 whose exponential is normal."""


def normal_exp(f: FunctionBuilder, x: Reg) -> Reg:
    """e^x for x <= 0 within 1 + |x| / 20 units in the last place, f64 within 2; 0 where it is subnormal; NaN stays.

    For weights of a softmax, whose sum is at least 1. Finite masks of exporters make subnormal ones, and products of
    these take a processor a hundred times as long: swin_tiny took 203 ms with them and 156 ms without. Of numbers whose
    exponent is rounded up to that of a normal one a few are subnormal.
    """
    format, table = format_of(x), _EXP[x.element]
    if has_roots(f, x):
        rounding = format.rounding / 2**ROOT_BITS
        shifted = f.multiply_add(x, LOG2_E, rounding)
        r = _nearly_reduced(f, x, f.fsub(shifted, rounding), 1)
        power = _times_root(f, r, _NEAR_ONE, shifted)
        return f.select(f.fcmp("olt", x, _LEAST_NORMAL_POWER), 0.0, power)
    x = at_least(f, x, _NO_POWER[x.element])
    rounding = format.rounding + format.bias
    shifted = f.multiply_add(x, LOG2_E, rounding)
    r = _nearly_reduced(f, x, f.fsub(shifted, rounding), 1)
    return f.fmul(polynomial(f, r, (1.0, 1.0, *table.coefficients)), as_exponent(f, to_bits(f, shifted)))


def normal_exp2(f: FunctionBuilder, x: Reg) -> Reg:
    """2^x for x <= 0 within a unit in the last place, f64 within 2; 0 where it is subnormal; NaN stays.

    As `normal_exp`, but nothing is reduced by ln 2.
    """
    format = format_of(x)
    if has_roots(f, x):
        rounding = format.rounding / 2**ROOT_BITS
        shifted = f.fadd(x, rounding)
        u = f.fsub(x, f.fsub(shifted, rounding))
        power = _times_root(f, u, _NEAR_ONE_EXP2, shifted)
        return f.select(f.fcmp("olt", x, 1.0 - format.bias), 0.0, power)
    x = at_least(f, x, -float(format.bias))
    rounding = format.rounding + format.bias
    shifted = f.fadd(x, rounding)
    u = f.fsub(x, f.fsub(shifted, rounding))
    return f.fmul(polynomial(f, u, EXP2[x.element]), as_exponent(f, to_bits(f, shifted)))


def _times_root(f: FunctionBuilder, r: Reg, slope: Sequence[float], shifted: Reg) -> Reg:
    """(1 + r slope(r)) 2^(n / 16) for the n in the low bits of `shifted`."""
    root = root_of_two(f, to_bits(f, shifted))
    return f.multiply_add(f.fmul(root, r), polynomial(f, r, slope), root)


_SIGMOID_BOUNDS = {"float": (-88.0, 86.6), "double": (-709.0, 707.9)}
"""Up to the first, 2^(1 + n) is +inf as a number's exponent is written; from the second on e^-x + 1 is 1."""


def sigmoid(f: FunctionBuilder, x: Reg) -> Reg:
    """1 / (1 + e^-x) within 2 units in the last place, but 0 where that is subnormal; NaN stays.

    Gates that are far from 0 make subnormal numbers, which take a processor a hundred times as long, and so does what
    multiplies by them: tf_efficientnetv2_s with random weights took 76 ms with them and 54 ms without. e^-x is +inf
    where its reciprocal were subnormal, or nearly so, and stops falling where 1 + e^-x has long been 1.
    """
    format, table, (low, high) = format_of(x), _EXP[x.element], _SIGMOID_BOUNDS[x.element]
    x = at_most(f, at_least(f, x, low), high)
    rounding = format.rounding + format.bias + 1
    shifted = f.multiply_add(x, -LOG2_E, rounding)
    n = f.fsub(shifted, rounding)
    r = f.multiply_add(n, table.ln2_low, f.multiply_add(n, table.ln2_high, x))
    half = polynomial(f, r, [(-1.0) ** k * c / 2 for k, c in enumerate((1.0, 1.0, *table.coefficients))])
    return f.fdiv(1.0, f.multiply_add(half, as_exponent(f, to_bits(f, shifted)), 1.0))


def scale_by_power(f: FunctionBuilder, x: Reg, n: Reg) -> Reg:
    """x 2^k, rounded once, for the integers n = k + 2 bias in the low bits, whose k need be no exponent of a number.

    Two factors with exponents that add up to k.
    """
    half = f.lshr(n, 1)
    return f.fmul(f.fmul(x, as_exponent(f, half)), as_exponent(f, f.sub(n, half)))


def scaled_exp2_f32(f: FunctionBuilder, u: Reg, n: Reg) -> Reg:
    """2^(u + n) for |u| <= 1/2 in f32 and the integers n + EXP2_OFFSET in the low bits, n from -150 to 128."""
    unit = _EXP["float"].scaled_unit(FLOAT.bias)
    return scale_by_power(f, polynomial(f, u, [unit * c for c in EXP2["float"]]), n)


EXP2_OFFSET = _EXP["float"].offset


def tanh(f: FunctionBuilder, x: Reg) -> Reg:
    """tanh of each lane within 2 units in the last place; |tanh| <= 1, tanh(±inf) = ±1, -0.0 and NaN stay.

    h / (h + 1) where h = (e^2|x| - 1) / 2 = 2^n (e^2r - 1) / 2 + (2^n - 1) / 2, of which near 0 only e^2r - 1 is left.
    There h - h (h / (h + 1)) is nearer, as the sum h + 1 is rounded. In f64, reduced less exactly, that alone is 2.2
    units off in the worst case; with what h has lost in its rounding, 1 / (h + 1)^2 of it in the result, 1.93.
    """
    format, table, a = format_of(x), _EXP[x.element], absolute(f, x)
    bounded = at_most(f, a, _TANH_BOUND[x.element])
    rounding = format.rounding + format.bias
    shifted = f.multiply_add(bounded, 2 * LOG2_E, rounding)
    n = f.fsub(shifted, rounding)
    r = _nearly_reduced(f, bounded, n, 2)
    beyond = polynomial(f, r, [2.0 ** (k + 1) * c for k, c in enumerate(table.coefficients)])
    near = f.multiply_add(f.fmul(r, r), beyond, r)
    power = as_exponent(f, to_bits(f, shifted))
    whole = f.multiply_add(power, 0.5, -0.5)
    half = f.multiply_add(power, near, whole)
    ratio = f.fdiv(half, f.fadd(half, 1.0))
    if x.element == "double":
        lost = f.multiply_add(power, near, f.fsub(whole, half))
        rest = f.fsub(1.0, ratio)
        nearer = f.fadd(half, f.multiply_add(f.fneg(half), ratio, f.fmul(f.fmul(rest, rest), lost)))
    else:
        nearer = f.multiply_add(f.fneg(half), ratio, half)
    return from_bits(
        f, f.or_(to_bits(f, f.select(f.fcmp("olt", half, 0.5), nearer, ratio)), f.xor(to_bits(f, x), to_bits(f, a)))
    )


def sinh(f: FunctionBuilder, x: Reg) -> Reg:
    """sinh of each f32 lane within 2 units in the last place; ±inf only where the result is beyond f32; NaN stays."""
    a = absolute(f, x)
    square = f.fmul(a, a)
    near = f.multiply_add(f.fmul(square, a), polynomial(f, square, _SINH), a)
    quarter = _quarter_of_exp(f, a)
    far = f.multiply_add(quarter, 2.0, f.fdiv(-0.125, quarter))
    return with_sign(f, f.select(f.fcmp("ogt", a, 1.0), far, near), x)


def cosh(f: FunctionBuilder, x: Reg) -> Reg:
    """cosh of each f32 lane within 2 units in the last place; +inf only where the result is beyond f32; NaN stays."""
    quarter = _quarter_of_exp(f, absolute(f, x))
    return f.multiply_add(quarter, 2.0, f.fdiv(0.125, quarter))


def _quarter_of_exp(f: FunctionBuilder, a: Reg) -> Reg:
    """e^a / 4 for a >= 0, finite wherever sinh and cosh are, and too large for them beyond."""
    a = at_most(f, a, 89.5)
    rounding = FLOAT.rounding + FLOAT.bias - 2
    shifted = f.multiply_add(a, LOG2_E, rounding)
    power = _exp_of_reduced(f, a, f.fsub(shifted, rounding), 1.0)
    return f.fmul(power, as_exponent(f, to_bits(f, shifted)))


def _nearly_reduced(f: FunctionBuilder, x: Reg, n: Reg, divisor: int) -> Reg:
    """x - n ln 2 / divisor. In f32 by one fused step: ln 2 lies so near a number that n of them are 2e-9 n off."""
    if x.element == "float" and "fma" in f.features:
        return f.multiply_add(n, -math.log(2) / divisor, x)
    table = _EXP[x.element]
    return f.multiply_add(n, -table.ln2_low / divisor, f.multiply_add(n, -table.ln2_high / divisor, x))


def _exp_of_reduced(f: FunctionBuilder, x: Reg, n: Reg, unit: float) -> Reg:
    """unit * e^(x - n ln 2), whose exponent is at most about ln 2 / 2."""
    table = _EXP[x.element]
    r = f.multiply_add(n, -table.ln2_low, f.multiply_add(n, -table.ln2_high, x))
    return polynomial(f, r, [unit * c for c in (1.0, 1.0, *table.coefficients)])
