"""Optionals: None where the value is absent, else the value itself."""

import numpy as np

from runtime.errors import InputError
from runtime.host.attributes import integers
from runtime.host.functions.registry import Values, function
from runtime.host.registry import Attributes
from runtime.host.values import HostValue, as_array


@function("optional_construct")
def construct(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """value?  ->  the optional that has it, or is absent"""
    return (operands[0] if operands else None,)


@function("optional_has_element")
def has_element(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """optional  ->  bool[]"""
    return (np.array(operands[0] is not None),)


@function("optional_get_element")
def get_element(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """optional  ->  its value"""
    if operands[0] is None:
        raise InputError("OptionalGetElement: the optional has no element", code="absent-optional")
    return (operands[0],)


@function("expect_shape")
def expect_shape(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...] of a rank that only data tells  ->  itself, if it has `shape`, in which -1 stands for any size"""
    x, shape = as_array(operands[0]), integers(attributes, "shape")
    fits = x.ndim == len(shape) and all(size in (-1, found) for size, found in zip(shape, x.shape, strict=True))
    if not fits:
        expected = ", ".join("?" if size < 0 else str(size) for size in shape)
        message = f"a value has the shape {list(x.shape)}, the model declares [{expected}]"
        raise InputError(message, code="declared-shape")
    return (x,)
