"""Sparse tensors, made of what is stored dense."""

import numpy as np

from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array
from onnxc.runtime.sparse_tensor import SparseTensor


@function("sparse_from_dense")
def sparse_from_dense(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...]  ->  sparse(T[...]) of the elements whose bits are not those of 0, by their index in row-major order"""
    x = as_array(operands[0])
    flat = np.ascontiguousarray(x).reshape(-1)
    bits = flat != "" if flat.dtype.hasobject else flat.view(np.uint8).reshape(flat.size, flat.itemsize).any(axis=1)
    (indices,) = np.nonzero(bits)
    return (SparseTensor(flat[indices], indices.astype(np.int64), x.shape),)
