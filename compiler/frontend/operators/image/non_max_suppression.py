"""NonMaxSuppression: boxes by falling score, without those that overlap a better one."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value


@operator("NonMaxSuppression", since=(10, 11))
def non_max_suppression(node: Node, ir: Builder) -> Value:
    """boxes: f32[B, S, 4], scores: f32[B, C, S], max_output_boxes_per_class: i64[]?, iou_threshold: f32[]?,
    score_threshold: f32[]?  ->  i64[n, 3]: batch, class and index of each box that stays

    Of equal scores the first box comes first; a score that is NaN counts as the lowest.
    Source: https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
    """
    if node.int("center_point_box") not in (0, 1):
        message = f"center_point_box is {node.int('center_point_box')}, not 0 or 1"
        node.fail("nms-center-point", message, rule="ONNX NonMaxSuppression, attribute center_point_box")
    boxes, scores = _operands(node, ir)
    lowest = node.optional("score_threshold")
    limits = [_iou_threshold(node, ir)]
    if lowest is not None:
        limits.append(as_scalar(lowest, "score_threshold", node, ir))
    given = _scalar("max_output_boxes_per_class", 0, node, ir)
    (limit,) = ir.read_sizes(given, "limit", enough=scores.shape[2])
    count = minimum(scores.shape[2], maximum(limit, 0))
    chosen = ir.suppress_boxes(_corners(boxes, node, ir), scores, limits, count)
    indices = ir.transpose(ir.non_zero(ir.less_equal(0, chosen)), (1, 0))
    return ir.concatenate([ir.slice_axis(indices, 1, 0, 2), ir.unsqueeze(ir.gather_nd(chosen, indices), (1,))], 1)


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
    """f32[B, S, 4]: two opposite corners of each box, (a, b, a', b')."""
    if not node.flag("center_point_box"):
        return boxes
    center, half = ir.slice_axis(boxes, 2, 0, 2), ir.div(ir.slice_axis(boxes, 2, 2, 2), 2.0)
    return ir.concatenate([ir.sub(center, half), ir.add(center, half)], 2)
