"""Sparse tensors as ONNX Runtime has them: coordinates or compressed rows, on the CPU."""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from onnxc.compat.onnxruntime.node_args import tensor_text
from onnxc.compat.onnxruntime.status import InvalidArgument
from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.ir.dtypes import dtype_of
from onnxc.runtime.records import record
from onnxc.runtime.sparse_tensor import SparseTensor as StoredTensor

__all__ = ["OrtSparseFormat", "SparseBlockSparseView", "SparseCooView", "SparseCsrView", "SparseTensor"]

_STRING = 8
"""The number of ONNX's element type string, which NumPy has as objects."""


class OrtSparseFormat(IntEnum):
    """How the indices of a sparse tensor are written."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


@record(eq=False)
class SparseCooView:
    """Indices by coordinates: i64[values] in row-major order, or i64[values, 2]."""

    _indices: np.ndarray

    def indices(self) -> np.ndarray:
        """The indices, read-only."""
        return self._indices


@record(eq=False)
class SparseCsrView:
    """Indices by rows: the column of each value, and where each row begins and the last ends among them."""

    _inner: np.ndarray
    _outer: np.ndarray

    def inner(self) -> np.ndarray:
        """The columns, read-only."""
        return self._inner

    def outer(self) -> np.ndarray:
        """The beginnings of rows, read-only."""
        return self._outer


class SparseBlockSparseView:
    """Indices by blocks, which no tensor here has."""


class SparseTensor:
    """Values of a matrix or vector with the indices of what is not 0; both are copied, and cannot be written to."""

    def __init__(self, shape: npt.ArrayLike, values: np.ndarray, indices: SparseCooView | SparseCsrView) -> None:
        self._shape = tuple(int(size) for size in np.asarray(shape, np.int64).reshape(-1))
        self._values = _frozen(values.astype(object) if values.dtype.kind in "US" else values)
        self._indices = indices

    @staticmethod
    def sparse_coo_from_numpy(
        dense_shape: npt.ArrayLike, values: np.ndarray, coo_indices: np.ndarray, _device: object = None
    ) -> "SparseTensor":
        """From values in ascending order of their coordinates; indices: i64[values] in row-major order, or pairs."""
        coordinates = np.asarray(coo_indices, np.int64)
        # Pairs may come flattened.
        pairs = coordinates.reshape(-1, 2) if coordinates.ndim == 1 and len(coordinates) == 2 * len(values) else None
        view = SparseCooView(_frozen(coordinates if pairs is None else pairs))
        if len(view.indices()) != len(values):
            raise InvalidArgument(f"{len(values)} values have {coordinates.size} indices")
        return SparseTensor(dense_shape, values, view)

    @staticmethod
    def sparse_csr_from_numpy(
        dense_shape: npt.ArrayLike,
        values: np.ndarray,
        inner_indices: np.ndarray,
        outer_indices: np.ndarray,
        _device: object = None,
    ) -> "SparseTensor":
        """From values in rows; inner: the column of each, outer: where each row begins, and the last ends."""
        inner, outer = (_frozen(np.asarray(part, np.int64)) for part in (inner_indices, outer_indices))
        made = SparseTensor(dense_shape, values, SparseCsrView(inner, outer))
        if len(made._shape) != 2 or len(inner) != len(values) or len(outer) != made._shape[0] + 1:
            message = f"{len(values)} values in {made._shape} have {len(inner)} inner and {len(outer)} outer indices"
            raise InvalidArgument(message)
        return made

    @staticmethod
    def of_stored(stored: StoredTensor) -> "SparseTensor":
        """A sparse tensor that a run gave."""
        return SparseTensor(stored.shape, stored.values, SparseCooView(_frozen(stored.indices)))

    def stored(self) -> StoredTensor:
        """The tensor as a run takes it."""
        if isinstance(self._indices, SparseCooView):
            return StoredTensor(self._values, self._indices.indices(), self._shape)
        columns, begins = self._indices.inner(), self._indices.outer()
        rows = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        return StoredTensor(self._values, rows * self._shape[1] + columns, self._shape)

    def values(self) -> np.ndarray:
        """The values, read-only."""
        return self._values

    def dense_shape(self) -> list[int]:
        return list(self._shape)

    def data_type(self) -> str:
        """As "sparse_tensor(float)"."""
        code = _STRING if self._values.dtype == object else code_of(dtype_of(self._values.dtype))
        return f"sparse_{tensor_text(code)}"

    def device_name(self) -> str:
        return "cpu"

    def format(self) -> OrtSparseFormat:
        """How the indices are written."""
        is_coo = isinstance(self._indices, SparseCooView)
        return OrtSparseFormat.ORT_SPARSE_COO if is_coo else OrtSparseFormat.ORT_SPARSE_CSRC

    def as_coo_view(self) -> SparseCooView:
        """The coordinates. Raises RuntimeError where there are none."""
        if not isinstance(self._indices, SparseCooView):
            raise RuntimeError("the tensor has no coordinates: it is in compressed rows")
        return self._indices

    def as_csrc_view(self) -> SparseCsrView:
        """The compressed rows. Raises RuntimeError where there are none."""
        if not isinstance(self._indices, SparseCsrView):
            raise RuntimeError("the tensor has no compressed rows: it has coordinates")
        return self._indices

    def as_blocksparse_view(self) -> SparseBlockSparseView:
        """Raises RuntimeError: no tensor is in blocks."""
        raise RuntimeError("the tensor is not in blocks")

    def to_cuda(self, _device: object) -> "SparseTensor":
        """Raises RuntimeError: values are kept on the CPU here."""
        raise RuntimeError("sparse tensors are kept on the CPU here")


def _frozen(array: np.ndarray) -> np.ndarray:
    """A copy that cannot be written to."""
    copied = array.copy()
    copied.flags.writeable = False
    return copied
