"""The composites against their equations in Python's floats, and at the edges where the equations have no value."""

import math

import ml_dtypes
import numpy as np
import pytest

from onnxc.runtime.host import MEANINGS
from tests.support.arrays import assert_close

NARROW = [np.float16, ml_dtypes.bfloat16]
FLOATS = [np.float64, np.float32, *NARROW]


def normal(*shape: int, dtype: type[np.generic] = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def run(name: str, *operands: np.ndarray, **attributes: object) -> np.ndarray:
    (result,) = MEANINGS[name](operands, attributes)
    assert (type(result), result.dtype) == (np.ndarray, operands[0].dtype)
    return result


def assert_near(actual: np.ndarray, expected: np.ndarray | list[float] | float, dtype: type[np.generic]) -> None:
    """The sums of these tests have at most 12 terms, which 16 bits add up in f32."""
    accumulator = np.float64 if dtype == np.float64 else np.float32
    assert_close(np.asarray(actual), np.asarray(expected).astype(dtype), terms=12, accumulator=accumulator)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax_and_its_logarithm(dtype: type[np.generic], axis: int) -> None:
    x = normal(3, 4, dtype=dtype)
    powers = np.exp(x.astype(np.float64))
    expected = powers / powers.sum(axis, keepdims=True)
    assert_near(run("softmax", x, axis=axis), expected, dtype)
    assert_near(run("log_softmax", x, axis=axis), np.log(expected), dtype)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_softmax_is_rounded_once(dtype: type[np.generic]) -> None:
    x = normal(5, 7, dtype=dtype)
    exact = run("softmax", x.astype(np.float32), axis=1).astype(dtype)
    np.testing.assert_array_equal(run("softmax", x, axis=1), exact, strict=True)


def test_softmax_of_the_extremes() -> None:
    huge = np.array([[3e38, 3e38], [-3e38, 3e38], [-np.inf, 0]], np.float32)
    np.testing.assert_array_equal(run("softmax", huge, axis=1), [[0.5, 0.5], [0, 1], [0, 1]])
    np.testing.assert_array_equal(run("log_softmax", huge[2:], axis=1), [[-np.inf, 0]])
    nothing = np.array([[-np.inf, -np.inf], [np.nan, 0]])
    assert np.isnan(run("softmax", nothing, axis=1)).all()


@pytest.mark.parametrize("shape", [(0,), (1,), (2, 0), (0, 2)], ids=str)
def test_softmax_of_odd_shapes(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        np.testing.assert_array_equal(run("softmax", np.zeros(shape), axis=axis), np.ones(shape), strict=True)
        np.testing.assert_array_equal(run("log_softmax", np.zeros(shape), axis=axis), np.zeros(shape), strict=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm(dtype: type[np.generic], axis: int) -> None:
    x = normal(2, 3, 4, dtype=dtype)
    scale, bias = normal(*x.shape[axis:], dtype=dtype, seed=1), normal(*x.shape[axis:], dtype=dtype, seed=2)
    wide, axes = x.astype(np.float64), tuple(range(axis, 3))
    normalized = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-3)
    expected = normalized * scale.astype(np.float64) + bias.astype(np.float64)
    result = run("layer_norm", x, scale, bias, axis=axis, epsilon=1e-3)
    # The normalized elements are rounded to the type.
    assert_close(result, expected.astype(dtype), terms=12 if np.dtype(dtype).itemsize > 2 else 2)


@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rms_norm(dtype: type[np.generic], axis: int) -> None:
    x = normal(2, 3, 4, dtype=dtype)
    scale = normal(*x.shape[axis:], dtype=dtype, seed=1)
    wide = x.astype(np.float64)
    root = np.sqrt((wide * wide).mean(tuple(range(axis, 3)), keepdims=True) + 1e-3)
    assert_near(run("rms_norm", x, scale, axis=axis, epsilon=1e-3), wide / root * scale.astype(np.float64), dtype)


def test_norms_round_to_f16_between_their_stages() -> None:
    x, scale, bias = (normal(64, 32, dtype=np.float16), *(normal(32, dtype=np.float16, seed=s) for s in (1, 2)))
    one, zero = np.ones(32, np.float16), np.zeros(32, np.float16)
    normalized = run("layer_norm", x, one, zero, axis=1, epsilon=1e-5)
    np.testing.assert_array_equal(run("layer_norm", x, scale, bias, axis=1, epsilon=1e-5), normalized * scale + bias)
    normalized = run("rms_norm", x, one, axis=1, epsilon=1e-5)
    np.testing.assert_array_equal(run("rms_norm", x, scale, axis=1, epsilon=1e-5), normalized * scale)


def test_norms_of_f16_do_not_overflow_in_their_squares() -> None:
    x = np.array([[300.0, -300.0]], np.float16)
    one, zero = np.ones(2, np.float16), np.zeros(2, np.float16)
    np.testing.assert_array_equal(run("layer_norm", x, one, zero, axis=1, epsilon=0.0), [[1, -1]])
    np.testing.assert_array_equal(run("rms_norm", x, one, axis=1, epsilon=0.0), [[1, -1]])


@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (1,)], ids=str)
def test_norms_of_odd_shapes(shape: tuple[int, ...]) -> None:
    x, axis = np.ones(shape, np.float32), len(shape) - 1
    scale = np.ones(shape[axis:], np.float32)
    zeros = np.zeros(shape, np.float32)
    np.testing.assert_array_equal(run("layer_norm", x, scale, scale * 0, axis=axis, epsilon=1e-5), zeros, strict=True)
    np.testing.assert_array_equal(run("rms_norm", x, scale, axis=axis, epsilon=0.0), zeros + 1, strict=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gelu(dtype: type[np.generic]) -> None:
    x = np.array([-8, -3, -1, -0.0, 0, 0.5, 2, 9]).astype(dtype)
    exact = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype(np.float64).tolist()]
    cubic = [
        0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in x.astype(np.float64).tolist()
    ]
    assert_near(run("gelu", x, approximate="none"), exact, dtype)
    assert_near(run("gelu", x, approximate="tanh"), cubic, dtype)
    assert run("gelu", x[0], approximate="none").shape == ()
    assert run("gelu", x[:0], approximate="tanh").shape == (0,)


def reference_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray, scale: float, softcap: float
) -> np.ndarray:
    """Attention in f64, one query at a time; the bias already holds mask and causality."""
    result = np.zeros((*q.shape[:3], v.shape[3]))
    bias = np.broadcast_to(bias, (*q.shape[:3], k.shape[2]))
    for b, h, s in np.ndindex(*q.shape[:3]):
        head = h // (q.shape[1] // k.shape[1])
        scores = [float(np.dot(q[b, h, s], key)) * scale for key in k[b, head]]
        if softcap:
            scores = [softcap * math.tanh(score / softcap) for score in scores]
        powers = [math.exp(score + extra) for score, extra in zip(scores, bias[b, h, s], strict=True)]
        if sum(powers):
            result[b, h, s] = sum(power * value for power, value in zip(powers, v[b, head], strict=True)) / sum(powers)
    return result


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("softcap", [0.0, 0.7])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask_shape", [None, (2, 4, 3, 5), (1, 1, 3, 5), (2, 1, 3, 5)], ids=str)
def test_attention(mask_shape: tuple[int, ...] | None, causal: bool, softcap: float, dtype: type[np.generic]) -> None:
    q, k, v = (normal(*s, dtype=dtype, seed=i) for i, s in enumerate([(2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6)]))
    masks = [] if mask_shape is None else [np.where(normal(*mask_shape) > 0.8, -np.inf, 0.5).astype(dtype)]
    bias = masks[0].astype(np.float64) if masks else np.zeros((3, 5))
    bias = np.where(np.tri(3, 5, dtype=bool), bias, -np.inf) if causal else bias
    result = run("attention", q, k, v, *masks, scale=0.25, causal=causal, softcap=softcap)
    wide_q, wide_k, wide_v = (x.astype(np.float64) for x in (q, k, v))
    expected = reference_attention(wide_q, wide_k, wide_v, bias, 0.25, softcap)
    # Each step is rounded to the type.
    assert_close(result, expected.astype(dtype), terms=4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_fully_masked_row_gives_zeros(dtype: type[np.generic]) -> None:
    q, k, v = np.full((1, 1, 2, 4), np.nan).astype(dtype), np.ones((1, 1, 3, 4), dtype), np.ones((1, 1, 3, 4), dtype)
    mask = np.array([[-np.inf] * 3, [0] * 3]).astype(dtype).reshape(1, 1, 2, 3)
    unknown = run("attention", q, k, v, mask, scale=1.0, causal=False, softcap=0.0)
    np.testing.assert_array_equal(unknown.astype(np.float32)[0, 0], [[0] * 4, [np.nan] * 4])
    finite = run("attention", k[:, :, :2], k, v, mask, scale=1.0, causal=False, softcap=0.0)
    np.testing.assert_array_equal(finite.astype(np.float32)[0, 0], [[0] * 4, [1] * 4])


def test_attention_without_keys_queries_or_heads() -> None:
    attributes: dict[str, object] = {"scale": 1.0, "causal": True, "softcap": 0.0}
    for batch, heads, queries, keys in ((1, 2, 3, 0), (1, 2, 0, 3), (0, 2, 3, 4), (1, 0, 3, 4)):
        q = np.ones((batch, heads, queries, 4), np.float32)
        k = np.ones((batch, heads // 2, keys, 4), np.float32)
        result = run("attention", q, k, k[..., :2], **attributes)
        np.testing.assert_array_equal(
            result, np.zeros((batch, heads, queries, 2), np.float32) + (keys > 0), strict=True
        )


def test_attention_of_f16_rounds_after_every_step() -> None:
    q, k, v = (normal(1, 1, n, 16, dtype=np.float16, seed=n) for n in (5, 6, 6))
    scale = np.float16(np.sqrt(np.float32(0.25)))
    with np.errstate(all="ignore"):
        scores = np.matmul((q * scale).astype(np.float32), np.swapaxes(k * scale, -1, -2).astype(np.float32))
        scores = scores.astype(np.float16)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.astype(np.float32).sum(-1, keepdims=True).astype(np.float16)
    expected = np.matmul(weights.astype(np.float32), v.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(run("attention", q, k, v, scale=0.25, causal=False, softcap=0.0), expected)


def test_an_f32_mask_keeps_the_weights_of_f16_attention_in_f32_until_the_end() -> None:
    q, k, v = (np.ones((1, 1, n, 4), np.float16) for n in (1, 2, 2))
    mask = np.array([[[[0.0, 1e-4]]]], np.float32)
    weights = np.exp([0.0, 1e-4]) / np.exp([0.0, 1e-4]).sum()
    expected = np.float16(np.float16(weights[0]).astype(np.float32) + np.float16(weights[1]).astype(np.float32))
    result = run("attention", q, k, v, mask, scale=1.0, causal=False, softcap=0.0)
    np.testing.assert_array_equal(result, np.full((1, 1, 1, 4), expected), strict=True)


def test_an_f32_mask_does_not_take_f64_attention_to_f32() -> None:
    q, k, v = (normal(1, 1, n, 4, dtype=np.float64, seed=n) for n in (1, 2, 2))
    mask = np.zeros((1, 1, 1, 2), np.float32)
    attributes: dict[str, object] = {"scale": 1.0, "causal": False, "softcap": 0.0}
    masked = run("attention", q, k, v, mask, **attributes)
    np.testing.assert_array_equal(masked, run("attention", q, k, v, **attributes), strict=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_turns_pairs(interleaved: bool, dtype: type[np.generic]) -> None:
    x = normal(2, 3, 2, 6, dtype=dtype)
    angles = normal(2, 3, 1, 3, seed=1)
    cos, sin = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
    result = run("rotary", x, cos, sin, interleaved=interleaved)
    for *place, pair in np.ndindex(2, 3, 2, 3):
        first, second = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + 3)
        c, s = (float(table[place[0], place[1], 0, pair]) for table in (cos, sin))
        x1, x2 = float(x[(*place, first)]), float(x[(*place, second)])
        assert_near(result[(*place, first)], c * x1 - s * x2, dtype)
        assert_near(result[(*place, second)], s * x1 + c * x2, dtype)


def test_rotary_of_size_zero() -> None:
    for shape in ((0, 4), (2, 0)):
        table = np.ones((shape[0], shape[1] // 2), np.float32)
        assert run("rotary", np.ones(shape, np.float32), table, table, interleaved=True).shape == shape
