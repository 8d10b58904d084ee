"""The stream of a workspace on which its exchanges are, beside that of its launches, so that the two overlap.

Exchanges stay in the order in which they are begun. What a launch reads of them it waits for by an event.
"""

import weakref
from collections.abc import Sequence

from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.device import Device, end_handles

__all__ = ["ExchangeStream"]

_PURPOSE = "to order exchanges and launches"


class ExchangeStream:
    """One stream, and for each exchange that nobody has waited for yet its event, with the arrays that it uses.

    The context must be current.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.stream, self._followed = device.new_stream(), device.new_event()
        self._free: list[int] = []
        self._used: dict[int, tuple[DeviceArray, DeviceArray]] = {}
        self._events = [self._followed]
        weakref.finalize(self, _end, device, self.stream, self._events).atexit = False

    def follow(self, stream: int) -> None:
        """What is exchanged from now on is so behind all that is on the stream by now."""
        self._device.driver.call(_PURPOSE, "cuEventRecord", self._followed, stream)
        self._device.driver.call(_PURPOSE, "cuStreamWaitEvent", self.stream, self._followed, 0)

    def begun(self, operand: DeviceArray, result: DeviceArray) -> int:
        """The event of the exchange that was enqueued last. Its arrays live until it is waited for."""
        event = self._free.pop() if self._free else self._new_event()
        self._used[event] = operand, result
        self._device.driver.call(_PURPOSE, "cuEventRecord", event, self.stream)
        return event

    def wait(self, event: int, stream: int) -> DeviceArray:
        """The result of an exchange, for what follows on the stream."""
        self._device.driver.call(_PURPOSE, "cuStreamWaitEvent", stream, event, 0)
        _, result = self._used.pop(event)
        self._free.append(event)
        return result

    def wait_for_all(self, stream: int) -> None:
        """What follows on the stream is behind all exchanges."""
        for event in tuple(self._used):
            self.wait(event, stream)

    def abandon(self) -> None:
        """After an error: returns when none of them runs any more."""
        self._device.driver.functions["cuStreamSynchronize"](self.stream)
        self._free += self._used
        self._used.clear()

    def _new_event(self) -> int:
        event = self._device.new_event()
        self._events.append(event)
        return event


def _end(device: Device, stream: int, events: Sequence[int]) -> None:
    """Gives back what the driver holds, once nothing runs on the stream any more."""
    ending = [("cuStreamSynchronize", stream), ("cuStreamDestroy_v2", stream)]
    end_handles(device, [*ending, *(("cuEventDestroy_v2", event) for event in events)])
