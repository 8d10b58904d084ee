"""Optionals: None where the value is absent, else the value itself."""

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue


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
