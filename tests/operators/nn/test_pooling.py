"""Pooling against loops over windows, and MaxUnpool."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import WAYS, run_operator
from tests.support.arrays import assert_close, assert_same

RANDOM = np.random.default_rng(0)
Shape = tuple[int, ...]


def windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil: bool,
) -> tuple[tuple[int, ...], list[list[tuple[int, ...]]]]:
    """The number of places per axis, and for each place the coordinates that its window covers, padding included."""
    per_axis = []
    for axis, size in enumerate(sizes):
        low, high = pads[axis], pads[len(sizes) + axis]
        span = (kernel[axis] - 1) * dilations[axis] + 1
        starts = [
            start
            for start in range(-low, size, strides[axis])
            if start + span <= size + high or (ceil and start - strides[axis] + span < size + high)
        ]
        per_axis.append([[start + tap * dilations[axis] for tap in range(kernel[axis])] for start in starts])
    covered = [list(product(*taps)) for taps in product(*per_axis)]
    return tuple(map(len, per_axis)), covered


def pool(
    x: np.ndarray, places: Shape, covered: list[list[Shape]], fold: Callable[[np.ndarray, int], object]
) -> np.ndarray:
    """`fold` of the elements of each window within x, and of how many coordinates the window has."""
    flat = x.reshape(-1, *x.shape[2:])
    result = [
        [
            fold(
                np.array([plane[c] for c in window if all(0 <= i < n for i, n in zip(c, plane.shape, strict=True))]),
                len(window),
            )
            for window in covered
        ]
        for plane in flat
    ]
    return np.array(result, x.dtype).reshape(*x.shape[:2], *places)


CASES: list[tuple[Shape, dict[str, list[int]]]] = [
    ((2, 3, 8), {"kernel_shape": [3]}),
    ((1, 2, 5, 6), {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 2]}),
    ((1, 1, 7, 7), {"kernel_shape": [3, 2], "strides": [3, 2], "dilations": [2, 3], "pads": [1, 1, 1, 1]}),
    ((1, 2, 4, 3, 5), {"kernel_shape": [2, 1, 3], "strides": [1, 2, 2]}),
    ((1, 1, 1), {"kernel_shape": [1]}),
    ((0, 2, 4), {"kernel_shape": [2]}),
]


def geometry(shape: Shape, attributes: dict[str, list[int]], ceil: bool) -> tuple[Shape, list[list[Shape]]]:
    rank = len(shape) - 2
    given = {"strides": [1] * rank, "pads": [0] * (2 * rank), "dilations": [1] * rank} | attributes
    kernel = given.pop("kernel_shape")
    return windows(shape[2:], kernel, given["strides"], given["pads"], given["dilations"], ceil)


@pytest.mark.parametrize(("shape", "attributes"), CASES)
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_max_pool(shape: Shape, attributes: dict[str, list[int]], ceil: int, way: str) -> None:
    x = RANDOM.standard_normal(shape).astype(np.float32)
    expected = pool(x, *geometry(shape, attributes, bool(ceil)), lambda values, count: values.max())
    assert_same(*run_operator("MaxPool", {"x": x}, opset=22, way=way, ceil_mode=ceil, **attributes), expected)


@pytest.mark.parametrize(("shape", "attributes"), CASES)
@pytest.mark.parametrize("column_major", [0, 1])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_max_pool_tells_where(shape: Shape, attributes: dict[str, list[int]], column_major: int, way: str) -> None:
    x = RANDOM.standard_normal(shape).astype(np.float32)
    order = "F" if column_major else "C"
    planes = np.arange(x[0, 0].size if x.size else 0).reshape(shape[2:] if x.size else (0,), order=order)
    offset = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * (len(shape) - 2)) * np.prod(shape[2:], dtype=int)
    numbers = np.broadcast_to(planes, shape) + offset if x.size else np.zeros(shape, int)
    y, indices = run_operator(
        "MaxPool", {"x": x}, opset=12, way=way, outputs=2, storage_order=column_major, **attributes
    )
    assert indices.dtype == np.int64
    place = dict(zip(x.ravel(), numbers.ravel(), strict=True))
    assert_same(indices, np.array([place[value] for value in y.ravel()], np.int64).reshape(y.shape))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16])
def test_max_pool_of_other_types_and_of_nan(dtype: type[np.generic]) -> None:
    x = np.array([[[0, 3, 1]]], dtype)
    assert_same(
        *run_operator("MaxPool", {"x": x}, opset=12, kernel_shape=[2], pads=[1, 1]), np.array([[[0, 3, 3, 1]]], dtype)
    )
    x = np.float32([[[-np.inf, np.nan, 1, 2]]])
    assert_same(*run_operator("MaxPool", {"x": x}, opset=12, kernel_shape=[2]), np.float32([[[np.nan, np.nan, 2]]]))


@pytest.mark.parametrize("opset", [1, 8, 10, 11, 12, 22])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_same_padding(opset: int, way: str) -> None:
    x = np.float32([[[1, 2, 3, 4]]])
    attributes = {"kernel_shape": [2], "strides": [1]}
    (upper,) = run_operator("MaxPool", {"x": x}, opset=opset, way=way, auto_pad="SAME_UPPER", **attributes)
    (lower,) = run_operator("MaxPool", {"x": x}, opset=opset, way=way, auto_pad="SAME_LOWER", **attributes)
    assert_same(upper, np.float32([[[2, 3, 4, 4]]]))
    assert_same(lower, np.float32([[[1, 2, 3, 4]]]))


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7])
def test_a_symbolic_size_has_the_windows_of_the_number(size: int) -> None:
    x = RANDOM.standard_normal((1, 1, size)).astype(np.float32)
    attributes = {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1}
    (static,) = run_operator("AveragePool", {"x": x}, opset=22, **attributes)
    (symbolic,) = run_operator("AveragePool", {"x": x}, opset=22, way="symbolic", **attributes)
    assert_same(symbolic, static)


# AveragePool and LpPool


@pytest.mark.parametrize(("shape", "attributes"), CASES)
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_average_without_padding(shape: Shape, attributes: dict[str, list[int]], ceil: int, way: str) -> None:
    x = RANDOM.standard_normal(shape).astype(np.float32)
    expected = pool(x, *geometry(shape, attributes, bool(ceil)), lambda values, count: values.mean())
    assert_close(
        *run_operator("AveragePool", {"x": x}, opset=19, way=way, ceil_mode=ceil, **attributes), expected, terms=8
    )


@pytest.mark.parametrize(("shape", "attributes"), CASES)
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_average_with_padding(shape: Shape, attributes: dict[str, list[int]], way: str) -> None:
    x = RANDOM.standard_normal(shape).astype(np.float32)
    expected = pool(x, *geometry(shape, attributes, ceil=False), lambda values, count: values.sum() / np.float32(count))
    assert_close(
        *run_operator("AveragePool", {"x": x}, opset=22, way=way, count_include_pad=1, **attributes), expected, terms=8
    )


def test_what_ceil_adds_beyond_the_padding_is_not_counted() -> None:
    x = np.ones((1, 1, 4), np.float32)
    attributes = {"kernel_shape": [3], "strides": [2], "pads": [1, 0], "ceil_mode": 1, "count_include_pad": 1}
    (actual,) = run_operator("AveragePool", {"x": x}, opset=11, **attributes)
    assert_close(actual, np.float32([[[2 / 3, 1]]]))
    x = np.ones((1, 1, 5), np.float32)
    (actual,) = run_operator("AveragePool", {"x": x}, opset=11, **attributes)
    assert_close(actual, np.float32([[[2 / 3, 1, 1]]]))


def test_average_of_halves_is_in_single_precision() -> None:
    x = np.full((1, 1, 2), 60000, np.float16)
    assert_same(*run_operator("AveragePool", {"x": x}, opset=11, kernel_shape=[2]), np.float16([[[60000]]]))


@pytest.mark.parametrize(("shape", "attributes"), CASES)
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_lp_pool(shape: Shape, attributes: dict[str, list[int]], p: int, way: str) -> None:
    x = RANDOM.standard_normal(shape).astype(np.float32)
    expected = pool(
        x, *geometry(shape, attributes, ceil=False), lambda values, count: (np.abs(values) ** p).sum() ** (1 / p)
    )
    assert_close(*run_operator("LpPool", {"x": x}, opset=22, way=way, p=p, **attributes), expected)


def test_old_lp_pool_takes_a_fraction() -> None:
    x = np.float32([[[1, -4]]])
    assert_close(*run_operator("LpPool", {"x": x}, opset=1, kernel_shape=[2], p=0.5), np.float32([[[9]]]))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 2, 3, 2), (0, 2, 2)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_global_pools(shape: Shape, way: str) -> None:
    x = RANDOM.standard_normal(shape).astype(np.float32)
    axes = tuple(range(2, len(shape)))
    expected = {
        "GlobalMaxPool": x.max(axes, keepdims=True),
        "GlobalAveragePool": x.mean(axes, keepdims=True),
        "GlobalLpPool": np.sqrt((x * x).sum(axes, keepdims=True)),
    }
    for operator, value in expected.items():
        assert_close(*run_operator(operator, {"x": x}, opset=22, way=way), value, terms=x.size)


@pytest.mark.parametrize(
    ("shape", "attributes", "code"),
    [((2, 3), {"kernel_shape": [1]}, "pool-rank"), ((1, 1, 4), {"kernel_shape": [2, 2]}, "attribute-length"),
     ((1, 1, 4), {"kernel_shape": [2], "pads": [0, -1]}, "negative-padding"),
     ((1, 1, 4), {"kernel_shape": [9]}, "window-too-large"),
     ((1, 1, 4), {"kernel_shape": [2], "auto_pad": "same"}, "attribute-value")],
)  # fmt: skip
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_illegal_windows(operator: str, shape: Shape, attributes: dict[str, object], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run_operator(operator, {"x": np.ones(shape, np.float32)}, opset=11, **attributes)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize(("size", "stride"), [(5, 1), (5, 2), (6, 2)])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_a_window_at_most_a_stride_too_large_has_no_position(operator: str, size: int, stride: int, way: str) -> None:
    attributes = {"kernel_shape": [size], "strides": [stride]}
    (actual,) = run_operator(operator, {"x": np.ones((2, 1, 4), np.float32)}, opset=11, way=way, **attributes)
    assert_same(actual, np.zeros((2, 1, 0), np.float32))


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_a_window_that_is_larger_still_is_an_input_error(operator: str) -> None:
    x = np.ones((1, 1, 4), np.float32)
    with pytest.raises(InputError, match="a window of 7 does not fit into axis 2"):
        run_operator(operator, {"x": x}, opset=11, way="symbolic", kernel_shape=[7], strides=[2])


@pytest.mark.parametrize("operator", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
def test_global_pools_need_spatial_axes(operator: str) -> None:
    with pytest.raises(ModelError, match="pool-rank"):
        run_operator(operator, {"x": np.ones((2, 3), np.float32)}, opset=22)


# MaxUnpool

POOLED = np.float32([[[[1, 2], [3, 4]]]])
PLACES = np.int64([[[[5, 7], [13, 15]]]])


@pytest.mark.parametrize("opset", [9, 11, 22])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_values_go_back_to_their_places(opset: int, way: str) -> None:
    expected = np.zeros(16, np.float32)
    expected[PLACES.ravel()] = POOLED.ravel()
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    (actual,) = run_operator("MaxUnpool", {"x": POOLED, "i": PLACES}, opset=opset, way=way, **attributes)
    assert_same(actual, expected.reshape(1, 1, 4, 4))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [4, 5])
def test_an_output_shape_adds_zeros_at_the_end(way: str, size: int) -> None:
    expected = np.zeros((1, 1, size, size), np.float32)
    expected[0, 0, 1, 1], expected[0, 0, 1, 3], expected[0, 0, 3, 1], expected[0, 0, 3, 3] = 1, 2, 3, 4
    operands = {"x": POOLED, "i": PLACES, "shape": np.int64([1, 1, size, size])}
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    assert_same(*run_operator("MaxUnpool", operands, opset=11, way=way, parameters=("shape",), **attributes), expected)


def test_unpooling_undoes_pooling() -> None:
    x = RANDOM.standard_normal((2, 3, 6, 4)).astype(np.float32)
    attributes = {"kernel_shape": [3, 2], "strides": [3, 2]}
    y, indices = run_operator("MaxPool", {"x": x}, opset=12, outputs=2, **attributes)
    (unpooled,) = run_operator("MaxUnpool", {"x": y, "i": indices}, opset=11, **attributes)
    assert_same(unpooled, np.where(np.isin(x, y), x, np.float32(0)))


def test_operands_of_unpooling_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match="max-unpool-indices"):
        run_operator("MaxUnpool", {"x": POOLED, "i": PLACES[0]}, opset=11, kernel_shape=[2, 2])
    with pytest.raises(ModelError, match="output-shape"):
        run_operator("MaxUnpool", {"x": POOLED, "i": PLACES, "s": np.int64([4, 4])}, opset=11, kernel_shape=[2, 2])
    with pytest.raises(ModelError, match="output-shape"):
        run_operator("MaxUnpool", {"x": POOLED, "i": PLACES, "s": np.int64([[4, 4]])}, opset=11, kernel_shape=[2, 2])
    with pytest.raises(InputError, match="X and I differs"):
        run_operator("MaxUnpool", {"x": POOLED, "i": PLACES[:, :, :1]}, opset=11, way="symbolic", kernel_shape=[2, 2])
