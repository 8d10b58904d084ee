"""The errors for what native code found wrong, from the numbers that it leaves in its status block."""

from collections.abc import Callable, Mapping, Sequence

from onnxc.runtime.errors import DeviceError, InputError, OnnxcError
from onnxc.runtime.program import FAULT, INDEX_OUT_OF_RANGE, Fault

__all__ = ["FAULT_KINDS", "STOPPED", "illegal_data"]

STOPPED = "stopped"
"""The kind of the fault that is none: a handler of a signal has raised in mid-call."""


def _guard(fault: Fault, left: int, right: int) -> OnnxcError:
    return InputError(f"{fault.message} (here {left} and {right}){_where(fault.location)}", code="sizes-disagree")


def _bound(fault: Fault, value: int, low: int) -> OnnxcError:
    message = f"{fault.message} is {value} by the data, expected {low} or more"
    return InputError(message + _where(fault.location), code="impossible-size")


def _size(fault: Fault, size: int, _: int) -> OnnxcError:
    return InputError(f"the inputs make a size of {size}{_where(fault.location)}", code="impossible-size")


def _axis(fault: Fault, size: int, expected: int) -> OnnxcError:
    message = f"{fault.message} of a value in a subgraph is {size}, expected {expected}"
    return InputError(message + _where(fault.location), code="sizes-disagree")


def _stack(fault: Fault, size: int, first: int) -> OnnxcError:
    message = f"{fault.message} of what an iteration gives to stack is {size}, in the first one it was {first}"
    return InputError(message + _where(fault.location), code="sizes-disagree")


def _memory(fault: Fault, nbytes: int, _: int) -> OnnxcError:
    message = f"an array of {nbytes} bytes does not fit into memory{_where(fault.location)}"
    return DeviceError(message, code="out-of-memory")


def _stopped(fault: Fault, _left: int, _right: int) -> OnnxcError:
    return DeviceError("the call was interrupted", code="interrupted")


FAULT_KINDS: Mapping[str, Callable[[Fault, int, int], OnnxcError]] = {
    "guard": _guard, "bound": _bound, "size": _size, "axis": _axis, "stack": _stack, "memory": _memory,
    STOPPED: _stopped,
}  # fmt: skip


def illegal_data(status: Sequence[int], locations: Sequence[str], faults: Sequence[Fault] = ()) -> OnnxcError:
    """The error for a status block: code, number of the location or of the fault, and two numbers."""
    code, ordinal, value, size, *_ = status
    if code == FAULT and 0 <= ordinal < len(faults):
        fault = faults[ordinal]
        return FAULT_KINDS[fault.kind](fault, value, size)
    where = _where(locations[ordinal] if 0 <= ordinal < len(locations) else "")
    if code == INDEX_OUT_OF_RANGE:
        return InputError(f"index {value} is outside of an axis of size {size}{where}", code="index-out-of-range")
    return InputError(f"the data is not legal ({code}, {value}, {size}){where}", code="illegal-data")


def _where(location: str) -> str:
    return f"\n  --> {location}" if location else ""
