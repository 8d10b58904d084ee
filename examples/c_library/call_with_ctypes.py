"""Compiles a model to a C library and calls it as any language can that calls C: here Python, by ctypes alone."""

import ctypes
import subprocess
import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

import onnxc

POINTER = ctypes.c_void_p


def main() -> None:
    data = files("onnxc") / "data"
    with (data / "digits.npz").open("rb") as file, np.load(file) as held_out:
        images = held_out["images"]
    with tempfile.TemporaryDirectory() as folder, as_file(data / "digits.onnx") as model:
        command = [sys.executable, "-m", "onnxc", "compile", model, "--emit", "c-library", "-o", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(*sorted(path.name for path in Path(folder).iterdir()))
        probabilities = call(ctypes.CDLL(str(Path(folder) / "libdigits.so")), images)
        print("read:", probabilities[:10].argmax(axis=1))
        print("the same bits as in Python:", probabilities.tobytes() == onnxc.compile(model)(images).tobytes())


def call(library: ctypes.CDLL, images: np.ndarray) -> np.ndarray:
    """The probabilities of the digits of each image."""
    library.digits_error.argtypes, library.digits_error.restype = [POINTER], ctypes.c_char_p
    model, result = POINTER(), (ctypes.c_int64 * 2)()

    def check(code: int) -> None:
        if code != 0:
            raise RuntimeError(library.digits_error(model).decode())

    input_shapes = (POINTER * 1)(ctypes.addressof(shape := (ctypes.c_int64 * 4)(*images.shape)))
    output_shapes = (POINTER * 1)(ctypes.addressof(result))
    try:
        check(library.digits_open(ctypes.byref(model), None, 2))
        check(library.digits_shapes(model, input_shapes, output_shapes))
        probabilities = np.empty(tuple(result), np.float32)
        inputs, outputs = (POINTER * 1)(images.ctypes.data), (POINTER * 1)(probabilities.ctypes.data)
        check(library.digits_run(model, inputs, input_shapes, outputs))
        # What a library refuses, it says; the object is good for other calls.
        shape[3] = 9
        print(library.digits_run(model, inputs, input_shapes, outputs), library.digits_error(model).decode())
    finally:
        library.digits_close(model)
    return probabilities


if __name__ == "__main__":
    main()
