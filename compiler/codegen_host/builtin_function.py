"""The C function of a built-in function of CPython, through which Python calls native code without ctypes.

    PyObject *onnxc_builtin(PyObject *self, PyObject *const *arguments, Py_ssize_t count)

Its arguments and `self` are arrays of NumPy, which it does not check. The words of `self` say what it needs to know
(runtime/native/builtin_function.py, which makes the function for Python); the first argument is the frame. It stores
the addresses of the others in the frame, calls the entry without the lock of the interpreter, and gives True if the
status block then says something, else False.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.runtime.native.addresses import DATA_WORD
from onnxc.runtime.native.builtin_function import (
    BUILTIN,
    SELF_ARRAYS,
    SELF_ENTRY,
    SELF_FALSE,
    SELF_NEW_REFERENCE,
    SELF_RESTORE_THREAD,
    SELF_SAVE_THREAD,
    SELF_TRUE,
)
from onnxc.runtime.program import FRAME_STATUS

__all__ = ["builtin_function"]


def builtin_function() -> FunctionBuilder:
    """The function, which every image has."""
    f = FunctionBuilder(BUILTIN, [("ptr", "self"), ("ptr", "arguments"), ("i64", "count")], returns="ptr")
    self, arguments, count = f.parameters
    words = _elements(self, f)
    frame = _elements(_pointer(arguments, 0, f), f)

    def store_address(index: Reg) -> None:
        array = _pointer(arguments, f.add(index, 1), f)
        place = f.load("i64", f.gep(f.gep(words, SELF_ARRAYS, "i64"), index, "i64"), 8)
        f.store(_elements(array, f), f.gep(frame, place, "i64"), 8)

    f.loop(0, f.sub(count, 1), 1, store_address)
    thread = f.call_pointer(_pointer(words, SELF_SAVE_THREAD, f), "ptr")
    f.call_pointer(_pointer(words, SELF_ENTRY, f), "i64", frame)
    f.call_pointer(_pointer(words, SELF_RESTORE_THREAD, f), "void", thread)
    status = f.load("i64", _pointer(frame, FRAME_STATUS, f), 8)
    is_clear = f.icmp("eq", status, 0)
    result = f.select(is_clear, _pointer(words, SELF_FALSE, f), _pointer(words, SELF_TRUE, f))
    f.call_pointer(_pointer(words, SELF_NEW_REFERENCE, f), "void", result)
    f.ret(result)
    return f


def _elements(array: Reg, f: FunctionBuilder) -> Reg:
    """Where the elements of an array object are."""
    return _pointer(array, DATA_WORD, f)


def _pointer(words: Reg, index: Int, f: FunctionBuilder) -> Reg:
    return f.load("ptr", f.gep(words, index, "i64"), 8)
