"""The status block of a workspace: kernels write it in memory of the device, the end of a call copies it to the host.

Atomic operations on memory of the host would cross the bus, and some virtual machines do not pass them on.
"""

import numpy as np

from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.memory import Buffer, PinnedMemory
from onnxc.runtime.native.addresses import WORD_BYTES
from onnxc.runtime.native.workspaces import STATUS_WORDS

__all__ = ["StatusWords"]

_BYTES = STATUS_WORDS * WORD_BYTES
_PURPOSE = "to copy the status of a call"


class StatusWords:
    """One block, at `address` on the device; kernels without any that could report leave `is_used` False.

    What `is_raised` and `take` tell is of the last copy that the device has finished.
    """

    def __init__(self, device: Device, *, is_used: bool) -> None:
        self._device, self._is_used = device, is_used
        self._buffer, self._pinned = Buffer(device, _BYTES, "the status of a call"), PinnedMemory(device, _BYTES)
        self._words = self._pinned.bytes.view(np.int64)
        self.address = self._buffer.address
        self.clear()

    @property
    def is_raised(self) -> bool:
        """Whether something was wrong with the data."""
        return self._is_used and bool(self._words[0])

    def copy(self, stream: int) -> None:
        """Enqueues the copy to the host; a graph may hold it."""
        if self._is_used:
            driver = self._device.driver
            driver.call(_PURPOSE, "cuMemcpyDtoHAsync_v2", self._pinned.address, self.address, _BYTES, stream)

    def take(self) -> tuple[int, ...]:
        """The block, which is clear again afterwards; no kernel may be running that could write it."""
        words = tuple(self._words.tolist())
        self.clear()
        return words

    def clear(self) -> None:
        """Sets both sides to 0; no kernel may be running that could write them."""
        self._words[:] = 0
        if self._is_used:
            driver, stream = self._device.driver, self._device.copy_stream
            driver.call(_PURPOSE, "cuMemsetD8Async", self.address, 0, _BYTES, stream)
            driver.call(_PURPOSE, "cuStreamSynchronize", stream)
