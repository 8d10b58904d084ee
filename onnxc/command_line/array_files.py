"""Values of a call as a file of NumPy's, each array by its name."""

import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from onnxc.runtime.files.plain_files import open_plain_file
from onnxc.runtime.sparse_tensor import SparseTensor

__all__ = ["named_arrays", "read_npz", "read_one_array", "write_npz"]

_BROKEN = (
    *(OSError, ValueError, KeyError, EOFError, MemoryError),
    # Of archives: one that is no archive, is damaged, in a way of packing that Python has not, or encrypted.
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError),
)
"""What NumPy raises for a file that it cannot read."""


def read_npz(path: Path, *, what: str) -> Mapping[str, np.ndarray]:
    """The arrays of an .npz; ValueError says why there are none, with `what` for the file."""
    try:
        with open_plain_file(path, what=what) as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                raise ValueError("it is an .npy, whose array has no name")
            return {name: _array(name, member) for name, member in loaded.items()}
    except _BROKEN as problem:
        raise ValueError(str(problem)) from problem


def read_one_array(path: Path, name: str, *, what: str) -> np.ndarray:
    """The array of an .npy, or that of an .npz which has the name; errors as above."""
    try:
        with open_plain_file(path, what=what) as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else _array(name, loaded[name])
    except _BROKEN as problem:
        raise ValueError(str(problem)) from problem


def _array(name: str, member: object) -> np.ndarray:
    """A member of an .npz, which NumPy gives as bytes where it is no array."""
    if not isinstance(member, np.ndarray):
        raise ValueError(f"{name} is no array")
    return member


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
