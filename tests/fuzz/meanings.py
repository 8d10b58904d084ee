"""Meanings that are as good as those of the interpreter: what native code may compute where no rule decides.

docs/precision.md says which these are.
"""

from unittest.mock import patch

import numpy as np

from onnxc.runtime.host.registry import MEANINGS, Arrays, Attributes, Meaning
from tests.support.tolerance import unit

F32 = np.dtype(np.float32)


def summed_otherwise(meaning: Meaning, usual: Meaning) -> Meaning:
    """As `meaning`, where products of f32 are not rounded: those fused to a sum may be beyond f32.

    A sum of which some terms alone are beyond f32, of an infinite one such of the other sign, is NaN, and the sum where
    NaN is usual: whether a partial sum is beyond f32 too follows from the order.
    """

    def apply(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
        if {attributes["dtype"], *(operand.dtype for operand in operands)} != {F32}:
            return meaning(operands, attributes)
        inside = {**attributes, "dtype": np.dtype(np.float64)}
        wide = [operand.astype(np.float64) for operand in operands]
        (result,) = meaning(wide, inside)
        finite = [np.where(np.isfinite(operand), operand, 0) for operand in wide]
        (magnitude,), (signed,) = meaning([np.abs(operand) for operand in finite], inside), meaning(finite, inside)
        most = np.finfo(F32).max
        with np.errstate(all="ignore"):
            opposed = (magnitude - np.sign(result) * signed) / 2
            is_undecided = np.where(np.isinf(result), opposed > most, (magnitude > most) & (np.abs(result) <= most))
            is_usual = np.isnan(usual(operands, attributes)[0])
            return (np.where(is_undecided & ~is_usual, np.nan, result).astype(F32),)

    return apply


def convolution_inside(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """As `convolution`, where the zeros of the padding are not multiplied: a filter's NaN or infinity meets none."""
    x, w = operands
    if not unit(w.dtype) or np.isfinite(w).all():
        return MEANING["convolution"](operands, attributes)

    def meets(of_x: np.ndarray, of_w: np.ndarray) -> np.ndarray:
        """Which results have a product of an element of each."""
        (count,) = MEANING["convolution"]((of_x.astype(x.dtype), of_w.astype(w.dtype)), attributes)
        return np.asarray(count != 0)

    with np.errstate(all="ignore"):
        plus = meets(x > 0, w == np.inf) | meets(x < 0, w == -np.inf)
        minus = meets(x > 0, w == -np.inf) | meets(x < 0, w == np.inf)
        undefined = meets(np.ones_like(x), np.isnan(w)) | meets((x == 0) | np.isnan(x), ~np.isfinite(w))
        # Whatever is in the place of an infinity is lost in one that is added; of an infinity it makes none but that.
        signs = np.where(np.isfinite(w), w, np.where(w < 0, -1, 1)).astype(w.dtype)
        (finite,) = MEANING["convolution"]((x, signs), attributes)
        added = np.where(plus, np.inf, 0.0) - np.where(minus, np.inf, 0.0) + np.where(undefined, np.nan, 0.0)
        return ((finite + added).astype(finite.dtype),)


def attention_scaled_first(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """As `attention`, where queries are scaled before the product, and nothing is rounded to 16 bits on the way.

    A query that a small scale makes 0 is NaN times an infinite key; a weight may be small, and not yet 0. One that were
    subnormal is 0.
    """
    q, k, v, *masks = operands
    wide = np.float32 if q.dtype.itemsize == 2 else q.dtype
    with np.errstate(all="ignore"):
        scaled = (q.astype(np.float64) * float(attributes["scale"])).astype(wide)  # type: ignore[arg-type]
        inside = [scaled, k.astype(wide), v.astype(wide), *masks]
        (result,) = MEANING["attention"](inside, {**attributes, "scale": 1.0})
        result = np.where(_meets_infinity_far_below(operands, attributes), np.nan, result)
        return (result.astype(q.dtype),)


def _meets_infinity_far_below(operands: Arrays, attributes: Attributes) -> np.ndarray:
    """Which results of an attention have a product of an infinite value and a weight that were subnormal in f32."""
    q, k, v, *masks = operands
    picks = np.broadcast_to(np.eye(v.shape[2]), (*v.shape[:3], v.shape[2]))
    (weights,) = MEANING["attention"]([q.astype(np.float64), k.astype(np.float64), picks, *masks], attributes)
    is_far = (weights > 0) & (weights < np.finfo(np.float32).tiny)
    values = np.isinf(v).repeat(q.shape[1] // max(1, v.shape[1]), axis=1)
    return np.asarray(is_far.astype(np.float64) @ values.astype(np.float64) > 0)


def fourier_otherwise(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """As `fourier`, where a line with an infinity or NaN has finite bins for those that are not, and NaN for others.

    Which of its bins are finite, infinite or undefined follows from the order in which a transform adds up.
    """
    x, roots = operands
    (fast,) = MEANING["fourier"](operands, attributes)
    (finite,) = MEANING["fourier"]([np.where(np.isfinite(x), x, 0).astype(x.dtype), roots], attributes)
    is_undecided = ~np.isfinite(x[..., : roots.shape[0], :]).all(axis=(-2, -1), keepdims=True)
    otherwise = np.where(np.isfinite(fast), np.nan, finite)
    return (np.where(is_undecided, otherwise, fast).astype(fast.dtype),)


def gelu_that_cancels(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """As `gelu`, 0.5 * x * (1 + tanh(...)), where the sum is rounded to f32: it is 0 where the result is not yet."""
    (x,) = operands
    (accurate,) = MEANING["gelu"]([x.astype(np.float64)], attributes)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        curve = (2 * accurate / wide - 1).astype(np.float32 if x.dtype.itemsize <= 4 else np.float64)
        result = 0.5 * wide * (1 + curve)
    return (np.where(np.isfinite(wide) & (wide != 0), result, accurate).astype(x.dtype),)


def multiplied_otherwise(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """As `reduce`; a product is NaN where one of some of its factors is no normal number: the order decides.

    In one order it may become 0, or infinite, before a factor comes that were to make it a number again.
    """
    (result,) = MEANING["reduce"](operands, attributes)
    (x,) = operands
    if attributes["kind"] != "prod" or not unit(x.dtype) or x.dtype.kind == "c":
        return (result,)
    inside = np.finfo(np.float64 if x.dtype.itemsize == 8 else np.float32)
    with np.errstate(all="ignore"):
        magnitude = np.abs(x.astype(np.float64))
        small = np.where((magnitude > 0) & (magnitude < 1), magnitude, 1.0)
        large = np.where(np.isfinite(magnitude) & (magnitude > 1), magnitude, 1.0)
        least, most = (MEANING["reduce"]([each], attributes)[0] for each in (small, large))
        is_undecided = (least < inside.tiny) | (most > inside.max)
    return (np.where(is_undecided, np.nan, result).astype(result.dtype),)


MEANING = dict(MEANINGS)
AS_GOOD: dict[str, Meaning] = {
    "dot": summed_otherwise(MEANING["dot"], MEANING["dot"]),
    "convolution": summed_otherwise(convolution_inside, MEANING["convolution"]),
    "attention": attention_scaled_first,
    "fourier": fourier_otherwise,
    "gelu": gelu_that_cancels,
    "reduce": multiplied_otherwise,
}

# A context in which the interpreter takes the meanings that are as good.
as_good_meanings = patch.dict(MEANINGS, AS_GOOD)
