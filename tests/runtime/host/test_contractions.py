"""dot and convolution against sums over every index, written out."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from onnxc.compiler.ir.primitives.contractions import channels_first
from onnxc.runtime.host import MEANINGS, Attributes, contractions


def dot(a: np.ndarray, b: np.ndarray, equation: str, dtype: type[np.generic] = np.int64) -> np.ndarray:
    (result,) = MEANINGS["dot"]([a, b], {"equation": equation, "dtype": np.dtype(dtype)})
    assert (type(result), result.dtype) == (np.ndarray, np.dtype(dtype))
    return result


def convolve(
    x: np.ndarray, w: np.ndarray, dtype: type[np.generic] = np.int64, given: Attributes | None = None
) -> np.ndarray:
    rank = x.ndim - 2
    plain = {"strides": (1,) * rank, "low": (0,) * rank, "high": (0,) * rank, "dilations": (1,) * rank}
    defaults = {
        **plain,
        "input_dilations": (1,) * rank,
        "groups": 1,
        "dtype": np.dtype(dtype),
        "dimensions": channels_first(rank),
    }
    (result,) = MEANINGS["convolution"]([x, w], {**defaults, **(given or {})})
    assert (type(result), result.dtype) == (np.ndarray, np.dtype(dtype))
    return result


EQUATIONS = [
    "bmk,bkn->bmn",
    "mk,kn->mn",
    "mk,kn->nm",
    "bmk,bnk->bnm",
    "k,k->",
    "m,n->mn",
    ",->",
    "m,->m",
    "mk,k->m",
    "bm,bm->bm",
    "abk,kcb->cab",
    "mk,k->",
    "kk,k->k",
    "mm,kn->mn",
    "BMk,kn->nMB",
]


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_dot_sums_over_the_letters_the_result_lacks(equation: str, zero: bool) -> None:
    sizes = dict(zip("abckmnBM", (2, 3, 4, 0 if zero else 5, 2, 3, 2, 3), strict=True))
    inputs, _, output = equation.partition("->")
    left, right = inputs.split(",")
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, [sizes[letter] for letter in left])
    b = rng.integers(-9, 9, [sizes[letter] for letter in right])
    expected = np.zeros([sizes[letter] for letter in output], np.int64)
    letters = sorted(set(left + right))
    for place in itertools.product(*(range(sizes[letter]) for letter in letters)):
        at = dict(zip(letters, place, strict=True))
        product = a[tuple(at[letter] for letter in left)] * b[tuple(at[letter] for letter in right)]
        expected[tuple(at[letter] for letter in output)] += product
    np.testing.assert_array_equal(dot(a, b, equation), expected, strict=True)


def test_dot_of_bytes_is_exact_in_i32() -> None:
    a, b = np.full((1, 70000), 255, np.uint8), np.full((70000, 1), -128, np.int8)
    assert int(dot(a, b, "mk,kn->mn", np.int32)[0, 0]) == (-128 * 255 * 70000 + 2**31) % 2**32 - 2**31


def test_integer_products_wrap() -> None:
    a = np.full((2,), 1 << 62, np.int64)
    assert int(dot(a, np.array([1, 3]), "k,k->")) == 0
    assert int(dot(a.astype(np.uint64), np.array([1, 2], np.uint64), "k,k->", np.uint64)) == 3 << 62
    assert int(dot(np.array([100], np.int16), np.array([3], np.int16), "k,k->", np.int8)) == 44


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_narrow_products_are_accumulated_in_f32_and_rounded_once(dtype: type[np.generic]) -> None:
    a = np.full(5000, 1, np.float32).astype(dtype)
    assert float(dot(a, a, "k,k->", np.float32)) == 5000.0
    assert float(dot(a, a, "k,k->", dtype)) == float(np.float32(5000).astype(dtype))


def test_dot_of_f64_and_complex_keeps_their_precision() -> None:
    a = np.array([1.0, 2.0**-40])
    assert float(dot(a, np.ones(2), "k,k->", np.float64)) == 1 + 2.0**-40
    assert complex(dot(np.array([1j, 2], np.complex64), np.array([1j, 1], np.complex64), "k,k->", np.complex64)) == 1


def test_dot_lets_nan_and_infinity_through() -> None:
    a = np.array([[np.inf, 0], [np.nan, 1]], np.float32)
    result = dot(a, np.array([0, 1], np.float32), "mk,k->m", np.float32)
    assert np.isnan(result).all()


def loops(
    x: np.ndarray, w: np.ndarray, low: int, high: int, stride: int, dilation: int, spread: int, groups: int
) -> np.ndarray:
    """A convolution over two axes, every index written out."""
    batch, channels, height, width = x.shape
    filters, inner, taps, across = w.shape
    # An axis of size 0 counts as 1 - spread, as the type of the result and the formula of ConvTranspose have it.
    extents = [low + (size - 1) * spread + 1 + high for size in (height, width)]
    padded = np.zeros((batch, channels, *extents), np.int64)
    for n, c, i, j in np.ndindex(*x.shape):
        padded[n, c, low + i * spread, low + j * spread] = x[n, c, i, j]
    rows, columns = (
        max((extent - (size - 1) * dilation - 1) // stride + 1, 0)
        for extent, size in zip(extents, (taps, across), strict=True)
    )
    result = np.zeros((batch, filters, rows, columns), np.int64)
    for n, m, i, j in np.ndindex(*result.shape):
        first = m // (filters // groups) * inner
        for c, p, q in np.ndindex(inner, taps, across):
            row, column = i * stride + p * dilation, j * stride + q * dilation
            result[n, m, i, j] += padded[n, first + c, row, column] * w[m, c, p, q]
    return result


@pytest.mark.parametrize("columns_at_once", [1, 1 << 24])
@pytest.mark.parametrize(
    ("shape", "filters", "low", "high", "stride", "dilation", "spread", "groups"),
    [
        ((2, 4, 5, 6), (6, 4, 3, 2), 0, 0, 1, 1, 1, 1),
        ((2, 4, 5, 6), (6, 2, 3, 2), 1, 2, 2, 1, 1, 2),
        ((1, 3, 7, 7), (3, 1, 3, 3), 2, 0, 1, 2, 1, 3),
        ((1, 3, 4, 4), (6, 1, 1, 1), 0, 0, 3, 1, 1, 3),
        ((1, 2, 3, 4), (2, 2, 3, 3), 2, 1, 1, 1, 2, 1),
        ((1, 2, 2, 2), (2, 2, 3, 3), 0, 0, 1, 1, 1, 1),
        ((0, 2, 4, 4), (2, 2, 3, 3), 0, 0, 1, 1, 1, 1),
        ((1, 0, 4, 4), (2, 0, 3, 3), 0, 0, 1, 1, 1, 1),
        ((1, 1, 0, 4), (1, 1, 2, 2), 2, 2, 1, 1, 3, 1),
        ((1, 2, 4, 4), (0, 2, 3, 3), 0, 0, 1, 1, 1, 1),
    ],
    ids=str,
)
def test_convolution_is_cross_correlation(
    shape: tuple[int, ...],
    filters: tuple[int, ...],
    low: int,
    high: int,
    stride: int,
    dilation: int,
    spread: int,
    groups: int,
    columns_at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contractions, "COLUMN_ELEMENTS", columns_at_once)
    rng = np.random.default_rng(3)
    x, w = rng.integers(-9, 9, shape), rng.integers(-9, 9, filters)
    expected = loops(x, w, low, high, stride, dilation, spread, groups)
    attributes: dict[str, object] = {
        "low": (low, low),
        "high": (high, high),
        "strides": (stride, stride),
        "dilations": (dilation, dilation),
        "input_dilations": (spread, spread),
        "groups": groups,
    }
    np.testing.assert_array_equal(convolve(x, w, given=attributes), expected, strict=True)
    for dtype in (np.float64, np.float32):
        result = convolve(x.astype(dtype), w.astype(dtype), dtype, attributes)
        np.testing.assert_array_equal(result, expected.astype(dtype), strict=True)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_convolution_of_other_ranks(rank: int) -> None:
    x, w = np.full((2, 3, *(5,) * rank), 2), np.ones((4, 3, *(2,) * rank), np.int64)
    np.testing.assert_array_equal(convolve(x, w), np.full((2, 4, *(4,) * rank), 2 * 3 * 2**rank), strict=True)


def test_convolution_of_bytes_is_exact_in_i32() -> None:
    x, w = np.full((1, 3, 2, 2), 255, np.uint8), np.full((1, 3, 2, 2), -128, np.int8)
    np.testing.assert_array_equal(
        convolve(x, w, np.int32), np.full((1, 1, 1, 1), -128 * 255 * 12, np.int32), strict=True
    )


def test_convolution_of_f16_accumulates_in_f32() -> None:
    x, w = np.ones((1, 5000, 1), np.float16), np.ones((1, 5000, 1), np.float16)
    assert float(convolve(x, w, np.float16)[0, 0, 0]) == float(np.float16(5000))
    assert math.isinf(float(convolve(x * np.float16(100), w, np.float16)[0, 0, 0]))


@pytest.mark.parametrize("x_labels", ["".join(each) for each in itertools.permutations("nc01")])
@pytest.mark.parametrize(("w_labels", "result_labels"), [("oi01", "nc01"), ("01io", "n01c"), ("1o0i", "0cn1")])
def test_labels_name_the_axes_in_any_order(x_labels: str, w_labels: str, result_labels: str) -> None:
    rng = np.random.default_rng(5)
    x, w = rng.integers(-9, 9, (2, 4, 5, 6)), rng.integers(-9, 9, (6, 2, 2, 3))
    given: Attributes = {"groups": 2, "low": (1, 0), "high": (0, 2), "strides": (2, 1), "dilations": (1, 2)}
    dimensions = f"{x_labels},{w_labels}->{result_labels}"
    actual = convolve(
        np.einsum(f"{_letters('nc01')}->{_letters(x_labels)}", x),
        np.einsum(f"{_letters('oi01')}->{_letters(w_labels)}", w),
        given={**given, "dimensions": dimensions},
    )
    expected = np.einsum(f"{_letters('nc01')}->{_letters(result_labels)}", convolve(x, w, given=given))
    np.testing.assert_array_equal(actual, expected, strict=True)


def _letters(labels: str) -> str:
    """Labels as einsum takes them, which knows no digits."""
    return labels.replace("0", "a").replace("1", "b")


def test_labels_after_the_tenth_spatial_axis_are_capital_letters() -> None:
    x, w = np.arange(6).reshape(1, 1, *(1,) * 10, 2, 3), np.array([1, 10]).reshape(1, 1, *(1,) * 10, 2, 1)
    expected = np.array([30, 41, 52]).reshape(1, 1, *(1,) * 10, 1, 3)
    np.testing.assert_array_equal(convolve(x, w), expected, strict=True)
    turned = channels_first(12).replace("AB", "BA")
    actual = convolve(x.swapaxes(-1, -2), w.swapaxes(-1, -2), given={"dimensions": turned})
    np.testing.assert_array_equal(actual, expected.swapaxes(-1, -2), strict=True)
