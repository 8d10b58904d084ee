"""Functions of tensors of texts: joining, splitting, matching, normalising, and conversion from and to numbers."""

import re
from collections.abc import Callable

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.runtime.host.attributes import element_type, flag, integer, text
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array, as_texts, texts

# What C's %g prints of an f32 so that it can be read back, but for the last digit of a few.
F32_DIGITS = 8


@function("string_concatenate")
def concatenate(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...], y: string[...]  ->  string[...], x followed by y"""
    x, y = (as_texts(operand) for operand in operands)
    joined = [str(first) + str(second) for first, second in zip(x.flat, y.flat, strict=True)]
    return (texts(joined, x.shape),)


@function("string_split")
def split(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...]  ->  parts: string[..., n], counts: i64[...]; what has fewer parts is followed by empty texts

    An empty `delimiter` means runs of white space, of which there is none before or after the parts, not even after the
    last one that is allowed; `maxsplit` below 0 means no limit.
    """
    x, limit = as_texts(operands[0]), max(integer(attributes, "maxsplit"), -1)
    delimiter = text(attributes, "delimiter")
    words = [str(element) for element in x.flat]
    parts = [word.split(delimiter, limit) if delimiter else word.strip().split(None, limit) for word in words]
    counts = np.array([len(part) for part in parts], np.int64).reshape(x.shape)
    width = int(counts.max(initial=0))
    padded = [word for part in parts for word in (*part, *[""] * (width - len(part)))]
    return texts(padded, (*x.shape, width)), counts


@function("string_full_match")
def full_match(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...]  ->  bool[...], whether `pattern` matches all of the text"""
    x, pattern = as_texts(operands[0]), re.compile(text(attributes, "pattern"))
    matches = [pattern.fullmatch(str(element)) is not None for element in x.flat]
    return (np.array(matches, np.bool_).reshape(x.shape),)


def _lower(word: str) -> str:
    """Letters that have one lower case letter as that."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in word)


def _upper(word: str) -> str:
    """Letters that have one upper case letter as that: ß stays."""
    return "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in word)


CASES: dict[str, Callable[[str], str]] = {"NONE": lambda word: word, "LOWER": _lower, "UPPER": _upper}


@function("string_normalize")
def normalize(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[C] or string[1, C], stopwords: string[k]  ->  those of x that are no stop word, in the case `case`

    One empty text where none is left.
    """
    x, stops = as_texts(operands[0]), as_texts(operands[1])
    is_exact = flag(attributes, "is_case_sensitive", default=False)
    compared: Callable[[str], str] = CASES["NONE"] if is_exact else _lower
    stopped = {compared(str(word)) for word in stops.flat}
    change = CASES[text(attributes, "case")]
    kept = [change(str(word)) for word in x.flat if compared(str(word)) not in stopped] or [""]
    return (texts(kept, (*x.shape[:-1], len(kept))),)


@function("numbers_from_strings")
def numbers_from_strings(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...]  ->  dtype[...], dtype being f64, i64 or u64; integers may be written as floats"""
    x, dtype = as_texts(operands[0]), element_type(attributes)
    read = float if dtype.kind == "f" else _integer
    try:
        values = [read(str(element)) for element in x.flat]
        return (np.array(values, dtype).reshape(x.shape),)
    except (ValueError, OverflowError) as problem:
        raise InputError(f"Cast: a text is no number of this type: {problem}", code="text-not-a-number") from problem


def _integer(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        return int(float(word))


@function("strings_from_numbers")
def strings_from_numbers(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...]  ->  string[...]: integers and bools in decimal, f64 in full, other floats with 8 digits"""
    x = as_array(operands[0])
    if x.dtype.kind in "biu":
        return (texts([str(int(element)) for element in x.flat], x.shape),)
    if x.dtype == np.float64:
        return (texts([_float_text(element, repr(element)) for element in map(float, x.flat)], x.shape),)
    wide = x.astype(np.float32)
    written = [_float_text(element, f"{element:.{F32_DIGITS}g}") for element in map(float, wide.flat)]
    return (texts(written, x.shape),)


def _float_text(value: float, decimal: str) -> str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "INF" if value > 0 else "-INF"
    return decimal.removesuffix(".0")
