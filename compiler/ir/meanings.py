"""Applying the meaning of a primitive to arrays: attributes become Python numbers, results get their declared types.

And those of all ops that make what constants alone decide, where folding left it as narrow as it is stored.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attribute, Attributes, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.host.functions import FUNCTIONS
from onnxc.runtime.host.values import HostValue

# No address space has so many elements, and NumPy fails on them in many ways; a pad of half as many makes as many.
IMPOSSIBLE = 1 << 48

COMPUTED = ("generator", "movement", "pointwise")
"""Kinds that take no more work than they have elements."""

MOST_GROWTH = 8
"""A result of more times the bytes of the constants that it is made of only repeats them: of 4 bits f32 is 8 times."""


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


def constant_elements(value: Value) -> np.ndarray | None:
    """The elements of what constants alone decide, unless it, or what it is made by, only repeats them."""
    if value.op is None:
        return None
    cone = cone_of(value.op)
    if not all(computes(op) and all(operand.op is not None for operand in op.operands) for op in cone):
        return None
    if max(bytes_of(op.result) for op in cone) > _most_bytes(cone):
        return None
    return elements_of_cone(cone)


def computes(op: Op) -> bool:
    """Whether an op has one result, of known sizes, that takes no more work than it has elements."""
    if len(op.results) != 1 or PRIMITIVES[op.name].kind not in COMPUTED or op.symbols:
        return False
    return isinstance(op.result.type, TensorType) and op.result.tensor.is_static


def cone_of(op: Op) -> tuple[Op, ...]:
    """All that an op is made of, operands before what is made of them, and the op itself as the last."""
    cone: dict[Op, None] = {}
    waiting = [op]
    while waiting:
        makers = [operand.op for operand in waiting[-1].operands if operand.op is not None and operand.op not in cone]
        if makers:
            waiting += makers
        else:
            cone[waiting.pop()] = None
    return tuple(cone)


def repeats(op: Op, cone: Iterable[Op]) -> bool:
    """Whether a result is much larger than the constants that it is made of."""
    return bytes_of(op.result) > _most_bytes(cone)


def _most_bytes(cone: Iterable[Op]) -> int:
    return MOST_GROWTH * sum(op.array().nbytes for op in cone if op.name == "constant")


def elements_of_cone(cone: Iterable[Op]) -> np.ndarray:
    """The result of the last op of a cone."""
    arrays: dict[Value, np.ndarray] = {}
    for op in cone:
        (array,) = apply_meaning(op.name, [arrays[operand] for operand in op.operands], op.attributes, {})
        arrays[op.result] = array
    return array


def bytes_of(value: Value) -> int:
    """The bytes of a value of known sizes."""
    elements = value.tensor.elements
    assert isinstance(elements, int), value
    return elements * value.dtype.itemsize
