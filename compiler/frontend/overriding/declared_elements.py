"""Operands whose element types options override, back in those of the model where their node takes no others.

A node that reads weights, or constants, of the type that an input was declared with goes on in that type.
"""

from collections.abc import Sequence

from onnxc.compiler.frontend.graph import GraphNode, Tensor
from onnxc.compiler.frontend.operand_types import operand_findings
from onnxc.compiler.frontend.overriding.as_declared import Seen
from onnxc.compiler.frontend.overriding.renewal import Operands
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType

__all__ = ["with_declared_elements"]


def with_declared_elements(node: GraphNode, operands: Operands, before: Sequence[Seen | None], ir: Builder) -> Operands:
    """The operands, in the element types that they had as declared where the node does not take those they have."""
    declared = [_declared(value, seen) for value, seen in zip(operands, before, strict=False)]
    if not any(declared) or not (_holds_tensors(node) or operand_findings(node, operands)):
        return operands
    pairs = zip(operands, declared, strict=False)
    kept = [ir.cast(value, dtype) if value is not None and dtype is not None else value for value, dtype in pairs]
    return (*kept, *operands[len(kept) :])


def _declared(value: Value | None, seen: Seen | None) -> DType | None:
    """The other element type that the value had, where what it has can be taken for it: not floats for integers."""
    if value is None or seen is None or not isinstance(value.type, TensorType) or not isinstance(seen.type, TensorType):
        return None
    old, new = seen.type.dtype, value.dtype
    is_widened = old.is_float and (new.is_float or new.is_integer or new == BOOL)
    is_counted = old.is_integer and (new.is_integer or new == BOOL)
    return old if old != new and (is_widened or is_counted) else None


def _holds_tensors(node: GraphNode) -> bool:
    """Whether attributes are tensors, whose type is that of an operand: the keys of a LabelEncoder, splits of trees."""
    return any(isinstance(value, Tensor) for value in node.attributes.values())
