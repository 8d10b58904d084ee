"""Integers that callers of a decoder pass: options, arrays, and tokens of the vocabulary."""

import numpy as np

from onnxc.runtime.arrays import import_array
from onnxc.runtime.errors import InputError

__all__ = ["as_integer", "as_integers", "expect_tokens"]


def as_integer(option: str, value: object, least: int) -> int:
    """The option, an integer of at least `least`. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        message = f"{option} is {value!r:.100}, expected an integer of at least {least}"
        raise InputError(message, code="session-option")
    return int(value)


def as_integers(value: object, what: str, expected: str) -> np.ndarray:
    """The integers that a caller has passed, in any type of NumPy's, or as a list."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biu":
        return value.astype(np.int64)
    return import_array(value, np.dtype(np.int64), what, expected)


def expect_tokens(tokens: np.ndarray, vocabulary: int | None) -> None:
    """Raises InputError for a token, of i64, that is not in the vocabulary."""
    # What is negative is the largest there is, so that one pass sees both ends.
    if int(tokens.view(np.uint64).max()) >= (1 << 63 if vocabulary is None else vocabulary):
        low, high = int(tokens.min()), int(tokens.max())
        known = "0 or more" if vocabulary is None else f"from 0 to {vocabulary - 1}"
        raise InputError(f"there is no token {low if low < 0 else high}; tokens are {known}", code="token-range")
