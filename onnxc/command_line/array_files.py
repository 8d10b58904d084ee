"""Values of a call as a file of NumPy's, each array by its name."""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from onnxc.runtime.sparse_tensor import SparseTensor

__all__ = ["named_arrays", "write_npz"]


def write_npz(path: Path, values: Mapping[str, object]) -> None:
    """As numpy.savez, whose keywords the names of outputs may clash with; texts become NumPy's."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in named_arrays(values):
            with archive.open(f"{name}.npy", "w") as member:
                plain = array.astype(str) if array.dtype.kind == "O" else array
                np.lib.format.write_array(member, plain, allow_pickle=False)


def named_arrays(values: Mapping[str, object]) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays among the values; those in another value, with their place behind the name."""
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            yield name, value
        elif isinstance(value, Mapping):
            yield from named_arrays({f"{name}.{key}": item for key, item in value.items()})
        elif isinstance(value, SparseTensor):
            parts = {"values": value.values, "indices": value.indices, "shape": np.array(value.shape, np.int64)}
            yield from named_arrays({name: parts})
        elif isinstance(value, tuple | list):
            yield from named_arrays({f"{name}.{index}": item for index, item in enumerate(value)})
