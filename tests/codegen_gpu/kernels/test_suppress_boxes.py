"""The suppression of boxes on a device: as on the CPU, without the host but for the number of those that stay."""

import numpy as np
import pytest

import onnxc
from tests.codegen_cpu.test_suppress_boxes import detector, predictions
from tests.codegen_gpu.support import Device, make
from tests.support.fake_gpu import compile_for_fake
from tests.support.models import model_from_text

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
m (float[N, S, 4] boxes, float[N, 2, S] scores) => (int64[K, 3] kept) {
  most = Constant <value = int64 {3}> ()
  overlap = Constant <value = float {0.4}> ()
  lowest = Constant <value = float {0.2}> ()
  kept = NonMaxSuppression (boxes, scores, most, overlap, lowest)
}
"""


@pytest.mark.parametrize("channels_last", [False, True])
def test_boxes_are_read_where_they_lie(channels_last: bool) -> None:
    types, build = detector(3, 6, channels_last=channels_last)
    device = Device(make(types, build))
    assert device.kernels() == ["suppress_boxes"]
    for boxes in (0, 1, 17, 70):
        x = predictions(2, boxes, 3)
        device.check(x.transpose(0, 2, 1).copy() if channels_last else x)


def test_scores_that_are_no_numbers_come_last() -> None:
    boxes = np.array([[[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5], [0, 0, 1, 1]]], np.float32)
    scores = np.array([[[np.nan, -np.inf, 1, np.inf]]], np.float32)
    device = Device(
        make(["f32[1, 4, 4]", "f32[1, 1, 4]", "f32[]"], lambda ir, b, s, o: ir.suppress_boxes(b, s, [o], 4))
    )
    (kept,) = device(boxes, scores, np.array(0.5, np.float32))
    # The first box is the last again, which has the highest score of all.
    assert kept.tolist() == [[[3, 2, 1, -1]]]


def test_nothing_goes_to_the_host_in_a_call() -> None:
    model = model_from_text(MODEL)
    run, reference = compile_for_fake(model), onnxc.compile(model, target="interpreter")
    assert run.executable.report()["transfers"] == []  # type: ignore[index, call-overload]
    for boxes in (0, 1, 12):
        x = predictions(2, boxes, 2)
        inputs = {"boxes": x[:, :4].transpose(0, 2, 1).copy(), "scores": x[:, 4:].copy()}
        np.testing.assert_array_equal(run.executable.run(inputs)["kept"], reference.run(inputs)["kept"])
        run.driver.check()
