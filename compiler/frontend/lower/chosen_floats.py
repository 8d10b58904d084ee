"""One element type for all floats of a model: what nodes read and give is cast to it, wherever its schema allows."""

from collections.abc import Sequence

from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.operand_types import is_allowed, schema_text
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType

__all__ = ["FLOATS", "cast_floats", "cast_operands"]

FLOATS = (BF16, F16, F32, F64)
"""The types that stand for one another; narrower floats are quantised, and stay what they are."""


def cast_operands(
    node: GraphNode, operands: Sequence[Value | None], floats: DType, ir: Builder
) -> tuple[Value | None, ...]:
    """The operands with their floats as `floats`, or as f32 where the operator takes only that."""
    return tuple(_operand(node, index, operand, floats, ir) for index, operand in enumerate(operands))


def _operand(node: GraphNode, index: int, operand: Value | None, floats: DType, ir: Builder) -> Value | None:
    formal = node.schema.input(index)
    if operand is None or formal is None or not _is_float(operand):
        return operand
    for dtype in (floats, F32):
        if is_allowed(schema_text(TensorType(dtype, ())), formal, node):
            return ir.cast(operand, dtype)
    return operand


def cast_floats(values: Sequence[Value | None], floats: DType, ir: Builder) -> tuple[Value | None, ...]:
    """The values, all floats among them as `floats`."""
    return tuple(value if value is None or not _is_float(value) else ir.cast(value, floats) for value in values)


def _is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is not None and value.dtype in FLOATS
