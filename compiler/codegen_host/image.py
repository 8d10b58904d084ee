"""Images: the object code of a program, linked with what all of them may need."""

import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path

from onnxc.compiler.codegen_host.builtin_function import builtin_function
from onnxc.compiler.codegen_host.compile_objects import compile_objects
from onnxc.compiler.codegen_host.conversions import conversion_functions
from onnxc.compiler.codegen_host.effort import marked
from onnxc.compiler.codegen_host.heap import heap_functions
from onnxc.compiler.codegen_host.linking.link import link_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.peak import peak_function
from onnxc.compiler.codegen_host.threads.native_caller import caller_functions
from onnxc.compiler.codegen_host.threads.pool import POOL_EXPORTS, pool_functions
from onnxc.compiler.target import Target
from onnxc.runtime.native.builtin_function import BUILTIN
from onnxc.runtime.native.native_caller import CALLER_EXPORTS
from onnxc.runtime.profiling.limits import MULTIPLY_ADDS


def build_image(objects: Sequence[bytes], exports: Sequence[str], target: Target, folder: Path | None = None) -> bytes:
    """A shared library for runtime/cpu.py to load; the objects may use `onnxc_parallel_for` and 16-bit floats.

    folder: where object code is kept, None for nowhere.
    """
    exports = [*exports, *POOL_EXPORTS, *CALLER_EXPORTS, BUILTIN, MULTIPLY_ADDS]
    return link_image([*objects, *support_objects(target, folder)], exports)


def support_objects(target: Target, folder: Path | None = None) -> tuple[bytes, ...]:
    """The object code of threads, the heap and the call from Python, and that of what loops are made of.

    It is compiled once in a process. folder: where object code is kept, None for nowhere.
    """
    return begin_support_objects(target, folder).result()


def begin_support_objects(target: Target, folder: Path | None = None) -> Future[tuple[bytes, ...]]:
    """What `support_objects` gives, some time later: LLVM takes 35 ms for its first objects, beside what others do."""
    with _lock:
        future = _begun.get((target, folder))
        if future is None:
            future = _begun[target, folder] = Future()
            threading.Thread(target=_fulfil, args=(future, target, folder), name="onnxc support").start()
    return future


_lock = threading.Lock()
_begun: dict[tuple[Target, Path | None], Future[tuple[bytes, ...]]] = {}


def _fulfil(future: Future[tuple[bytes, ...]], target: Target, folder: Path | None) -> None:
    try:
        future.set_result(_compiled(target, folder))
    except BaseException as problem:
        # It may be another time's: memory, say. Whoever asks next has it tried again.
        with _lock:
            del _begun[target, folder]
        future.set_exception(problem)


def _compiled(target: Target, folder: Path | None) -> tuple[bytes, ...]:
    """What is gone through once for a loop or a call, then what loops are made of.

    A call of 1.08 us takes the same time whatever LLVM does for the first, which is 4 ms or 21.
    """
    once = (*pool_functions(target), *caller_functions(target), *heap_functions(), builtin_function())
    often = (*conversion_functions(), peak_function(target))
    return compile_objects([marked(_text(once), "least"), marked(_text(often), "plain")], target, folder)


def _forget() -> None:
    """In the child of a fork, which has none of the threads."""
    _begun.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget)


def _text(functions: Iterable[FunctionBuilder]) -> str:
    module = ModuleBuilder()
    for function in functions:
        module.add(function)
    return module.text()
