"""Calls of a program whose launches and host steps leave their times; the kernels are those of every call."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.cpu import Image
from onnxc.runtime.engine import ProgramEngine
from onnxc.runtime.native.launch_log import RECORD_ENDED, RECORD_STARTED, LaunchLog
from onnxc.runtime.native.workspaces import Workspace
from onnxc.runtime.program import Host
from onnxc.runtime.records import record
from onnxc.runtime.steps import HostCall, run_body
from onnxc.runtime.thread_pool import recording_handle
from onnxc.runtime.values import own_values

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue
    from onnxc.runtime.values import SlotValue

__all__ = ["HostRecord", "RecordedCall", "RecordingEngine"]

READINGS = 5
"""A thread that shares its processor is interrupted for milliseconds, which rarely meets five readings in a row."""


@record
class HostRecord:
    """One run of a step on the host, in nanoseconds of `time.perf_counter_ns`."""

    step: Host
    started: int
    ended: int


@record(eq=False)
class RecordedCall:
    """What one call left. All times are nanoseconds of `time.perf_counter_ns`, those of `rows` as well.

    rows: as LaunchLog has them. lost: records without room. symbols: the sizes of the call, those bound in it included.
    """

    started: int
    ended: int
    rows: np.ndarray
    lost: int
    host: tuple[HostRecord, ...]
    symbols: tuple[int, ...]


class RecordingEngine(ProgramEngine):
    """Another engine's program with launches that are recorded; for one thread that calls it.

    An executable of it goes the way of any other through Python, so that what is outside of kernels takes what it takes
    in ordinary calls.
    """

    def __init__(self, like: ProgramEngine) -> None:
        self._log = LaunchLog()
        self._host: list[HostRecord] = []
        self._symbols: tuple[int, ...] = ()
        self.observed = self._observe
        handle = None if like.pool is None else recording_handle(like.pool, self._log.address)
        super().__init__(like.program, like.image, handle, like.weights, like.locations)
        self._clock = None if like.image is None else _Clock(like.image)

    def record(self, call: Callable[[], object], sizes: tuple[int, ...]) -> RecordedCall:
        """What the call of an executable of this engine left; `sizes` are what its inputs bind. Raises what it does."""
        self._log.take()
        self._host.clear()
        self._symbols = sizes
        started = time.perf_counter_ns()
        call()
        ended = time.perf_counter_ns()
        records = self._log.take()
        rows = records.rows if self._clock is None else self._clock.in_nanoseconds(records.rows)
        return RecordedCall(started, ended, rows, records.lost, tuple(self._host), self._symbols)

    def _results(
        self,
        values: Sequence["SlotValue"],
        sizes: tuple[int, ...],
        given: Sequence[np.ndarray] | None,
        workspace: Workspace,
    ) -> Sequence["HostValue"]:
        """Those of the steps, which may bind more symbols."""
        symbols = list(sizes)
        results = own_values(run_body(self.body, values, symbols, workspace), values)
        self._symbols = tuple(symbols)
        return results

    def _observe(self, step: Host, call: HostCall) -> HostCall:
        """The function of a step on the host, whose time is kept."""

        def timed(*values: "SlotValue") -> Sequence["SlotValue"]:
            started = time.perf_counter_ns()
            results = call(*values)
            self._host.append(HostRecord(step, started, time.perf_counter_ns()))
            return results

        return timed


class _Clock:
    """The ticks of native code as nanoseconds of Python's clock, by how far both went since the clock was made."""

    def __init__(self, image: Image) -> None:
        self._ticks = image.function("onnxc_ticks", 0)
        self._first = self._both()
        # Both are read within some 500 ns: over 20 ms that is an error of 1 in 40,000.
        time.sleep(0.02)

    def _both(self) -> tuple[int, int]:
        """The two clocks at one time, by the reading that nothing came between."""
        tries = []
        for _ in range(READINGS):
            before, ticks, after = time.perf_counter_ns(), self._ticks(), time.perf_counter_ns()
            tries.append((after - before, ticks, (before + after) // 2))
        _, ticks, nanoseconds = min(tries)
        return ticks, nanoseconds

    def in_nanoseconds(self, rows: np.ndarray) -> np.ndarray:
        """The rows with their times in nanoseconds."""
        (ticks, nanoseconds), (now_ticks, now_nanoseconds) = self._first, self._both()
        rate = (now_nanoseconds - nanoseconds) / (now_ticks - ticks)
        converted = rows.copy()
        for word in (RECORD_STARTED, RECORD_ENDED):
            converted[:, word] = nanoseconds + ((rows[:, word] - ticks) * rate).astype(np.int64)
        return converted
