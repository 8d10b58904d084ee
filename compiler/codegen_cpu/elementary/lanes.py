"""What the elementary functions are written with: polynomials, bits of floats, selections that keep NaN.

Everything holds for a scalar and for a vector of any number of lanes, and gives the same bits for both.
"""

from collections.abc import Sequence

from compiler.codegen_host.llvm_ir import FunctionBuilder
from compiler.codegen_host.llvm_values import Float, Reg, constant, vector_type

_INTEGERS = {"float": "i32", "double": "i64"}


def integers_of(type: str, lanes: int) -> str:
    """The integers as wide as a float type."""
    return vector_type(_INTEGERS[type], lanes)


def to_bits(f: FunctionBuilder, x: Reg) -> Reg:
    return f.convert("bitcast", x, integers_of(x.element, x.lanes))


def from_bits(f: FunctionBuilder, x: Reg) -> Reg:
    return f.convert("bitcast", x, vector_type("float" if x.element == "i32" else "double", x.lanes))


def multiply_add(f: FunctionBuilder, a: Float, b: Float, c: Float) -> Reg:
    """a * b + c, rounded once where the processor has the instruction and twice where it has not.

    For steps that bear either; where exactness needs the single rounding, it is `f.fma`.
    """
    type = next(value.type for value in (a, b, c) if isinstance(value, Reg))
    operands = [value if isinstance(value, Reg) else constant(type, value) for value in (a, b, c)]
    return f.intrinsic("llvm.fmuladd.*", type, *operands)


def polynomial(f: FunctionBuilder, x: Reg, coefficients: Sequence[float]) -> Reg:
    """c[0] + c[1] x + c[2] x² + …, by Horner's rule: the fewest instructions, as whole loops overlap anyway."""
    *rest, last = coefficients
    result: Float = last
    for coefficient in reversed(rest):
        result = multiply_add(f, x, result, coefficient)
    assert isinstance(result, Reg), coefficients
    return result


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
