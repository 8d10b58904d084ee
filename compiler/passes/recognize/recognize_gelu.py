"""GELU, exact and by tanh, from any order of its factors. x * sigmoid(1.702 x) is another function and stays."""

from collections.abc import Sequence
from math import pi, sqrt

from onnxc.compiler.ir.dtypes import BF16, F16
from onnxc.compiler.ir.makers import made_by, splat_of
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.matching import is_near
from onnxc.compiler.passes.notes import note_refusal

CUBIC = 0.044715


def recognize_gelu(module: Module) -> Module:
    """Makes one op of each GELU."""
    return rewrite(module, [multiply_by_gate, narrow_gelu], note_refusal)


@rule("mul")
def multiply_by_gate(op: Op, build: Rewriter) -> Value | Refusal | None:
    """x * (1 + erf(x / √2)) / 2 = gelu(x), x * (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 = gelu(x) by tanh"""
    if not op.result.dtype.is_float or op.result.dtype.bits < 16:
        return None
    factors, constant = _factors(op.result, build, depth=4)
    gates = [factor for factor in factors if made_by(factor, "add") is not None]
    for gate in gates:
        rest = list(factors)
        rest.remove(gate)
        opened = _gate(gate)
        if opened is None or len(rest) != 1:
            continue
        inner, half = opened
        approximate = _argument(inner, rest[0])
        if approximate is not None and is_near(constant * half, 0.5, op.result.dtype):
            if build.uses(gate) > 1:
                return Refusal("the gate is used elsewhere, too")
            return build.gelu(rest[0], approximate)
    return None


def _factors(value: Value, build: Rewriter, depth: int) -> tuple[list[Value], float]:
    """The factors of a product of products, and the product of those that are constants."""
    op = made_by(value, "mul", "div")
    constant = splat_of(value)
    if constant is not None:
        return [], float(constant)
    if op is None or not depth:
        return [value], 1.0
    if op.name == "div":
        divisor = splat_of(op.operands[1])
        if not divisor:
            return [value], 1.0
        factors, constant = _factors(op.operands[0], build, depth - 1)
        return factors, constant / divisor
    left, right = (_factors(operand, build, depth - 1) for operand in op.operands)
    return left[0] + right[0], left[1] * right[1]


def _gate(value: Value) -> tuple[Op, float] | None:
    """(f, c) where `value` is c * (1 + f), for f an erf or a tanh."""
    total = made_by(value, "add")
    if total is None:
        return None
    scaled, one = total.operands
    splat = splat_of(one)
    product = made_by(scaled, "mul")
    factor = 1.0 if product is None else splat_of(product.operands[1])
    inner = made_by(scaled if product is None else product.operands[0], "erf", "tanh")
    if inner is None or splat is None or factor is None or not is_near(factor, splat, value.dtype):
        return None
    return inner, float(splat)


def _argument(inner: Op, x: Value) -> str | None:
    """Which GELU of `x` the function in its gate belongs to."""
    argument, dtype = inner.operands[0], x.dtype
    if inner.name == "erf":
        return "none" if _is_multiple(argument, x, sqrt(0.5)) else None
    scaled = made_by(argument, "mul")
    if scaled is None:
        return None
    factors, constant = _product(argument)
    if not is_near(constant, sqrt(2 / pi), dtype):
        return None
    if len(factors) == 1 and _is_cubic_sum(factors[0], x):
        return "tanh"
    if len(factors) == 2 and x in factors:
        other = factors[1] if factors[0] == x else factors[0]
        return "tanh" if _is_square_sum(other, x) else None
    return None


def _product(value: Value) -> tuple[list[Value], float]:
    """The factors of a product, and the product of those that are constants."""
    constant = splat_of(value)
    if constant is not None:
        return [], float(constant)
    op = made_by(value, "mul")
    if op is None:
        return [value], 1.0
    left, right = map(_product, op.operands)
    return left[0] + right[0], left[1] * right[1]


def _is_multiple(value: Value, x: Value, expected: float) -> bool:
    """Whether `value` is x * `expected`, or x divided by its inverse."""
    op = made_by(value, "mul", "div")
    if op is None or op.operands[0] != x:
        return False
    splat = splat_of(op.operands[1])
    return is_near(splat, expected if op.name == "mul" else 1 / expected, x.dtype)


def _is_cubic_sum(value: Value, x: Value) -> bool:
    """Whether `value` is x + 0.044715 x³."""
    return any(_is_power(other, x, 3, CUBIC) for first, other in _orders(value) if first == x)


def _is_square_sum(value: Value, x: Value) -> bool:
    """Whether `value` is 1 + 0.044715 x²."""
    return any(_is_power(other, x, 2, CUBIC) for first, other in _orders(value) if splat_of(first) == 1)


def _orders(value: Value) -> Sequence[tuple[Value, Value]]:
    total = made_by(value, "add")
    return () if total is None else ((total.operands[0], total.operands[1]), (total.operands[1], total.operands[0]))


def _is_power(value: Value, x: Value, exponent: int, expected: float) -> bool:
    """Whether `value` is `expected` * x^exponent, as a product or a power."""
    factors, constant = _product(value)
    if not is_near(constant, expected, x.dtype):
        return False
    if factors == [x] * exponent:
        return True
    power = made_by(factors[0], "pow") if len(factors) == 1 else None
    return power is not None and power.operands[0] == x and splat_of(power.operands[1]) == exponent


@rule("cast")
def narrow_gelu(op: Op, build: Rewriter) -> Value | None:
    """cast(gelu(cast(x))) = gelu(x) for 16-bit x, which is computed in f32"""
    inner = made_by(op.operands[0], "gelu")
    widened = None if inner is None else made_by(inner.operands[0], "cast")
    if inner is None or widened is None or build.uses(inner.result) > 1:
        return None
    x = widened.operands[0]
    return build.gelu(x, inner.text("approximate")) if x.dtype == op.dtype() and x.dtype in (F16, BF16) else None
