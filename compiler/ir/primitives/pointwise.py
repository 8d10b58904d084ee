"""Pointwise primitives: every operand and result has the same shape, element i of a result is a function of elements i.

Integer arithmetic wraps; integer division truncates, x / 0 = 0; a shift by the width or more leaves the sign or 0.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, DType
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import (
    AxisLink,
    ElementClass,
    Inline,
    Primitive,
    TypeRule,
    TypeRuleError,
    define,
    tensors,
)
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


# The primitives by the number of their operands, each with its cost. The costs are estimates and not measured: their
# order of magnitude decides whether planning has a value computed again or reads it from memory.
UNARY = {
    "neg": 1, "abs": 1, "sign": 1, "floor": 1, "ceil": 1, "round": 1, "not": 1, "sqrt": 4,
    "exp": 12, "log": 16, "tanh": 20, "erf": 24, "sin": 30, "cos": 30, "tan": 40, "asin": 30, "acos": 30, "atan": 30,
    "sinh": 30, "cosh": 30, "asinh": 30, "acosh": 30, "atanh": 30,
}  # fmt: skip
BINARY = {
    "add": 1, "sub": 1, "mul": 1, "div": 4, "rem": 8, "pow": 40, "min": 1, "max": 1,
    "and": 1, "or": 1, "xor": 1, "shift_left": 1, "shift_right": 1,
}  # fmt: skip
COMPARE = {"equal": 1, "less": 1, "less_equal": 1}

_BITWISE = frozenset({"not", "and", "or", "xor", "shift_left", "shift_right"})
_ARITHMETICAL = frozenset({"neg", "abs", "sign", *BINARY, *COMPARE} - _BITWISE - {"equal"})
_EXACT = frozenset({"neg", "abs", "sign", "floor", "ceil", "round", "min", "max"})


def _taken(name: str) -> ElementClass:
    if name in _BITWISE:
        return "integers or truth values"
    if name in _ARITHMETICAL:
        return "numbers"
    return "floats" if name in UNARY else "any elements"


def _define(name: str, rule: TypeRule, cost: int) -> None:
    kernel = Inline(cost=cost, elementwise=True, exact=name in _EXACT)
    define(Primitive(name, "pointwise", rule, pointwise_axes, kernel=kernel, takes=_taken(name)))


for _name, _cost in UNARY.items():
    _define(_name, _arithmetic(1), _cost)
for _name, _cost in BINARY.items():
    _define(_name, _arithmetic(2), _cost)
for _name, _cost in COMPARE.items():
    _define(_name, _compare, _cost)
_define("select", _select, 1)
_define("cast", _cast, 1)
_define("bitcast", _bitcast, 1)
