"""Conv, its integer forms, ConvTranspose, DeformConv and CausalConvWithState against loops over elements."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same

RANDOM = np.random.default_rng(0)
Shape = tuple[int, ...]


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def convolve(
    x: np.ndarray, w: np.ndarray, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], group: int = 1
) -> np.ndarray:
    """The cross-correlation, one place of the result after the other, in the type of x."""
    rank = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    places = [(n - span) // s + 1 for n, span, s in zip(padded.shape[2:], spans, strides, strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *places), x.dtype)
    channels, filters = w.shape[1], w.shape[0] // group
    for m, place in product(range(w.shape[0]), product(*map(range, places))):
        start = m // filters * channels
        taps = tuple(slice(p * s, p * s + n, d) for p, s, n, d in zip(place, strides, spans, dilations, strict=True))
        window = padded[(slice(None), slice(start, start + channels), *taps)]
        result[(slice(None), m, *place)] = (window * w[m]).sum(tuple(range(1, x.ndim)))
    return result


# Conv

CASES: list[tuple[Shape, Shape, dict[str, object]]] = [
    ((1, 1, 5), (1, 1, 3), {}),
    ((2, 3, 6, 5), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((1, 4, 6, 6), (2, 2, 3, 3), {"group": 2, "dilations": [2, 1], "pads": [2, 1, 2, 1]}),
    ((2, 3, 4, 4), (6, 1, 1, 1), {"group": 3}),
    ((1, 2, 4, 3, 5), (3, 2, 2, 3, 1), {"strides": [1, 2, 3], "pads": [0, 1, 0, 0, 1, 0]}),
    ((0, 2, 4, 4), (3, 2, 2, 2), {}),
    ((1, 2, 1, 1), (3, 2, 1, 1), {"kernel_shape": [1, 1]}),
]


def defaults(attributes: dict[str, object], rank: int) -> dict[str, object]:
    return {"strides": [1] * rank, "pads": [0] * (2 * rank), "dilations": [1] * rank, "group": 1} | attributes


@pytest.mark.parametrize(("shape", "kernel", "attributes"), CASES)
@pytest.mark.parametrize("opset", [1, 11, 22])
@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_conv(
    shape: Shape, kernel: Shape, attributes: dict[str, object], opset: int, way: str, with_bias: bool
) -> None:
    x, w, b = floats(*shape), floats(*kernel), floats(kernel[0])
    given = {name: value for name, value in defaults(attributes, len(shape) - 2).items() if name != "kernel_shape"}
    expected = convolve(x, w, **given)
    operands = {"x": x, "w": w, "b": b if with_bias else None}
    expected = expected + b.reshape(-1, *[1] * (len(shape) - 2)) if with_bias else expected
    (actual,) = run_operator("Conv", operands, opset=opset, way=way, **attributes)
    assert_close(actual, expected, terms=w[0].size)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_same_padding_keeps_ceil_of_size_over_stride(size: int, stride: int, dilation: int, way: str) -> None:
    x, w = floats(1, 1, size), floats(1, 1, 3)
    places = -(-size // stride)
    total = max(0, (places - 1) * stride + 2 * dilation + 1 - size)
    attributes = {"strides": [stride], "dilations": [dilation]}
    for mode, low in (("SAME_UPPER", total // 2), ("SAME_LOWER", total - total // 2)):
        (actual,) = run_operator("Conv", {"x": x, "w": w}, opset=11, way=way, auto_pad=mode, **attributes)
        assert actual.shape == (1, 1, places)
        if size:
            assert_close(actual, convolve(x, w, [stride], [low, total - low], [dilation]), terms=w[0].size)


def test_valid_padding_is_none() -> None:
    x, w = floats(1, 1, 5), floats(1, 1, 3)
    assert_close(*run_operator("Conv", {"x": x, "w": w}, opset=11, auto_pad="VALID"), convolve(x, w, [1], [0, 0], [1]))


def test_halves_are_summed_in_single_precision() -> None:
    x, w = np.ones((1, 2501, 1), np.float16), np.ones((1, 2501, 1), np.float16)
    operands = {"x": x, "w": w, "b": np.float16([-2500])}
    assert_same(*run_operator("Conv", operands, opset=11), np.float16([[[1]]]))


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes", "code"),
    [((1, 2, 4), (3, 1, 2), {}, "convolution-channels"), ((1, 2, 4), (3, 1, 2), {"group": 2}, "convolution-groups"),
     ((1, 2, 4), (3, 2, 2), {"group": 0}, "convolution-groups"), ((1, 2, 4), (3, 2, 2, 1), {}, "convolution-rank"),
     ((1, 2), (3, 2), {}, "convolution-rank"), ((1, 2, 4), (3, 2, 2), {"kernel_shape": [3]}, "kernel-shape"),
     ((1, 2, 4), (3, 2, 2), {"kernel_shape": [2, 2]}, "attribute-length"),
     ((1, 2, 4), (3, 2, 2), {"strides": [1, 1]}, "attribute-length"),
     ((1, 2, 4), (3, 2, 2), {"strides": [0]}, "attribute-range"),
     ((1, 2, 4), (3, 2, 2), {"pads": [1]}, "attribute-length"),
     ((1, 2, 4), (3, 2, 2), {"pads": [-1, 0]}, "negative-padding"),
     ((1, 2, 4), (3, 2, 2), {"auto_pad": "FULL"}, "attribute-value"), ((1, 2, 4), (3, 2, 7), {}, "window-too-large")],
)  # fmt: skip
def test_illegal_convolutions(shape: Shape, kernel: Shape, attributes: dict[str, object], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run_operator("Conv", {"x": floats(*shape), "w": floats(*kernel)}, opset=11, **attributes)


def test_a_bias_has_one_value_per_channel() -> None:
    with pytest.raises(ModelError, match="channel-parameter"):
        run_operator("Conv", {"x": floats(1, 2, 4), "w": floats(3, 2, 2), "b": floats(2)}, opset=11)
    with pytest.raises(ModelError, match="channel-parameter"):
        run_operator("Conv", {"x": floats(1, 2, 4), "w": floats(3, 2, 2), "b": floats(3, 1)}, opset=11)


def test_what_sizes_decide_is_checked_by_the_call() -> None:
    with pytest.raises(InputError, match="channels differ"):
        run_operator("Conv", {"x": floats(1, 3, 4), "w": floats(3, 2, 2)}, opset=11, way="symbolic")
    with pytest.raises(InputError, match="does not fit"):
        run_operator("Conv", {"x": floats(1, 2, 1), "w": floats(3, 2, 4)}, opset=11, way="symbolic")


# ConvInteger and QLinearConv

X8 = RANDOM.integers(0, 256, (2, 4, 5, 5)).astype(np.uint8)
W8 = RANDOM.integers(-128, 128, (4, 2, 3, 3)).astype(np.int8)
ATTRIBUTES: dict[str, object] = {"pads": [1, 1, 0, 1], "strides": [2, 1], "group": 2}


@pytest.mark.parametrize("x_zero", [None, np.uint8(7)])
@pytest.mark.parametrize("w_zero", [None, np.array(-3, np.int8), np.int8([1, -2, 3, -4])])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_conv_integer(x_zero: np.generic | None, w_zero: np.ndarray | None, way: str) -> None:
    x = X8.astype(np.int32) - (0 if x_zero is None else int(x_zero))
    w = W8.astype(np.int32) - (0 if w_zero is None else w_zero.astype(np.int32).reshape(-1, 1, 1, 1))
    operands = {"x": X8, "w": W8, "x_zero": None if x_zero is None else np.asarray(x_zero), "w_zero": w_zero}
    expected = convolve(x, w, **defaults(ATTRIBUTES, 2))
    assert_same(*run_operator("ConvInteger", operands, opset=10, way=way, **ATTRIBUTES), expected)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_qlinear_conv(per_channel: bool, with_bias: bool) -> None:
    w_scale = np.float32([0.01, 0.02, 0.03, 0.04]) if per_channel else np.array(0.02, np.float32)
    w_zero = np.int8([1, -2, 3, -4]) if per_channel else np.array(2, np.int8)
    bias = np.int32([1000, -1000, 0, 7])
    total = convolve(
        X8.astype(np.int32) - 130,
        W8.astype(np.int32) - w_zero.astype(np.int32).reshape(-1, 1, 1, 1),
        **defaults(ATTRIBUTES, 2),
    )
    total = total + bias.reshape(-1, 1, 1) if with_bias else total
    factor = w_scale.reshape(-1, 1, 1) * np.float32(0.05) / np.float32(0.9)
    expected = np.clip(np.rint(total.astype(np.float32) * factor) + 5, -128, 127).astype(np.int8)
    operands = {"x": X8, "x_scale": np.array(0.05, np.float32), "x_zero": np.array(130, np.uint8), "w": W8}
    operands |= {
        "w_scale": w_scale,
        "w_zero": w_zero,
        "y_scale": np.array(0.9, np.float32),
        "y_zero": np.array(5, np.int8),
    }
    operands |= {"b": bias} if with_bias else {}
    assert_same(*run_operator("QLinearConv", operands, opset=10, **ATTRIBUTES), expected)


@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_scales_and_zero_points_may_be_vectors_of_one_element(way: str) -> None:
    total = convolve(X8.astype(np.int32) - 130, W8.astype(np.int32) - 2, **defaults(ATTRIBUTES, 2))
    factor = np.float32(0.02) * np.float32(0.05) / np.float32(0.9)
    expected = np.clip(np.rint(total.astype(np.float32) * factor) + 5, -128, 127).astype(np.int8)
    operands = {"x": X8, "x_scale": np.float32([0.05]), "x_zero": np.uint8([130]), "w": W8}
    operands |= {"w_scale": np.float32([0.02]), "w_zero": np.int8([2])}
    operands |= {"y_scale": np.float32([0.9]), "y_zero": np.int8([5])}
    assert_same(*run_operator("QLinearConv", operands, opset=10, way=way, **ATTRIBUTES), expected)


def test_the_call_finds_too_many_zero_points() -> None:
    operands = {"x": X8, "w": W8, "x_zero": np.uint8([1, 2])}
    with pytest.raises(InputError):
        run_operator("ConvInteger", operands, opset=10, way="symbolic", **ATTRIBUTES)
    operands = {"x": X8, "w": W8, "x_zero": np.uint8([1]), "w_zero": np.int8([1, 2])}
    with pytest.raises(InputError, match="one value per filter"):
        run_operator("ConvInteger", operands, opset=10, way="symbolic", **ATTRIBUTES)


def test_zero_points_are_of_one_element_or_per_filter() -> None:
    zero = np.array(0, np.uint8)
    for zeros in ({"x_zero": np.uint8([1, 2])}, {"x_zero": zero, "w_zero": np.zeros((4, 2), np.int8)}):
        with pytest.raises(ModelError, match="quantization-granularity"):
            run_operator("ConvInteger", {"x": X8, "w": W8, **zeros}, opset=10, group=2)


# ConvTranspose


def transpose_whole(
    x: np.ndarray, w: np.ndarray, strides: Sequence[int], dilations: Sequence[int], group: int
) -> np.ndarray:
    """Every element of x times the kernel, added where it belongs; nothing cropped."""
    rank, filters = x.ndim - 2, w.shape[1]
    sizes = [(x.shape[2 + i] - 1) * strides[i] + (w.shape[2 + i] - 1) * dilations[i] + 1 for i in range(rank)]
    result = np.zeros((x.shape[0], filters * group, *sizes), x.dtype)
    per_group = x.shape[1] // group
    for c, place in product(range(x.shape[1]), product(*map(range, x.shape[2:]))):
        g = c // per_group
        for tap in product(*map(range, w.shape[2:])):
            target = tuple(p * s + t * d for p, s, t, d in zip(place, strides, tap, dilations, strict=True))
            added = x[(slice(None), c, *place)][:, None] * w[(c, slice(None), *tap)]
            result[(slice(None), slice(g * filters, (g + 1) * filters), *target)] += added
    return result


def cropped(whole: np.ndarray, low: Sequence[int], places: Sequence[int]) -> np.ndarray:
    """`whole` from `low` on, which may be negative, with zeros where it begins too late or ends too early."""
    padded = np.pad(whole, [(0, 0), (0, 0), *((n, n) for n in places)])
    return padded[(..., *(slice(n + start, n + start + n) for start, n in zip(low, places, strict=True)))]


TRANSPOSED: list[tuple[Shape, Shape, dict[str, object]]] = [
    ((1, 1, 3), (1, 2, 3), {}),
    ((2, 2, 3, 4), (2, 3, 3, 2), {"strides": [3, 2], "output_padding": [1, 1], "pads": [1, 0, 2, 1]}),
    ((1, 4, 3, 3), (4, 2, 2, 2), {"group": 2, "dilations": [2, 2], "strides": [2, 1]}),
    ((1, 2, 2, 2, 3), (2, 1, 2, 1, 3), {"strides": [1, 2, 2]}),
    ((1, 2, 4), (2, 1, 2), {"pads": [2, 3], "strides": [3]}),
]


@pytest.mark.parametrize(("shape", "kernel", "attributes"), TRANSPOSED)
@pytest.mark.parametrize("opset", [1, 11, 22])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_conv_transpose(shape: Shape, kernel: Shape, attributes: dict[str, object], opset: int, way: str) -> None:
    rank = len(shape) - 2
    given = defaults({"output_padding": [0] * rank} | attributes, rank)
    x, w = floats(*shape), floats(*kernel)
    b = floats(kernel[1] * given["group"])
    whole = transpose_whole(x, w, given["strides"], given["dilations"], given["group"])
    pads, extra = given["pads"], given["output_padding"]
    places = [whole.shape[2 + i] - pads[i] - pads[rank + i] + extra[i] for i in range(rank)]
    expected = cropped(whole, pads[:rank], places) + b.reshape(-1, *[1] * rank)
    (actual,) = run_operator("ConvTranspose", {"x": x, "w": w, "b": b}, opset=opset, way=way, **attributes)
    assert_close(actual, expected, terms=8)


@pytest.mark.parametrize("places", [6, 7, 8, 9, 11, 12])
@pytest.mark.parametrize("mode", ["NOTSET", "SAME_UPPER"])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_an_output_shape_decides_the_padding(places: int, mode: str, way: str) -> None:
    x, w = floats(1, 1, 4), floats(1, 1, 3)
    whole = transpose_whole(x, w, [2], [1], 1)
    total = whole.shape[2] - places
    low = total // 2 if mode == "SAME_UPPER" else total - total // 2
    attributes = {"strides": [2], "output_shape": [places], "auto_pad": mode}
    (actual,) = run_operator("ConvTranspose", {"x": x, "w": w}, opset=11, way=way, **attributes)
    assert_close(actual, cropped(whole, [low], [places]))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_of_a_kernel_shorter_than_the_stride_adds_on_both_sides(mode: str) -> None:
    x, w = floats(1, 1, 1), np.ones((1, 1, 1), np.float32)
    (actual,) = run_operator("ConvTranspose", {"x": x, "w": w}, opset=11, strides=[3], auto_pad=mode)
    assert_same(actual, np.pad(x, [(0, 0), (0, 0), (1, 1)]))


@pytest.mark.parametrize(("mode", "low"), [("SAME_UPPER", 0), ("SAME_LOWER", 1)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_same_padding_of_the_transpose_is_size_times_stride(mode: str, low: int, way: str) -> None:
    x, w = floats(1, 1, 4), floats(1, 1, 3)
    expected = cropped(transpose_whole(x, w, [2], [1], 1), [low], [8])
    (actual,) = run_operator("ConvTranspose", {"x": x, "w": w}, opset=11, way=way, strides=[2], auto_pad=mode)
    assert_close(actual, expected)


@pytest.mark.parametrize(
    ("kernel", "attributes", "size"),
    [
        (0, {"auto_pad": "SAME_UPPER", "strides": [2]}, 0),
        (3, {"auto_pad": "SAME_LOWER", "strides": [2]}, 0),
        (3, {"strides": [2]}, 1),
        (3, {"strides": [3]}, 0),
        (3, {"strides": [2], "output_padding": [1]}, 2),
        (3, {"strides": [2], "output_shape": [3]}, 3),
    ],
)
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_the_transpose_of_nothing_is_zeros_as_many_as_the_formula_says(
    kernel: int, attributes: dict[str, object], size: int, way: str
) -> None:
    """stride * (input_size - 1) + output_padding + kernel - pads, with an input_size of 0."""
    x, w = floats(1, 1, 0), floats(1, 2, kernel)
    (actual,) = run_operator("ConvTranspose", {"x": x, "w": w}, opset=11, way=way, **attributes)
    assert_same(actual, np.zeros((1, 2, size), np.float32))


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes", "code"),
    [((1, 2, 4), (3, 1, 2), {}, "convolution-channels"), ((1, 3, 4), (3, 1, 2), {"group": 2}, "convolution-groups"),
     ((1, 2), (2, 1), {}, "convolution-rank"),
     ((1, 2, 4), (2, 1, 2), {"output_shape": [1, 2]}, "attribute-length"),
     ((1, 2, 4), (2, 1, 2), {"output_padding": [-1]}, "attribute-range")],
)  # fmt: skip
def test_illegal_transposes(shape: Shape, kernel: Shape, attributes: dict[str, object], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run_operator("ConvTranspose", {"x": floats(*shape), "w": floats(*kernel)}, opset=11, **attributes)


# DeformConv


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("opset", [19, 22])
def test_without_offsets_a_deformable_convolution_is_a_convolution(way: str, opset: int) -> None:
    x, w, b = floats(2, 4, 5, 6), floats(6, 2, 3, 2), floats(6)
    attributes = {"group": 2, "offset_group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}
    given = {name: value for name, value in attributes.items() if name != "offset_group"}
    expected = convolve(x, w, **given) + b.reshape(-1, 1, 1)
    offset = np.zeros((2, 2 * 6 * 2, *expected.shape[2:]), np.float32)
    operands = {"x": x, "w": w, "offset": offset, "b": b, "mask": np.ones((2, 12, *expected.shape[2:]), np.float32)}
    (actual,) = run_operator("DeformConv", operands, opset=opset, way=way, **attributes)
    assert_close(actual, expected, terms=8)


def between(image: np.ndarray, place: np.ndarray) -> float:
    """The element of an image at a place between its elements, in f64; beyond are zeros."""
    low, total = np.floor(place).astype(int), 0.0
    for corner in product(*[(0, 1)] * image.ndim):
        at = low + corner
        if np.all((at >= 0) & (at < image.shape)):
            total += float(image[tuple(at)]) * float(np.prod(1 - np.abs(place - at)))
    return total


def deform(
    x: np.ndarray, w: np.ndarray, offset: np.ndarray, mask: np.ndarray, pad: int, group: int, offset_group: int
) -> np.ndarray:
    """The convolution whose taps are moved, one product after the other: steps and dilations are 1."""
    rank, taps = x.ndim - 2, [*np.ndindex(*w.shape[2:])]
    moves = offset.reshape(x.shape[0], offset_group, len(taps), rank, *offset.shape[2:])
    masks = mask.reshape(x.shape[0], offset_group, len(taps), *mask.shape[2:])
    result = np.zeros((x.shape[0], w.shape[0], *offset.shape[2:]))
    for n, m, place in product(range(x.shape[0]), range(w.shape[0]), np.ndindex(*offset.shape[2:])):
        for c, (ordinal, tap) in product(range(w.shape[1]), enumerate(taps)):
            channel = m // (w.shape[0] // group) * w.shape[1] + c
            own = channel // (x.shape[1] // offset_group)
            at = np.add(place, tap) - pad + moves[(n, own, ordinal, slice(None), *place)].astype(np.float64)
            weight = float(w[(m, c, *tap)]) * float(masks[(n, own, ordinal, *place)])
            result[(n, m, *place)] += weight * between(x[n, channel], at)
    return result.astype(x.dtype)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize(
    ("channels", "group", "offset_group", "image"),
    [(4, 1, 1, (3, 4)), (20, 1, 1, (3, 4)), (18, 1, 2, (3, 4)), (20, 2, 1, (3, 4)), (36, 2, 4, (2, 3)),
     (20, 4, 2, (2, 3)), (10, 1, 1, (5,)), (9, 1, 1, (2, 3, 2)), (10, 1, 1, (1, 1)), (10, 1, 1, (0, 3))],
)  # fmt: skip
def test_moved_taps_of_any_number_of_channels(
    way: str, channels: int, group: int, offset_group: int, image: Shape
) -> None:
    rank, batch = len(image), 2
    x, w = floats(batch, channels, *image), floats(2 * group, channels // group, *[3] * rank)
    offset = floats(batch, offset_group * 3**rank * rank, *image) * 2
    mask = floats(batch, offset_group * 3**rank, *image)
    operands = {"x": x, "w": w, "offset": offset, "b": None, "mask": mask}
    attributes = {"pads": [1] * 2 * rank, "group": group, "offset_group": offset_group}
    (actual,) = run_operator("DeformConv", operands, opset=22, way=way, **attributes)
    assert_close(actual, deform(x, w, offset, mask, 1, group, offset_group), terms=channels * 3**rank)


@pytest.mark.parametrize(
    ("shift", "expected"), [(0.5, [1.5, 2.5, 1.5]), (-1, [0, 1, 2]), (9, [0, 0, 0]), (-0.25, [0.75, 1.75, 2.75])]
)
def test_offsets_interpolate_and_beyond_is_zero(shift: float, expected: list[float]) -> None:
    x, w = np.float32([[[1, 2, 3]]]), np.float32([[[1]]])
    offset = np.full((1, 1, 3), shift, np.float32)
    assert_close(*run_operator("DeformConv", {"x": x, "w": w, "offset": offset}, opset=19), np.float32([[expected]]))


def test_masks_weigh_the_taps() -> None:
    x, w = np.float32([[[1, 2, 3]]]), np.float32([[[1, 10]]])
    operands = {
        "x": x,
        "w": w,
        "offset": np.zeros((1, 2, 2), np.float32),
        "b": None,
        "mask": np.float32([[[1, 0], [0.5, 1]]]),
    }
    assert_close(*run_operator("DeformConv", operands, opset=19), np.float32([[[11, 30]]]))


def test_groups_of_offsets_divide_the_channels() -> None:
    operands = {"x": floats(1, 3, 4), "w": floats(1, 3, 1), "offset": floats(1, 2, 4)}
    with pytest.raises(ModelError, match="deform-offset-groups"):
        run_operator("DeformConv", operands, opset=19, offset_group=2)
    with pytest.raises(ModelError, match="convolution-rank"):
        run_operator("DeformConv", {**operands, "offset": floats(1, 2, 4, 1)}, opset=19)


# CausalConvWithState


@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("with_past", [False, True])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_causal_convolution_carries_its_state(length: int, with_past: bool, activation: str) -> None:
    x, w, b, past = floats(2, 3, length), floats(3, 1, 4), floats(3), floats(2, 3, 3)
    past = past if with_past else np.zeros_like(past)
    padded = np.concatenate([past, x], 2)
    expected = convolve(padded, w, [1], [0, 0], [1], 3) + b.reshape(-1, 1)
    expected = expected / (1 + np.exp(-expected)) if activation == "silu" else expected
    operands = {"x": x, "w": w, "b": b} | ({"past": past} if with_past else {})
    y, state = run_operator("CausalConvWithState", operands, opset=27, outputs=2, activation=activation)
    assert_close(y, expected, terms=8)
    assert_same(state, padded[:, :, length:])


@pytest.mark.parametrize("length", [0, 1, 5])
def test_causal_convolution_of_however_many_channels(length: int) -> None:
    x, w = floats(2, 3, length), floats(3, 1, 4)
    padded = np.concatenate([np.zeros((2, 3, 3), np.float32), x], 2)
    y, state = run_operator(
        "CausalConvWithState", {"x": x, "w": w}, opset=27, way="symbolic", outputs=2, activation="none"
    )
    assert_close(y, convolve(padded, w, [1], [0, 0], [1], 3), terms=8)
    assert_same(state, padded[:, :, length:])


def test_causal_convolution_is_of_vectors() -> None:
    with pytest.raises(ModelError, match="causal-conv-rank"):
        run_operator("CausalConvWithState", {"x": floats(1, 2), "w": floats(2, 1, 2)}, opset=27, outputs=2)
