"""C libraries for tests: made of a model, called with ctypes, and their symbols read."""

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto

from onnxc.compiler.c_library import c_library, write_files
from onnxc.compiler.options import make_options

Shape = tuple[int, ...]

# An output as a test allocates it: its type, and its rank.
Output = tuple[type[np.generic], int]


class CError(Exception):
    """An error of a C library: its code, and its text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def write_library(
    model: ModelProto, folder: Path, name: str = "m", *, weights_file: bool = False, **sizes: int | tuple[int, int]
) -> Path:
    """The folder with the files of the library of a model."""
    options = make_options("cpu", sizes, {})
    write_files(c_library(model.SerializeToString(), options, name, weights_file=weights_file), folder)
    return folder


class CModel:
    """One object of a library, called as a program in C would."""

    def __init__(
        self, folder: Path, outputs: Sequence[Output], name: str = "m", threads: int = 1, weights: Path | None = None
    ) -> None:
        self.outputs, self.name = tuple(outputs), name
        self.library = ctypes.CDLL(str(folder / f"lib{name}.so"))
        self.handle = ctypes.c_void_p()
        self._error = getattr(self.library, f"{name}_error")
        self._error.argtypes, self._error.restype = [ctypes.c_void_p], ctypes.c_char_p
        self._call("open", ctypes.byref(self.handle), None if weights is None else bytes(weights), threads)

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        """The shapes of the outputs."""
        held = [(ctypes.c_int64 * max(1, rank))() for _, rank in self.outputs]
        self._call("shapes", self.handle, *_shapes(shapes), (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held)))
        return [tuple(each[:rank]) for each, (_, rank) in zip(held, self.outputs, strict=True)]

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        """The outputs, those that the call leaves on the heap copied."""
        shapes = [x.shape for x in inputs]
        found = [
            None if -1 in shape else np.empty(shape, dtype)
            for shape, (dtype, _) in zip(self.shapes(shapes), self.outputs, strict=True)
        ]
        given = (ctypes.c_void_p * len(found))(*[None if x is None else x.ctypes.data for x in found])
        self._call("run", self.handle, (ctypes.c_void_p * len(inputs))(*[x.ctypes.data for x in inputs]),
                   *_shapes(shapes), given)  # fmt: skip
        return [self.late(k) if x is None else x for k, x in enumerate(found)]

    def late(self, output: int) -> np.ndarray:
        """A copy of an output on the heap."""
        dtype, rank = self.outputs[output]
        data, shape = ctypes.c_void_p(), (ctypes.c_int64 * max(1, rank))()
        self._call("late", self.handle, output, ctypes.byref(data), shape)
        result = np.empty(tuple(shape[:rank]), dtype)
        ctypes.memmove(result.ctypes.data, data, result.nbytes)
        return result

    def close(self) -> None:
        getattr(self.library, f"{self.name}_close")(self.handle)

    def _call(self, entry: str, *arguments: object) -> None:
        code = getattr(self.library, f"{self.name}_{entry}")(*arguments)
        if code:
            raise CError(code, self._error(self.handle).decode())


def _shapes(shapes: Sequence[Shape]) -> tuple["ctypes.Array[ctypes.c_void_p]"]:
    held = [(ctypes.c_int64 * max(1, len(shape)))(*shape) for shape in shapes]
    pointers = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
    pointers.held = held  # type: ignore[attr-defined]
    return (pointers,)


def symbols(library: Path) -> tuple[set[str], set[str], set[str]]:
    """(the names that are exported, those imported, the libraries needed), by the section headers of a library."""
    data = library.read_bytes()
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * k) for k in range(count)]
    dynamic = next(each for each in headers if each[1] == 6)
    names = next(each for each in headers if each[1] == 11)
    strings = headers[names[6]][4]

    def text(offset: int) -> str:
        return data[strings + offset : data.index(b"\0", strings + offset)].decode()

    entries = list(struct.iter_unpack("<IBBHQQ", data[names[4] : names[4] + names[5]]))[1:]
    tags = struct.iter_unpack("<QQ", data[dynamic[4] : dynamic[4] + dynamic[5]])
    defined = {text(entry[0]) for entry in entries if entry[3]}
    return defined, {text(entry[0]) for entry in entries} - defined, {text(value) for tag, value in tags if tag == 1}
