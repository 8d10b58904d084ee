"""The elements of small tensors that are known while a program is built, as integers or sizes."""

import math
from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import I32, I64
from onnxc.compiler.ir.module import Attributes, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.host import MEANINGS

__all__ = ["LIMIT", "as_elements", "known_elements", "partly_known", "picks_by_size", "static_shape"]

LIMIT = 1024
"""The most elements a tensor may have to be followed as sizes; longer integer tensors are data.

An estimate: shapes have some ten elements, and the indices of a flattened mask worth following some hundred."""

# How many ops are looked through. An estimate: exporters put some ten between a length and the vector that has it.
_DEPTH = 24


def known_elements(value: Value) -> np.ndarray | None:
    """The elements of a small integer or bool tensor, an object array of Dims, or None where data decides.

    Sizes of rank 2 and more are a reshape of those of rank 1.
    """
    op = value.op
    if op is None:
        return None
    if op.name == "sizes":
        return as_elements(op.dims("values")).reshape(static_shape(value.tensor))
    if op.name == "constant" and (value.dtype.is_integer or value.dtype.is_bool) and op.array().size <= LIMIT:
        return np.array(op.array().astype(np.int64), object)
    if op.name == "reshape" and op.operands[0].op is not None and op.operands[0].op.name == "sizes":
        known = known_elements(op.operands[0])
        return None if known is None or not value.tensor.is_static else known.reshape(static_shape(value.tensor))
    return None


def partly_known(value: Value) -> tuple[Dim | None, ...]:
    """The elements of an integer vector of known length, or of a scalar, that are known in sizes, each where it is.

    None stands for the others. What only casts and moves elements is looked through.
    """
    return tuple(_partly_known(value, _DEPTH).flat)


def _partly_known(value: Value, depth: int) -> np.ndarray:
    known, op = known_elements(value), value.op
    if known is not None:
        return known
    if op is None or depth == 0 or not _only_moves(op) or not all(map(_holds_sizes, (value, *op.operands))):
        return np.full(static_shape(value.tensor), None, object)
    arrays = [_partly_known(operand, depth - 1) for operand in op.operands]
    return arrays[0] if op.name == "cast" else MEANINGS[op.name](arrays, op.attributes)[0]


def _only_moves(op: Op) -> bool:
    """Whether its elements are those of its operands, none left for data to pick."""
    is_movement = PRIMITIVES[op.name].kind == "movement" and op.name != "pad"
    return op.name == "cast" or (is_movement and not picks_by_size(op.attributes))


def _holds_sizes(value: Value) -> bool:
    """Whether `value` has few elements, of a type that is taken to hold every size."""
    return value.dtype in (I64, I32) and value.tensor.is_static and math.prod(static_shape(value.tensor)) <= LIMIT


def as_elements(elements: Sequence[Dim]) -> np.ndarray:
    """The Dims as an object array of rank 1."""
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


def static_shape(type: TensorType) -> tuple[int, ...]:
    """The sizes as integers: the shape, where the type is static."""
    return tuple(size for size in type.known_shape if isinstance(size, int))


def picks_by_size(attributes: Attributes) -> bool:
    """Whether a size that only the call knows decides which elements are meant, as the start of a slice does."""
    tuples = (value for value in attributes.values() if isinstance(value, tuple))
    return any(isinstance(item, Size) for value in tuples for item in value)
