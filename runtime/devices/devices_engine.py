"""Calls on several devices of one process: each runs the same program, on its own shares of the weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.devices.device_threads import exchange_seconds, run_on_devices
from onnxc.runtime.devices.local_outputs import LocalOutput, local_values
from onnxc.runtime.engine import Engine
from onnxc.runtime.native.fast_call import Shapes
from onnxc.runtime.stats import Stats

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = ["DevicesEngine", "DividedEngine"]


class DividedEngine:
    """What an engine of several devices has of `engine`, which runs the program of one of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def fast_call(self) -> None:
        """There is none: a call begins with all devices."""

    def learn(self, shapes: Shapes, sizes: tuple[int, ...]) -> None:
        """Checks what sizes alone decide."""
        self._engine.learn(shapes, sizes)

    def defaults(self) -> Mapping[int, np.ndarray]:
        """The values of the inputs that a call may leave out, by number."""
        return self._engine.defaults()

    def stats(self) -> Stats:
        """What `engine` has run so far."""
        return self._engine.stats()


class DevicesEngine(DividedEngine):
    """Runs the program of `engine` once for each device, with its last inputs: its ordinal and shares, `added`.

    outputs: how each output stays divided; empty where each device has all of them whole.
    """

    def __init__(
        self,
        engine: Engine,
        added: Sequence[Sequence[np.ndarray]],
        outputs: Sequence[LocalOutput | None] = (),
    ) -> None:
        super().__init__(engine)
        self._added, self._outputs, self._seconds = added, outputs, exchange_seconds()
        self._calls, self._lock = 0, Lock()

    def run(
        self, values: Sequence["HostValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["SlotValue"]:
        """The outputs: those of the first device, or what each holds of them."""
        with self._lock:
            self._calls += 1
        results = run_on_devices(
            len(self._added), lambda device: self._engine.run((*values, *self._added[device]), sizes), self._seconds
        )
        return local_values(self._outputs, sizes, dict(enumerate(results))) if self._outputs else results[0]

    def stats(self) -> Stats:
        """What has run so far; launches are those of all devices."""
        return replace(self._engine.stats(), calls=self._calls)
