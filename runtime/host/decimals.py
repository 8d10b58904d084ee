"""Numbers read from texts in decimal, and written as such.

NumPy and orjson read and write most of a tensor at once. What they do otherwise than Python is left to Python.
"""

from collections.abc import Callable

import numpy as np
import orjson

from onnxc.runtime.host.values import texts

# Of other floats than f64: what C's %g prints of an f32 so that it can be read back, but for the last digit of a few.
DIGITS = 8
# What Python prints of floats that are not finite, and what the standard says of them.
NOT_FINITE = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
BOOLS = texts(["0", "1"], (2,))
# Below the first, and from the second on, Python writes floats with exponents: f64, and others with DIGITS.
LEAST_PLAIN, MOST_PLAIN, MOST_PLAIN_OTHERS = 1e-4, 1e16, 10.0**DIGITS
# The powers of ten among floats without exponents, and by what a float is to be multiplied to have DIGITS digits before
# the point: below the first power, between each and the next, and from the last one on.
POWERS = 10.0 ** np.arange(-3, DIGITS)
SCALES = 10.0 ** np.arange(DIGITS + 3, -1, -1)

COMMA, MINUS = b",-"
INTEGER_BYTES, FLOAT_BYTES = b"0123456789-,", b"0123456789-,+.eE"


def parsed_decimals(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The numbers that string[n] says: dtype[n], dtype being f64, i64 or u64; integers may be written as floats.

    What is no number is a ValueError, an integer that `dtype` cannot hold an OverflowError.
    """
    joined = ",".join(words.tolist())
    if joined and joined.isascii():
        read = (_floats if dtype.kind == "f" else _integers)(joined.encode(), dtype)
        # Of what is between commas nothing is empty, so that texts with commas make more of it than there are texts.
        if read is not None and read.size == words.size:
            return read
    try:
        # NumPy asks Python what a text is, but lets what is below 0 wrap in unsigned integers.
        if dtype.kind != "u":
            return words.astype(dtype)
        return np.fromiter(map(int, words.tolist()), dtype, words.size)
    except ValueError:
        if dtype.kind == "f":
            raise
        return np.fromiter(map(_integer, words.tolist()), dtype, words.size)


def _integers(joined: bytes, dtype: np.dtype) -> np.ndarray | None:
    """The integers between commas; None where one is written in another way, or may be too large for the type."""
    limits = np.iinfo(dtype)
    if joined.translate(None, INTEGER_BYTES) or b",," in joined or joined[0] == COMMA or joined[-1] in (COMMA, MINUS):
        return None
    if MINUS in joined:
        signs = joined.count(b",-") + (joined[0] == MINUS)
        if not limits.min or joined.count(b"-") != signs or b"-," in joined:
            return None
    read = np.fromstring(joined, dtype, sep=",")
    # What is too large is read as the largest.
    return None if read.max() == limits.max or (limits.min and read.min() == limits.min) else read


def _floats(joined: bytes, dtype: np.dtype) -> np.ndarray | None:
    """The floats between commas; None where one is written otherwise than JSON does, or is -0, there an integer."""
    if joined.translate(None, FLOAT_BYTES) or joined.endswith(b"-0") or b"-0," in joined:
        return None
    integers = _integers(joined, np.dtype(np.int64))
    if integers is not None:
        return integers.astype(dtype)
    try:
        return np.array(orjson.loads(b"[%b]" % joined), dtype)
    except ValueError:
        return None


def _integer(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        return int(float(word))


def decimals_of(values: np.ndarray) -> np.ndarray:
    """values: T[n]  ->  string[n]: integers and bools in decimal, f64 in full, other floats with 8 digits"""
    if values.dtype.kind == "b":
        # Any byte but 0 is True.
        return np.asarray(BOOLS.take(values.view(np.uint8), mode="clip"))
    if values.dtype.kind in "iu":
        return _written_integers(values)
    if values.dtype == np.float64:
        sizes = np.abs(values)
        is_plain = (sizes < MOST_PLAIN) & ((sizes >= LEAST_PLAIN) | (sizes == 0))
        return _written_floats(values, values, is_plain, repr)
    values = values.astype(np.float64)
    sizes = np.abs(values)
    is_plain = (sizes < MOST_PLAIN_OTHERS) & ((sizes >= LEAST_PLAIN) | (sizes == 0))
    sizes[~is_plain] = 0
    scale = SCALES[np.searchsorted(POWERS, sizes, "right")]
    # The 24 bits of an f32 times 5**11, which has 26, are exact in f64: halves go to what is even, as in Python. And
    # the f64 next to an integer of DIGITS digits over a power of ten is written with these digits.
    return _written_floats(values, np.copysign(np.rint(sizes * scale) / scale, values), is_plain, _with_digits)


def _with_digits(value: float) -> str:
    return f"{value:.{DIGITS}g}"


def _written_floats(
    values: np.ndarray, rounded: np.ndarray, is_plain: np.ndarray, write: Callable[[float], str]
) -> np.ndarray:
    """values: f64[n]  ->  string[n]: where they are plain the least digits of `rounded`: f64[n], else `write(value)`"""
    written = _written(rounded, ".0")
    for index in np.flatnonzero(~is_plain).tolist():
        decimal = write(values[index].item()).removesuffix(".0")
        written[index] = NOT_FINITE.get(decimal, decimal)
    return texts(written, values.shape)


def _written(values: np.ndarray, suffix: str = "") -> list[str]:
    """What JSON says of each of T[n], without the suffix."""
    if not values.size:
        return []
    joined = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].decode()
    return (joined.replace(f"{suffix},", ",").removesuffix(suffix) if suffix else joined).split(",")


def _written_integers(values: np.ndarray) -> np.ndarray:
    """values: T[n]  ->  string[n]; where they are of a range of fewer integers, each of these is written once."""
    if values.size and int(values.max()) - int(values.min()) < values.size // 2:
        written = _written(np.arange(int(values.min()), int(values.max()) + 1, dtype=values.dtype))
        # Differences of two that an i64 wraps are what they should be.
        offsets: np.ndarray = values.astype(np.int64) - values.min().astype(np.int64)
        return np.asarray(texts(written, (len(written),)).take(offsets))
    return texts(_written(values), values.shape)
