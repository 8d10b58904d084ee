"""Native code as a built-in function of CPython: storing the addresses of arrays from Python and calling through ctypes
took 0.4 µs more, a quarter of a call of a small model.

The C function is in every image (compiler/codegen_host/builtin_function.py). What it needs to know, and what CPython
wants to know of it, are the words of an array of NumPy that is the `self` of the built-in function: they live as long,
as CPython lets go of `self` last. Where array objects are not what we think, a function of Python does the same.
"""

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from onnxc.runtime.cpu import Image
from onnxc.runtime.native.addresses import LAYOUT_IS_KNOWN, WORD_BYTES, read_address
from onnxc.runtime.program import FRAME_STATUS

__all__ = [
    "BUILTIN", "SELF_ARRAYS", "SELF_ENTRY", "SELF_FALSE", "SELF_NEW_REFERENCE", "SELF_RESTORE_THREAD",
    "SELF_SAVE_THREAD", "SELF_TRUE", "NativeCall", "native_call",
]  # fmt: skip

# Takes a frame, as an array of words, and arrays; says whether there is something in the status block afterwards.
NativeCall = Callable[..., bool]

# The symbol of the C function.
BUILTIN = "onnxc_builtin"

# The words of `self`. From 0 on there is a PyMethodDef: name, function, flags and text. From SELF_ARRAYS on there are
# the words of the frame that the addresses of the arrays go to; before them what is called and what is given.
SELF_ENTRY, SELF_SAVE_THREAD, SELF_RESTORE_THREAD, SELF_NEW_REFERENCE, SELF_FALSE, SELF_TRUE, SELF_ARRAYS = range(4, 11)

_NAME = ctypes.create_string_buffer(b"native_call")
# The C function takes `self`, an array of arguments, and how many there are.
_METH_FASTCALL = 0x80


def native_call(image: Image, entry: str, words: Sequence[int]) -> NativeCall:
    """The function that stores the address of each array in its word of the frame and calls an entry of the image.

    All arguments must be arrays of NumPy as the entry expects them: nothing is checked. The lock of the interpreter is
    released during the call. The image must live as long as the function.
    """
    return (_builtin if LAYOUT_IS_KNOWN else _through_ctypes)(image, entry, words)


def _builtin(image: Image, entry: str, words: Sequence[int]) -> NativeCall:
    api = ctypes.pythonapi
    called = [
        ctypes.cast(function, ctypes.c_void_p).value
        for function in (api.PyEval_SaveThread, api.PyEval_RestoreThread, api.Py_IncRef)
    ]
    method = [ctypes.addressof(_NAME), image.address(BUILTIN), _METH_FASTCALL, 0]
    # CPython's True and False live as long as the interpreter.
    own = np.array([*method, image.address(entry), *called, id(False), id(True), *words], np.int64)
    new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", api)
    )
    function: NativeCall = new_function(read_address(own), own, None)
    return function


def _through_ctypes(image: Image, entry: str, words: Sequence[int]) -> NativeCall:
    call = image.function(entry, 1)

    def store_and_call(frame: np.ndarray, *arrays: np.ndarray) -> bool:
        for word, x in zip(words, arrays, strict=True):
            frame[word] = read_address(x)
        first = read_address(frame)
        call(first)
        return bool(frame[(frame[FRAME_STATUS] - first) // WORD_BYTES])

    return store_and_call
