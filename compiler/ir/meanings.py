"""Applying the meaning of a primitive to arrays: attributes become plain numbers, results get their declared types."""

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.ir.dims import Size, evaluate
from compiler.ir.dtypes import DType
from compiler.ir.module import Attribute, Attributes
from runtime.host import MEANINGS
from runtime.host.functions import FUNCTIONS
from runtime.host.values import HostValue


def numeric_attribute(value: Attribute, sizes: Mapping[str, int]) -> object:
    """`value` as the meanings take it: sizes as ints, element types as NumPy's."""
    if isinstance(value, Size):
        return evaluate(value, sizes)
    if isinstance(value, DType):
        return value.numpy
    if isinstance(value, tuple):
        return tuple(numeric_attribute(item, sizes) for item in value)
    return value


def apply_meaning(
    name: str, operands: Sequence[np.ndarray], attributes: Attributes, sizes: Mapping[str, int]
) -> tuple[np.ndarray, ...]:
    """The results of primitive `name` on `operands`, with each symbol of a size at its value."""
    return MEANINGS[name](operands, {key: numeric_attribute(value, sizes) for key, value in attributes.items()})


def apply_function(
    name: str, operands: Sequence[HostValue], attributes: Attributes, sizes: Mapping[str, int]
) -> tuple[HostValue, ...]:
    """The results of host function `name`, likewise."""
    return FUNCTIONS[name](operands, {key: numeric_attribute(value, sizes) for key, value in attributes.items()})
