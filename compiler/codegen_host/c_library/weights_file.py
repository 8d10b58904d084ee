"""Weights in a file of their own beside a C library, mapped when an object is opened.

    i32 onnxc_map_weights(ptr model, ptr path)

gives 0, or the code of an error. The file begins with a header that the library knows, so that no other library's
weights are taken for its own; that every byte behind it is what was written, this does not say.
"""

import hashlib

import numpy as np

from onnxc.compiler.codegen_host.c_library.messages import FIRST, SECOND, WEIGHTS_ERROR, Messages, fail_if
from onnxc.compiler.codegen_host.c_library.object_layout import ObjectLayout
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.weights import ALIGNMENT_BYTES

__all__ = ["HEADER_BYTES", "MAP_WEIGHTS", "WEIGHTS_HEADER", "WEIGHTS_IMPORTS", "map_weights", "weights_header"]

MAP_WEIGHTS, WEIGHTS_HEADER = "onnxc_map_weights", "onnxc_weights_header"

# Functions of libc that the mapping takes.
WEIGHTS_IMPORTS = ("open", "lseek", "mmap", "munmap", "close", "__errno_location")

# So long that the weights behind it are aligned.
HEADER_BYTES = ALIGNMENT_BYTES

# The numbers of Linux, which are the same for both processors.
_READ_ONLY_CLOSE_ON_EXEC, _FROM_THE_END, _READABLE, _PRIVATE = 0o2000000, 2, 1, 2


def weights_header(weights: np.ndarray) -> bytes:
    """What the file of these weights begins with."""
    return (
        b"onnxc weights\n".ljust(HEADER_BYTES - hashlib.sha256().digest_size, b"\0")
        + hashlib.sha256(weights.tobytes()).digest()
    )


def map_weights(layout: ObjectLayout, messages: Messages, nbytes: int) -> FunctionBuilder:
    """The function, for a file of so many bytes, header included."""
    f = FunctionBuilder(MAP_WEIGHTS, [("ptr", "model"), ("ptr", "path")], returns="i32", internal=True)
    model, path = f.parameters
    missing = "error[bad-path]: the weights are in a file, and no path was given"
    fail_if(f, model, f.is_null(path), messages.ordinal(WEIGHTS_ERROR, missing))
    descriptor = f.call("open", "i32", path, f.constant("i32", _READ_ONLY_CLOSE_ON_EXEC))
    unopened = f"error[unreadable-file]: the weights file cannot be opened, errno is {FIRST}"
    error = f.convert("sext", f.load("i32", f.call("__errno_location", "ptr"), 4), "i64")
    fail_if(f, model, f.icmp("slt", descriptor, 0), messages.ordinal(WEIGHTS_ERROR, unopened), error)
    size = f.call("lseek", "i64", descriptor, 0, f.constant("i32", _FROM_THE_END))
    how = (f.constant("i32", _READABLE), f.constant("i32", _PRIVATE))
    mapped = f.call("mmap", "i64", f.constant("ptr", 0), nbytes, *how, descriptor, 0)
    f.call("close", "i32", descriptor)
    unmapped = "error[unreadable-file]: the weights file cannot be mapped"
    fail_if(f, model, f.icmp("eq", mapped, -1), messages.ordinal(WEIGHTS_ERROR, unmapped))
    # From here on closing the object gives the mapping back.
    f.store(mapped, layout.address(f, model, layout.weights), 8)
    other_size = f"error[unreadable-file]: the weights file has {FIRST} bytes, expected {SECOND}"
    fail_if(f, model, f.icmp("ne", size, nbytes), messages.ordinal(WEIGHTS_ERROR, other_size), size, nbytes)
    start = f.load("ptr", layout.address(f, model, layout.weights), 8)
    differs = f.icmp("ne", f.call("memcmp", "i32", start, f.symbol(WEIGHTS_HEADER), HEADER_BYTES), 0)
    others = "error[unreadable-file]: the weights file is that of another library"
    fail_if(f, model, differs, messages.ordinal(WEIGHTS_ERROR, others))
    f.ret(0)
    return f
