"""Modules of LLVM IR that a caller wrote: checked, made to fit beside ours, and optimised, by a process of its own.

LLVM ends the process that it works in where it cannot go on, as for an intrinsic of another processor; that must not be
the caller's.
"""

from functools import lru_cache

from onnxc.compiler.jobs.job import Failed
from onnxc.compiler.jobs.worker_pool import WorkerPool, keep_while_running, python_module
from onnxc.compiler.target import Target
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["NativeJob", "NativeModule", "native_module"]

TIMEOUT_SECONDS = 60.0
"""LLVM takes about a second for 600 kB of text; what people write is a thousandth of that."""


@record
class NativeJob:
    """A module whose one function that is not internal takes `parameters`, types of LLVM, and returns nothing."""

    text: str
    parameters: tuple[str, ...]
    target: Target


@record
class NativeModule:
    """The text of a module, and the name that its one visible function has, which no other has."""

    text: str
    entry: str


_pool: WorkerPool[NativeJob, NativeModule] = keep_while_running(
    WorkerPool(python_module("onnxc.compiler.codegen_host.native_worker"), TIMEOUT_SECONDS)
)


@lru_cache(64)
def native_module(text: str, parameters: tuple[str, ...], operator: str, target: Target) -> NativeModule:
    """The module as it goes beside ours.

    Raises InputError for what LLVM refuses, for another signature, for variables, whose values calls in several threads
    would share, and for functions that no library here has; DeviceError where no process can be started.
    """
    (made,) = _pool.run([NativeJob(text, parameters, target)], 1)
    if isinstance(made, Failed):
        raise InputError(f"the native code of {operator}: {' '.join(made.reason.split())}", code="native-code")
    return made
