"""Resize and Upsample against a direct evaluation of the formulas, one element at a time, and ONNX Runtime."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import ModelError
from tests.operators.tensor_operators import WAYS, i64, lower_operator, make_model, run_operator
from tests.support.arrays import assert_close, assert_same
from tests.support.models import model_from_text, run_ort

PARAMETERS = ["roi", "scales", "sizes"]
X = np.array([[[4, -1, 2, 7, 0, 3], [1, 5, -3, 2, 6, -2], [0, 2, 4, 8, -5, 1]]], np.float32)

# x_original of x_resized i: (i, scale, size, length, width, (start, end)), width = size * scale
COORDINATES: dict[str, Callable[..., float]] = {
    "half_pixel": lambda i, scale, size, length, width, roi: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, scale, size, length, width, roi: (
        size / 2 * (1 - length / width) + (i + 0.5) / scale - 0.5
    ),
    "pytorch_half_pixel": lambda i, scale, size, length, width, roi: (i + 0.5) / scale - 0.5 if length > 1 else 0.0,
    "align_corners": lambda i, scale, size, length, width, roi: i * (size - 1) / (width - 1) if width != 1 else 0.0,
    "asymmetric": lambda i, scale, size, length, width, roi: i / scale,
    "tf_crop_and_resize": lambda i, scale, size, length, width, roi: (
        roi[0] * (size - 1) + i * (roi[1] - roi[0]) * (size - 1) / (length - 1)
        if length > 1
        else 0.5 * (roi[0] + roi[1]) * (size - 1)
    ),
}
NEAREST: dict[str, Callable[[float], int]] = {
    "round_prefer_floor": lambda x: ceil(x - 0.5),
    "round_prefer_ceil": lambda x: floor(x + 0.5),
    "floor": floor,
    "ceil": ceil,
}


def kernel(mode: str, distance: float, a: float) -> float:
    x = abs(distance)
    if mode == "linear":
        return max(1 - x, 0)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def weights(place: float, size: int, scale: float, mode: str, a: float, antialias: bool, exclude: bool) -> np.ndarray:
    """The weight of each element of an axis of `size` at a coordinate."""
    stretch = min(scale, 1.0) if antialias else 1.0
    reach = ceil(2 / stretch) + 1
    taps = range(floor(place) - reach, floor(place) + reach + 1)
    values = {tap: kernel(mode, (tap - place) * stretch, a) for tap in taps}
    if exclude:
        values = {tap: value for tap, value in values.items() if 0 <= tap < size}
    total = sum(values.values()) if antialias or exclude else 1.0
    row = np.zeros(size)
    for tap, value in values.items():
        row[min(max(tap, 0), size - 1)] += value / total
    return row


def resized_axis(
    x: np.ndarray, axis: int, length: int, scale: float, roi: tuple[float, float], **options: object
) -> np.ndarray:
    """`x` with one axis resized; `options` are the attributes of Resize."""
    size, mode = x.shape[axis], options["mode"]
    rows = []
    for i in range(length):
        place = COORDINATES[str(options["transform"])](i, scale, size, length, size * scale, roi)
        if options["transform"] == "tf_crop_and_resize" and not 0 <= place <= size - 1:
            rows.append(np.full(x.shape[:axis] + x.shape[axis + 1 :], np.nan))
        elif mode == "nearest":
            rows.append(np.take(x, min(max(NEAREST[str(options["nearest"])](place), 0), size - 1), axis))
        else:
            row = weights(place, size, scale, str(mode), -0.75, bool(options["antialias"]), bool(options["exclude"]))
            rows.append(np.tensordot(x.astype(np.float64), row, (axis, 0)))
    return np.stack(rows, axis)


@pytest.mark.parametrize("way", ["symbolic", "data"])
@pytest.mark.parametrize("transform", COORDINATES)
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        *(("nearest", {"nearest": nearest}) for nearest in NEAREST),
        ("linear", {}),
        ("cubic", {}),
        ("cubic", {"exclude": True}),
        ("linear", {"antialias": True}),
        ("cubic", {"antialias": True, "exclude": True}),
    ],
)
@pytest.mark.parametrize(("scales", "sizes"), [((1.5, 0.7), None), (None, (1, 9))])
def test_resize_is_its_formulas(
    way: str,
    transform: str,
    mode: str,
    options: dict[str, object],
    scales: tuple[float, ...] | None,
    sizes: tuple[int, ...] | None,
) -> None:
    roi = ((0.125, 0.75), (-0.25, 1.125)) if transform == "tf_crop_and_resize" else ((0, 1), (0, 1))
    settings = {"nearest": "floor", "antialias": False, "exclude": False, **options}
    expected = X
    for place, axis in enumerate((1, 2)):
        size = X.shape[axis]
        scale = float(np.float32(scales[place])) if scales else sizes[place] / size
        length = int(np.float32(size) * np.float32(scales[place])) if scales else sizes[place]
        expected = resized_axis(expected, axis, length, scale, roi[place], mode=mode, transform=transform, **settings)
    inputs = {
        "X": X,
        "roi": np.array([*zip(*roi, strict=True)], np.float32).reshape(-1) if transform.startswith("tf") else None,
        "scales": None if scales is None else np.array(scales, np.float32),
        "sizes": None if sizes is None else i64(*sizes),
    }
    (got,) = run_operator(
        "Resize",
        inputs if sizes else {name: inputs[name] for name in ("X", "roi", "scales")},
        opset=19,
        way=way,
        parameters=PARAMETERS,
        axes=[1, 2],
        mode=mode,
        coordinate_transformation_mode=transform,
        nearest_mode=settings["nearest"],
        antialias=int(bool(settings["antialias"])) if mode != "nearest" else 0,
        exclude_outside=int(bool(settings["exclude"])),
        extrapolation_value=float("nan"),
    )
    assert_close(got, expected.astype(np.float32), terms=4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("policy", "shape"), [("not_larger", (1, 5, 9)), ("not_smaller", (1, 5, 10)), ("stretch", (1, 5, 9))]
)
def test_proportions_are_kept_and_halves_round_up(way: str, policy: str, shape: tuple[int, ...]) -> None:
    inputs = {"X": X, "roi": None, "scales": None, "sizes": i64(5, 9)}
    (got,) = run_operator(
        "Resize", inputs, opset=19, way=way, parameters=PARAMETERS, axes=[-2, -1], keep_aspect_ratio_policy=policy
    )
    assert got.shape == shape


@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_simple_scale_has_an_exact_symbolic_size(size: int) -> None:
    x = np.arange(size, dtype=np.float32)
    inputs = {"X": x, "roi": None, "scales": np.array([2.5], np.float32)}
    module = lower_operator("Resize", inputs, opset=19, way="symbolic", parameters=PARAMETERS)
    assert str(module.main.body.results[0].shape[0]) == "floordiv(5*X_0, 2)"
    (got,) = run_operator("Resize", inputs, opset=19, way="symbolic", parameters=PARAMETERS, mode="linear")
    assert got.shape == (size * 5 // 2,)


@pytest.mark.parametrize("size", [1, 10, 30])
def test_another_scale_is_multiplied_in_f32(size: int) -> None:
    inputs = {"X": np.zeros(size, np.float32), "roi": None, "scales": np.array([0.7], np.float32)}
    for way in WAYS:
        (got,) = run_operator("Resize", inputs, opset=19, way=way, parameters=PARAMETERS)
        assert got.shape == (int(np.float32(size) * np.float32(0.7)),)


@pytest.mark.parametrize(("operator", "opset"), [("Upsample", 9), ("Resize", 10)])
@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_a_simple_scale_is_exact_for_sizes_that_f32_does_not_hold(operator: str, opset: int, scale: float) -> None:
    inputs = {"X": np.zeros((1, 16777217), np.uint8), "scales": np.array([1, scale], np.float32)}
    module = lower_operator(operator, inputs, opset=opset, parameters=["scales"])
    assert module.main.body.results[0].shape == (1, int(16777217 * scale))


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_a_whole_scale_is_repetition(scale: int) -> None:
    inputs = {"X": X, "roi": None, "scales": np.array([1, scale, scale], np.float32)}
    module = lower_operator("Resize", inputs, opset=13, way="symbolic", parameters=PARAMETERS)
    assert "gather" not in {op.name for op in module.main.body.ops}
    (got,) = run_operator("Resize", inputs, opset=13, way="symbolic", parameters=PARAMETERS)
    assert_same(got, X.repeat(scale, 1).repeat(scale, 2))


@pytest.mark.parametrize(
    ("sizes", "axes"),
    [((2, 3, 2, 8), [2, 0, 1, 3]), ((2, 3, 12, 2), [3, 0, 1, 2]), ((2, 6, 3, 4), [2, 3, 0, 1])],
)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_what_shrinks_most_is_resampled_first(sizes: tuple[int, ...], axes: list[int], mode: str) -> None:
    x, roi = np.zeros((2, 3, 6, 8), np.float32), np.array([0, 0, 0.2, 0.1, 1, 1, 0.9, 0.6], np.float32)
    attributes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}
    inputs = {"X": x, "roi": roi, "scales": np.zeros(0, np.float32), "sizes": i64(*sizes)}
    module = lower_operator("Resize", inputs, opset=19, parameters=["scales", "sizes"], **attributes)
    gathered = [op.int("axis") for op in module.main.body.ops if op.name == "gather"]
    assert list(dict.fromkeys(gathered)) == axes


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", [{"scales": np.array([1, 0.5], np.float32)}, {"sizes": i64(2, 1)}])
def test_an_axis_that_keeps_its_size_is_not_moved(way: str, target: dict[str, np.ndarray]) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    inputs = {"x": x, "roi": np.zeros(0, np.float32), "scales": np.zeros(0, np.float32)} | target
    how = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "ceil"}
    (got,) = run_operator("Resize", inputs, opset=11, way=way, parameters=PARAMETERS, **how)
    # Column 0.5 / 0.5 is 1; where the size tells the scale, 1/3, it is 1.5, and above that 2.
    assert_same(got, x[:, 1:2] if "scales" in target else x[:, 2:])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_axis_may_shrink_to_nothing(way: str, mode: str) -> None:
    inputs = {"x": X, "roi": None, "scales": None, "sizes": i64(1, 0, 4)}
    (got,) = run_operator("Resize", inputs, opset=19, way=way, parameters=PARAMETERS, mode=mode, antialias=1)
    assert_same(got, np.zeros((1, 0, 4), np.float32))


def test_nearest_takes_every_type() -> None:
    for x in (np.array(["a", "b"], object), np.array([True, False]), np.array([1j, 2])):
        (got,) = run_operator(
            "Resize", {"X": x, "roi": None, "scales": np.array([2], np.float32)}, opset=19, parameters=PARAMETERS
        )
        assert got.tolist() == [x[0], x[0], x[1], x[1]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, np.float64])
def test_interpolated_integers_are_rounded(dtype: type) -> None:
    x = np.array([0, 3, 250 if dtype == np.uint8 else -5]).astype(dtype)
    inputs = {"X": x, "roi": None, "scales": np.array([2], np.float32)}
    (got,) = run_operator("Resize", inputs, opset=19, parameters=PARAMETERS, mode="linear")
    exact = np.interp((np.arange(6) + 0.5) / 2 - 0.5, np.arange(3), x.astype(np.float64))
    assert_close(got, (exact if np.issubdtype(dtype, np.floating) else np.round(exact)).astype(dtype))


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("scale", ["1.5", "2.5", "24.5"])
def test_a_coordinate_of_exactly_half_is_none_of_less(target: str, scale: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 19]> g (int32[N] x) => (int32[M] y) <float[1] s = {{{scale}}}> {{
        y = Resize <nearest_mode = "round_prefer_ceil"> (x, , s)
    }}"""
    x = np.arange(7, dtype=np.int32)
    coordinates = [(i + Fraction(1, 2)) / Fraction(scale) for i in range(int(7 * float(scale)))]
    got = onnxc.compile(model_from_text(text), target=target)(x)
    assert_same(got, np.int32([min(floor(coordinate), 6) for coordinate in coordinates]))


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_integers_between_two_are_rounded_alike_on_every_target(target: str) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]> g (int32[N] x) => (int32[M] y) <float[1] s = {1.5}> {
        y = Resize <mode = "linear"> (x, , s)
    }"""
    x = np.int32([5, 2, -1, 5, 3])
    got = onnxc.compile(model_from_text(text), target=target)(x)
    assert_same(got, np.int32([5, 4, 1, -1, 2, 5, 3]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(
    ("operator", "opset", "scales"),
    [
        ("Resize", 10, (1, 0.6, 0.5)),
        ("Resize", 10, (1, 1.5, 2.25)),
        ("Resize", 10, (1, 3, 0.8)),
        ("Upsample", 9, (1, 2, 2)),
        ("Upsample", 9, (1, 1.25, 2.625)),
    ],
)
def test_old_versions_do_as_onnx_runtime(
    way: str, mode: str, operator: str, opset: int, scales: tuple[float, ...]
) -> None:
    inputs = {"X": X[np.newaxis, 0:1], "scales": np.array((1, *scales), np.float32)}
    model = make_model(
        operator, inputs, opset=opset, way="data", parameters=["scales"], outputs=1, attributes={"mode": mode}
    )
    (got,) = run_operator(operator, inputs, opset=opset, way=way, parameters=["scales"], mode=mode)
    assert_close(got, run_ort(model, inputs)["result0"], terms=4)


def test_upsample_had_attributes() -> None:
    x = X[np.newaxis]
    (got,) = run_operator("Upsample", {"X": x}, opset=1, height_scale=2.0, width_scale=1.5)
    columns = [0, 0, 1, 2, 2, 3, 4, 4, 5]
    assert_same(got, x.repeat(2, 2)[..., columns])
    (got,) = run_operator("Upsample", {"X": x}, opset=7, scales=[1.0, 1.0, 2.0, 1.5])
    assert_same(got, x.repeat(2, 2)[..., columns])
    (got,) = run_operator(
        "Upsample",
        {"X": np.ones((1, 1, 2, 2), np.float32)},
        opset=1,
        height_scale=2.0,
        width_scale=2.0,
        mode="bilinear",
    )
    assert_same(got, np.ones((1, 1, 4, 4), np.float32))


@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_texts_have_nearest_ones_only_and_nothing_beyond_the_region(way: str) -> None:
    x = np.array([["a", "b"]], object)
    inputs = {"X": x, "roi": np.float32([0, 0, 1, 2]), "scales": None, "sizes": i64(1, 4)}
    region = {"coordinate_transformation_mode": "tf_crop_and_resize", "nearest_mode": "floor"}
    (got,) = run_operator("Resize", inputs, opset=13, way=way, parameters=["roi", "sizes"], **region)
    assert got.tolist() == [["a", "a", "", ""]]
    with pytest.raises(ModelError, match="interpolated-text"):
        run_operator("Resize", inputs, opset=13, way=way, parameters=["roi", "sizes"], mode="linear")


@pytest.mark.parametrize("name", ["scales", "sizes"])
def test_the_call_tells_whether_scales_or_sizes_are_given(name: str) -> None:
    inputs = {
        "X": np.float32([[1, 2]]),
        "roi": np.zeros(0, np.float32),
        "scales": np.zeros(0, np.float32),
        "sizes": i64(),
    }
    inputs[name] = np.float32([1, 2]) if name == "scales" else i64(1, 4)
    (got,) = run_operator("Resize", inputs, opset=11, way="symbolic", nearest_mode="floor")
    assert_same(got, np.float32([[1, 1, 1, 2]]))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_complex_numbers_have_two_parts(dtype: type, mode: str) -> None:
    x = np.array([[1 + 2j, 3 - 4j, 5j]], dtype)

    def run(array: np.ndarray) -> np.ndarray:
        inputs = {"X": array, "roi": None, "scales": None, "sizes": i64(1, 5)}
        return run_operator("Resize", inputs, opset=13, parameters=["sizes"], mode=mode)[0]

    got = run(x)
    assert got.dtype == dtype
    assert_close(got.real, run(x.real.copy()))
    assert_close(got.imag, run(x.imag.copy()))
