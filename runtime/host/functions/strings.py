"""Functions of tensors of texts: joining, splitting, matching, normalising, and conversion from and to numbers."""

import importlib
import re
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.runtime.host.attributes import element_type, flag, integer, text
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.text_codes import coded_texts, of_each_text
from onnxc.runtime.host.values import HostValue, as_array, as_texts, texts


@function("string_concatenate")
def concatenate(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...], y: string[...]  ->  string[...], x followed by y"""
    x, y = (as_texts(operand) for operand in operands)
    # With memory of its own also what has rank 0 is an array.
    return (np.add(x, y, out=np.empty(x.shape, object)),)


@function("string_split")
def split(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...]  ->  parts: string[..., n], counts: i64[...]; what has fewer parts is followed by empty texts

    An empty `delimiter` means runs of white space, of which there is none before or after the parts, not even after the
    last one that is allowed; `maxsplit` below 0 means no limit.
    """
    x, limit = as_texts(operands[0]), max(integer(attributes, "maxsplit"), -1)
    delimiter, coded = text(attributes, "delimiter"), coded_texts(x.ravel())
    rows, lengths = _split((x.ravel() if coded is None else coded.distinct).tolist(), delimiter, limit)
    if coded is not None:
        rows, lengths = rows.take(coded.codes, 0), lengths.take(coded.codes)
    return rows.reshape(*x.shape, rows.shape[1]), lengths.reshape(x.shape)


def _split(words: Sequence[str], delimiter: str, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """The parts of each of n texts and how many they are: string[n, width], i64[n]"""
    if delimiter:
        parts = [word.split(delimiter, limit) for word in words]
    else:
        parts = [(word if limit < 0 else word.rstrip()).split(None, limit) for word in words]
    lengths = list(map(len, parts))
    width = max(lengths, default=0)
    empty, padded = [[""] * count for count in range(width + 1)], list[str]()
    for part, length in zip(parts, lengths, strict=True):
        padded += part
        padded += empty[width - length]
    return texts(padded, (len(words), width)), np.fromiter(lengths, np.int64, len(lengths))


@function("string_full_match")
def full_match(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...]  ->  bool[...], whether `pattern` matches all of the text"""
    x, pattern = as_texts(operands[0]), re.compile(text(attributes, "pattern"))

    def matches(words: np.ndarray) -> np.ndarray:
        return np.array([match is not None for match in map(pattern.fullmatch, words.tolist())], np.bool_)

    return (of_each_text(matches, x.ravel()).reshape(x.shape),)


def _lower(word: str) -> str:
    """Letters that have one lower case letter as that."""
    if word.isascii():
        return word.lower()
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in word)


def _upper(word: str) -> str:
    """Letters that have one upper case letter as that: ß stays."""
    if word.isascii():
        return word.upper()
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
    stopped = set(map(compared, stops.ravel().tolist()))
    change = CASES[text(attributes, "case")]
    words = x.ravel().tolist()
    if compared is change is CASES["NONE"]:
        kept = [word for word in words if word not in stopped]
    else:
        changed = {word: change(word) for word in set(words) if compared(word) not in stopped}
        kept = [changed[word] for word in words if word in changed]
    kept = kept or [""]
    return (texts(kept, (*x.shape[:-1], len(kept))),)


@function("numbers_from_strings")
def numbers_from_strings(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...]  ->  dtype[...], dtype being f64, i64 or u64; integers may be written as floats"""
    x = as_texts(operands[0])
    try:
        return (_converter("parsed_decimals")(x.ravel(), element_type(attributes)).reshape(x.shape),)
    except (ValueError, OverflowError) as problem:
        raise InputError(f"Cast: a text is no number of this type: {problem}", code="text-not-a-number") from problem


@function("strings_from_numbers")
def strings_from_numbers(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...]  ->  string[...]: integers and bools in decimal, f64 in full, other floats with 8 digits"""
    x = as_array(operands[0])
    return (_converter("decimals_of")(x.ravel()).reshape(x.shape),)


@cache
def _converter(name: str) -> Callable[..., np.ndarray]:
    """What converts texts, by its name: what it imports takes 10 ms, which other host functions do without."""
    converter: Callable[..., np.ndarray] = getattr(importlib.import_module("onnxc.runtime.host.decimals"), name)
    return converter
