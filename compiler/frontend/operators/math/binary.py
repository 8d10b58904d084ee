"""Arithmetic and logic of two tensors: a table of rows, and those that are more than one primitive.

A: T[...], B: T[...]  ->  C: T[...], broadcast; before opset 7 only B to A, by the attributes `broadcast` and `axis`.

Source: https://onnx.ai/onnx/operators/
"""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.broadcasting import (
    NUMPY_SINCE,
    binary_operands,
    broadcast_onto,
    expect_spreads,
)
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import ElementLowering, at_common_rank
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import at_least, mod
from onnxc.compiler.ir.dtypes import F32, F64, I64, DType
from onnxc.compiler.ir.module import Value

# operator: primitive, versions
ROWS: dict[str, tuple[str, Sequence[int]]] = {
    "Add": ("add", (1, 6, 7, 13, 14)),
    "Sub": ("sub", (1, 6, 7, 13, 14)),
    "Mul": ("mul", (1, 6, 7, 13, 14)),
    "Div": ("div", (1, 6, 7, 13, 14)),
    "And": ("and", (1, 7)),
    "Or": ("or", (1, 7)),
    "Xor": ("xor", (1, 7)),
    "BitwiseAnd": ("and", (18,)),
    "BitwiseOr": ("or", (18,)),
    "BitwiseXor": ("xor", (18,)),
    "Equal": ("equal", (1, 7, 11, 13, 19)),
    "Less": ("less", (1, 7, 9, 13)),
    "LessOrEqual": ("less_equal", (12, 16)),
}
# Those whose operands are swapped: A > B is B < A.
REVERSED: dict[str, tuple[str, Sequence[int]]] = {
    "Greater": ("less", (1, 7, 9, 13)),
    "GreaterOrEqual": ("less_equal", (12, 16)),
}


def _lowering(primitive: str, *, reverse: bool) -> ElementLowering:
    def lower(node: Node, ir: Builder) -> Value:
        a, b = binary_operands(node, ir)
        return ir.binary(primitive, b, a) if reverse else ir.binary(primitive, a, b)

    return lower


for _rows, _reverse in ((ROWS, False), (REVERSED, True)):
    for _name, (_primitive, _since) in _rows.items():
        operator(_name, since=_since)(at_common_rank(_lowering(_primitive, reverse=_reverse)))


@operator("Pow", since=(1, 7, 12, 13, 15))
@at_common_rank
def pow(node: Node, ir: Builder) -> Value:
    """X: T[...], Y: T1[...]  ->  T[...], computed in a type that holds both and converted to T.

    Source: https://onnx.ai/onnx/operators/onnx__Pow.html
    """
    base, exponent = binary_operands(node, ir)
    dtype = _power_type(base.dtype, exponent.dtype)
    return ir.cast(ir.pow(ir.cast(base, dtype), ir.cast(exponent, dtype)), base.dtype)


def _power_type(base: DType, exponent: DType) -> DType:
    if base == exponent:
        return base
    if base.is_integer:
        return I64 if exponent.is_integer else F64
    return F64 if F64 in (base, exponent) else F32


@operator("Mod", since=(10, 13, 28))
@at_common_rank
def mod_(node: Node, ir: Builder) -> Value:
    """A: T[...], B: T[...]  ->  T[...]: the remainder with the sign of B, or with `fmod` that of A.

    Before version 28 floats need fmod = 1. Integers have A mod 0 = 0.
    Source: https://onnx.ai/onnx/operators/onnx__Mod.html
    """
    a, b = binary_operands(node, ir)
    if node.int("fmod") not in (0, 1):
        node.fail("attribute-range", f"fmod is {node.int('fmod')}, not 0 or 1", rule="ONNX Mod, attribute fmod")
    if node.flag("fmod"):
        return ir.rem(a, b)
    if not a.dtype.is_float:
        return _integer_modulo(a, b, ir)
    if node.since < 28:
        node.fail("fmod-of-floats", f"fmod is 0 and the operands are {a.dtype}", rule="ONNX Mod, attribute fmod")
    return ir.cast(_float_modulo(widened(a, ir), widened(b, ir), ir), a.dtype)


def _integer_modulo(a: Value, b: Value, ir: Builder) -> Value:
    """The remainder with the sign of `b`; of sizes, a size."""
    sizes, divisors = ir.known(a), ir.known(b)
    if a.dtype == I64 and sizes is not None and divisors is not None and all(at_least(size, 1) for size in divisors):
        modules = [mod(size, divisor) for size, divisor in zip(sizes, divisors, strict=True)]
        return ir.sizes(modules) if a.rank else ir.size(modules[0])
    remainder = ir.rem(a, b)
    if not a.dtype.is_signed:
        return remainder
    return ir.select(_signs_differ(remainder, b, ir), ir.add(remainder, b), remainder)


def _signs_differ(a: Value, b: Value, ir: Builder) -> Value:
    """Whether one is below and the other above zero."""
    return ir.or_(ir.and_(ir.less(a, 0), ir.greater(b, 0)), ir.and_(ir.greater(a, 0), ir.less(b, 0)))


def _float_modulo(a: Value, b: Value, ir: Builder) -> Value:
    """The remainder with the sign of `b`, zeros included."""
    remainder = ir.rem(a, b)
    moved = ir.select(_signs_differ(remainder, b, ir), ir.add(remainder, b), remainder)
    zero = ir.select(ir.less(b, 0), ir.scalar(-0.0, b.dtype), 0.0)
    return ir.select(ir.equal(remainder, 0), zero, moved)


@operator("BitShift", since=(11, 28))
@at_common_rank
def bit_shift(node: Node, ir: Builder) -> Value:
    """X: T[...], Y: T[...]  ->  T[...]: X shifted by Y bits, a right shift of signed types filling with the sign.

    Amounts that are negative or at least the width of T shift everything out.
    Source: https://onnx.ai/onnx/operators/onnx__BitShift.html
    """
    x, amount = binary_operands(node, ir)
    if node.choice("direction", ("LEFT", "RIGHT")) == "LEFT":
        return ir.shift_left(x, amount)
    return ir.shift_right(x, amount)


@operator("PRelu", since=(1, 6, 7, 9, 16))
def prelu(node: Node, ir: Builder) -> Value:
    """X: T[...], slope: T[...] that broadcasts to X, before opset 7 T[1] or T[C]  ->  X, slope * X where X < 0

    Source: https://onnx.ai/onnx/operators/onnx__PRelu.html
    """
    x, slope = node.inputs("X", "slope")
    if node.since < NUMPY_SINCE and slope.rank == 1 and x.rank > 1:
        expect_spreads(slope.shape[0], x.shape[1], "slope does not have one value per channel", ir)
        slope = ir.broadcast(slope, (1,), x.shape)
    slope = broadcast_onto(slope, x.shape, "slope", node, ir)
    return ir.select(ir.less(x, 0), ir.mul(slope, x), x)
