"""Derivatives of pointwise primitives.

Where a function has no derivative, one value is chosen: 0 for `abs` at 0 and for all that steps, at its jumps; half for
each of the operands of `max` and `min` where they are equal. These are the middles of what lies to both sides, so that
smooth functions that are made of such pieces keep their derivatives.

Where nothing flows, nothing goes on, even where a slope is infinite: a branch that `select` leaves out adds no NaN.
"""

from collections.abc import Callable
from math import inf, pi, sqrt

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import Gradients, Step, derivative
from onnxc.compiler.ir.module import Value

Slope = Callable[[Value, Value, Builder], Value]
"""The derivative of y = f(x) from (x, y)."""

SLOPES: dict[str, Slope] = {
    "abs": lambda x, y, b: b.sign(x),
    "exp": lambda x, y, b: y,
    "sin": lambda x, y, b: b.unary("cos", x),
    "cos": lambda x, y, b: b.neg(b.unary("sin", x)),
    "tan": lambda x, y, b: b.add(b.square(y), 1),
    "sinh": lambda x, y, b: b.unary("cosh", x),
    "cosh": lambda x, y, b: b.unary("sinh", x),
    "tanh": lambda x, y, b: b.sub(1, b.square(y)),
    "erf": lambda x, y, b: b.mul(b.exp(b.neg(b.square(x))), 2 / sqrt(pi)),
}
"""What a gradient is multiplied by."""

UNBOUNDED = ("exp", "sinh", "cosh")
"""Those of them that may be infinite."""

DIVISORS: dict[str, Slope] = {
    "sqrt": lambda x, y, b: b.mul(y, 2),
    "log": lambda x, y, b: x,
    "asin": lambda x, y, b: b.sqrt(_one_minus_square(x, b)),
    "acos": lambda x, y, b: b.neg(b.sqrt(_one_minus_square(x, b))),
    "atan": lambda x, y, b: b.add(b.square(x), 1),
    "asinh": lambda x, y, b: b.sqrt(b.add(b.square(x), 1)),
    "acosh": lambda x, y, b: b.sqrt(b.mul(b.sub(x, 1), b.add(x, 1))),
    "atanh": lambda x, y, b: _one_minus_square(x, b),
}
"""What a gradient is divided by."""


def _one_minus_square(x: Value, build: Builder) -> Value:
    """1 - x^2, without cancellation near 1 and -1."""
    return build.mul(build.sub(1, x), build.add(1, x))


def _scaled(gradient: Value, slope: Value, build: Builder) -> Value:
    """g * slope, where 0 times what is not finite is 0."""
    is_finite = build.less(build.abs(slope), inf)
    return build.select(_is_lost(gradient, is_finite, build), 0, build.mul(gradient, slope))


def _multiply(name: str, slope: Slope) -> None:
    @derivative(name)
    def rule(step: Step, build: Builder) -> Gradients:
        scale = _scaled if name in UNBOUNDED else _product
        return (scale(step.gradient, slope(step.x, step.y, build), build),)


def _product(gradient: Value, slope: Value, build: Builder) -> Value:
    return build.mul(gradient, slope)


def _divide(name: str, divisor: Slope) -> None:
    @derivative(name)
    def rule(step: Step, build: Builder) -> Gradients:
        by = divisor(step.x, step.y, build)
        return (build.div(step.gradient, _unless_lost(step.gradient, by, build)),)


def _unless_lost(gradient: Value, divisor: Value, build: Builder) -> Value:
    """The divisor, or 1 where 0 would be divided by 0 or by NaN."""
    divides = build.less(0, build.abs(divisor))
    return build.select(_is_lost(gradient, divides, build), 1, divisor)


def _is_lost(gradient: Value, is_proper: Value, build: Builder) -> Value:
    return build.and_(build.equal(gradient, 0), build.not_(is_proper))


for _name, _slope in SLOPES.items():
    _multiply(_name, _slope)
for _name, _divisor in DIVISORS.items():
    _divide(_name, _divisor)


@derivative("sign", "floor", "ceil", "round")
def steps(step: Step, build: Builder) -> Gradients:
    """0 everywhere"""
    return (None,)


@derivative("neg")
def neg(step: Step, build: Builder) -> Gradients:
    """-g"""
    return (build.neg(step.gradient),)


@derivative("add")
def add(step: Step, build: Builder) -> Gradients:
    """g, g"""
    return step.gradient, step.gradient


@derivative("sub")
def sub(step: Step, build: Builder) -> Gradients:
    """g, -g"""
    return step.gradient, build.neg(step.gradient)


@derivative("mul")
def mul(step: Step, build: Builder) -> Gradients:
    """g b, g a"""
    a, b = step.operands
    return build.mul(step.gradient, b), build.mul(step.gradient, a)


@derivative("div")
def div(step: Step, build: Builder) -> Gradients:
    """g / b, -g (a / b) / b"""
    a, b = step.operands
    divisor = _unless_lost(step.gradient, b, build)
    quotient = build.div(step.gradient, divisor)
    return quotient, build.neg(build.mul(quotient, build.div(a, divisor)))


@derivative("rem")
def rem(step: Step, build: Builder) -> Gradients:
    """g, -g trunc(a / b): the quotient is a constant between its jumps"""
    a, b = step.operands
    ratio = build.div(a, b)
    whole = build.select(build.less(ratio, 0), build.ceil(ratio), build.floor(ratio))
    return step.gradient, build.neg(build.mul(step.gradient, whole))


@derivative("pow")
def power(step: Step, build: Builder) -> Gradients:
    """g p x^(p - 1), g x^p log x

    The first is 0 where p is 0, also at x = 0; the second is 0 where x is 0 and p is not below 0.
    """
    x, p = step.operands
    base = exponent = None
    if step.wanted[0]:
        lower = build.pow(x, build.select(build.equal(p, 0), 0, build.sub(p, 1)))
        base = _scaled(step.gradient, build.mul(p, lower), build)
    if step.wanted[1]:
        is_flat = build.and_(build.equal(x, 0), build.less_equal(0, p))
        slope = build.mul(step.y, build.log(build.select(is_flat, 1, x)))
        exponent = _scaled(step.gradient, slope, build)
    return base, exponent


@derivative("max", "min")
def extremum(step: Step, build: Builder) -> Gradients:
    """g to the greater, or smaller; half of it to each where they are equal"""
    a, b = step.operands
    a_is_less, b_is_less = build.less(a, b), build.less(b, a)
    a_loses, b_loses = (a_is_less, b_is_less) if step.op.name == "max" else (b_is_less, a_is_less)
    share = build.select(build.equal(a, b), build.mul(step.gradient, 0.5), step.gradient)
    return build.select(a_loses, 0, share), build.select(b_loses, 0, share)


@derivative("select")
def select(step: Step, build: Builder) -> Gradients:
    """g where an operand is chosen, else 0"""
    condition = step.operands[0]
    return None, build.select(condition, step.gradient, 0), build.select(condition, 0, step.gradient)


@derivative("cast")
def cast(step: Step, build: Builder) -> Gradients:
    """g in the type of x: rounding counts as the identity"""
    return (build.cast(step.gradient, step.x.dtype),)
