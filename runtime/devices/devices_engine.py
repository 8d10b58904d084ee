"""Calls on several devices of one process: each runs the same program, on its own shares of the weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.devices.device_threads import exchange_seconds, run_on_devices
from onnxc.runtime.devices.local_inputs import local_inputs
from onnxc.runtime.devices.local_layout import LocalLayout, local_values
from onnxc.runtime.engine import Engine
from onnxc.runtime.fast_call import Shapes
from onnxc.runtime.stats import Stats

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["DevicesEngine", "DividedEngine"]


class DividedEngine:
    """What an engine of several devices has of `engine`, which runs the program of one of them.

    devices: those of this process. inputs: how each input of a call is divided, empty where every device reads all of
    them whole; outputs: how each output stays divided, empty where each device has all of them whole.
    """

    def __init__(
        self,
        engine: Engine,
        devices: Sequence[int],
        inputs: Sequence[LocalLayout | None],
        outputs: Sequence[LocalLayout | None],
    ) -> None:
        self._engine, self.devices, self.inputs, self._outputs = engine, devices, inputs, outputs

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["SlotValue"]:
        """The outputs, for inputs that are whole, or shards by `inputs`."""
        raise NotImplementedError

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
    """Runs the program of `engine` once for each device, with its last inputs: its ordinal and shares, `added`."""

    def __init__(
        self,
        engine: Engine,
        added: Sequence[Sequence[np.ndarray]],
        inputs: Sequence[LocalLayout | None] = (),
        outputs: Sequence[LocalLayout | None] = (),
    ) -> None:
        super().__init__(engine, range(len(added)), inputs, outputs)
        self._added, self._seconds = added, exchange_seconds()
        self._calls, self._lock = 0, Lock()

    def run(
        self, values: Sequence["SlotValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["SlotValue"]:
        """The outputs: those of the first device, or what each holds of them."""
        with self._lock:
            self._calls += 1
        results = run_on_devices(
            len(self._added), lambda device: self._run_device(device, values, sizes), self._seconds
        )
        return local_values(self._outputs, sizes, dict(enumerate(results))) if self._outputs else results[0]

    def _run_device(self, device: int, values: Sequence["SlotValue"], sizes: tuple[int, ...]) -> Sequence["SlotValue"]:
        return self._engine.run((*local_inputs(self.inputs, values, device), *self._added[device]), sizes)

    def stats(self) -> Stats:
        """What has run so far; launches are those of all devices."""
        return replace(self._engine.stats(), calls=self._calls)
