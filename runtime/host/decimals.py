"""Numbers read from texts in decimal, and written as such."""

from itertools import repeat

import numpy as np

from onnxc.runtime.host.values import texts

# What C's %g prints of an f32 so that it can be read back, but for the last digit of a few.
F32_DIGITS = 8
# What Python prints of floats that are not finite, and what the standard says of them.
NOT_FINITE = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
# From here on floats are written with exponents: of f64 by repr, of others by F32_DIGITS.
WITH_EXPONENTS = {"f64": 1e16, "others": 10.0**F32_DIGITS}


def parsed_decimals(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The numbers that string[n] says: dtype[n], dtype being f64, i64 or u64; integers may be written as floats.

    What is no number is a ValueError, an integer that `dtype` cannot hold an OverflowError.
    """
    try:
        # NumPy asks Python what a text is, but lets what is below 0 wrap in unsigned integers.
        if dtype.kind != "u":
            return words.astype(dtype)
        return np.fromiter(map(int, words.tolist()), dtype, words.size)
    except ValueError:
        if dtype.kind == "f":
            raise
        return np.fromiter(map(_integer, words.tolist()), dtype, words.size)


def _integer(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        return int(float(word))


def decimals_of(values: np.ndarray) -> np.ndarray:
    """values: T[n]  ->  string[n]: integers and bools in decimal, f64 in full, other floats with 8 digits"""
    if values.dtype.kind in "biu":
        return _written_integers(values.view(np.uint8) if values.dtype.kind == "b" else values)
    is_double = values.dtype == np.float64
    if not is_double:
        values = values.astype(np.float32)
    limit = WITH_EXPONENTS["f64" if is_double else "others"]
    if values.size and (np.abs(values) < limit).all():
        integers = values.astype(np.int64)
        if (integers == values).all() and not np.signbit(values[integers == 0]).any():
            return _written_integers(integers)
    if is_double:
        written = [repr(element).removesuffix(".0") for element in values.tolist()]
    else:
        written = list(map(float.__format__, values.tolist(), repeat(f".{F32_DIGITS}g")))
    if not np.isfinite(values).all():
        written = [NOT_FINITE.get(decimal, decimal) for decimal in written]
    return texts(written, values.shape)


def _written_integers(values: np.ndarray) -> np.ndarray:
    """values: T[n]  ->  string[n]; where they are of a range of fewer integers, each of these is written once."""
    if values.size and int(values.max()) - int(values.min()) < values.size // 2:
        # What repr makes of an integer is the same as str, in less than half the time.
        written = list(map(repr, range(int(values.min()), int(values.max()) + 1)))
        # Differences of two that an i64 wraps are what they should be.
        offsets: np.ndarray = values.astype(np.int64) - values.min().astype(np.int64)
        return np.asarray(texts(written, (len(written),)).take(offsets))
    return texts(list(map(repr, values.tolist())), values.shape)
