"""What a host step handles: arrays, and what is no array.

A sequence is a tuple of values, a map is a dict from Python integers or texts to NumPy scalars or arrays, an absent
optional is None; a present one is its value. A sparse tensor is a SparseTensor. Texts are arrays of `str` objects.
"""

from collections.abc import Mapping
from typing import Union

import numpy as np

from onnxc.runtime.sparse_tensor import SparseTensor

MapKey = int | str
HostValue = Union[  # noqa: UP007
    np.ndarray, np.generic, SparseTensor, tuple["HostValue", ...], Mapping[MapKey, "HostValue"], None
]


def as_array(value: HostValue) -> np.ndarray:
    """A value that is a tensor; any other is a broken invariant of the compiler."""
    assert isinstance(value, np.ndarray), type(value)
    return value


def shape_of(value: HostValue) -> tuple[int, ...]:
    """The shape of a value that is a tensor, dense or sparse."""
    assert isinstance(value, np.ndarray | SparseTensor), type(value)
    return value.shape


def as_sequence(value: HostValue) -> tuple[HostValue, ...]:
    """A value that is a sequence."""
    assert isinstance(value, tuple), type(value)
    return value


def as_map(value: HostValue) -> Mapping[MapKey, HostValue]:
    """A value that is a map."""
    assert isinstance(value, Mapping), type(value)
    return value


def as_texts(value: HostValue) -> np.ndarray:
    """A value that is a tensor of texts."""
    array = as_array(value)
    assert array.dtype == object, array.dtype
    return array


def texts(values: object, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor of texts of this shape, from as many texts in row-major order."""
    assert isinstance(values, list | tuple), type(values)
    return np.fromiter(values, object, len(values)).reshape(shape)
