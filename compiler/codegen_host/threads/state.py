"""Memory that threads share, as generated code reads and writes it, and system calls through it."""

import ctypes
from collections.abc import Callable

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.runtime.thread_pool import PoolState

__all__ = ["FUTEX_CALLS", "FUTEX_WAIT", "FUTEX_WAKE", "field", "load", "spin", "store", "system_call"]

FUTEX_CALLS = {"x86_64": 202, "aarch64": 98}
"""The numbers of the system call."""

FUTEX_WAIT, FUTEX_WAKE = 128, 129
"""For threads of one process."""


def field(f: FunctionBuilder, state: Reg, name: str, of: type[ctypes.Structure] = PoolState) -> Reg:
    """The address of a field."""
    return f.gep(state, getattr(of, name).offset)


def load(
    f: FunctionBuilder,
    state: Reg,
    name: str,
    type: str = "i64",
    ordering: str = "monotonic",
    of: type[ctypes.Structure] = PoolState,
) -> Reg:
    return f.atomic_load(type, field(f, state, name, of), ordering)


def store(f: FunctionBuilder, state: Reg, name: str, value: Reg, ordering: str = "monotonic") -> None:
    f.atomic_store(value, field(f, state, name), ordering)


def system_call(
    f: FunctionBuilder, state: Reg, call: int, *arguments: Int, of: type[ctypes.Structure] = PoolState
) -> Reg:
    """What the system call of that number gives; -1 where it fails."""
    return f.call_pointer(load(f, state, "syscall", "ptr", of=of), "i64", call, *arguments)


def spin(f: FunctionBuilder, limit: Reg, goes_on: Callable[[], Reg]) -> Reg:
    """Waits for the condition to end, for up to `limit` of `onnxc_ticks`; i1 whether it still holds."""
    start = f.call("onnxc_ticks", "i64")

    def again(_waits: Reg, _has_time: Reg) -> tuple[Reg, Reg]:
        f.call("pause", "void")
        elapsed = f.sub(f.call("onnxc_ticks", "i64"), start)
        return goes_on(), f.icmp("slt", elapsed, limit)

    return f.while_([goes_on(), f.icmp("sgt", limit, 0)], f.and_, again)[0]
