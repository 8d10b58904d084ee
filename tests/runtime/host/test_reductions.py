"""Reductions, scans and arg-reductions against loops over Python numbers."""

import functools
import itertools
import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from onnxc.runtime.host import MEANINGS

COMBINE: dict[str, Callable[[int, int], int]] = {
    "sum": lambda x, y: x + y,
    "prod": lambda x, y: x * y,
    "min": min,
    "max": max,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
}


def reduce(x: np.ndarray, kind: str, *axes: int) -> np.ndarray:
    (result,) = MEANINGS["reduce"]([x], {"kind": kind, "axes": axes})
    assert (type(result), result.dtype) == (np.ndarray, x.dtype)
    return result


def scan(x: np.ndarray, kind: str, axis: int = 0, *, exclusive: bool = False, reverse: bool = False) -> np.ndarray:
    attributes = {"kind": kind, "axis": axis, "exclusive": exclusive, "reverse": reverse}
    (result,) = MEANINGS["scan_axis"]([x], attributes)
    assert (type(result), result.dtype, result.shape) == (np.ndarray, x.dtype, x.shape)
    return result


@pytest.mark.parametrize("kind", COMBINE)
def test_reduce_combines_over_each_choice_of_axes(kind: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 4))
    for count in range(4):
        for axes in itertools.combinations(range(3), count):
            result = reduce(x, kind, *axes)
            kept = [axis for axis in range(3) if axis not in axes]
            assert result.shape == tuple(x.shape[axis] for axis in kept)
            for place in np.ndindex(*result.shape):
                pick = tuple(place[kept.index(axis)] if axis in kept else slice(None) for axis in range(3))
                assert result[place] == functools.reduce(COMBINE[kind], x[pick].reshape(-1).tolist())
            assert not np.shares_memory(result, x)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, ml_dtypes.int4, ml_dtypes.uint2], ids=str)
def test_integer_sums_and_products_wrap_in_their_own_type(dtype: type[np.generic]) -> None:
    x = np.array([3] * 50, np.int8).astype(dtype)
    bits = {ml_dtypes.int4: 4, ml_dtypes.uint2: 2}.get(dtype, 8 * x.itemsize)
    for kind, exact in (("sum", 150), ("prod", 3**50)):
        assert int(reduce(x, kind, 0)) % (1 << bits) == exact % (1 << bits)


@pytest.mark.parametrize("kind", ["and", "or", "min", "max"])
def test_bool_reductions_are_logical(kind: str) -> None:
    x = np.array([[True, True], [True, False], [False, False]])
    expected = [True, False, False] if kind in ("and", "min") else [True, True, False]
    np.testing.assert_array_equal(reduce(x, kind, 1), np.array(expected), strict=True)


LEAST = {np.float32: -math.inf, np.int8: -128, np.uint8: 0, np.bool_: False, np.float16: -math.inf}
GREATEST = {np.float32: math.inf, np.int8: 127, np.uint8: 255, np.bool_: True, np.float16: math.inf}


@pytest.mark.parametrize("dtype", LEAST, ids=str)
def test_reductions_of_nothing_give_the_identity(dtype: type[np.generic]) -> None:
    x = np.zeros((2, 0), dtype)
    identities = {"max": LEAST[dtype], "min": GREATEST[dtype]}
    if dtype is not np.bool_:
        identities |= {"sum": 0, "prod": 1}
    for kind, identity in identities.items():
        np.testing.assert_array_equal(reduce(x, kind, 1), np.full(2, identity, dtype), strict=True)
        assert reduce(x, kind, 0).shape == (0,)


def test_empty_reductions_of_bits() -> None:
    assert reduce(np.zeros(0, np.bool_), "and", 0)[()]
    assert not reduce(np.zeros(0, np.bool_), "or", 0)[()]
    assert int(reduce(np.zeros(0, np.uint8), "and", 0)) == 255
    assert int(reduce(np.zeros(0, np.int8), "and", 0)) == -1


def test_the_extremes_of_nothing_in_a_type_without_infinity_are_its_finite_ends() -> None:
    assert float(reduce(np.zeros(0, ml_dtypes.float8_e4m3fn), "max", 0)) == -448.0
    assert int(reduce(np.zeros(0, ml_dtypes.int4), "min", 0)) == 7


@pytest.mark.parametrize("kind", ["min", "max", "sum", "prod"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_nan_propagates(dtype: type[np.generic], kind: str) -> None:
    assert np.isnan(float(reduce(np.array([1, np.nan, -1]).astype(dtype), kind, 0)))


def test_narrow_sums_are_accumulated_in_f32() -> None:
    # In float16, 2048 + 1 is 2048.
    assert float(reduce(np.ones(5000, np.float16), "sum", 0)) == 5000.0
    assert float(reduce(np.ones(1000, ml_dtypes.bfloat16), "sum", 0)) == 1000.0
    assert float(reduce(np.full(4, 30000, np.float16), "sum", 0)) == math.inf


@pytest.mark.parametrize("axis", [0, 1])
def test_f32_sums_do_not_depend_on_the_order(axis: int) -> None:
    rows = np.random.default_rng(5).standard_normal((2, 5000)).astype(np.float32)
    exact = np.array([math.fsum(row) for row in rows.tolist()]).astype(np.float32)
    np.testing.assert_array_equal(reduce(rows.T if axis == 0 else rows, "sum", axis), exact, strict=True)


def test_reduce_over_no_axes_is_a_copy() -> None:
    x = np.array(3.0)
    assert float(reduce(x, "sum")) == 3.0
    assert not np.shares_memory(reduce(x, "max"), x)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_scan_combines_what_stands_before(kind: str, exclusive: bool, reverse: bool) -> None:
    x = np.random.default_rng(1).integers(-4, 5, (2, 5, 3), np.int16)
    identity = {"sum": 0, "prod": 1, "max": -(1 << 15), "min": (1 << 15) - 1}[kind]
    for axis in range(3):
        result = np.moveaxis(scan(x, kind, axis, exclusive=exclusive, reverse=reverse), axis, -1)
        for place in np.ndindex(*result.shape[:-1]):
            row = np.moveaxis(x, axis, -1)[place].tolist()[:: -1 if reverse else 1]
            sums = list(itertools.accumulate(row, COMBINE[kind], initial=identity))
            expected = sums[:-1] if exclusive else sums[1:]
            assert result[place].tolist() == expected[:: -1 if reverse else 1]


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0)], ids=str)
def test_scan_of_odd_shapes(shape: tuple[int, ...], exclusive: bool) -> None:
    for axis in range(len(shape)):
        for dtype in (np.float32, np.float16, np.uint8):
            scan(np.ones(shape, dtype), "sum", axis, exclusive=exclusive)


def test_scan_accumulates_narrow_types_in_wider_ones() -> None:
    assert float(scan(np.ones(5000, np.float16), "sum")[-1]) == 5000.0
    assert scan(np.array([100, 100], np.int8), "sum").tolist() == [100, -56]
    np.testing.assert_array_equal(scan(np.array([1.0, np.nan, 2.0]), "max"), [1.0, np.nan, np.nan])


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, np.int8, ml_dtypes.uint4, ml_dtypes.bfloat16, np.bool_], ids=str
)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["min", "max"])
def test_arg_reduce_takes_the_first_or_last_of_equals(kind: str, last: bool, dtype: type[np.generic]) -> None:
    numbers = np.random.default_rng(2).integers(0, 2 if dtype is np.bool_ else 4, (4, 6), np.int8)
    for axis in (0, 1):
        (result,) = MEANINGS["arg_reduce"]([numbers.astype(dtype)], {"kind": kind, "axis": axis, "last": last})
        assert result.dtype == np.int64
        for place, row in enumerate((numbers.T if axis == 0 else numbers).tolist()):
            best = min(row) if kind == "min" else max(row)
            expected = len(row) - 1 - row[::-1].index(best) if last else row.index(best)
            assert result[place] == expected


def test_arg_reduce_of_odd_shapes() -> None:
    attributes = {"kind": "max", "axis": 0, "last": False}
    (scalar,) = MEANINGS["arg_reduce"]([np.array([5.0])], attributes)
    np.testing.assert_array_equal(scalar, np.array(0), strict=True)
    (empty,) = MEANINGS["arg_reduce"]([np.zeros((0, 2))], attributes)
    np.testing.assert_array_equal(empty, np.zeros(2, np.int64), strict=True)


@pytest.mark.parametrize("kind", ["min", "max"])
def test_arg_reduce_finds_nan(kind: str) -> None:
    x = np.array([1.0, np.nan, np.inf, np.nan, -np.inf])
    (first,) = MEANINGS["arg_reduce"]([x], {"kind": kind, "axis": 0, "last": False})
    (last,) = MEANINGS["arg_reduce"]([x], {"kind": kind, "axis": 0, "last": True})
    assert (int(first), int(last)) == (1, 3)
