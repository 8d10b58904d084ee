"""Sparse tensors as values of a call: what they hold, and what SparseTensorProto wants of their indices."""

import math

import numpy as np

from onnxc.runtime.records import record

__all__ = ["SparseIndexError", "SparseTensor", "linear_indices"]

MOST_ELEMENTS = 1 << 63


@record(eq=False)
class SparseTensor:
    """A tensor of `shape` of which only some elements are stored; the others are 0, or empty texts.

    values: T[NNZ]. indices: i64[NNZ] in row-major order, or i64[NNZ, rank] coordinates; ascending, each once.
    """

    values: np.ndarray
    indices: np.ndarray
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the elements."""
        result: np.dtype[np.generic] = self.values.dtype
        return result


class SparseIndexError(ValueError):
    """What is wrong with the indices of a sparse tensor; `code` is that of the diagnostic."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def linear_indices(indices: np.ndarray, count: int, shape: tuple[int, ...]) -> np.ndarray:
    """Where each of `count` values goes in row-major order: i64[count]; `indices` are of type int64.

    Raises SparseIndexError where they do not ascend, or are outside the shape.
    """
    if min(shape, default=0) < 0 or math.prod(size or 1 for size in shape) >= MOST_ELEMENTS:
        raise SparseIndexError("sparse-shape", f"the shape of a sparse tensor is {list(shape)}, which none can have")
    inside: np.ndarray
    if indices.shape == (count,):
        positions = indices
        inside = (indices >= 0) & (indices < math.prod(shape))
    elif indices.shape == (count, len(shape)):
        positions = indices @ np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)
        inside = np.all((indices >= 0) & (indices < np.array(shape, np.int64)), axis=1)
    else:
        wanted = f"[{count}] or [{count}, {len(shape)}]"
        raise SparseIndexError(
            "sparse-indices", f"the indices of a sparse tensor have shape {list(indices.shape)}, not {wanted}"
        )
    if not inside.all():
        outside = int(inside.argmin())
        raise SparseIndexError("sparse-index-range", f"index {indices[outside]} is outside the shape {list(shape)}")
    if (positions[1:] <= positions[:-1]).any():
        raise SparseIndexError(
            "sparse-index-order", "the indices of a sparse tensor do not ascend, or one is there twice"
        )
    return positions
