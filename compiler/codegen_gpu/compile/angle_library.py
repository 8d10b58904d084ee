"""sin, cos and tan of f32 and f64 as functions in LLVM IR, which kernels call beside those of CUDA's library.

Those of CUDA's library keep what they reduce large operands by in an array on the stack, so that one cannot tell
from a kernel's stack whether its registers suffice. Here all is in registers. The operand is r + n π/2 with |r| at most
about π/4: reduced in steps of one rounding each where it is not large, else by the digits of 2/π that matter for its
exponent.
Sources of the methods: W. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980); M. Payne and
R. Hanek, "Radian reduction for trigonometric functions", SIGNUM 18 (1983). The coefficients of f32 are fits of our own,
those of f64 from fdlibm 5.3, k_sin.c and k_cos.c.
"""

import math
import struct
from collections.abc import Sequence

from onnxc.compiler.codegen_gpu.source.scalars import ANGLES
from onnxc.runtime.records import record

__all__ = ["LIBRARY", "angle_symbol", "uses_angles"]

# The first binary digits of 2/π behind the point.
_DIGITS = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A42"
    "4DD2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991"
    "D639835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09"
    "B74F463F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046",
    16,
)
_DIGIT_COUNT = 1184

# A mantissa is multiplied by three words: of the f64 nearest to a multiple of π/2, 2^-61 away from it, 64 digits are
# left.
_WORD = 64
_WORDS = 19

# The stored exponent of the least large operand, and the one of a whole number of 53 digits.
_LEAST_LARGE = 1023 + 17
_WHOLE = 1023 + 52


@record
class _Format:
    """A float type of LLVM.

    quarters: 2/π. rounding: what rounds to integers when it is added. bound: from which on an operand is large: n may
    be off by so much there that r leaves the range of the polynomials, or n times the first part is not exact. half_pi:
    π/2 in parts as long as the mantissa; n π/2 is near enough to the operand that its difference to n times the first
    is exact. sine, cosine: of r², minimax on [0, (π/4)²], (sin(r) / r - 1) / r² and (cos(r) - 1) / r²; f32 within
    2^-27, f64 within 2^-57.
    """

    type: str
    bits: int
    quarters: float
    rounding: float
    bound: float
    half_pi: tuple[float, float, float]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


_F32 = _Format(
    "float", 32, 0.6366197466850281, 1.5 * 2.0**23, 2.0**17,
    (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15),
    (-0.16666653752326965, 0.008332106284797192, -0.00019507882825564593),
    (-0.5, 0.04166664555668831, -0.0013887305976822972, 2.4431650672340766e-05),
)  # fmt: skip
_F64 = _Format(
    "double", 64, 0.6366197723675814, 1.5 * 2.0**52, 2.0**20,
    (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
    (
        -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
        2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
    ),
    (
        -0.5, 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
        -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
    ),
)  # fmt: skip


def uses_angles(text: str) -> bool:
    """Whether a kernel calls a function of `LIBRARY`."""
    return "angles." in text


def angle_symbol(name: str, bits: int) -> str:
    """What the function of `LIBRARY` is called that computes sin, cos or tan of a float of so many bits."""
    return f"onnxc_{name}_f{bits}"


# {double, double, i64}: r, what r is rounded by, and n with anything in the bits above the last two, of an operand that
# is large and finite. The mantissa is multiplied by the digits of 2/π times 2^exponent but for those that give whole
# turns. The first two digits of the product are before the point; n is what they are rounded to. The rest is signed and
# at most half of a quarter of a turn, 128 digits. Its magnitude is the sum of two floats.
_LARGE = """
define internal {{double, double, i64}} @onnxc_large_angle(double %a) alwaysinline {{
  %bits = bitcast double %a to i64
  %exponent = lshr i64 %bits, 52
  %place = sub i64 %exponent, {least}
  %first = lshr i64 %place, 6
  %shift = and i64 %place, 63
{words}
  %fraction = and i64 %bits, {fraction}
  %mantissa = or i64 %fraction, {hidden}
  %factor = zext i64 %mantissa to i128
  %middle = zext i64 %c1 to i128
  %last = zext i64 %c2 to i128
  %middle.product = mul i128 %factor, %middle
  %last.product = mul i128 %factor, %last
  %carried = lshr i128 %last.product, 64
  %behind = add i128 %middle.product, %carried
  %low = trunc i128 %behind to i64
  %behind.high = lshr i128 %behind, 64
  %over = trunc i128 %behind.high to i64
  %whole.product = mul i64 %mantissa, %c0
  %high = add i64 %whole.product, %over
  %halves = lshr i64 %high, 61
  %next = add i64 %halves, 1
  %n = lshr i64 %next, 1
  %left = call i64 @llvm.fshl.i64(i64 %high, i64 %low, i64 2)
  %left.low = shl i64 %low, 2
  %sign = ashr i64 %left, 63
  %most = xor i64 %left, %sign
  %least = xor i64 %left.low, %sign
  %upper = lshr i64 %most, 11
  %lower = call i64 @llvm.fshl.i64(i64 %most, i64 %least, i64 53)
  %upper.float = sitofp i64 %upper to double
  %large = fmul double %upper.float, {word}
  %small = uitofp i64 %lower to double
  %sum = fadd double %large, %small
  %kept = fsub double %sum, %large
  %lost = fsub double %small, %kept
  %r = fmul double %sum, {unit}
  %negative = fneg double %r
  %rounding = call double @llvm.fma.f64(double %sum, double {unit}, double %negative)
  %of.unit = call double @llvm.fma.f64(double %sum, double {unit_error}, double %rounding)
  %tail = call double @llvm.fma.f64(double %lost, double {unit}, double %of.unit)
  %is.negative = icmp slt i64 %sign, 0
  %r.negative = fneg double %r
  %tail.negative = fneg double %tail
  %r.signed = select i1 %is.negative, double %r.negative, double %r
  %tail.signed = select i1 %is.negative, double %tail.negative, double %tail
  %with.r = insertvalue {{double, double, i64}} poison, double %r.signed, 0
  %with.tail = insertvalue {{double, double, i64}} %with.r, double %tail.signed, 1
  %result = insertvalue {{double, double, i64}} %with.tail, i64 %n, 2
  ret {{double, double, i64}} %result
}}
"""

_WORD_OF_DIGITS = """\
  %at{i} = add i64 %first, {i}
  %pointer{i} = getelementptr [{count} x i64], ptr addrspace(1) @onnxc_two_over_pi, i64 0, i64 %at{i}
  %d{i} = load i64, ptr addrspace(1) %pointer{i}"""
_SHIFTED = "  %c{i} = call i64 @llvm.fshl.i64(i64 %d{i}, i64 %d{next}, i64 %shift)"

# {T, T, I}: the same of any operand that is at least 0; NaN of infinity.
_ANGLE = """
define internal {{{T}, {T}, {I}}} @onnxc_angle_{f}({T} %a) alwaysinline {{
near:
  %shifted = call {T} @llvm.fma.{f}({T} %a, {T} {quarters}, {T} {rounding})
  %n.near = bitcast {T} %shifted to {I}
  %turns = fsub {T} %shifted, {rounding}
  %exact = call {T} @llvm.fma.{f}({T} %turns, {T} {first}, {T} %a)
{near}
  %is.beyond = fcmp oge {T} %a, {bound}
  %is.finite = fcmp olt {T} %a, {infinity}
  %is.large = and i1 %is.beyond, %is.finite
  br i1 %is.large, label %far, label %end, !prof !0
far:
{far}
  br label %end
end:
  %r = phi {T} [%r.near, %near], [%r.far, %far]
  %tail = phi {T} [{tail_near}, %near], [{tail_far}, %far]
  %n = phi {I} [%n.near, %near], [%n.far, %far]
  %with.r = insertvalue {{{T}, {T}, {I}}} poison, {T} %r, 0
  %with.tail = insertvalue {{{T}, {T}, {I}}} %with.r, {T} %tail, 1
  %result = insertvalue {{{T}, {T}, {I}}} %with.tail, {I} %n, 2
  ret {{{T}, {T}, {I}}} %result
}}
"""

# In f32 r is rounded by half a unit, as that of CUDA's library. In f64 it is a sum of two, without rounding.
_NEAR = {
    32: """\
  %r.second = call float @llvm.fma.f32(float %turns, float {second}, float %exact)
  %r.near = call float @llvm.fma.f32(float %turns, float {third}, float %r.second)""",
    64: """\
  %part = fmul double %turns, {second}
  %r.near = fadd double %exact, %part
  %added = fsub double %r.near, %exact
  %before = fsub double %r.near, %added
  %lost.first = fsub double %exact, %before
  %lost.second = fsub double %part, %added
  %lost = fadd double %lost.first, %lost.second
  %part.negative = fneg double %part
  %of.part = call double @llvm.fma.f64(double %turns, double {second}, double %part.negative)
  %of.third = call double @llvm.fma.f64(double %turns, double {third}, double %of.part)
  %tail.near = fadd double %lost, %of.third""",
}

_FAR = {
    32: """\
  %wide = fpext float %a to double
  %parts = call {double, double, i64} @onnxc_large_angle(double %wide)
  %r.wide = extractvalue {double, double, i64} %parts, 0
  %n.wide = extractvalue {double, double, i64} %parts, 2
  %r.far = fptrunc double %r.wide to float
  %n.far = trunc i64 %n.wide to i32""",
    64: """\
  %parts = call {double, double, i64} @onnxc_large_angle(double %a)
  %r.far = extractvalue {double, double, i64} %parts, 0
  %tail.far = extractvalue {double, double, i64} %parts, 1
  %n.far = extractvalue {double, double, i64} %parts, 2""",
}

# {T, T}: sin(r + tail + n π/2), which is the sine or cosine of r + tail with the sign that the second bit of n says,
# and what it was rounded by.
_SINE = """
define internal {{{T}, {T}}} @onnxc_turned_sine_{f}({T} %r, {T} %tail, {I} %n) alwaysinline {{
  %square = fmul {T} %r, %r
  %cube = fmul {T} %square, %r
{sine}
  %sine.behind = call {T} @llvm.fma.{f}({T} %cube, {T} %sine0, {T} %tail)
{cosine}
  %turned = fneg {T} %r
  %cosine.tail = fmul {T} %turned, %tail
  %cosine.behind = call {T} @llvm.fma.{f}({T} %square, {T} %cosine0, {T} %cosine.tail)
  %odd = and {I} %n, 1
  %is.odd = icmp ne {I} %odd, 0
  %most = select i1 %is.odd, {T} {one}, {T} %r
  %behind = select i1 %is.odd, {T} %cosine.behind, {T} %sine.behind
  %half = and {I} %n, 2
  %sign = shl {I} %half, {to_sign}
  %y = fadd {T} %most, %behind
  %added = fsub {T} %y, %most
  %lost = fsub {T} %behind, %added
{signs}
  %with.y = insertvalue {{{T}, {T}}} poison, {T} %y.signed, 0
  %result = insertvalue {{{T}, {T}}} %with.y, {T} %lost.signed, 1
  ret {{{T}, {T}}} %result
}}
"""

_WITH_SIGN = """\
  %{x}.bits = bitcast {T} %{x} to {I}
  %{x}.turned = xor {I} %{x}.bits, %{sign}
  %{x}.signed = bitcast {I} %{x}.turned to {T}"""

_ENTRY = """
define {T} @{symbol}({T} %x) alwaysinline {{
  %a = call {T} @llvm.fabs.{f}({T} %x)
  %parts = call {{{T}, {T}, {I}}} @onnxc_angle_{f}({T} %a)
  %r = extractvalue {{{T}, {T}, {I}}} %parts, 0
  %tail = extractvalue {{{T}, {T}, {I}}} %parts, 1
  %n = extractvalue {{{T}, {T}, {I}}} %parts, 2
  %n.next = add {I} %n, 1
{value}
  ret {T} %{result}
}}
"""

_SINE_OF = """\
  %{name}.parts = call {{{T}, {T}}} @onnxc_turned_sine_{f}({T} %r, {T} %tail, {I} %{n})
  %{name} = extractvalue {{{T}, {T}}} %{name}.parts, 0
  %{name}.lost = extractvalue {{{T}, {T}}} %{name}.parts, 1"""

# The second quotient of f64 is of what was rounded, so that tan is 2 units off at most, as that of CUDA's library.
_QUOTIENT = {
    32: "  %y = fdiv float %sine, %cosine",
    64: """\
  %quotient = fdiv double %sine, %cosine
  %opposite = fneg double %quotient
  %left = call double @llvm.fma.f64(double %opposite, double %cosine, double %sine)
  %left.cosine = call double @llvm.fma.f64(double %opposite, double %cosine.lost, double %left)
  %left.both = fadd double %left.cosine, %sine.lost
  %correction = fdiv double %left.both, %cosine
  %y = fadd double %quotient, %correction""",
}

_SIGN_OF_X = """\
  %x.bits = bitcast {T} %x to {I}
  %sign = and {I} %x.bits, {sign_bit}"""

_DECLARATIONS = """
declare {T} @llvm.fma.{f}({T}, {T}, {T})
declare {T} @llvm.fabs.{f}({T})
"""


def _number(value: float) -> str:
    """A float as LLVM writes it exactly, of either type."""
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def _digits() -> str:
    """The table of 2/π by words. Those from `place` on, shifted by its last bits, begin two digits before the point."""
    zeros = _WHOLE + 2 - _LEAST_LARGE
    digits = _DIGITS >> (zeros + _DIGIT_COUNT - _WORDS * _WORD)
    words = [digits >> ((_WORDS - 1 - word) * _WORD) & ((1 << _WORD) - 1) for word in range(_WORDS)]
    values = ", ".join(f"i64 {word}" for word in words)
    return f"@onnxc_two_over_pi = internal addrspace(1) constant [{_WORDS} x i64] [{values}]\n"


def _large_angle() -> str:
    """The reduction of f64, which that of f32 uses too."""
    unit, unit_error, _ = _F64.half_pi
    # A unit of the sum is the last digit but 11 of 128 of a quarter of a turn.
    scale = 2.0 ** (11 - 2 * _WORD)
    loads = [_WORD_OF_DIGITS.format(i=i, count=_WORDS) for i in range(4)]
    return _LARGE.format(
        least=_LEAST_LARGE,
        words="\n".join(loads + [_SHIFTED.format(i=i, next=i + 1) for i in range(3)]),
        fraction=(1 << 52) - 1,
        hidden=1 << 52,
        word=_number(2.0**_WORD),
        unit=_number(unit * scale),
        unit_error=_number(unit_error * scale),
    )


def _angle(format: _Format) -> str:
    first, second, third = (_number(-part) for part in format.half_pi)
    return _ANGLE.format(
        **_names(format),
        quarters=_number(format.quarters),
        rounding=_number(format.rounding),
        first=first,
        near=_NEAR[format.bits].format(second=second, third=third),
        tail_near="0.0" if format is _F32 else "%tail.near",
        tail_far="0.0" if format is _F32 else "%tail.far",
        bound=_number(format.bound),
        infinity=_number(math.inf),
        far=_FAR[format.bits],
    )


def _turned_sine(format: _Format) -> str:
    return _SINE.format(
        **_names(format),
        sine=_polynomial(format, "sine", format.sine),
        cosine=_polynomial(format, "cosine", format.cosine),
        one=_number(1.0),
        to_sign=format.bits - 2,
        signs="\n".join(_WITH_SIGN.format(**_names(format), x=x, sign="sign") for x in ("y", "lost")),
    )


def _polynomial(format: _Format, name: str, coefficients: Sequence[float]) -> str:
    """Statements for `name`0, the polynomial of %square."""
    *others, last = map(_number, coefficients)
    template, lines = "  %{y} = call {T} @llvm.fma.{f}({T} {x}, {T} %square, {T} {c})", list[str]()
    for power, coefficient in reversed(list(enumerate(others))):
        lines.append(template.format(**_names(format), y=f"{name}{power}", x=last, c=coefficient))
        last = f"%{name}{power}"
    return "\n".join(lines)


def _entry(name: str, format: _Format) -> str:
    names = _names(format)
    sine, cosine = (_SINE_OF.format(**names, name=called, n=n) for called, n in (("sine", "n"), ("cosine", "n.next")))
    sign = _SIGN_OF_X.format(**names, sign_bit=1 << (format.bits - 1))
    value, result = {
        "sin": ([sine, sign, _WITH_SIGN.format(**names, x="sine", sign="sign")], "sine.signed"),
        "cos": ([cosine], "cosine"),
        "tan": (
            [sine, cosine, _QUOTIENT[format.bits], sign, _WITH_SIGN.format(**names, x="y", sign="sign")], "y.signed"
        ),
    }[name]  # fmt: skip
    return _ENTRY.format(**names, symbol=angle_symbol(name, format.bits), value="\n".join(value), result=result)


def _names(format: _Format) -> dict[str, str]:
    """What templates call the type, the integer of its width, and the type in the names of intrinsics."""
    return {"T": format.type, "I": f"i{format.bits}", "f": f"f{format.bits}"}


def _library() -> str:
    parts = [_digits(), "declare i64 @llvm.fshl.i64(i64, i64, i64)\n", _large_angle()]
    for format in (_F32, _F64):
        parts += [_DECLARATIONS.format(**_names(format)), _angle(format), _turned_sine(format)]
        parts += [_entry(name, format) for name in ANGLES]
    # Large operands are rare.
    return "".join([*parts, '\n!0 = !{!"branch_weights", i32 1, i32 1000}\n'])


LIBRARY = _library()
"""The text of the module. sin and cos of f32 are 1.6 units in the last place off at most, tan 3.5, those of f64 1.6.

NaN of infinities and NaN; sin and tan of -0.0 and of subnormal numbers are these.
"""
