"""The elements of small tensors that are known while a program is built, as integers or sizes."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.module import Attributes, Value
from onnxc.compiler.ir.types import TensorType

__all__ = ["LIMIT", "as_elements", "known_elements", "picks_by_size", "static_shape"]

LIMIT = 1024
"""The most elements a tensor may have to be followed as sizes; longer integer tensors are data.

An estimate: shapes have some ten elements, and the indices of a flattened mask worth following some hundred."""


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
