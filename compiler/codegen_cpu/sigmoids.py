"""Which values of a block are sigmoids: 1 / (1 + exp(-x)), as `Builder.sigmoid` and canonicalisation write it."""

from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES


def sigmoid_operand(value: Value) -> Value | None:
    """x where `value` is the sigmoid of x in the type that it is computed in; 16-bit floats round each step."""
    if value.dtype not in (F32, F64):
        return None
    quotient = _made_by(value, "div")
    total = None if quotient is None or not _is_one(quotient.operands[0]) else _made_by(quotient.operands[1], "add")
    power = None if total is None or not _is_one(total.operands[1]) else _made_by(total.operands[0], "exp")
    negated = None if power is None else _made_by(power.operands[0], "neg")
    return None if negated is None else negated.operands[0]


def _made_by(value: Value, name: str) -> Op | None:
    return value.op if value.op is not None and value.op.name == name else None


def _is_one(value: Value) -> bool:
    """Whether it is the constant 1, repeated or not."""
    while value.op is not None and PRIMITIVES[value.op.name].is_view and value.op.operands:
        value = value.op.operands[0]
    constant = _made_by(value, "constant")
    return constant is not None and constant.array().size == 1 and constant.array().item() == 1
