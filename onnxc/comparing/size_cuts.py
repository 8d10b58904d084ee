"""A model with smaller sizes: all axes of inputs and initializers that have one size get another, at once.

That equal sizes are one size is a guess, as is that integers in constants of rank 1 are sizes; the result is tested.
"""

from collections.abc import Callable, Mapping

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, TensorProto, TypeProto
from onnxc.compiler.frontend.tensor_error import TensorError
from onnxc.compiler.frontend.tensors import TensorStore, read_tensor
from onnxc.compiler.frontend.versions.change import type_of
from onnxc.measuring.runtimes import Feed

__all__ = ["smaller_sizes"]

INT64 = 7

MOST_SHAPE_ELEMENTS = 8
"""Longer constants of integers are data, not shapes: tensors of exported models have at most so many axes."""


def smaller_sizes(model: ModelProto, feed: Feed, shows: Callable[[ModelProto, Feed], bool]) -> tuple[ModelProto, Feed]:
    """The model and its inputs with each size as small as it can be while they still show it."""
    for size in sorted(_sizes(model), reverse=True):
        for smaller in _candidates(size):
            cut, inputs = _with_size(model, size, smaller), _cut_feed(feed, size, smaller)
            if cut is not None and shows(cut, inputs):
                model, feed = cut, inputs
                break
    return model, feed


def _candidates(size: int) -> list[int]:
    """From 1 on, by doubling: the smallest that will do is wanted, few are tried."""
    return [1 << power for power in range(size.bit_length()) if 1 << power < size]


def _sizes(model: ModelProto) -> set[int]:
    types = [*(info.type for info in model.graph.input), *map(type_of, model.graph.initializer)]
    return {dim.dim_value for type in types for dim in type.tensor_type.shape.dim if dim.dim_value > 1}


def _with_size(model: ModelProto, size: int, smaller: int) -> ModelProto | None:
    """The model with one size for another; None where a tensor cannot be read."""
    made = ModelProto()
    made.CopyFrom(model)
    for info in made.graph.input:
        _cut_type(info.type, size, smaller)
    try:
        for tensor in made.graph.initializer:
            if size in tensor.dims or _is_shape(tensor):
                tensor.CopyFrom(_cut_tensor(tensor, size, smaller))
    except TensorError:
        return None
    return made


def _cut_type(type: TypeProto, size: int, smaller: int) -> None:
    for dim in type.tensor_type.shape.dim:
        if dim.dim_value == size:
            dim.dim_value = smaller


def _cut_feed(feed: Feed, size: int, smaller: int) -> Mapping[str, object]:
    return {
        name: _cut_array(value, size, smaller) if isinstance(value, np.ndarray) else value
        for name, value in feed.items()
    }


def _cut_array(array: np.ndarray, size: int, smaller: int) -> np.ndarray:
    """The first elements along each axis of that size."""
    window = tuple(slice(smaller if axis == size else None) for axis in array.shape)
    return np.ascontiguousarray(array[window]).reshape(tuple(smaller if axis == size else axis for axis in array.shape))


def _is_shape(tensor: TensorProto) -> bool:
    return tensor.data_type == INT64 and len(tensor.dims) == 1 and tensor.dims[0] <= MOST_SHAPE_ELEMENTS


def _cut_tensor(tensor: TensorProto, size: int, smaller: int) -> TensorProto:
    elements = read_tensor(tensor, TensorStore()).array()
    if _is_shape(tensor):
        elements = np.where(elements == size, smaller, elements)
    else:
        elements = _cut_array(elements, size, smaller)
    if elements.dtype == object:
        made = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=elements.shape)
        made.string_data.extend(str(text).encode() for text in elements.ravel())
        return made
    return TensorProto(
        name=tensor.name, data_type=tensor.data_type, dims=elements.shape, raw_data=_raw(tensor, elements)
    )


def _raw(tensor: TensorProto, elements: np.ndarray) -> bytes:
    """The bytes of the elements. Raises TensorError for types of which several lie in a byte."""
    if len(tensor.raw_data) not in (0, np.prod(tensor.dims, dtype=np.int64) * elements.itemsize):
        raise TensorError("tensor-storage", "elements of less than a byte")
    return elements.tobytes()
