"""The meaning of the suppression of boxes."""

import numpy as np

from onnxc.runtime.host.attributes import integer
from onnxc.runtime.host.registry import Arrays, Attributes, meaning


@meaning("suppress_boxes")
def suppress_boxes(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """corners: f32[B, S, 4], scores: f32[B, C, S], overlap: f32[], lowest: f32[]  ->  i64[B, C, count]"""
    corners, scores, overlap, *lowest = operands
    count = integer(attributes, "count")
    first, second = corners[..., :2], corners[..., 2:]
    corners = np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)
    result = np.full((*scores.shape[:2], count), -1, np.int64)
    ranked = np.where(np.isnan(scores), np.float32(-np.inf), scores)
    for image, category in np.ndindex(*scores.shape[:2]):
        order = np.argsort(-ranked[image, category], kind="stable")
        if lowest:
            order = order[lowest[0] < scores[image, category, order]]
        kept: list[int] = []
        for box in order.tolist():
            if len(kept) == count:
                break
            if not (overlap < _overlaps(corners[image, kept], corners[image, box])).any():
                kept.append(box)
        result[image, category, : len(kept)] = kept
    return (result,)


def _overlaps(boxes: np.ndarray, box: np.ndarray) -> np.ndarray:
    """f32[n]: the intersection of each of `boxes` with `box` over their union; 0 of empty boxes."""
    sides = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    sides = np.maximum(sides, np.float32(0))
    common, own, other = sides[:, 0] * sides[:, 1], _area(boxes), _area(box)
    union = own + other - common
    proper = (own > 0) & (other > 0) & (union > 0)
    return np.where(proper, common / np.where(proper, union, np.float32(1)), np.float32(0))


def _area(boxes: np.ndarray) -> np.ndarray:
    sides = boxes[..., 2:] - boxes[..., :2]
    return np.asarray(sides[..., 0] * sides[..., 1])
