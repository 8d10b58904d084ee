"""The kernel that suppresses boxes: operands that are views, sizes of the call, any number of threads."""

from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make


def predictions(images: int, boxes: int, classes: int) -> np.ndarray:
    """f32[images, 4 + classes, boxes]: corners and scores as detectors give them, many of the scores equal."""
    random = np.random.default_rng((images, boxes, classes))
    first = random.integers(0, 20, (images, 2, boxes))
    opposite = first + random.integers(-8, 9, first.shape)
    scores = random.integers(0, 12, (images, classes, boxes)) / 8
    return np.concatenate([first, opposite, scores], 1).astype(np.float32)


def detector(classes: int, count: Dim, *, channels_last: bool) -> Sequence[object]:
    """Boxes and scores are views of one tensor: slices, and one of the two transposed whichever way it lies."""

    def build(ir: Builder, x: Value) -> Value:
        if channels_last:
            boxes = ir.slice_axis(x, 2, 0, 4)
            scores = ir.transpose(ir.slice_axis(x, 2, 4, classes), (0, 2, 1))
        else:
            boxes = ir.transpose(ir.slice_axis(x, 1, 0, 4), (0, 2, 1))
            scores = ir.slice_axis(x, 1, 4, classes)
        limits = [ir.constant(np.array(number, np.float32)) for number in (0.3, 0.5)]
        return ir.suppress_boxes(boxes, scores, limits, count)

    shape = f"f32[B, S, {4 + classes}]" if channels_last else f"f32[B, {4 + classes}, S]"
    return [shape], build


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
def test_views_are_read_where_they_lie(channels_last: bool, target: Target) -> None:
    types, build = detector(3, 6, channels_last=channels_last)
    native = Native(make(types, build), target)
    assert native.kernels() == ["suppress_boxes"]
    for boxes in (0, 1, 2, 17, 70):
        x = predictions(2, boxes, 3)
        native.check(x.transpose(0, 2, 1).copy() if channels_last else x)


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize("limits", [(0.5,), (0.25, 0.1)])
def test_blocks_of_boxes_give_the_first_of_equals(limits: Sequence[float], target: Target) -> None:
    """Few boxes of few places: blocks of one vector and of several, the last one short, most of the boxes taken."""

    def build(ir: Builder, boxes: Value, scores: Value) -> Value:
        return ir.suppress_boxes(boxes, scores, [ir.constant(np.array(limit, np.float32)) for limit in limits], 4000)

    native = Native(make(["f32[1, S, 4]", "f32[1, 2, S]"], build), target)
    random = np.random.default_rng(0)
    for boxes in (3, 64, 300, 1000, 4001):
        corners = random.integers(0, 90, (1, boxes, 4)).astype(np.float32)
        corners[random.random(corners.shape) < 0.03] = random.choice([np.nan, np.inf, -np.inf, -0.0])
        scores = random.standard_normal((1, 2, boxes)).astype(np.float32)
        scores[0, 1] = random.choice([np.nan, -np.inf, np.inf, -0.0, 0.0, 0.5, 1.0], boxes)
        native.check(corners, scores)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_classes_do_not_meet_in_memory(count: int, threads: int) -> None:
    types, build = detector(19, count, channels_last=False)
    native = Native(make(types, build), threads=threads)
    for images in (1, 3):
        native.check(predictions(images, 50, 19))


def test_no_classes_need_no_memory() -> None:
    types, build = detector(0, 6, channels_last=False)
    native = Native(make(types, build))
    for images in (0, 2):
        native.check(predictions(images, 50, 0))
