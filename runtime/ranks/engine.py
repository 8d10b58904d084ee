"""Calls on ranks: each runs the program of a device, on whole inputs, and has the whole outputs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.devices.devices_engine import DividedEngine
from onnxc.runtime.engine import Engine
from onnxc.runtime.executable import Executable
from onnxc.runtime.host.rendezvous import device_of_thread
from onnxc.runtime.ranks.world import World

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = ["RanksEngine", "RanksExecutable"]


class RanksEngine(DividedEngine):
    """Runs the program of `engine` as the device of this rank, with its last inputs, `added`."""

    def __init__(self, engine: Engine, added: Sequence[np.ndarray], world: World) -> None:
        super().__init__(engine)
        self.world, self._added = world, added

    def run(
        self, values: Sequence["HostValue"], sizes: tuple[int, ...], given: Sequence[np.ndarray] | None = None
    ) -> Sequence["HostValue"]:
        """The outputs, which every rank has whole."""
        with device_of_thread(self.world.exchanges, self.world.rank):
            return self._engine.run((*values, *self._added), sizes)


class RanksExecutable(Executable):
    """A model on ranks; all of them make the same calls in the same order.

    What is wrong in one of them, with its inputs too, is an error in all.
    """

    _engine: RanksEngine

    def __call__(self, /, *inputs: object, **named: object) -> "SlotValue | tuple[SlotValue, ...]":
        with self._engine.world.call():
            return super().__call__(*inputs, **named)

    def _run_by_name(
        self,
        inputs: object,
        out: Mapping[str, object] | None = None,
        seed: int | None = None,
        stream: int | None = None,
    ) -> dict[str, "SlotValue"]:
        with self._engine.world.call():
            return super()._run_by_name(inputs, out, seed, stream)
