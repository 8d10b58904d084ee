"""Typed reading of a primitive's attributes; a wrong kind of value is a broken invariant of the caller."""

import numpy as np

from onnxc.runtime.host.registry import Attributes


def integer(attributes: Attributes, name: str, default: int | None = None) -> int:
    """The attribute as an int: an axis, a size, a seed."""
    value = attributes.get(name, default)
    assert isinstance(value, int | np.integer), (name, value)
    return int(value)


def integers(attributes: Attributes, name: str) -> tuple[int, ...]:
    """The attribute as a tuple of ints: axes, a shape, strides."""
    value = attributes[name]
    assert isinstance(value, tuple | list), (name, value)
    return tuple(int(element) for element in value)


def integer_pairs(attributes: Attributes, name: str) -> tuple[tuple[int, int], ...]:
    """The attribute as a tuple of pairs of ints."""
    value = attributes[name]
    assert isinstance(value, tuple | list), (name, value)
    return tuple((int(first), int(second)) for first, second in value)


def real(attributes: Attributes, name: str, default: float | None = None) -> float:
    """The attribute as a float."""
    value = attributes.get(name, default)
    assert isinstance(value, int | float | np.number), (name, value)
    return float(value)


def flag(attributes: Attributes, name: str, *, default: bool) -> bool:
    """The attribute as a bool."""
    return bool(attributes.get(name, default))


def text(attributes: Attributes, name: str, default: str | None = None) -> str:
    """The attribute as a word: a kind, a mode, an equation."""
    value = attributes.get(name, default)
    assert isinstance(value, str), (name, value)
    return value


def element_type(attributes: Attributes) -> np.dtype:
    """The attribute `dtype`."""
    value = attributes["dtype"]
    assert isinstance(value, np.dtype), value
    return value


def array(attributes: Attributes, name: str) -> np.ndarray:
    """The attribute as an array: the value of a constant."""
    value = attributes[name]
    assert isinstance(value, np.ndarray), (name, value)
    return value
