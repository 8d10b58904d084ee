"""What the elementary functions are written with: formats, polynomials, bits of floats, selections that keep NaN.

Everything holds for a scalar and for a vector of any number of lanes, and gives the same bits for both.
"""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Float, Reg, vector_type
from onnxc.runtime.records import record


@record
class Format:
    """The layout of a float: its name as an element type, and that of the integer of the same width."""

    name: str
    integer: str
    mantissa_bits: int
    bias: int

    @property
    def rounding(self) -> float:
        """A number near it has no fraction bits, and n more than it has n in the low bits."""
        return 1.5 * 2.0**self.mantissa_bits

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FLOAT = Format("float", "i32", 23, 127)
DOUBLE = Format("double", "i64", 52, 1023)

_FORMATS = {key: format for format in (FLOAT, DOUBLE) for key in (format.name, format.integer)}


def format_of(x: Reg) -> Format:
    """The format of a register of floats, or of their bits."""
    return _FORMATS[x.element]


def to_bits(f: FunctionBuilder, x: Reg) -> Reg:
    return f.convert("bitcast", x, vector_type(format_of(x).integer, x.lanes))


def from_bits(f: FunctionBuilder, x: Reg) -> Reg:
    return f.convert("bitcast", x, vector_type(format_of(x).name, x.lanes))


def as_exponent(f: FunctionBuilder, n: Reg) -> Reg:
    """2^k for the integers k + bias in the low bits of `n`, of a normal number."""
    return from_bits(f, f.shl(n, format_of(n).mantissa_bits))


def polynomial(f: FunctionBuilder, x: Reg, coefficients: Sequence[float]) -> Reg:
    """c[0] + c[1] x + c[2] x² + …, by Horner's rule: the fewest instructions, as iterations overlap anyway."""
    *rest, last = coefficients
    result: Float = last
    for coefficient in reversed(rest):
        result = f.multiply_add(x, result, f.constant_operand(x.type, coefficient))
    assert isinstance(result, Reg), coefficients
    return result


_LONG = 10
"""So many coefficients are worth it. us of f32[200704] as a chain of even and one of odd powers, and so, code for
AVX-512 and for AVX2 on one core of Zen 5: gelu 38, 33, 84, 77; pow 151, 147, 327, 317; f64 erf 188, 163; log 102, 99.
As one chain of all gelu took 45 and 98. With seven coefficients erf of f32 takes 43, 45, 87, 90 as one and as two.
"""


def long_polynomial(f: FunctionBuilder, x: Reg, coefficients: Sequence[float]) -> Reg:
    """As `polynomial`; many are one in x⁴ of cubic ones, as a processor waits for a chain of all. x⁴ must be finite.

    That rounds otherwise: exp and tanh of f64 would be more than 2 units in the last place off.
    Source of the method: G. Estrin, "Organization of computer systems" (1960).
    """
    if len(coefficients) < _LONG:
        return polynomial(f, x, coefficients)
    square = f.fmul(x, x)
    terms = _in_pairs(f, square, _in_pairs(f, x, [f.constant_operand(x.type, each) for each in coefficients]))
    fourth, (*rest, result) = f.fmul(square, square), terms
    for term in reversed(rest):
        result = f.multiply_add(fourth, result, term)
    return result


def _in_pairs(f: FunctionBuilder, x: Reg, terms: Sequence[Reg]) -> Sequence[Reg]:
    """The terms of a polynomial in x² for those of one in x."""
    pairs = [f.multiply_add(x, high, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
    return [*pairs, *terms[len(pairs) * 2 :]]


def rounded_once(f: FunctionBuilder, a: Reg, b: float, c: Reg) -> Reg:
    """a * b + c, rounded once; without the instruction f32 by way of f64, which rounds one result in 2^29 twice.

    The instruction would be a call of the C library for each lane, and cos of f32[128, 768] take 372 us and not 139.
    """
    if a.element == DOUBLE.name or not f.features or f.features & {"fma", "neon"}:
        return f.fma(a, b, c)
    wide = vector_type(DOUBLE.name, a.lanes)
    x, y = (f.convert("fpext", each, wide) for each in (a, c))
    return f.convert("fptrunc", f.fadd(f.fmul(x, float(np.float32(b))), y), a.type)


def at_most(f: FunctionBuilder, x: Reg, bound: float) -> Reg:
    """The smaller of both; NaN stays."""
    return f.select(f.fcmp("ogt", x, bound), bound, x)


def at_least(f: FunctionBuilder, x: Reg, bound: float) -> Reg:
    """The larger of both; NaN stays."""
    return f.select(f.fcmp("olt", x, bound), bound, x)


def absolute(f: FunctionBuilder, x: Reg) -> Reg:
    return f.intrinsic("llvm.fabs.*", x.type, x)


def with_sign(f: FunctionBuilder, magnitude: Reg, sign: Reg) -> Reg:
    return f.intrinsic("llvm.copysign.*", magnitude.type, magnitude, sign)


def any_lane(f: FunctionBuilder, condition: Reg) -> Reg:
    """i1, whether the condition holds in some lane."""
    return condition if condition.lanes == 1 else f.reduce_lanes("or", condition)
