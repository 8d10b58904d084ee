"""Calls that are interrupted before any of their instructions where the handler of a signal may do it."""

import dis
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import onnxc

# Code whose instructions count: the runtime, and the code that it writes.
_RUNTIME = str(Path(onnxc.__file__).parent / "runtime")

# What enters and leaves a handler of exceptions. No handler of a signal runs before these, and what a trace function
# raises there leaves the exception that was handled in the state of the thread, with all frames of its call.
_HANDLER_BOUNDS = frozenset(dis.opmap[name] for name in ("PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "RERAISE"))

# Python looks for signals behind calls and jumps back, not before these: the end of a `with` block, which begins with
# them, is outside of what it protects, and a lock would stay locked that no signal leaves so.
_ENDS_OF_WITH = frozenset(dis.opmap[name] for name in ("LOAD_CONST", "PRECALL", "CALL") if name in dis.opmap)
_UNINTERRUPTED = _HANDLER_BOUNDS | _ENDS_OF_WITH


class Interruption(BaseException):
    """What ends a call that is interrupted."""


def is_interrupted(call: Callable[[], object], instruction: int) -> bool:
    """Whether the call got to the runtime's instruction of this ordinal, and was interrupted before it."""
    remaining = instruction

    def follow(frame: FrameType, event: str, _: object) -> object:
        nonlocal remaining
        name = frame.f_code.co_filename
        if not (name.startswith(_RUNTIME) or name == "<fast call>") or _is_destructor(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] not in _UNINTERRUPTED:
            remaining -= 1
            if remaining < 0:
                raise Interruption
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        call()
    except Interruption:
        return True
    finally:
        sys.settrace(before)
    return False


def _is_destructor(frame: FrameType | None) -> bool:
    """Whether the frame runs because an object goes: what is raised there ends no call, Python only prints it."""
    while frame is not None and frame.f_code is not is_interrupted.__code__:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False
