"""Applying the meaning of a primitive to arrays: attributes become Python numbers, results get their declared types."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attribute, Attributes
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.host.functions import FUNCTIONS
from onnxc.runtime.host.values import HostValue

# No memory has so many elements, and NumPy fails on them in many ways.
IMPOSSIBLE = 1 << 59


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
    """The results of primitive `name` on `operands`, with each symbol of a size at its value.

    Raises DeviceError where the sizes are beyond what NumPy can count.
    """
    numeric = {key: numeric_attribute(value, sizes) for key, value in attributes.items()}
    try:
        return MEANINGS[name](operands, numeric)
    except (ValueError, OverflowError) as problem:
        largest = max(map(_product, numeric.values()), default=0)
        if largest < IMPOSSIBLE:
            raise
        raise DeviceError(f"{largest} elements of {name} do not fit into memory", code="out-of-memory") from problem


def _product(attribute: object) -> int:
    """The product of sizes, or the one size."""
    sizes = attribute if isinstance(attribute, tuple) else (attribute,)
    return math.prod(abs(size) for size in sizes if isinstance(size, int) and size)


def apply_function(
    name: str, operands: Sequence[HostValue], attributes: Attributes, sizes: Mapping[str, int]
) -> tuple[HostValue, ...]:
    """The results of host function `name`, likewise."""
    return FUNCTIONS[name](operands, {key: numeric_attribute(value, sizes) for key, value in attributes.items()})
