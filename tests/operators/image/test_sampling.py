"""The vision operators: GridSample, AffineGrid, Col2Im, regions, NonMaxSuppression, DepthToSpace, SpaceToDepth."""

from math import ceil, floor

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import onnxc
from onnxc.compiler.ir.module import walk
from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import WAYS, i64, lower_operator, make_model, run_operator
from tests.support.arrays import assert_close, assert_same
from tests.support.models import run_ort

SYMBOLIC = ("static", "symbolic")
RNG = np.random.default_rng(7)


def random(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)


def by_ort(operator: str, inputs: dict[str, np.ndarray], *, opset: int, **attributes: object) -> np.ndarray:
    names = list(inputs)
    model = make_model(operator, inputs, opset=opset, way="data", parameters=names, outputs=1, attributes=attributes)
    return run_ort(model, inputs)["result0"]


@pytest.mark.parametrize("way", SYMBOLIC)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize(("channels", "size"), [(2, (3, 4)), (2, (2, 2)), (1, (3, 4)), (8, (2, 3)), (17, (3, 4))])
def test_grid_sample_does_as_onnx_runtime(
    way: str, mode: str, padding: str, align: int, channels: int, size: tuple[int, int]
) -> None:
    inputs = {"X": random(2, channels, *size), "grid": random(2, 3, 5, 2)}
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
    (got,) = run_operator("GridSample", inputs, opset=20, way=way, **attributes)
    assert_close(got, by_ort("GridSample", inputs, opset=20, **attributes), terms=16)


@pytest.mark.parametrize("way", SYMBOLIC)
@pytest.mark.parametrize("padding", ["zeros", "reflection"])
@pytest.mark.parametrize("sizes", [(3,), (2, 3, 4), (2, 3, 2, 2, 3)])
def test_grid_sample_is_cubic_along_any_number_of_axes(way: str, padding: str, sizes: tuple[int, ...]) -> None:
    inputs = {"X": random(2, 2, *sizes), "grid": random(2, *[2] * len(sizes), len(sizes))}
    attributes = {"mode": "cubic", "padding_mode": padding}
    (got,) = run_operator("GridSample", inputs, opset=20, way=way, **attributes)
    model = make_model(
        "GridSample", inputs, opset=20, way="data", parameters=[*inputs], outputs=1, attributes=attributes
    )
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    assert_close(got, expected, terms=4 ** len(sizes))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("align", [0, 1])
def test_a_single_element_is_reflected_everywhere(mode: str, align: int) -> None:
    inputs = {"X": np.full((1, 1, 1, 1), 7, np.float32), "grid": random(1, 3, 5, 2)}
    attributes = {"mode": mode, "padding_mode": "reflection", "align_corners": align}
    (got,) = run_operator("GridSample", inputs, opset=20, way="symbolic", **attributes)
    assert_close(got, np.full((1, 1, 3, 5), 7, np.float32), terms=16)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_a_plane_has_names_of_its_own_in_16(mode: str) -> None:
    inputs = {"X": random(1, 1, 3, 3), "grid": random(1, 2, 2, 2, low=-1, high=1)}
    (got,) = run_operator("GridSample", inputs, opset=16, mode=mode)
    assert_close(got, by_ort("GridSample", inputs, opset=16, mode=mode), terms=16)


def test_what_lies_outside_is_0_beside_an_infinity() -> None:
    inputs = {"X": np.full((1, 1, 1, 2), np.inf, np.float32), "grid": np.array([[[[-9, 0], [0.5, 0]]]], np.float32)}
    (got,) = run_operator("GridSample", inputs, opset=20, mode="nearest")
    assert_same(got, np.array([[[[0, np.inf]]]], np.float32))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_coordinate_that_is_no_number_is_minus_1(way: str, mode: str, padding: str, align: int) -> None:
    grid = np.float32([[[[np.nan, np.nan], [np.nan, 0.5], [0.25, np.nan]]]])
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
    inputs = {"X": random(1, 2, 3, 4), "grid": grid}
    (got,) = run_operator("GridSample", inputs, opset=20, way=way, **attributes)
    numbers = {**inputs, "grid": np.nan_to_num(grid, nan=-1)}
    (expected,) = run_operator("GridSample", numbers, opset=20, way=way, **attributes)
    assert np.array_equal(got, expected)
    assert_close(got, by_ort("GridSample", inputs, opset=20, **attributes), terms=16)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_an_infinite_coordinate_is_far_outside(mode: str, padding: str, align_corners: int, way: str) -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    far = np.float32([[[[1e9, 0.1], [-1e9, 0.1], [0.1, 1e9], [1e9, -1e9]]]])
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align_corners}
    for grid in (np.where(abs(far) > 1, far * np.inf, far), np.where(abs(far) > 1, far * 3e29, far)):
        (got,) = run_operator("GridSample", {"x": x, "grid": grid}, opset=20, way=way, **attributes)
        (expected,) = run_operator("GridSample", {"x": x, "grid": far}, opset=20, way=way, **attributes)
        if padding == "reflection":
            assert np.isfinite(got).all()
        else:
            assert_same(got, expected)
        if padding == "zeros":
            assert not got.any()


@pytest.mark.parametrize("way", SYMBOLIC)
def test_grid_sample_of_no_positions(way: str) -> None:
    inputs = {"X": random(1, 2, 3, 3), "grid": np.zeros((1, 0, 4, 2), np.float32)}
    (got,) = run_operator("GridSample", inputs, opset=20, way=way)
    assert_same(got, np.zeros((1, 2, 0, 4), np.float32))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("spatial", [(2, 3), (4, 1), (2, 3, 4)])
def test_affine_grid_moves_positions(way: str, align: int, spatial: tuple[int, ...]) -> None:
    rank = len(spatial)
    theta = random(2, rank, rank + 1)
    axes = []
    for size in spatial:
        steps = np.linspace(-1, 1, size) if align and size > 1 else np.zeros(1)
        axes.append(steps if align else (2 * np.arange(size) + 1) / size - 1)
    places = [*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(spatial)]
    expected = np.einsum("nrk,...k->n...r", theta, np.stack(places, -1))
    inputs = {"theta": theta, "size": i64(2, 5, *spatial)}
    (got,) = run_operator("AffineGrid", inputs, opset=20, way=way, parameters=["size"], align_corners=align)
    assert_close(got, expected.astype(np.float32))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("image", "block", "strides", "dilations", "pads"),
    [
        ((5, 5), (2, 2), (1, 1), (1, 1), (0, 0, 0, 0)),
        ((5, 6), (2, 3), (2, 1), (1, 2), (1, 0, 1, 2)),
        ((3, 4, 5), (2, 1, 3), (1, 2, 1), (1, 1, 2), (0, 0, 1, 0, 0, 1)),
        ((4,), (2,), (2,), (1,), (0, 0)),
        ((6, 7), (3, 2), (1, 1), (2, 3), (1, 0, 0, 2)),
        ((7, 6), (2, 3), (2, 3), (1, 1), (0, 1, 0, 2)),
        ((9, 11), (3, 5), (2, 3), (1, 1), (1, 0, 2, 2)),
        ((12, 9), (4, 3), (3, 2), (1, 2), (0, 3, 1, 0)),
        ((11, 9), (3, 3), (2, 3), (2, 2), (0, 0, 0, 1)),
        ((5, 20), (2, 4), (1, 4), (1, 1), (0, 0, 0, 0)),
        ((3, 9), (1, 2), (2, 3), (1, 1), (0, 0, 0, 0)),
        ((7, 9, 3), (3, 4, 1), (2, 2, 1), (1, 1, 1), (0, 0, 0, 0, 0, 0)),
        ((2, 3), (3, 3), (2, 2), (1, 1), (0, 0, 0, 0)),
    ],
)
def test_col2im_adds_blocks_up(
    way: str,
    image: tuple[int, ...],
    block: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
) -> None:
    rank = len(image)
    padded = [size + pads[axis] + pads[rank + axis] for axis, size in enumerate(image)]
    counts = [(p - d * (b - 1) - 1) // s + 1 for p, d, b, s in zip(padded, dilations, block, strides, strict=True)]
    x = RNG.integers(-9, 9, (2, 3 * int(np.prod(block)), int(np.prod(counts)))).astype(np.float32)
    canvas = np.zeros((2, 3, *padded), np.float32)
    columns = x.reshape(2, 3, *block, *counts)
    for place in np.ndindex(*block, *counts):
        inner, outer = place[:rank], place[rank:]
        where = tuple(o * s + i * d for o, s, i, d in zip(outer, strides, inner, dilations, strict=True))
        canvas[(slice(None), slice(None), *where)] += columns[(slice(None), slice(None), *place)]
    window = tuple(slice(pads[axis], pads[axis] + size) for axis, size in enumerate(image))
    inputs = {"input": x, "image_shape": i64(*image), "block_shape": i64(*block)}
    (got,) = run_operator(
        "Col2Im",
        inputs,
        opset=18,
        way=way,
        parameters=["image_shape", "block_shape"],
        strides=strides,
        dilations=dilations,
        pads=pads,
    )
    assert_same(got, canvas[(slice(None), slice(None), *window)])


@pytest.mark.parametrize("way", WAYS)
def test_col2im_in_steps_keeps_what_is_no_number_where_it_is(way: str) -> None:
    x = np.ones((1, 9, 4), np.float32)
    x[0, 0, 0], x[0, 4, 1], x[0, 8, 3] = np.nan, np.inf, -np.inf
    inputs = {"input": x, "image_shape": i64(5, 5), "block_shape": i64(3, 3)}
    names = ["image_shape", "block_shape"]
    (got,) = run_operator("Col2Im", inputs, opset=18, way=way, parameters=names, strides=(2, 2))
    want = np.array([[1, 1, 2, 1, 1]] * 5, np.float32) * np.array([[1], [1], [2], [1], [1]], np.float32)
    want[0, 0], want[1, 3], want[4, 4] = np.nan, np.inf, -np.inf
    assert_same(got, want[None, None])


@pytest.mark.parametrize(("block", "is_shifted"), [((3, 2), True), ((16, 3), True), ((2, 1), False), ((17, 2), False)])
def test_col2im_shifts_blocks_of_some_taps_in_each_step(block: tuple[int, int], is_shifted: bool) -> None:
    inputs = {"input": np.ones((1, 3 * block[0] * block[1], 4), np.float32)}
    inputs |= {"image_shape": i64(*(size + 2 for size in block)), "block_shape": i64(*block)}
    names = ["image_shape", "block_shape"]
    module = lower_operator("Col2Im", inputs, opset=18, way="static", parameters=names, strides=(2, 2))
    assert is_shifted == all(op.name != "scatter_along" for op in walk(module.main.body))


@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_col2im_rounds_sums_of_halves_once(strides: tuple[int, int]) -> None:
    """2048 + 1 is 2048 in f16, and so would 2048 + 1 + (1 + 1) be 2050, where 2051 is 2052."""
    x = np.ones((1, 9, 4), np.float16)
    x[0, 8, 0] = 2048
    inputs = {"input": x, "image_shape": i64(*(3 + step for step in strides)), "block_shape": i64(3, 3)}
    names = ["image_shape", "block_shape"]
    (got,) = run_operator("Col2Im", inputs, opset=18, way="static", parameters=names, strides=strides)
    assert got[0, 0, 2, 2] == 2052


def test_col2im_takes_no_block_that_is_larger_than_the_image() -> None:
    inputs = {"input": np.ones((1, 4, 5), np.float32), "image_shape": i64(0, 0), "block_shape": i64(0, 2)}
    with pytest.raises(InputError, match="the block is larger than the padded image along axis 1"):
        run_operator("Col2Im", inputs, opset=18, way="data", parameters=["image_shape", "block_shape"])


ROIS = np.array([[0, 0, 3, 4], [1.5, -2, 6, 5], [2, 3, 2.5, 3.1], [-9, -9, -8, -8], [4, 4, 3, 3]], np.float32)


@pytest.mark.parametrize("way", SYMBOLIC)
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("opset", [10, 16])
def test_roi_align_does_as_onnx_runtime(way: str, mode: str, ratio: int, opset: int) -> None:
    rois = ROIS if opset == 10 else ROIS[:4]
    inputs = {"X": random(2, 3, 5, 6), "rois": rois, "batch_indices": i64(0, 1, 1, 0, 0)[: len(rois)]}
    attributes = {"mode": mode, "sampling_ratio": ratio, "output_height": 2, "output_width": 3, "spatial_scale": 0.75}
    (got,) = run_operator("RoiAlign", inputs, opset=opset, way=way, **attributes)
    assert_close(got, by_ort("RoiAlign", inputs, opset=opset, **attributes), terms=4)


def test_roi_align_of_no_regions() -> None:
    inputs = {"X": random(1, 2, 3, 3), "rois": np.zeros((0, 4), np.float32), "batch_indices": i64()}
    (got,) = run_operator("RoiAlign", inputs, opset=16, way="symbolic", output_height=2, output_width=2)
    assert_same(got, np.zeros((0, 2, 2, 2), np.float32))


def test_batch_indices_tell_how_many_regions_there_are() -> None:
    inputs = {"X": random(1, 2, 3, 3), "rois": ROIS[:3], "batch_indices": i64(0, 0, 0)}
    module = lower_operator("RoiAlign", inputs, opset=16, way="symbolic", parameters=["batch_indices"])
    assert module.main.body.results[0].shape[0] == 3


@pytest.mark.parametrize("way", SYMBOLIC)
def test_max_roi_pool_takes_the_maximum_of_each_bin(way: str) -> None:
    x = random(2, 2, 6, 7)
    rois = np.array(
        [[0, 0, 0, 3, 4], [1, 1.5, -2, 9, 5], [1, 2, 3, 2.5, 3.1], [0, 9, 9, 12, 12], [0, 5, 5, 2, 2]], np.float32
    )
    expected = np.zeros((len(rois), 2, 2, 3), np.float32)
    for r, (batch, *corners) in enumerate(rois):
        left, top, right, bottom = (int(np.sign(c) * floor(abs(c) * 0.75 + 0.5)) for c in corners)
        height, width = max(bottom - top + 1, 1) / 2, max(right - left + 1, 1) / 3
        for p, q in np.ndindex(2, 3):
            rows = slice(max(floor(p * height) + top, 0), max(ceil((p + 1) * height) + top, 0))
            columns = slice(max(floor(q * width) + left, 0), max(ceil((q + 1) * width) + left, 0))
            window = x[int(batch), :, rows, columns]
            expected[r, :, p, q] = window.max((1, 2)) if window.size else 0
    (got,) = run_operator(
        "MaxRoiPool", {"X": x, "rois": rois}, opset=1, way=way, pooled_shape=[2, 3], spatial_scale=0.75
    )
    assert_same(got, expected)


@pytest.mark.parametrize("way", SYMBOLIC)
@pytest.mark.parametrize("image", [(4, 4), (0, 4), (4, 0), (1, 1)])
@pytest.mark.parametrize("regions", [0, 2])
def test_bins_without_elements_are_0(way: str, image: tuple[int, int], regions: int) -> None:
    rois = np.array([[0, 6, 6, 9, 9], [0, np.nan, 0, 3, 3]], np.float32)[:regions]
    inputs = {"X": random(1, 2, *image), "rois": rois}
    (got,) = run_operator("MaxRoiPool", inputs, opset=22, way=way, pooled_shape=[2, 3])
    assert_same(got, np.zeros((regions, 2, 2, 3), np.float32))


def test_a_bin_has_what_is_no_number_and_minus_infinity() -> None:
    x = np.array([[[[np.nan, 1, -np.inf, -np.inf], [2, 3, -np.inf, -np.inf]]]], np.float32)
    rois = np.array([[0, 0, 0, 3, 1]], np.float32)
    (got,) = run_operator("MaxRoiPool", {"X": x, "rois": rois}, opset=22, pooled_shape=[1, 2])
    assert_same(got, np.array([[[[np.nan, -np.inf]]]], np.float32))


@pytest.mark.parametrize(("operator", "attributes"), [
    ("MaxRoiPool", {"pooled_shape": [1, 1]}), ("RoiAlign", {"sampling_ratio": 1})
])  # fmt: skip
@pytest.mark.parametrize("image", [-1, 2])
def test_a_region_is_of_an_image_that_there_is(operator: str, attributes: dict[str, object], image: int) -> None:
    inputs = {"X": random(2, 3, 4, 4), "rois": np.array([[0, 0, 3, 3]], np.float32), "batch_indices": i64(image)}
    if operator == "MaxRoiPool":
        inputs = {"X": inputs["X"], "rois": np.array([[image, 0, 0, 3, 3]], np.float32)}
    names = list(inputs)
    model = make_model(operator, inputs, opset=16, way="data", parameters=names, outputs=1, attributes=attributes)
    with pytest.raises(InputError, match=f"index {image} is outside of an axis of size 2"):
        onnxc.compile(model).run(None, inputs)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize(("most", "overlap", "lowest"), [(3, 0.2, 0.4), (9, 0.0, None), (1, 0.9, None), (0, 0.5, None)])
def test_non_max_suppression_does_as_onnx_runtime(
    way: str, center: int, most: int, overlap: float, lowest: float | None
) -> None:
    inputs = {
        "boxes": random(2, 8, 4, low=0, high=1),
        "scores": random(2, 3, 8, low=0, high=1),
        "most": i64(most),
        "overlap": np.array([overlap], np.float32),
    }
    if lowest is not None:
        inputs["lowest"] = np.array([lowest], np.float32)
    names = ["most", "overlap", "lowest"]
    (got,) = run_operator("NonMaxSuppression", inputs, opset=11, way=way, parameters=names, center_point_box=center)
    assert_same(got, by_ort("NonMaxSuppression", inputs, opset=11, center_point_box=center))


@pytest.mark.parametrize("way", SYMBOLIC)
def test_equal_scores_keep_their_order_and_no_limit_is_no_box(way: str) -> None:
    boxes = np.array([[[0, 0, 1, 1], [5, 5, 6, 6], [0, 0, 1, 1]]], np.float32)
    inputs = {"boxes": boxes, "scores": np.ones((1, 1, 3), np.float32), "most": i64(9)}
    (got,) = run_operator("NonMaxSuppression", inputs, opset=10, way=way, parameters=["most"])
    assert_same(got, np.array([[0, 0, 0], [0, 0, 1]]))
    del inputs["most"]
    (got,) = run_operator("NonMaxSuppression", inputs, opset=10, way=way)
    assert_same(got, np.zeros((0, 3), np.int64))


@pytest.mark.parametrize("most", [-1, -(2**31), -(2**62), -(2**63)])
def test_a_limit_below_0_is_no_box(most: int) -> None:
    inputs = {"boxes": random(1, 3, 4, low=0, high=1), "scores": np.ones((1, 1, 3), np.float32), "most": i64(most)}
    (got,) = run_operator("NonMaxSuppression", inputs, opset=11, way="symbolic", parameters=["most"])
    assert_same(got, np.zeros((0, 3), np.int64))


def test_there_may_be_no_boxes() -> None:
    inputs = {"boxes": np.zeros((1, 0, 4), np.float32), "scores": np.zeros((1, 2, 0), np.float32), "most": i64(9)}
    (got,) = run_operator("NonMaxSuppression", inputs, opset=11, way="symbolic", parameters=["most"])
    assert_same(got, np.zeros((0, 3), np.int64))


@pytest.mark.parametrize("way", SYMBOLIC)
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("shape", [(2, 8, 2, 3), (0, 4, 1, 1), (1, 0, 2, 2)])
def test_depth_to_space_and_back(way: str, mode: str, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    N, C, H, W = shape
    if mode == "DCR":
        expected = x.reshape(N, 2, 2, C // 4, H, W).transpose(0, 3, 4, 1, 5, 2)
    else:
        expected = x.reshape(N, C // 4, 2, 2, H, W).transpose(0, 1, 4, 2, 5, 3)
    (got,) = run_operator("DepthToSpace", {"input": x}, opset=13, way=way, blocksize=2, mode=mode)
    assert_same(got, expected.reshape(N, C // 4, 2 * H, 2 * W))
    (back,) = run_operator("SpaceToDepth", {"input": got}, opset=28, way=way, blocksize=2, mode=mode)
    assert_same(back, x)


def test_space_to_depth_had_one_mode() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    (got,) = run_operator("SpaceToDepth", {"input": x}, opset=1, blocksize=2)
    assert_same(got, x.reshape(1, 4, 1, 1))


def test_a_plane_that_is_not_whole_blocks_is_an_input_error() -> None:
    with pytest.raises(InputError, match="multiple of 2"):
        run_operator("SpaceToDepth", {"input": np.zeros((1, 1, 3, 2))}, opset=13, way="symbolic", blocksize=2)


def test_grid_sample_of_texts_is_of_nearest_ones() -> None:
    x = np.array([[[["a", "b"]]]], object)
    grid = np.float32([[[[-0.5, 0], [0.5, 0], [3, 0]]]])
    (got,) = run_operator("GridSample", {"X": x, "grid": grid}, opset=20, mode="nearest")
    assert got.tolist() == [[[["a", "b", ""]]]]
    with pytest.raises(ModelError, match="interpolated-text"):
        run_operator("GridSample", {"X": x, "grid": grid}, opset=20)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_grid_sample_of_complex_numbers(dtype: type) -> None:
    x = random(1, 2, 3, 4).astype(dtype) + 1j * random(1, 2, 3, 4).astype(dtype)
    grid = random(1, 2, 2, 2)
    got, real, imaginary = (
        run_operator("GridSample", {"X": part, "grid": grid}, opset=20)[0] for part in (x, x.real.copy(), x.imag.copy())
    )
    assert got.dtype == dtype
    assert_close(got.real, real, terms=4)
    assert_close(got.imag, imaginary, terms=4)
