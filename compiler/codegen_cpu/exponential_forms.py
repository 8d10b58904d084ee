"""Which values of a block are computed by a function of their own: sigmoids, gelu, and the weights of a softmax."""

from collections.abc import Callable
from math import inf, sqrt

import numpy as np

from onnxc.compiler.codegen_cpu.elementary import gelu, gelu_by_tanh
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg
from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitive import PRIMITIVES


def sigmoid_operand(value: Value) -> Value | None:
    """x where `value` is the sigmoid of x in the type that it is computed in; 16-bit floats round each step.

    That is 1 / (1 + exp(-x)), as `Builder.sigmoid` and canonicalisation write it.
    """
    if value.dtype not in (F32, F64):
        return None
    quotient = made_by(value, "div")
    total = None if quotient is None or not _is(1, quotient.operands[0]) else made_by(quotient.operands[1], "add")
    power = None if total is None or not _is(1, total.operands[1]) else made_by(total.operands[0], "exp")
    negated = None if power is None else made_by(power.operands[0], "neg")
    return None if negated is None else negated.operands[0]


def weight_exponent(value: Value) -> Value | None:
    """x - max(x) where `value` is its exponential; the maximum may be 0 in place of -inf.

    So decompositions of softmax, masked or not, write it: no exponent is above 0.
    """
    power = made_by(value, "exp") if value.dtype in (F32, F64) else None
    difference = None if power is None else made_by(power.operands[0], "sub")
    if difference is None:
        return None
    x, peak = difference.operands
    peak = _unrepeated(peak)
    chosen = made_by(peak, "select")
    if chosen is not None:
        condition, other, peak = chosen.operands
        test = made_by(condition, "equal")
        is_guard = test is not None and test.operands[0] is peak and _is(-inf, test.operands[1])
        if not (is_guard and _is(0, other)):
            return None
    fold = made_by(_unrepeated(peak), "reduce")
    is_peak = fold is not None and fold.text("kind") == "max" and fold.operands[0] is x
    return difference.results[0] if is_peak else None


def gelu_operand(value: Value) -> tuple[Value, Callable[[FunctionBuilder, Reg], Reg]] | None:
    """x, and the function, where `value` is gelu of x in f32, as its decomposition writes it.

    x / 2 (1 + erf(x / sqrt(2))), or tanh(sqrt(2 / pi) (x + 0.044715 x^3)) in place of erf.
    """
    gated = made_by(value, "mul") if value.dtype == F32 else None
    half = None if gated is None else made_by(gated.operands[0], "mul")
    total = None if gated is None else made_by(gated.operands[1], "add")
    if half is None or total is None or not (_is(0.5, half.operands[1]) and _is(1, total.operands[1])):
        return None
    x = half.operands[0]
    for name, inner, function in (("erf", _over_root_of_two, gelu), ("tanh", _with_cube, gelu_by_tanh)):
        curve = made_by(total.operands[0], name)
        if curve is not None and inner(curve.operands[0]) is x:
            return x, function
    return None


def _over_root_of_two(value: Value) -> Value | None:
    """x where `value` is x / sqrt(2)."""
    return _factor(value, sqrt(0.5))


def _with_cube(value: Value) -> Value | None:
    """x where `value` is sqrt(2 / pi) (x + 0.044715 x^3)."""
    inner = _factor(value, 0.7978845608028654)
    total = None if inner is None else made_by(inner, "add")
    cube = None if total is None else _factor(total.operands[1], 0.044715)
    product = None if cube is None else made_by(cube, "mul")
    square = None if product is None else made_by(product.operands[0], "mul")
    if total is None or product is None or square is None:
        return None
    x = total.operands[0]
    return x if {*square.operands, product.operands[1]} == {x} else None


def _factor(value: Value, constant: float) -> Value | None:
    """x where `value` is x times the constant in f32."""
    product = made_by(value, "mul")
    return (
        product.operands[0] if product is not None and _is(float(np.float32(constant)), product.operands[1]) else None
    )


def _unrepeated(value: Value) -> Value:
    """What is repeated or has got axes of size 1."""
    while value.op is not None and value.op.name in ("broadcast", "reshape"):
        value = value.op.operands[0]
    return value


def _is(element: float, value: Value) -> bool:
    """Whether a value is this constant, repeated or not."""
    while value.op is not None and PRIMITIVES[value.op.name].is_view and value.op.operands:
        value = value.op.operands[0]
    constant = made_by(value, "constant")
    if constant is None:
        return False
    array = constant.array()
    # The first element tells in nearly all cases.
    return array.size > 0 and array.flat[0] == element and bool((array == element).all())
