"""cast and bitcast: values and bit patterns in another element type, for all pairs of types but strings.

Source: ONNX Cast-25 and BitCast-26; where the text leaves a result undefined, the docstrings here define it.
"""

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from onnxc.runtime.host.attributes import element_type, flag, text
from onnxc.runtime.host.elements import F32, F64, finite_range, is_float, is_integer, widen, wider
from onnxc.runtime.host.registry import Arrays, Attributes, meaning

F8E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
# The types whose out-of-range values the attribute `saturate` decides; float6 and float4 have no other value to give.
FLOAT8 = tuple(
    np.dtype(scalar)
    for scalar in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
)


@meaning("cast")
def cast(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  dtype[...]; saturate and round_mode ("nearest", "up", "down") as in ONNX Cast-25."""
    saturate = flag(attributes, "saturate", default=True)
    return (convert(operands[0], element_type(attributes), saturate, text(attributes, "round_mode", "nearest")),)


def wrapped(integers: Sequence[int]) -> np.ndarray:
    """i64[n]: the lowest 64 bits of integers of any size, as sums and products of sizes in native code have them."""
    return np.array([integer & 2**64 - 1 for integer in integers], np.uint64).view(np.int64)


def convert(x: np.ndarray, dtype: np.dtype, saturate: bool = True, round_mode: str = "nearest") -> np.ndarray:
    """`x` in `dtype`, always a new array.

    bool is x != 0; integers to narrower integers keep the low bits; floats below f32 are reached through f32; complex
    to real drops the imaginary part.
    """
    source = widen(x)
    if dtype.kind == "b":
        return np.asarray(source != 0)
    if source.dtype.kind == "c" and dtype.kind != "c":
        source = source.real
    if is_integer(dtype):
        integers = _truncate(source, dtype) if is_float(source.dtype) else source
        return integers.astype(wider(dtype)).astype(dtype)
    if wider(dtype) == dtype:
        return source.astype(dtype)
    return _to_narrow_float(source.astype(F32), dtype, saturate, round_mode)


def _truncate(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats toward zero, clamped to the range of `dtype`, NaN to 0.

    Below eight bits the range is i32's and the low bits are kept: the standard's Cast tests have 8.0 as -8 in int4.
    """
    target = dtype if wider(dtype) == dtype else np.dtype(np.int32)
    bounds = np.iinfo(target)
    # The upper bound is a power of two, exact in every float type, where the largest integer itself is not.
    below, above = x <= float(bounds.min), x >= 2.0 * (bounds.max // 2 + 1)
    inside = np.where(below | above | np.isnan(x), 0, x).astype(target)
    return np.where(below, target.type(bounds.min), np.where(above, target.type(bounds.max), inside))


def _to_narrow_float(x: np.ndarray, dtype: np.dtype, saturate: bool, round_mode: str) -> np.ndarray:
    """f32 to nearest even in a narrower type; float8 saturates or not by the tables of ONNX Cast-25."""
    if dtype == F8E8M0:
        return _to_f8e8m0(x, saturate, round_mode)
    if saturate and dtype in FLOAT8:
        x = np.clip(x, *finite_range(dtype))
    return np.asarray(x).astype(dtype)


def _to_f8e8m0(x: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    """f32 to a power of two: "up" away from zero, "down" toward it, "nearest" with ties up.

    NaN and what is below zero give NaN. What is outside [2^-127, 2^127], zero and infinity too, saturates or gives NaN.
    """
    mantissa, exponent = np.frexp(x.astype(F64))
    # x is 2 * mantissa times a power of two, with mantissa in [0.5, 1).
    round_up = {"up": mantissa > 0.5, "nearest": mantissa >= 0.75, "down": np.zeros(x.shape, np.bool_)}[round_mode]
    code = np.clip(exponent - 1 + round_up, -127, 127) + 127
    code = np.where(x > 2.0**127, 254 if saturate else 255, code)
    code = np.where(x < 2.0**-127, 0 if saturate else 255, code)
    return np.where(np.isnan(x) | (x < 0), 255, code).astype(np.uint8).view(F8E8M0)


@meaning("bitcast")
def bitcast(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  dtype[...] of the same width, bit for bit; as bool every pattern but 0 is True."""
    (x,) = operands
    dtype = element_type(attributes)
    if dtype.kind == "b":
        return (x.view(np.uint8) != 0,)
    return (x.view(dtype).copy(),)
