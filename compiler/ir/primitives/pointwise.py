"""Pointwise primitives: every operand and result has the same shape, element i of a result is a function of elements i.

Integer arithmetic wraps; integer division truncates, x / 0 = 0; a shift by the width or more leaves the sign or 0.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, DType
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import AxisLink, Primitive, TypeRule, TypeRuleError, define, tensors
from onnxc.compiler.ir.types import TensorType, Type


def pointwise_axes(op: Op) -> tuple[AxisLink, ...]:
    """Every axis runs through all operands and the result."""
    rank = op.results[0].rank
    return tuple(AxisLink("map", (axis,) * len(op.operands), (axis,)) for axis in range(rank))


def is_widening(op: Op) -> bool:
    """Whether the op only widens 16-bit floats, which costs less than to write and read them at twice the size."""
    return op.name == "cast" and op.operands[0].dtype in (F16, BF16) and op.dtype() == F32


def _same_shape(operands: Sequence[TensorType]) -> None:
    if any(operand.shape != operands[0].shape for operand in operands):
        raise TypeRuleError(f"operands differ in shape: {', '.join(map(str, operands))}")


def _arithmetic(arity: int) -> TypeRule:
    """T, ..., T -> T"""

    def rule(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
        values = tensors(operands, arity)
        _same_shape(values)
        if any(value.dtype != values[0].dtype for value in values):
            raise TypeRuleError(f"operands differ in element type: {', '.join(map(str, values))}")
        return (values[0],)

    return rule


def _compare(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """T, T -> bool"""
    (first,) = _arithmetic(2)(operands, attributes, blocks)
    assert isinstance(first, TensorType)
    return (TensorType(BOOL, first.shape),)


def _select(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """bool, T, T -> T"""
    condition, *_ = values = tensors(operands, 3)
    if not condition.dtype.is_bool:
        raise TypeRuleError(f"the condition is {condition}, not bool")
    _same_shape(values)
    return _arithmetic(2)(operands[1:], attributes, blocks)


def _cast(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """T1 -> T2 = dtype"""
    (value,) = tensors(operands, 1)
    dtype = attributes["dtype"]
    assert isinstance(dtype, DType)
    return (TensorType(dtype, value.shape),)


def _bitcast(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """T1 -> T2 = dtype, of the same width"""
    (value,) = tensors(operands, 1)
    dtype = attributes["dtype"]
    if not isinstance(dtype, DType) or dtype.bits != value.dtype.bits:
        raise TypeRuleError(f"{value.dtype} and {dtype} differ in width")
    return (TensorType(dtype, value.shape),)


UNARY = [
    "neg",
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "sqrt",
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "not",
]
BINARY = ["add", "sub", "mul", "div", "rem", "pow", "min", "max", "and", "or", "xor", "shift_left", "shift_right"]
COMPARE = ["equal", "less", "less_equal"]

for _name in UNARY:
    define(Primitive(_name, "pointwise", _arithmetic(1), pointwise_axes))
for _name in BINARY:
    define(Primitive(_name, "pointwise", _arithmetic(2), pointwise_axes))
for _name in COMPARE:
    define(Primitive(_name, "pointwise", _compare, pointwise_axes))
define(Primitive("select", "pointwise", _select, pointwise_axes))
define(Primitive("cast", "pointwise", _cast, pointwise_axes))
define(Primitive("bitcast", "pointwise", _bitcast, pointwise_axes))
