"""Composites: the primitives kept whole, each as the ONNX operator it comes from defines it.

float16 and narrower are computed in f32 and rounded once, except where the operator's text rounds between its stages.
"""

import math
from collections.abc import Callable

import numpy as np

from onnxc.runtime.host.attributes import flag, integer, real, text
from onnxc.runtime.host.elements import F32, in_double, narrow, widen, wider
from onnxc.runtime.host.erf import erf
from onnxc.runtime.host.reductions import reduce_axes
from onnxc.runtime.host.registry import Arrays, Attributes, meaning

_exp = in_double(np.exp)
_log = in_double(np.log)
_tanh = in_double(np.tanh)


@meaning("softmax")
def softmax(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  T[...], exp(x) / Σ exp(x) along axis, computed from x - max(x)."""
    (x,) = operands
    powers = _exp(_below_maximum(widen(x), integer(attributes, "axis")))
    return (narrow(powers / reduce_axes(powers, "sum", (integer(attributes, "axis"),), keepdims=True), x.dtype),)


@meaning("masked_softmax")
def masked_softmax(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  T[...], the softmax along axis; where everything is -inf, zeros instead of NaN."""
    (x,) = operands
    wide, axis = widen(x), integer(attributes, "axis")
    top = reduce_axes(wide, "max", (axis,), keepdims=True)
    powers = _exp(np.asarray(wide - np.where(np.isneginf(top), wide.dtype.type(0), top)))
    total = reduce_axes(powers, "sum", (axis,), keepdims=True)
    return (narrow(powers / np.where(total == 0, wide.dtype.type(1), total), x.dtype),)


@meaning("log_softmax")
def log_softmax(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  T[...], x - log Σ exp(x) along axis, computed from x - max(x)."""
    (x,) = operands
    below = _below_maximum(widen(x), integer(attributes, "axis"))
    total = reduce_axes(_exp(below), "sum", (integer(attributes, "axis"),), keepdims=True)
    return (narrow(below - _log(total), x.dtype),)


def _below_maximum(x: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(x - reduce_axes(x, "max", (axis,), keepdims=True))


@meaning("layer_norm")
def layer_norm(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[d0 ... dr-1], scale: T[da ... dr-1], bias: T[da ... dr-1]  ->  T[d0 ... dr-1], a = axis.

    The first stage is in f32 (f64 for f64) and rounded to T; scaling and shifting are operations in T.
    Source: https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
    """
    x, scale, bias = operands
    wide = widen(x)
    distance = wide - _mean(wide, integer(attributes, "axis"))
    variance = _mean(distance * distance, integer(attributes, "axis"))
    inverse = 1.0 / np.sqrt(variance + real(attributes, "epsilon"))
    normalized = narrow(distance * inverse, x.dtype)
    scaled = narrow(widen(normalized) * widen(scale), x.dtype)
    return (narrow(widen(scaled) + widen(bias), x.dtype),)


@meaning("rms_norm")
def rms_norm(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[d0 ... dr-1], scale: T[da ... dr-1]  ->  T[d0 ... dr-1], a = axis.

    The first stage is in f32 (f64 for f64) and rounded to T; scaling is an operation in T.
    Source: https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
    """
    x, scale = operands
    wide = widen(x)
    root = np.sqrt(_mean(wide * wide, integer(attributes, "axis")) + real(attributes, "epsilon"))
    normalized = narrow(wide / root, x.dtype)
    return (narrow(widen(normalized) * widen(scale), x.dtype),)


def _mean(x: np.ndarray, axis: int) -> np.ndarray:
    """The mean over the axes from `axis` on, which stay with size 1."""
    axes = tuple(range(axis, x.ndim))
    return np.asarray(reduce_axes(x, "sum", axes, keepdims=True) / math.prod(x.shape[axis:]))


@meaning("gelu")
def gelu(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  T[...], x/2 (1 + erf(x/√2)); approximate="tanh": x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    (x,) = operands
    function = {"none": _gelu, "tanh": _gelu_by_tanh}[text(attributes, "approximate", "none")]
    return (narrow(in_double(function)(widen(x)), x.dtype),)


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def _gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x))))


@meaning("attention")
def attention(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """q: T[B, H, S, D], k: T[B, G, T, D], v: T[B, G, T, E], mask: U[B|1, H|1, S, T]?  ->  T[B, H, S, E]

    softmax(q √scale · k √scale + mask) · v, head h of q meeting head h // (H / G) of k and v. A softcap other than 0
    bounds the scores before the mask; causal lets query i see the keys j <= i. A key whose mask is -inf is not seen,
    whatever its score, infinite or NaN; a row that sees none, or whose scores are all -inf, gives zeros. Each step is
    rounded to T, as by the function body of the operator.
    Source: https://onnx.ai/onnx/operators/onnx__Attention.html
    """
    q, k, v, *masks = operands
    step = _rounding_to(q.dtype)
    scale = step(np.sqrt(np.asarray(real(attributes, "scale"), wider(q.dtype))))
    heads, groups = q.shape[1], k.shape[1]
    grouped = (q.shape[0], groups, heads // max(groups, 1))
    queries = step(widen(q) * scale).reshape(*grouped, *q.shape[2:])
    keys = np.swapaxes(step(widen(k) * scale), -1, -2)[:, :, np.newaxis]
    scores = step(queries @ keys).reshape(*q.shape[:3], k.shape[2])
    softcap = real(attributes, "softcap", 0.0)
    if softcap != 0:
        scores = step(step(_tanh(step(scores / softcap))) * softcap)

    bias = _bias(masks, q.shape[2], k.shape[2], causal=flag(attributes, "causal", default=False))
    # A mask in another type takes the softmax with it into the wider of the two.
    same = all(mask.dtype == q.dtype for mask in masks)
    softmax_step = step if same else _rounding_to(np.promote_types(scores.dtype, bias.dtype))
    weights = step(_masked_softmax(scores, bias, softmax_step)).reshape(*grouped, *scores.shape[2:])
    result = weights @ widen(v)[:, :, np.newaxis]
    return (narrow(result.reshape(*q.shape[:3], v.shape[3]), q.dtype),)


def _rounding_to(dtype: np.dtype) -> Callable[[np.ndarray], np.ndarray]:
    """What rounds a computed array to `dtype` and goes on in the type that `dtype` is computed in."""
    return lambda x: widen(narrow(x, dtype))


def _bias(masks: list[np.ndarray], queries: int, keys: int, *, causal: bool) -> np.ndarray:
    """What is added to the scores: the mask, and -inf for the keys after the query."""
    bias = widen(masks[0]) if masks else np.zeros((queries, keys), F32)
    allowed = np.arange(keys) <= np.arange(queries)[:, np.newaxis]
    return np.where(allowed, bias, -np.inf) if causal else bias


def _masked_softmax(scores: np.ndarray, bias: np.ndarray, step: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Softmax of scores + bias along the last axis, each step rounded; zeros where no key is left."""
    scores = np.where(np.isneginf(bias), bias, step(scores + bias))
    peak = reduce_axes(scores, "max", (-1,), keepdims=True)
    powers = step(_exp(step(scores - np.where(np.isneginf(peak), 0, peak))))
    total = step(reduce_axes(powers, "sum", (-1,), keepdims=True))
    closed = np.isneginf(reduce_axes(bias, "max", (-1,), keepdims=True)) | (total == 0)
    return np.where(closed, 0, step(powers / total))


@meaning("rotary")
def rotary(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[... D], cos: T[... D/2], sin: T[... D/2]  ->  T[... D]; cos and sin broadcast to the leading axes of x.

    Pairs (x1, x2) turn into (cos x1 - sin x2, sin x1 + cos x2): both halves of the axis, or interleaved neighbours.
    Source: https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
    """
    x, cos, sin = (widen(operand) for operand in operands)
    half = x.shape[-1] // 2
    interleaved = flag(attributes, "interleaved", default=False)
    first, second = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, half), slice(half, None))
    result = np.empty_like(x)
    result[..., first] = cos * x[..., first] - sin * x[..., second]
    result[..., second] = sin * x[..., first] + cos * x[..., second]
    return (narrow(result, operands[0].dtype),)
