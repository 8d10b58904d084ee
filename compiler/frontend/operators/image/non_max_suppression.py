"""NonMaxSuppression: boxes by falling score, without those that overlap a better one."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType


@operator("NonMaxSuppression", since=(10, 11))
def non_max_suppression(node: Node, ir: Builder) -> Value:
    """boxes: f32[B, S, 4], scores: f32[B, C, S], max_output_boxes_per_class: i64[]?, iou_threshold: f32[]?,
    score_threshold: f32[]?  ->  i64[n, 3]: batch, class and index of each box that stays

    Sorted by score, the boxes are gone through once for all batches and classes together.
    Source: https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
    """
    if node.int("center_point_box") not in (0, 1):
        message = f"center_point_box is {node.int('center_point_box')}, not 0 or 1"
        node.fail("nms-center-point", message, rule="ONNX NonMaxSuppression, attribute center_point_box")
    boxes, scores = _operands(node, ir)
    ranked, order = ir.sort(scores, 2, descending=True)
    corners = _corners(boxes, node, ir)
    rows = ir.gather_nd(corners, ir.unsqueeze(order, (3,)), 1)
    lowest = node.optional("score_threshold")
    kept = ir.full(scores.shape, True, BOOL)
    if lowest is not None:
        kept = ir.less(as_scalar(lowest, "score_threshold", node, ir), ranked)
    kept = _suppressed(rows, kept, _iou_threshold(node, ir), ir)
    limit = _scalar("max_output_boxes_per_class", 0, node, ir)
    chosen = ir.and_(kept, ir.less_equal(ir.scan_axis(ir.cast(kept, I64), "sum", 2), limit))
    indices = ir.transpose(ir.non_zero(chosen), (1, 0))
    boxes_chosen = ir.unsqueeze(ir.gather_nd(order, indices), (1,))
    return ir.concatenate([ir.slice_axis(indices, 1, 0, 2), boxes_chosen], 1)


def _operands(node: Node, ir: Builder) -> tuple[Value, Value]:
    boxes, scores = node.inputs("boxes", "scores")
    boxes = of_shape(boxes, (None, None, 4), "boxes", node, ir, "nms-boxes")
    scores = of_shape(scores, (boxes.shape[0], None, boxes.shape[1]), "scores", node, ir, "nms-scores")
    return boxes, scores


def _scalar(name: str, default: float, node: Node, ir: Builder) -> Value:
    value = node.optional(name)
    dtype = I64 if isinstance(default, int) else F32
    return ir.scalar(default, dtype) if value is None else as_scalar(value, name, node, ir)


def _iou_threshold(node: Node, ir: Builder) -> Value:
    """f32[]: within [0, 1]."""
    threshold = _scalar("iou_threshold", 0.0, node, ir)
    known = ir.known_array(threshold)
    if known is not None and not 0 <= known <= 1:
        message = f"iou_threshold is {known}, outside [0, 1]"
        node.fail("nms-threshold", message, rule="ONNX NonMaxSuppression, iou_threshold")
    return threshold


def _corners(boxes: Value, node: Node, ir: Builder) -> Value:
    """f32[B, S, 4]: the lesser and the greater coordinates of each box, (a, b, a', b')."""
    first, second = ir.slice_axis(boxes, 2, 0, 2), ir.slice_axis(boxes, 2, 2, 2)
    if node.flag("center_point_box"):
        half = ir.div(second, 2.0)
        first, second = ir.sub(first, half), ir.add(first, half)
    return ir.concatenate([ir.min(first, second), ir.max(first, second)], 2)


def _suppressed(boxes: Value, kept: Value, threshold: Value, ir: Builder) -> Value:
    """bool[B, C, S]: `kept` without the boxes [B, C, S, 4] that overlap an earlier one that stays."""
    body = ir.nested()
    types = (TensorType(I64, ()), kept.tensor, boxes.tensor, threshold.tensor)
    names = ("index", "kept", "boxes", "threshold")
    index, alive, rows, limit = parameters = [
        body.parameter(name, type) for name, type in zip(names, types, strict=True)
    ]
    at = body.reshape(index, (1,))
    overlaps = body.less(limit, _overlap(body.gather(rows, at, 2), rows, body))
    later = body.less(index, body.iota(kept.shape, 2, I64))
    loses = body.and_(body.and_(overlaps, later), body.gather(alive, at, 2))
    going = body.scalar(True, BOOL)
    block = body.block(parameters, [going, body.and_(alive, body.not_(loses))])
    (result,) = ir.while_(
        ir.size(kept.shape[2]),
        ir.scalar(True, BOOL),
        [kept],
        [boxes, threshold],
        block,
        [kept.type],
        ir.symbols.fresh("iterations"),
    )
    return result


def _overlap(box: Value, boxes: Value, ir: Builder) -> Value:
    """f32[B, C, S]: the intersection of `box` [B, C, 1, 4] with each of `boxes` over their union; 0 of empty boxes."""
    low = ir.max(ir.slice_axis(box, 3, 0, 2), ir.slice_axis(boxes, 3, 0, 2))
    high = ir.min(ir.slice_axis(box, 3, 2, 2), ir.slice_axis(boxes, 3, 2, 2))
    common = ir.reduce(ir.max(ir.sub(high, low), 0.0), "prod", (3,))
    own, others = _area(box, ir), _area(boxes, ir)
    union = ir.sub(ir.add(own, others), common)
    proper = ir.and_(ir.and_(ir.less(0.0, own), ir.less(0.0, others)), ir.less(0.0, union))
    return ir.select(proper, ir.div(common, union), 0.0)


def _area(boxes: Value, ir: Builder) -> Value:
    return ir.reduce(ir.sub(ir.slice_axis(boxes, 3, 2, 2), ir.slice_axis(boxes, 3, 0, 2)), "prod", (3,))
