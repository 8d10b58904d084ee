"""Arithmetic: operations that do nothing, that are another's special case, or whose constants can be gathered."""

import math

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.makers import constant_of, is_constant, is_splat, made_by, splat_of, unbroadcast
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import Rewriter, rule
from onnxc.compiler.passes.analysis.matching import full_like
from onnxc.compiler.passes.analysis.ranges import range_of

COMMUTATIVE = ("add", "mul", "min", "max", "and", "or", "xor", "equal")
ASSOCIATIVE_INTEGER = ("add", "mul", "and", "or", "xor", "min", "max")


@rule(*COMMUTATIVE)
def order_constant_right(op: Op, build: Builder) -> Value | None:
    """c ∘ x = x ∘ c for a constant c"""
    a, b = op.operands
    return build.binary(op.name, b, a) if is_constant(a) and not is_constant(b) else None


@rule("add")
def add_nothing(op: Op, build: Builder) -> Value | None:
    """x + -0.0 = x, and x + 0 = x for integers; 0.0 is not nothing, for it turns -0.0 into itself"""
    x, y = op.operands
    return x if is_splat(y, -0.0 if x.dtype.is_float else 0) else None


@rule("sub")
def subtract_nothing(op: Op, build: Builder) -> Value | None:
    """x - 0 = x"""
    x, y = op.operands
    return x if is_splat(y, 0) else None


@rule("sub")
def subtract_from_nothing(op: Op, build: Builder) -> Value | None:
    """-0.0 - x = -x, and 0 - x = -x for integers"""
    x, y = op.operands
    return build.neg(y) if is_splat(x, -0.0 if x.dtype.is_float else 0) else None


@rule("sub", "xor")
def cancel_integer(op: Op, build: Builder) -> Value | None:
    """x - x = 0 and x xor x = 0 for integers"""
    x, y = op.operands
    return full_like(x, 0, build) if x == y and not x.dtype.is_float and not x.dtype.is_complex else None


@rule("mul", "div")
def scale_by_one(op: Op, build: Builder) -> Value | None:
    """x * 1 = x, x / 1 = x, x * -1 = -x, x / -1 = -x"""
    x, factor = op.operands
    if is_splat(factor, 1):
        return x
    return build.neg(x) if is_splat(factor, -1) and x.dtype.is_signed else None


@rule("mul", "and")
def multiply_integer_by_nothing(op: Op, build: Builder) -> Value | None:
    """x * 0 = 0 and x and 0 = 0 for integers and bools; a float may be NaN, infinite or negative"""
    x, y = op.operands
    return y if not x.dtype.is_float and is_splat(y, 0) else None


@rule("and", "or", "xor")
def combine_with_neutral(op: Op, build: Builder) -> Value | None:
    """x and ones = x, x or 0 = x, x xor 0 = x, x or ones = ones; ones are all bits, or true"""
    x, y = op.operands
    splat = splat_of(y)
    ones = splat == 1 if x.dtype.is_bool else splat == (-1 if x.dtype.is_signed else 2**x.dtype.bits - 1)
    if op.name == "and":
        return x if ones else None
    if op.name == "or" and ones:
        return y
    return x if splat == 0 else None


@rule("and", "or", "min", "max")
def combine_with_itself(op: Op, build: Builder) -> Value | None:
    """x ∘ x = x for and, or, min, max"""
    return op.operands[0] if op.operands[0] == op.operands[1] else None


@rule("neg", "not")
def undo_twice(op: Op, build: Builder) -> Value | None:
    """-(-x) = x, not not x = x"""
    inner = made_by(op.operands[0], op.name)
    return None if inner is None else inner.operands[0]


@rule("abs", "sign")
def do_once(op: Op, build: Builder) -> Value | None:
    """f(f(x)) = f(x) for what leaves its own results as they are"""
    return op.operands[0] if made_by(op.operands[0], op.name) is not None else None


@rule("floor", "ceil", "round")
def round_integer(op: Op, build: Builder) -> Value | None:
    """round(x) = x where x is an integer, or a float that was one or was rounded already"""
    x = op.operands[0]
    cast = made_by(x, "cast")
    whole = cast is not None and (cast.operands[0].dtype.is_integer or cast.operands[0].dtype.is_bool)
    return x if x.dtype.is_integer or whole or made_by(x, "floor", "ceil", "round") is not None else None


@rule("abs")
def drop_sign(op: Op, build: Rewriter) -> Value | None:
    """|-x| = |x|, and |x| = x for an integer that is not negative"""
    x = op.operands[0]
    inner = made_by(x, "neg")
    if inner is not None:
        return build.abs(inner.operands[0])
    low = None if x.dtype.is_float else range_of(x, build.symbols.ranges).low
    return x if low is not None and low >= 0 else None


@rule("add", "sub")
def add_negated(op: Op, build: Builder) -> Value | None:
    """x + -y = x - y, -x + y = y - x, x - -y = x + y"""
    x, y = op.operands
    left, right = made_by(x, "neg"), made_by(y, "neg")
    if right is not None:
        return build.binary("sub" if op.name == "add" else "add", x, right.operands[0])
    return build.sub(y, left.operands[0]) if left is not None and op.name == "add" else None


@rule("mul", "div")
def multiply_negated(op: Op, build: Builder) -> Value | None:
    """-x * -y = x * y, -x / -y = x / y, and -x * c = x * -c for a float constant c

    An integer division is left alone: the quotient of the smallest number is its own.
    """
    x, y = op.operands
    left, right = made_by(x, "neg"), made_by(y, "neg")
    if left is None or (op.name == "div" and not x.dtype.is_float):
        return None
    if right is not None:
        return build.binary(op.name, left.operands[0], right.operands[0])
    factor = splat_of(y)
    if factor is None or not x.dtype.is_float:
        return None
    return build.binary(op.name, left.operands[0], full_like(y, -factor, build))


@rule("div")
def divide_by_power_of_two(op: Op, build: Builder) -> Value | None:
    """x / 2^n = x * 2^-n, where that is a normal number"""
    x, divisor = op.operands
    source, axes = unbroadcast(divisor)
    array = constant_of(source)
    if array is None or not x.dtype.is_float or x.dtype.bits < 16 or not array.size:
        return None
    inverse = _exact_inverse(array)
    return None if inverse is None else build.mul(x, build.broadcast(build.constant(inverse), axes, divisor.shape))


def _exact_inverse(array: np.ndarray) -> np.ndarray | None:
    mantissas, exponents = np.frexp(array.astype(np.float64))
    # 2^-14 and 2^15 are the ends of the normal powers of two in f16, the narrowest type that comes here.
    if not np.all(np.abs(mantissas) == 0.5) or np.any(np.abs(exponents - 1) > 14):
        return None
    return np.asarray(1.0 / array.astype(np.float64)).astype(array.dtype)


@rule("pow")
def expand_power(op: Op, build: Rewriter) -> Value | None:
    """x^0 = 1, x^1 = x, x^2 = x * x, x^3 = x * x * x, x^-1 = 1 / x, x^½ = √x for x > 0

    The cube rounds twice, where the power rounds once. √-0.0 is -0.0 and √-∞ is NaN, but their powers are 0.0 and ∞.
    """
    x, exponent = op.operands
    splat = splat_of(exponent)
    if splat == 0:
        return full_like(x, 1, build)
    if splat == 1:
        return x
    if splat in (2, 3):
        square = build.mul(x, x)
        return square if splat == 2 else build.mul(square, x)
    if not x.dtype.is_float:
        return None
    if splat == -1:
        return build.div(full_like(x, 1, build), x)
    low = range_of(x, build.symbols.ranges).low if splat == 0.5 else None
    return build.sqrt(x) if low is not None and low > 0 else None


@rule("min", "max")
def bound_beyond_reach(op: Op, build: Rewriter) -> Value | None:
    """max(x, c) = x where x >= c certainly, min(x, c) = x where x <= c certainly

    Floats need an infinite c: of 0.0 and -0.0 either may be the larger.
    """
    x, bound = op.operands
    limit = splat_of(bound)
    if limit is None:
        return None
    if x.dtype.is_float:
        return x if limit == (-math.inf if op.name == "max" else math.inf) else None
    interval = range_of(x, build.symbols.ranges)
    if op.name == "max":
        return x if interval.low is not None and interval.low >= limit else None
    return x if interval.high is not None and interval.high <= limit else None


@rule("rem")
def divide_evenly(op: Op, build: Rewriter) -> Value | None:
    """x rem 1 = 0 for integers, and x rem c = x where 0 <= x < c"""
    x, y = op.operands
    divisor = splat_of(y)
    if x.dtype.is_float or divisor is None:
        return None
    if divisor == 1:
        return full_like(x, 0, build)
    interval = range_of(x, build.symbols.ranges)
    if interval.low is None or interval.high is None:
        return None
    return x if interval.low >= 0 and interval.high < divisor else None


@rule(*ASSOCIATIVE_INTEGER)
def gather_constants(op: Op, build: Builder) -> Value | None:
    """(x ∘ c) ∘ d = x ∘ (c ∘ d) for integers, and for min and max of floats"""
    inner, last = made_by(op.operands[0], op.name), op.operands[1]
    if inner is None or (last.dtype.is_float and op.name not in ("min", "max")):
        return None
    constants = splat_of(inner.operands[1]), splat_of(last)
    if constants[0] is None or constants[1] is None:
        return None
    first, second = (build.scalar(constant, last.dtype) for constant in constants if constant is not None)
    return build.binary(op.name, inner.operands[0], build.binary(op.name, first, second))


@rule("shift_left", "shift_right")
def shift_by_nothing(op: Op, build: Builder) -> Value | None:
    """x shifted by 0 = x"""
    x, count = op.operands
    return x if is_splat(count, 0) else None
