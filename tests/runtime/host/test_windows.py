"""Windows against loops over every place and every element of the window."""

import itertools
import math
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

from onnxc.runtime.host import MEANINGS

CASES = [
    # window, strides, low, high, dilations
    ((1, 1, 3, 2), (1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1)),
    ((1, 1, 3, 2), (1, 1, 2, 3), (0, 0, 1, 0), (0, 0, 2, 1), (1, 1, 1, 1)),
    ((1, 1, 2, 3), (1, 1, 1, 2), (0, 0, 2, 2), (0, 0, 2, 2), (1, 1, 3, 1)),
    ((1, 1, 1, 1), (1, 1, 2, 1), (0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1)),
    ((1, 1, 9, 9), (1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1)),
    ((1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 3, 0), (0, 0, 0, 3), (1, 1, 1, 1)),
    ((2, 2, 2, 2), (1, 2, 1, 2), (0, 1, 0, 1), (1, 0, 1, 0), (1, 1, 2, 1)),
]
NAMES = ("window", "strides", "low", "high", "dilations")


def members(x: np.ndarray, case: tuple[tuple[int, ...], ...]) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """For each place of the result the indices into `x` that its window meets, padding left out."""
    window, strides, low, high, dilations = map(np.array, case)
    shape = np.maximum((low + x.shape + high - (window - 1) * dilations - 1) // strides + 1, 0)
    met: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for place in np.ndindex(*shape):
        indices = [np.array(place) * strides - low + np.array(tap) * dilations for tap in np.ndindex(*window)]
        inside = [index for index in indices if (index >= 0).all() and (index < x.shape).all()]
        met[place] = [tuple(index.tolist()) for index in inside]
    return met


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float64, np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_reduce_window_combines_what_the_window_meets(
    kind: str, case: tuple[tuple[int, ...], ...], dtype: type[np.generic]
) -> None:
    x = np.random.default_rng(0).integers(0, 9, (2, 3, 5, 4), np.int8).astype(dtype)
    (result,) = MEANINGS["reduce_window"]([x], {"kind": kind, **dict(zip(NAMES, case, strict=True))})
    assert (type(result), result.dtype) == (np.ndarray, x.dtype)
    assert not np.shares_memory(result, x)
    least = {np.int32: -(2**31), np.uint8: 0}.get(dtype, -math.inf)
    greatest = {np.int32: 2**31 - 1, np.uint8: 255}.get(dtype, math.inf)
    places = members(x, case)
    assert result.size == len(places)
    for place, indices in places.items():
        met = [float(x[index]) for index in indices]
        expected = {"sum": sum(met), "max": max(met, default=least), "min": min(met, default=greatest)}[kind]
        assert float(result[place]) == expected


@pytest.mark.parametrize("case", CASES[:6], ids=str)
def test_arg_reduce_window_names_the_first_maximum(case: tuple[tuple[int, ...], ...]) -> None:
    x = np.random.default_rng(1).integers(0, 3, (2, 3, 5, 4)).astype(np.float32)
    result = arg_reduce(x, "nc01", dict(zip(NAMES, case, strict=True)))
    assert result.dtype == np.int64
    for place, indices in members(x, case).items():
        best = max(indices, key=lambda index: x[index], default=(0, 0, 0, 0))
        assert result[place] == best[2] * 4 + best[3]


@pytest.mark.parametrize("labels", ["".join(each) for each in itertools.permutations("nc01")])
def test_places_are_counted_over_the_spatial_axes_that_labels_name(labels: str) -> None:
    x = np.random.default_rng(2).integers(0, 3, (2, 3, 5, 4)).astype(np.float32)
    order = ["nc01".index(label) for label in labels]
    plain = dict(zip(NAMES, CASES[1], strict=True))
    turned = {name: tuple(values[axis] for axis in order) for name, values in plain.items()}
    expected = arg_reduce(x, "nc01", plain).transpose(order)
    np.testing.assert_array_equal(arg_reduce(x.transpose(order), labels, turned), expected, strict=True)


def arg_reduce(x: np.ndarray, labels: str, windows: Mapping[str, tuple[int, ...]]) -> np.ndarray:
    (result,) = MEANINGS["arg_reduce_window"]([x], {"kind": "max", "dimensions": labels, **windows})
    return result


def test_nan_wins_and_infinity_beats_the_padding() -> None:
    attributes = dict(zip(NAMES, ((1, 1, 2), (1, 1, 1), (0, 0, 1), (0, 0, 1), (1, 1, 1)), strict=True))
    x = np.array([[[-np.inf, np.nan, np.nan, -np.inf]]], np.float32)
    positions = arg_reduce(x, "nc0", attributes)
    np.testing.assert_array_equal(positions, np.array([[[0, 1, 1, 2, 3]]]), strict=True)
    (largest,) = MEANINGS["reduce_window"]([x], {"kind": "max", **attributes})
    np.testing.assert_array_equal(largest, [[[-np.inf, np.nan, np.nan, np.nan, -np.inf]]])


@pytest.mark.parametrize("shape", [(0, 1, 3), (1, 0, 3), (1, 1, 0)], ids=str)
def test_windows_of_size_zero(shape: tuple[int, ...]) -> None:
    attributes = dict(zip(NAMES, ((1, 1, 2), (1, 1, 1), (0, 0, 1), (0, 0, 1), (1, 1, 1)), strict=True))
    expected = (*shape[:2], shape[2] + 1)
    (result,) = MEANINGS["reduce_window"]([np.ones(shape, np.float32)], {"kind": "sum", **attributes})
    np.testing.assert_array_equal(
        result, np.zeros(expected, np.float32) if shape[2] == 0 else np.ones(expected, "f4"), strict=True
    )
    positions = arg_reduce(np.ones(shape, np.float32), "nc0", attributes)
    np.testing.assert_array_equal(positions, np.zeros(expected, np.int64), strict=True)


def test_integer_windows_wrap() -> None:
    attributes = dict(zip(NAMES, ((2,), (1,), (0,), (0,), (1,)), strict=True))
    (result,) = MEANINGS["reduce_window"]([np.array([100, 100], np.int8)], {"kind": "sum", **attributes})
    np.testing.assert_array_equal(result, np.array([-56], np.int8), strict=True)


def test_a_window_over_nothing_is_a_copy() -> None:
    x = np.array(2.0)
    (result,) = MEANINGS["reduce_window"]([x], {"kind": "max", **dict.fromkeys(NAMES, ())})
    np.testing.assert_array_equal(result, x, strict=True)
    assert not np.shares_memory(result, x)
