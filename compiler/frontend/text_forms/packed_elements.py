"""Elements of a tensor in raw_data and in its typed field: the same numbers, in two ways of storing them."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES, ElementType
from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto

__all__ = ["entries_of", "packed"]

_FIELD_DTYPES = {"float_data": "<f4", "double_data": "<f8", "int64_data": "<i8", "uint64_data": "<u8"}


def _storage(element: ElementType) -> np.dtype:
    """How one entry of the typed field lies in raw_data."""
    if element.field != "int32_data" and element.name != "uint32":
        return np.dtype(_FIELD_DTYPES[element.field])
    is_signed = element.name in ("int8", "int16", "int32")
    return np.dtype(f"<{'i' if is_signed else 'u'}{max(element.raw_bits, 8) // 8}")


def entries_of(tensor: TensorProto, element: ElementType) -> Sequence[int | float]:
    """The numbers of the typed field, or those that raw_data holds; none where it holds no whole number of them."""
    if not tensor.raw_data:
        typed: Sequence[int | float] = getattr(tensor, element.field)
        return typed
    dtype = _storage(element)
    if len(tensor.raw_data) % dtype.itemsize:
        return ()
    entries: list[int | float] = np.frombuffer(tensor.raw_data, dtype).tolist()
    return entries


def packed(tensor: TensorProto) -> bytes | None:
    """The numbers of the typed field as raw_data holds them; None where that cannot be."""
    element = ELEMENT_TYPES.get(tensor.data_type)
    if element is None or element.field == "string_data":
        return None
    try:
        return np.array(getattr(tensor, element.field)[:], _storage(element)).tobytes()
    except OverflowError:
        return None
