"""Values that other devices have a part in, and that may be on their way.

A collective is begun by its step. What it gives is waited for by the step that first looks at it, so that the device
does meanwhile what depends on nothing of it.
"""

from collections.abc import Callable

import numpy as np

from onnxc.runtime.device_value import DeviceValue

__all__ = ["Arriving"]


class Arriving:
    """A tensor that a collective gives; `wait`, which is called once, waits for it.

    It stays in the thread of the call that has begun the collective.
    """

    __slots__ = ("_value", "_wait")

    def __init__(self, wait: Callable[[], np.ndarray | DeviceValue]) -> None:
        self._wait = wait
        self._value: np.ndarray | DeviceValue | None = None

    def value(self) -> np.ndarray | DeviceValue:
        """The tensor, where the collective has put it. Raises DeviceError where devices fail."""
        if self._value is None:
            self._value = self._wait()
        return self._value
