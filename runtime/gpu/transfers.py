"""Values that go from one GPU of the process to another: a send and a receipt of NCCL, enqueued as one.

Who reads a value enqueues both, once its maker is done with it. Sends are on streams of their own: a device goes on
with what comes next, whenever others read, so that devices may send each other values in any order.
"""

import weakref
from typing import TYPE_CHECKING

from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.collectives import Communicators, Group
from onnxc.runtime.gpu.device import Device, end_handles
from onnxc.runtime.gpu.nccl import BYTES
from onnxc.runtime.gpu.workspaces import Call

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["Transfers", "pair_of"]

_PURPOSE = "to send a value from one device to another"


def pair_of(source: int, target: int) -> Group:
    """The devices of the communicator by which one sends to another."""
    return min(source, target), max(source, target)


class Transfers:
    """What brings values to the device that reads them, by communicators of pairs."""

    def __init__(self, communicators: Communicators) -> None:
        self._communicators = communicators
        self._outlets: dict[int, _Outlet] = {}

    def bring(self, value: "SlotValue", call: Call) -> "SlotValue":
        """A value that is complete, on the device of the call where it is an array of another one.

        It is there in the order of the call's stream; the value has to live until that is waited for.
        """
        if not isinstance(value, DeviceArray):
            return value
        source, target = value.device.properties.ordinal, call.device.properties.ordinal
        if source == target:
            return value
        made = call.new_array(value.shape, value.dtype, "what another device sends")
        if not made.nbytes:
            return made
        pair, call.in_flight = pair_of(source, target), True
        with self._communicators.of_group(pair) as members:
            outlet, nccl = self._outlet(value.device), self._communicators.nccl
            sender, receiver = members[source], members[target]
            with nccl.group(_PURPOSE):
                peer = pair.index(target)
                nccl.call(_PURPOSE, "ncclSend", value.address, value.nbytes, BYTES, peer, sender, outlet.stream)
                peer = pair.index(source)
                nccl.call(_PURPOSE, "ncclRecv", made.address, made.nbytes, BYTES, peer, receiver, call.stream)
            outlet.hold(call.stream)
        return made

    def _outlet(self, device: Device) -> "_Outlet":
        """That of the CUDA device; who asks holds the communicators."""
        ordinal = device.properties.ordinal
        if ordinal not in self._outlets:
            self._outlets[ordinal] = _Outlet(device)
        return self._outlets[ordinal]


class _Outlet:
    """The stream of what a device sends."""

    def __init__(self, device: Device) -> None:
        self.device = device
        with device.current():
            self.stream, self._sent = device.new_stream(), device.new_event()
        ending = (("cuStreamSynchronize", self.stream), ("cuStreamDestroy_v2", self.stream),
                  ("cuEventDestroy_v2", self._sent))  # fmt: skip
        weakref.finalize(self, end_handles, device, ending).atexit = False

    def hold(self, stream: int) -> None:
        """What follows on a stream of another device runs after all that this one has sent by now."""
        driver, purpose = self.device.driver, "to order the streams of two devices"
        with self.device.current():
            driver.call(purpose, "cuEventRecord", self._sent, self.stream)
        driver.call(purpose, "cuStreamWaitEvent", stream, self._sent, 0)
