"""sin and cos of f32 and f64, and tan of f32, for every finite operand.

The operand is r + n π/2 with |r| at most about π/4: reduced in three steps of one rounding each where it is not large,
else, f32 by the digits of 2/π that matter for its exponent, lane by lane, and f64 by the C library. Networks hardly
ever have such operands.
Sources of the methods: W. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980); M. Payne and
R. Hanek, "Radian reduction for trigonometric functions", SIGNUM 18 (1983). The coefficients of f32 are fits of our own,
those of f64 from fdlibm 5.3, k_sin.c and k_cos.c.
"""

import math
from collections.abc import Callable

from onnxc.compiler.codegen_cpu.elementary.lanes import (
    absolute,
    any_lane,
    format_of,
    from_bits,
    polynomial,
    rounded_once,
    to_bits,
)
from onnxc.compiler.codegen_cpu.elementary.library import call_per_lane
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg

# In r², minimax on [0, (π/4)²]: (sin(r) / r - 1) / r² and (cos(r) - 1) / r² with sin and cos within 2^-27, and
# (tan(r) / r - 1) / r² with tan within 2^-25. Those of f64 within 2^-57.
_SIN = {
    "float": (-0.16666653752326965, 0.008332106284797192, -0.00019507882825564593),
    "double": (
        -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
        2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
    ),
}  # fmt: skip
_COS = {
    "float": (-0.5, 0.04166664555668831, -0.0013887305976822972, 2.4431650672340766e-05),
    "double": (
        -0.5, 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
        -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
    ),
}  # fmt: skip
_TAN = (
    0.33333146572113037, 0.13339070975780487, 0.053388386964797974,
    0.024513201788067818, 0.0029846355319023132, 0.009466616436839104,
)  # fmt: skip

# π/2 in parts as long as the mantissa. n π/2 is near enough to x that x - n * the first is exact; what is left rounds
# relative to r.
_HALF_PI = {
    "float": (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15),
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
}

# Above it n may be off by so much that r leaves the range of the polynomials, or n times the first part is not exact.
_FAST_BOUND = {"float": 2.0**17, "double": 2.0**20}

# The first 232 binary digits of 1 / 2π.
_DIGITS = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7
_DIGIT_COUNT = 232


def sin(f: FunctionBuilder, x: Reg) -> Reg:
    """sin of each lane within 2 units in the last place; |sin| <= 1, sin(±inf) is NaN, -0.0 and NaN stay."""

    def small(a: Reg) -> Reg:
        r, n = _reduce(f, a)
        return _flip_sign(f, _sin_of_reduced(f, r, n), f.xor(_second_bit_to_sign(f, n), to_bits(f, x)))

    return _of_any(f, "sin", x, small)


def cos(f: FunctionBuilder, x: Reg) -> Reg:
    """cos of each lane within 2 units in the last place; |cos| <= 1, cos(±inf) is NaN and NaN stays."""

    def small(a: Reg) -> Reg:
        r, n = _reduce(f, a)
        n = f.add(n, 1)
        return _flip_sign(f, _sin_of_reduced(f, r, n), _second_bit_to_sign(f, n))

    return _of_any(f, "cos", x, small)


def _of_any(f: FunctionBuilder, name: str, x: Reg, small: Callable[[Reg], Reg]) -> Reg:
    """small(|x|), and of lanes of f64 that are large or no numbers what the C library says."""
    a = absolute(f, x)
    if x.element == "float":
        return small(a)
    is_small = f.fcmp("olt", a, _FAST_BOUND["double"])
    result = small(f.select(is_small, a, 0.0))

    def large() -> tuple[Reg]:
        return (f.select(is_small, result, call_per_lane(f, name, x)),)

    is_any_large = any_lane(f, f.xor(is_small, f.constant(is_small.type, 1)))
    return f.if_(is_any_large, large, lambda: (result,))[0]


def tan(f: FunctionBuilder, x: Reg) -> Reg:
    """tan of each lane within 4 units in the last place; tan(±inf) is NaN, -0.0 and NaN stay."""
    r, n = _reduce(f, absolute(f, x))
    square = f.fmul(r, r)
    tangent = f.multiply_add(f.fmul(square, r), polynomial(f, square, _TAN), r)
    is_odd = _is_odd(f, n)
    quotient = f.fdiv(f.select(is_odd, -1.0, tangent), f.select(is_odd, tangent, 1.0))
    return _flip_sign(f, quotient, to_bits(f, x))


def _sin_of_reduced(f: FunctionBuilder, r: Reg, n: Reg) -> Reg:
    """sin(r + n π/2) but for its sign: that of sin r or cos r, by n."""
    square = f.fmul(r, r)
    sine = f.multiply_add(f.fmul(square, r), polynomial(f, square, _SIN[r.element]), r)
    cosine = f.multiply_add(square, polynomial(f, square, _COS[r.element]), 1.0)
    return f.select(_is_odd(f, n), cosine, sine)


def _is_odd(f: FunctionBuilder, n: Reg) -> Reg:
    return f.icmp("ne", f.and_(n, f.constant(n.type, 1)), 0)


def _second_bit_to_sign(f: FunctionBuilder, n: Reg) -> Reg:
    """The bit of two quarters of a turn where the sign is."""
    return f.shl(n, {"i32": 30, "i64": 62}[n.element])


def _flip_sign(f: FunctionBuilder, x: Reg, sign: Reg) -> Reg:
    """x, negated where the first bit of `sign` is set."""
    first = f.constant(sign.type, {"i32": 1 << 31, "i64": 1 << 63}[sign.element])
    return from_bits(f, f.xor(to_bits(f, x), f.and_(sign, first)))


def _reduce(f: FunctionBuilder, a: Reg) -> tuple[Reg, Reg]:
    """(r, n mod 4, with anything in the bits above) of each lane of `a` >= 0; f64 that is not large."""
    rounding = format_of(a).rounding
    shifted = f.multiply_add(a, 2 / math.pi, rounding)
    multiple = f.fsub(shifted, rounding)
    r, n = a, to_bits(f, shifted)
    for part in _HALF_PI[a.element]:
        r = rounded_once(f, multiple, -part, r)
    if a.element == "double":
        return r, n
    is_large = f.fcmp("oge", a, _FAST_BOUND["float"])

    def reduce_large() -> tuple[Reg, Reg]:
        large_r, large_n = _reduce_lanes(f, a)
        large_r = f.select(f.fcmp("oeq", a, math.inf), f.constant(a.type, math.nan), large_r)
        return f.select(is_large, large_r, r), f.select(is_large, large_n, n)

    r, n = f.if_(any_lane(f, is_large), reduce_large, lambda: (r, n))
    return r, n


def _reduce_lanes(f: FunctionBuilder, a: Reg) -> tuple[Reg, Reg]:
    """The same for every finite lane from 1/64 on; anything for the others."""
    bits = to_bits(f, a)
    if a.lanes == 1:
        return _reduce_by_digits(f, bits)

    def reduce_lane(lane: Reg, r: Reg, n: Reg) -> tuple[Int, Int]:
        lane_r, lane_n = _reduce_by_digits(f, f.extract(bits, lane))
        return f.insert(r, lane_r, lane), f.insert(n, lane_n, lane)

    r, n = f.loop(0, a.lanes, 1, reduce_lane, (a, bits))
    return r, n


def _reduce_by_digits(f: FunctionBuilder, bits: Reg) -> tuple[Reg, Reg]:
    """(r, n) of the float with these bits, m 2^(e - 150): turns are m times the digits of 1 / 2π, without the whole."""
    mantissa = f.or_(f.and_(bits, f.constant("i32", 0x7FFFFF)), 0x800000)
    exponent = f.umin(f.umax(f.lshr(bits, 23), 144), 254)
    # Of the digits times 2^(e - 150), 128 behind the point; those before it give whole turns.
    shift = f.sub(_DIGIT_COUNT - 128 + 150, exponent)
    digits = f.lshr(f.constant("i256", _DIGITS), f.convert("zext", shift, "i256"))
    product = f.mul(f.convert("trunc", digits, "i128"), f.convert("zext", mantissa, "i128"))
    turns = f.convert("trunc", f.lshr(product, 64), "i64")
    n = f.lshr(f.add(turns, 1 << 61), 62)
    rest = f.convert("sitofp", f.shl(turns, 2), "double")
    r = f.convert("fptrunc", f.fmul(rest, math.pi / 2 / 2**64), "float")
    return r, f.convert("trunc", n, "i32")
