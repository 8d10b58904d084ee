"""Calls that are interrupted at any of their instructions where the handler of a signal may do it."""

import dis
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import onnxc

# Code whose instructions count: the runtime, and the code that it writes.
_RUNTIME = str(Path(onnxc.__file__).parent / "runtime")

# Behind these Python looks for signals: at the begin of a function, behind a call, and on the way back in a loop.
_LOOKS = frozenset(
    dis.opmap[name]
    for name in ("RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "JUMP_ABSOLUTE")
    if name in dis.opmap
)

# What raises there is still within the `with` block, or the handler, that the traced instruction has just left.
_LEAVES = frozenset(
    dis.opmap[name] for name in ("SWAP", "LOAD_CONST", "PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "RERAISE")
)


class Interruption(BaseException):
    """What ends a call that is interrupted."""


def is_interrupted(call: Callable[[], object], instruction: int) -> bool:
    """Whether the runtime looked for signals that often in the call, and once more, when it was interrupted."""
    remaining = instruction
    before_it: dict[int, int] = {}

    def follow(frame: FrameType, event: str, _: object) -> object:
        nonlocal remaining
        name = frame.f_code.co_filename
        if not (name.startswith(_RUNTIME) or name == "<fast call>") or _is_destructor(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            operation = frame.f_code.co_code[frame.f_lasti]
            remaining -= before_it.get(id(frame)) in _LOOKS and operation not in _LEAVES
            before_it[id(frame)] = operation
            if remaining < 0:
                raise Interruption
        elif event == "return":
            before_it.pop(id(frame), None)
        return follow

    traced_by = sys.gettrace()
    sys.settrace(follow)
    try:
        call()
    except Interruption:
        return True
    finally:
        sys.settrace(traced_by)
    return False


def _is_destructor(frame: FrameType | None) -> bool:
    """Whether the frame runs because an object goes: what is raised there ends no call, Python only prints it."""
    while frame is not None and frame.f_code is not is_interrupted.__code__:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False
