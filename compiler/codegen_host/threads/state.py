"""The state of the thread pool as generated code reads and writes it, and system calls through it."""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.runtime.thread_pool import PoolState

__all__ = ["field", "load", "store", "system_call"]


def field(f: FunctionBuilder, state: Reg, name: str) -> Reg:
    """The address of a field."""
    return f.gep(state, getattr(PoolState, name).offset)


def load(f: FunctionBuilder, state: Reg, name: str, type: str = "i64", ordering: str = "monotonic") -> Reg:
    return f.atomic_load(type, field(f, state, name), ordering)


def store(f: FunctionBuilder, state: Reg, name: str, value: Reg, ordering: str = "monotonic") -> None:
    f.atomic_store(value, field(f, state, name), ordering)


def system_call(f: FunctionBuilder, state: Reg, call: int, *arguments: Int) -> Reg:
    """What the system call of that number gives; -1 where it fails."""
    return f.call_pointer(load(f, state, "syscall", "ptr"), "i64", call, *arguments)
