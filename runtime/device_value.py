"""Tensors on a device, as the steps of a program see them."""

import numpy as np

from onnxc.runtime.dtypes import DType

__all__ = ["DeviceValue"]


class DeviceValue:
    """A tensor in the memory of a device; runtime/gpu/arrays.py says how it got there."""

    __slots__ = ()

    shape: tuple[int, ...]
    dtype: DType

    def host(self) -> np.ndarray:
        """The elements in the memory of the host; asked again, the same array."""
        raise NotImplementedError

    def first(self, shape: tuple[int, ...]) -> "DeviceValue":
        """The first elements as an array of this shape, in the same memory; itself where it has the shape."""
        raise NotImplementedError
