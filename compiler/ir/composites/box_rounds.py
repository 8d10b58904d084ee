"""The suppression of boxes as other primitives: sorted by score, each suppresses those behind it in its own round."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.types import TensorType


def rounds_of_boxes(op: Op, build: Builder) -> tuple[Value, ...]:
    """The first `count` of those that no better box overlaps, in the order of their scores"""
    corners, scores, threshold, *lowest = op.operands
    count = op.dim("count")
    kept = build.full(scores.shape, True, BOOL)
    if lowest:
        kept = build.less(lowest[0], scores)
    ranked = build.select(build.is_nan(scores), float("-inf"), scores)
    _, order = build.sort(ranked, 2, descending=True)
    kept = build.gather_along(kept, order, 2)
    first, second = build.slice_axis(corners, 2, 0, 2), build.slice_axis(corners, 2, 2, 2)
    ordered = build.concatenate([build.min(first, second), build.max(first, second)], 2)
    rows = build.gather_nd(ordered, build.unsqueeze(order, (3,)), 1)
    kept = _suppressed(rows, kept, threshold, build)
    position = build.scan_axis(build.cast(kept, I64), "sum", 2, exclusive=True)
    target = build.min(build.select(kept, position, build.size(count)), build.size(count))
    start = build.full((*scores.shape[:2], count + 1), -1, I64)
    # What stays beyond the count, or does not stay, goes behind the end; the order of these is of no matter.
    scattered = build.scatter_along(start, target, order, 2, "set")
    return (build.slice(scattered, (0, 0, 0), (*scores.shape[:2], count)),)


def _suppressed(boxes: Value, kept: Value, threshold: Value, build: Builder) -> Value:
    """bool[B, C, S]: `kept` without the boxes [B, C, S, 4] that overlap an earlier one that stays."""
    body = build.nested()
    types = (TensorType(I64, ()), kept.tensor, boxes.tensor, threshold.tensor)
    names = ("index", "kept", "boxes", "threshold")
    index, alive, rows, limit = parameters = [
        body.parameter(name, type) for name, type in zip(names, types, strict=True)
    ]
    at = body.reshape(index, (1,))
    overlaps = body.less(limit, _overlap(body.gather(rows, at, 2), rows, body))
    later = body.less(index, body.iota(kept.shape, 2, I64))
    loses = body.and_(body.and_(overlaps, later), body.gather(alive, at, 2))
    block = body.block(parameters, [body.scalar(True, BOOL), body.and_(alive, body.not_(loses))])
    limit, going, symbol = build.size(kept.shape[2]), build.scalar(True, BOOL), build.symbols.fresh("rounds")
    return build.while_(limit, going, [kept], [boxes, threshold], block, [kept.type], symbol)[0]


def _overlap(box: Value, boxes: Value, build: Builder) -> Value:
    """f32[B, C, S]: the intersection of `box` [B, C, 1, 4] with each of `boxes` over their union; 0 of empty boxes."""
    low = build.max(build.slice_axis(box, 3, 0, 2), build.slice_axis(boxes, 3, 0, 2))
    high = build.min(build.slice_axis(box, 3, 2, 2), build.slice_axis(boxes, 3, 2, 2))
    common = build.reduce(build.max(build.sub(high, low), 0.0), "prod", (3,))
    own, others = _area(box, build), _area(boxes, build)
    union = build.sub(build.add(own, others), common)
    proper = build.and_(build.and_(build.less(0.0, own), build.less(0.0, others)), build.less(0.0, union))
    return build.select(proper, build.div(common, union), 0.0)


def _area(boxes: Value, build: Builder) -> Value:
    return build.reduce(build.sub(build.slice_axis(boxes, 3, 2, 2), build.slice_axis(boxes, 3, 0, 2)), "prod", (3,))
