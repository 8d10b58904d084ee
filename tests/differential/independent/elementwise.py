"""Element by element, among them the broadcasting of opset 1, and integers beyond what floats hold."""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from tests.differential.independent.registry import Given, Rounded, computes

BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: np.trunc(a / b).astype(a.dtype) if a.dtype.kind in "iu" else np.divide(a, b),
    "Pow": lambda a, b: np.power(a.astype(np.float64), b.astype(np.float64)) if b.dtype.kind == "f" else np.power(a, b),
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
}


def placed(a: np.ndarray, b: np.ndarray, axis: int | None) -> np.ndarray:
    """`b` with ones behind it, so that its first axis is axis `axis` of `a`, or its last is the last."""
    if b.size == 1:
        return b.reshape(())
    start = a.ndim - b.ndim if axis is None else axis
    return b.reshape((*b.shape, *[1] * (a.ndim - b.ndim - start)))


@computes(*BINARY)
def binary(g: Given) -> list[object]:
    a, b = g.wide(0), g.wide(1)
    if g.since < 7:
        b = placed(a, b, g.int("axis") if g.has("axis") else None)
    return [BINARY[g.node.op_type](a, b)]


@computes("Mod")
def mod(g: Given) -> list[object]:
    """The remainder has the sign of the divisor, or with fmod of the dividend."""
    return [(np.fmod if g.int("fmod") else np.mod)(g.wide(0), g.wide(1))]


@computes("Selu")
def selu(g: Given) -> list[object]:
    """gamma * (alpha * e^x - alpha) for x <= 0, gamma * x for x > 0"""
    x, alpha, gamma = g.wide(0), g.number("alpha"), g.number("gamma")
    return [gamma * np.where(x > 0, x, alpha * np.exp(np.minimum(x, 0)) - alpha)]


@computes("PRelu")
def prelu(g: Given) -> list[object]:
    x, slope = g.wide(0), g.wide(1)
    if g.since < 7:
        slope = slope.reshape(()) if slope.size == 1 else slope.reshape(-1, *[1] * (x.ndim - 2))
    return [np.where(x < 0, slope * x, x)]


@computes("Gelu")
def gelu(g: Given) -> list[object]:
    x = g.wide(0)
    if g.text("approximate") == "tanh":
        return [0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))]
    return [0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))]


@computes("Erf")
def erf(g: Given) -> list[object]:
    return [np.vectorize(math.erf, otypes=[np.float64])(g.array(0).astype(np.float64))]


@computes("Mish")
def mish(g: Given) -> list[object]:
    x = g.wide(0)
    return [x * np.tanh(np.logaddexp(x, 0))]


@computes("Clip")
def clip(g: Given) -> list[object]:
    """Max with `min` and Min with `max` where they are given, as the body of the function says."""
    x, low, high = g.array(0), g.optional(1), g.optional(2)
    x = x if low is None else np.where(x < low, low, x)
    return [x if high is None else np.where(x > high, high, x)]


@computes("Shrink")
def shrink(g: Given) -> list[object]:
    x, edge, bias = g.array(0), g.number("lambd"), g.number("bias")
    exact = x.astype(np.float64)
    return [np.where(exact < -edge, exact + bias, np.where(exact > edge, exact - bias, 0))]


@computes("Dropout")
def dropout(g: Given) -> list[object]:
    """Not training, nothing is dropped: "If the flag is false ... the output mask will contain all ones"."""
    return [g.array(0), np.ones(g.array(0).shape, bool)]


@computes("Sum", "Mean")
def total(g: Given) -> list[object]:
    result = sum((g.wide(place) for place in range(len(g.inputs))), np.float64(0))
    return [result / (len(g.inputs) if g.node.op_type == "Mean" else 1)]


@computes("Cast", "CastLike")
def cast(g: Given) -> list[object]:
    """Texts: True is the text of a number that is not 0; a number's text is the shortest that gives it back."""
    x = g.array(0)
    to_text = g.array(1).dtype == object if g.node.op_type == "CastLike" else g.text("to") in ("8", "STRING")
    if to_text:
        texts = np.empty(x.shape, object)
        for at in np.ndindex(*x.shape):
            texts[at] = shortest(x[at])
        return [texts]
    if x.dtype == object:
        return [np.vectorize(float, otypes=[np.float64])(x)]
    return [x]


def shortest(value: np.generic | str) -> str:
    """The fewest digits that tell the number from its neighbours of the same type; a text is itself."""
    if isinstance(value, str):
        return value
    if value.dtype.kind in "iub":
        return str(int(value))
    number = float(value)
    if not math.isfinite(number):
        return {math.inf: "INF", -math.inf: "-INF"}.get(number, "NaN")
    for digits in range(1, 18):
        text = f"{number:.{digits}g}"
        if np.array(float(text)).astype(value.dtype) == value:
            break
    whole = float(text)
    return str(int(whole)) if whole.is_integer() and abs(whole) < 1e16 else repr(whole)


@computes("DynamicQuantizeLinear")
def dynamic_quantize_linear(g: Given) -> list[object]:
    """By the range of the elements and 0, which is 1 where it is 0; the scale is an f32, as what is divided by it."""
    x = g.array(0)
    high, low = np.float32(x.max(initial=0)), np.float32(x.min(initial=0))
    scale = np.float32(high - low if high > low else 1) / np.float32(255)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    return [np.clip(np.rint(x / scale) + zero, 0, 255), scale, zero]


@computes("QuantizeLinear")
def quantize(g: Given) -> list[object]:
    """saturate(x / y_scale + y_zero_point), halves to even"""
    x, scale, zero = g.array(0).astype(np.float64), g.array(1).astype(np.float64), g.optional(2)
    block = g.int("block_size")
    if scale.size == 1:
        scale, zero = scale.reshape(()), None if zero is None else zero.reshape(())
    elif not block:
        shape = [1] * x.ndim
        # The axis of a vector is its only one, whatever the default is.
        shape[g.int("axis") if x.ndim > 1 else 0] = -1
        scale = scale.reshape(shape)
        zero = None if zero is None else zero.reshape(shape)
    else:
        scale = spread(scale, x.shape, g.int("axis"), block)
        zero = None if zero is None else spread(zero, x.shape, g.int("axis"), block)
    unsaid = g.dtype("output_dtype") if g.int("output_dtype") else np.dtype(np.uint8)
    dtype = unsaid if zero is None else zero.dtype
    least, most = bounds(dtype)
    shift = 0 if zero is None else zero.astype(np.float64)
    quantized = np.clip(quotient(g, x / scale) + shift, least, most)
    return [quantized.astype(dtype) if "float" in dtype.name else Rounded(quantized)]


def quotient(g: Given, value: np.ndarray) -> np.ndarray:
    """Rounded to `precision`: "If not provided, it will be the same as the type of y_scale"."""
    dtype = g.dtype("precision") if g.int("precision", 0) else g.array(1).dtype
    return value.astype(np.float32 if "e8m0" in dtype.name else dtype).astype(np.float64) if g.since >= 23 else value


def spread(values: np.ndarray, shape: tuple[int, ...], axis: int, block: int) -> np.ndarray:
    repeated = np.repeat(values, block, axis)
    return np.take(repeated, range(shape[axis]), axis)


def bounds(dtype: np.dtype) -> tuple[float, float]:
    if "float" in dtype.name:
        most = float(ml_dtypes.finfo(dtype).max)
        return -most, most
    bits = int(dtype.name.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
