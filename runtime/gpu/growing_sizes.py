"""The table of sizes that grow from call to call, which kernels load, so that one graph serves these calls."""

from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from onnxc.runtime.gpu.workspaces import DeviceWorkspace, enqueue_launch
from onnxc.runtime.native.launch import NativeLaunch
from onnxc.runtime.program import (
    FRAME_SYMBOLS,
    TABLE_ENTRY_BYTES,
    TABLE_ON_DEVICE,
    TABLE_ON_HOST,
    Growth,
    compile_sizes,
)

__all__ = ["GrowingSizes"]

# Limits change where memory grows; so many of them are looked up at once.
_LIMITS_KEPT = 64


class GrowingSizes:
    """What a call brings for sizes that grow, and what of it stays the same while they are below their limits."""

    def __init__(self, growth: Growth) -> None:
        self._limits, self._choices_bytes = growth.limits, growth.choices * TABLE_ENTRY_BYTES
        self.nbytes = growth.words * TABLE_ENTRY_BYTES
        self.room: Callable[[tuple[int, ...]], tuple[int, ...]] = lru_cache(_LIMITS_KEPT)(compile_sizes(growth.room))

    def at_limits(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The symbols, those that grow at their limits."""
        limited = [*sizes]
        for symbol, limit in self._limits:
            limited[symbol] = max(sizes[symbol], sizes[limit])
        return tuple(limited)

    def write(self, launch: NativeLaunch, workspace: DeviceWorkspace, sizes: Sequence[int]) -> bytes:
        """Writes the table of a call at the beginning of what is staged; the choices of variants in it.

        The symbols of the frame are those of the call then, which launches must not see.
        """
        incoming, table = workspace.incoming, workspace.size_table
        workspace.sizes = None
        workspace.words[FRAME_SYMBOLS : FRAME_SYMBOLS + len(sizes)] = array("q", sizes)
        table[TABLE_ON_HOST], table[TABLE_ON_DEVICE] = incoming.host_address, 0
        enqueue_launch(launch, workspace, workspace.stream)
        table[TABLE_ON_DEVICE] = incoming.address
        return incoming.view(0, (self._choices_bytes,), np.dtype(np.uint8)).tobytes()
