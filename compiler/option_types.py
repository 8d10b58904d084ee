"""Which values of Python an option may be given: integers, texts, mappings and names, NumPy's integers among them."""

import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from onnxc.runtime.errors import InputError

__all__ = [
    "expect_finite",
    "expect_integer",
    "expect_mapping",
    "expect_names",
    "expect_path",
    "expect_shape",
    "expect_text",
]

V = TypeVar("V")


@runtime_checkable
class _Index(Protocol):
    """What counts as an integer: int, and the integers of NumPy."""

    def __index__(self) -> int: ...


def expect_integer(option: str, value: object) -> int:
    """The value as an int. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, _Index):
        raise InputError(f"{option} is {value!r}, expected an integer", code="option-type")
    return operator.index(value)


def expect_finite(option: str, value: object) -> float:
    """The value as a finite float. Raises InputError."""
    finite = float(value) if isinstance(value, int | float | np.integer | np.floating) else math.nan
    if isinstance(value, bool) or not math.isfinite(finite):
        raise InputError(f"{option} is {value!r}, expected a finite number", code="option-type")
    return finite


def expect_path(option: str, value: object) -> str:
    """The text of a path. Raises InputError."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str):
        raise InputError(f"{option} is {value!r}, expected a path", code="option-type")
    return path


def expect_shape(option: str, value: object) -> tuple[int | str | None, ...]:
    """Sizes, names of symbols, and None for what the model declares. Raises InputError."""
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        raise InputError(f"{option} is {value!r}, expected a sequence of sizes", code="option-type")
    shape = tuple(size if size is None or isinstance(size, str) else expect_integer(option, size) for size in value)
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise InputError(f"{option} is {value!r}, and a size is at least 0", code="shape-range")
    return shape


def expect_text(option: str, value: object) -> str:
    """The value, which is a text. Raises InputError."""
    if not isinstance(value, str):
        raise InputError(f"{option} is {value!r}, expected a text", code="option-type")
    return value


def expect_mapping(option: str, value: Mapping[str, V] | None) -> Mapping[str, V]:
    """The value, which is a mapping; an empty one for None. Raises InputError."""
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"{option} is {value!r}, expected a mapping from names", code="option-type")
    return value or {}


def expect_names(option: str, value: object) -> tuple[str, ...]:
    """The names in a sequence, which one text is not. Raises InputError."""
    names = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"{option} is {value!r}, expected a sequence of names", code="option-type")
    return names
