"""CropAndResize and DynamicQuantizeLSTM of com.microsoft against ONNX Runtime."""

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError
from tests.operators.microsoft.agreement import assert_agrees, integers, make_model, normal, run_ours, run_theirs
from tests.support.signed_weights import END, LEAST


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (1, 5), (7, 2)], ids=str)
def test_crop_and_resize(size: tuple[int, int], mode: str) -> None:
    inputs = {
        "x": normal(2, 3, 6, 5),
        "rois": np.float32([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.3, 0.4, 1.2, 0.7], [0.9, 0.8, 0.2, 0.1]]),
        "batch": np.int32([1, 0, 1, 0]),
        "size": np.int32(size),
    }
    shapes = {"x": ["n", 3, "h", "w"], "rois": ["r", 4], "batch": ["r"]}
    options = {"mode": mode, "extrapolation_value": 7.5, "constants": ["size"]}
    assert_agrees("CropAndResize", inputs, shapes=shapes, **options)


def test_regions_without_an_image_are_refused() -> None:
    inputs = {"x": normal(2, 3, 6, 5), "rois": normal(2, 4), "batch": np.int32([0]), "size": np.int32([2, 2])}
    with pytest.raises(ModelError, match="roi-shape"):
        run_ours(make_model("CropAndResize", inputs, constants=["size"]), inputs)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_column", [False, True])
def test_dynamic_quantize_lstm(per_column: bool, direction: str) -> None:
    length, batch, features, hidden = 4, 2, 6, 5
    count = 2 if direction == "bidirectional" else 1
    shape = (count, 4 * hidden) if per_column else (count,)
    inputs = {
        "x": normal(length, batch, features),
        "w": integers(LEAST, END, count, features, 4 * hidden, dtype=np.int8),
        "r": integers(LEAST, END, count, hidden, 4 * hidden, dtype=np.int8, seed=1),
        "b": normal(count, 8 * hidden, seed=2),
        "lens": None,
        "h": normal(count, batch, hidden, seed=3),
        "c": normal(count, batch, hidden, seed=4),
        "p": None,
        "w_scale": np.full(shape, 0.005, np.float32),
        "w_zero": np.zeros(shape, np.int8),
        "r_scale": np.full(shape, 0.004, np.float32),
        "r_zero": np.zeros(shape, np.int8),
    }
    constants = ["w", "r", "w_scale", "w_zero", "r_scale", "r_zero"]
    options = {"outputs": ["y", "yh", "yc"], "constants": constants, "hidden_size": hidden, "direction": direction}
    model = make_model("DynamicQuantizeLSTM", inputs, **options)
    for actual, expected in zip(run_ours(model, inputs), run_theirs(model, inputs), strict=True):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        # ONNX Runtime rounds each operand of a product to 8 bits: to 1/64 of sums of about 1.
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1 / 64)
