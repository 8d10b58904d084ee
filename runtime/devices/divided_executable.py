"""An executable of several devices, which takes the shards of one call as inputs of the next."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.devices.devices_engine import DividedEngine
from onnxc.runtime.devices.local_inputs import import_block, together
from onnxc.runtime.devices.pipeline_engine import PipelineEngine
from onnxc.runtime.executable import Executable

if TYPE_CHECKING:
    from onnxc.runtime.values import SlotValue

__all__ = ["DividedExecutable"]


class DividedExecutable(Executable):
    """A model divided over devices."""

    _engine: DividedEngine | PipelineEngine

    def _imported(self, inputs: Sequence[object], defaults: Mapping[int, np.ndarray]) -> "tuple[SlotValue, ...]":
        """Shards as they are, where each is what the program of its device reads."""
        given = together(inputs, self._engine.inputs, self._engine.devices)
        return self._signature.import_with(import_block, given, defaults)
