"""Boxes: those that stay where the ones that overlap a better one are left out."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.types import TensorType, Type


def _suppress_boxes(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """corners: f32[B, S, 4], scores: f32[B, C, S], overlap: f32[], lowest: f32[] if any  ->  i64[B, C, count]

    Corners are (a, b, a', b'), any two that are opposite. Of each class, by falling score, the indices of the boxes
    that stay: a box whose score is above `lowest`, and whose intersection with none that stays before it is more than
    `overlap` of their union. Equal scores are in the order of the boxes, NaN is -inf. Behind the last one, and up to
    `count`, is -1.
    """
    corners, scores, overlap, *lowest = tensors(operands)
    count = attributes.get("count")
    if not isinstance(count, int | Size):
        raise TypeRuleError(f"count is {count}, not a size")
    if any(type.dtype != F32 for type in (corners, scores, overlap, *lowest)) or len(lowest) > 1:
        raise TypeRuleError("not all operands are f32")
    if corners.rank != 3 or scores.rank != 3 or any(type.rank for type in (overlap, *lowest)):
        raise TypeRuleError(f"{corners} and {scores} do not have three axes, or a limit has one")
    B, C, S = scores.known_shape
    if corners.known_shape != (B, S, 4):
        raise TypeRuleError(f"{corners} are not the corners of boxes with scores {scores}")
    return (TensorType(I64, (B, C, count)),)


def _images_and_classes(op: Op) -> tuple[AxisLink, ...]:
    rest = [None] * (len(op.operands) - 2)
    return AxisLink("map", (0, 0, *rest), (0,)), AxisLink("map", (None, 1, *rest), (1,))


define(Primitive("suppress_boxes", "composite", _suppress_boxes, _images_and_classes, kernel=Anchor("suppress_boxes")))
