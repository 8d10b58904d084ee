"""Where values of a call lie and are wanted: on the host, on the device, in an array that the caller gave."""

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.arrays import describe, is_ready
from onnxc.runtime.dtypes import STRING
from onnxc.runtime.errors import InputError
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.memory import Block
from onnxc.runtime.gpu.workspaces import Call
from onnxc.runtime.values import arrived, as_array, host_value

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["Residency", "Wanted", "as_wanted", "on_device", "uploaded"]


class Residency(Enum):
    """Where a new array for an output lies."""

    HOST, DEVICE = range(2)


# A new array for an output, or an array that the caller gave for it.
Wanted = Residency | DeviceArray | np.ndarray


def as_wanted(value: "SlotValue", want: Wanted, call: Call) -> "SlotValue":
    """A result where it is wanted; on the device in an array of the caller's own, or in the one that was given."""
    if isinstance(want, np.ndarray) or want is Residency.HOST:
        return host_value(value)
    value = arrived(value)
    if not isinstance(value, np.ndarray | DeviceArray) or value.dtype == STRING:
        return value
    result = on_device(value, call)
    if isinstance(want, DeviceArray):
        if result is not want:
            _expect_shape(want, result)
            call.copy(want.address, result.address, want.nbytes)
        result = want
    elif not isinstance(result.owner, Block) or result in call.made:
        result = _copied(result, call)
    call.made.add(result)
    return result


def _expect_shape(given: DeviceArray, result: DeviceArray) -> None:
    if given.shape != result.shape:
        message = f"out has {describe(given)}, the output is {describe(result)}"
        raise InputError(message, code="output-shape")


def _copied(array: DeviceArray, call: Call) -> DeviceArray:
    made = call.new_array(array.shape, array.dtype, "an output")
    call.copy(made.address, array.address, array.nbytes)
    return made


def on_device(value: "SlotValue", call: Call) -> DeviceArray:
    """The array on the device, where it stays; an array of the host is copied there."""
    value = arrived(value)
    return value if isinstance(value, DeviceArray) else uploaded(as_array(value), call)


def uploaded(array: np.ndarray, call: Call) -> DeviceArray:
    """A copy of an array of the host on the device."""
    ready = array if is_ready(array) else array.copy(order="C")
    made = call.new_array(ready.shape, ready.dtype, "an array of the host")
    call.upload(ready, made.address)
    return made
