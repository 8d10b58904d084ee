"""CropAndResize and DynamicQuantizeLSTM of com.microsoft against ONNX Runtime."""

import numpy as np
import pytest

import onnxc
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


CONSTANTS = ["w", "r", "w_scale", "w_zero", "r_scale", "r_zero"]
CASES = [
    (direction, per_column, hidden, dtype)
    for direction in ("forward", "reverse", "bidirectional")
    for per_column in (False, True)
    for hidden, dtype in ((5, np.int8), (16, np.uint8))
]


def _quantized_lstm(
    direction: str, per_column: bool, hidden: int, dtype: type[np.generic]
) -> dict[str, np.ndarray | None]:
    length, batch, features = 4, 2, 6
    count, least, zero = (2 if direction == "bidirectional" else 1), *((LEAST, 0) if dtype == np.int8 else (0, 131))
    shape = (count, 4 * hidden) if per_column else (count,)
    return {
        "x": normal(length, batch, features),
        "w": integers(least, least + END - LEAST, count, features, 4 * hidden, dtype=dtype),
        "r": integers(least, least + END - LEAST, count, hidden, 4 * hidden, dtype=dtype, seed=1),
        "b": normal(count, 8 * hidden, seed=2),
        "lens": None,
        "h": normal(count, batch, hidden, seed=3),
        "c": normal(count, batch, hidden, seed=4),
        "p": None,
        "w_scale": np.linspace(0.004, 0.006, np.prod(shape), dtype=np.float32).reshape(shape),
        "w_zero": np.full(shape, zero, dtype),
        "r_scale": np.linspace(0.003, 0.005, np.prod(shape), dtype=np.float32).reshape(shape),
        "r_zero": np.full(shape, zero, dtype),
    }


@pytest.mark.parametrize(("direction", "per_column", "hidden", "dtype"), CASES)
@pytest.mark.parametrize("constants", [CONSTANTS, [name for name in CONSTANTS if name != "r"]], ids=["all", "not R"])
def test_dynamic_quantize_lstm(
    constants: list[str], direction: str, per_column: bool, hidden: int, dtype: type[np.generic]
) -> None:
    inputs = _quantized_lstm(direction, per_column, hidden, dtype)
    options = {"outputs": ["y", "yh", "yc"], "hidden_size": hidden, "direction": direction}
    ours = run_ours(make_model("DynamicQuantizeLSTM", inputs, **options, constants=constants), inputs)
    theirs = run_theirs(make_model("DynamicQuantizeLSTM", inputs, **options, constants=CONSTANTS), inputs)
    for actual, expected in zip(ours, theirs, strict=True):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        # Each operand of a product is rounded to 8 bits: to 1/64 of sums of about 1.
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1 / 64)


def test_dynamic_quantize_lstm_rounds_no_more_than_onnx_runtime() -> None:
    ours, theirs = np.sum([_squared_errors(*case) for case in CASES], axis=0)
    assert ours <= theirs


def _squared_errors(direction: str, per_column: bool, hidden: int, dtype: type[np.generic]) -> tuple[float, float]:
    """How far our results and those of ONNX Runtime are from those of an LSTM of floats."""
    inputs = _quantized_lstm(direction, per_column, hidden, dtype)
    options = {"outputs": ["y", "yh", "yc"], "hidden_size": hidden, "direction": direction}
    model = make_model("DynamicQuantizeLSTM", inputs, **options, constants=CONSTANTS)
    floats = {name: inputs[name] for name in ("x", "w", "r", "b", "lens", "h", "c")}
    for name in ("w", "r"):
        scale, zero = (inputs[f"{name}_{part}"] for part in ("scale", "zero"))
        scale, zero = (each.reshape(each.shape[0], 1, -1).astype(np.float32) for each in (scale, zero))
        floats[name] = ((inputs[name] - zero) * scale).transpose(0, 2, 1)
    wanted = run_theirs(make_model("LSTM", floats, **options, domain=""), floats)
    ours, theirs = (
        sum(float(np.square(actual - each).sum()) for actual, each in zip(results, wanted, strict=True))
        for results in (run_ours(model, inputs), run_theirs(model, inputs))
    )
    return ours, theirs


def test_weights_of_an_lstm_stay_bytes() -> None:
    inputs = _quantized_lstm("forward", False, 5, np.int8)
    options = {"outputs": ["y"], "hidden_size": 5, "constants": CONSTANTS}
    exe = onnxc.compile(make_model("DynamicQuantizeLSTM", inputs, **options), cache=False)
    kinds = [launch["kind"] for launch in exe.report()["launches"]]
    assert kinds.count("block_product") == 2
    assert "contraction" not in kinds
    given = {name: inputs[name] for name in ("x", "b", "h", "c")}
    wanted = run_theirs(make_model("DynamicQuantizeLSTM", inputs, **options), inputs)
    np.testing.assert_allclose(exe.run(given)["y"], wanted[0], rtol=0, atol=1 / 64)
