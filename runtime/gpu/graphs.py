"""CUDA graphs of a workspace: what a call enqueues, captured once and launched as one.

A graph holds the addresses and sizes that it was captured with, so it is kept by them. The first call with a key is
not captured: many are never seen again.
"""

import ctypes
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.device import Device

__all__ = ["GRAPHS_KEPT", "GraphCache"]

GRAPHS_KEPT = 32
"""Of a workspace. An estimate: a model is called with few shapes that come again and again."""

# CUstreamCaptureMode: what other threads, or a garbage collection in this one, do with the driver disturbs nothing.
_RELAXED = 2


class GraphCache:
    """Executable graphs by key, those used last; none is kept where the limit is 0.

    A function `settle` that is passed must see to it that no graph is running any more.
    """

    def __init__(self, device: Device, limit: int) -> None:
        self._device, self._limit = device, limit
        # No address stands for a key that was seen and not captured yet.
        self._graphs: OrderedDict[Hashable, ctypes.c_void_p] = OrderedDict()
        self._kinds: OrderedDict[Hashable, None] = OrderedDict()
        # The key and the graph that were used last: calls in a row are of one key, and to hash it takes longest.
        self._last: tuple[Hashable, ctypes.c_void_p] | None = None
        self._last_kind: Hashable = None
        weakref.finalize(self, _destroy_all, device, self._graphs).atexit = False
        self.captures = self.replays = 0

    def __len__(self) -> int:
        return sum(graph.value is not None for graph in self._graphs.values())

    def run(
        self,
        key: Hashable,
        stream: int,
        capture_stream: int,
        enqueue: Callable[[int], None],
        settle: Callable[[], None],
        *,
        again: bool = False,
    ) -> None:
        """Enqueues on `stream` what `enqueue` enqueues, as a graph from the second time on.

        again: whether calls of this kind came before, so that the first with this key is captured.
        """
        if self._last is None or self._last[0] != key:
            if key not in self._graphs:
                if self._limit:
                    self._keep(key, settle)
                if not again:
                    enqueue(stream)
                    return
            graph = self._graphs[key]
            if not graph:
                self._capture(graph, capture_stream, enqueue)
            self._graphs.move_to_end(key)
            self._last = key, graph
        graph = self._last[1]
        self._device.driver.call("to launch a CUDA graph", "cuGraphLaunch", graph, stream)
        self.replays += 1

    def came_before(self, kind: Hashable) -> bool:
        """Whether a call of this kind came lately, as one has now; also where its graphs were forgotten since."""
        if kind == self._last_kind:
            return True
        came = kind in self._kinds
        self._kinds[kind] = None
        self._kinds.move_to_end(kind)
        if len(self._kinds) > self._limit:
            self._kinds.popitem(last=False)
        self._last_kind = kind if self._limit else None
        return came

    def clear(self, settle: Callable[[], None]) -> None:
        """Forgets all graphs."""
        if len(self):
            settle()
        for graph in self._graphs.values():
            self._destroy_executable(graph)
        self._graphs.clear()
        self._last = None

    def _keep(self, key: Hashable, settle: Callable[[], None]) -> None:
        self._graphs[key], self._last = ctypes.c_void_p(), None
        if len(self._graphs) > self._limit:
            _, oldest = self._graphs.popitem(last=False)
            if oldest:
                settle()
                self._destroy_executable(oldest)

    def _capture(self, graph: ctypes.c_void_p, stream: int, enqueue: Callable[[int], None]) -> None:
        """Sets `graph` to what `enqueue` enqueues, as an executable graph; nothing of it has run."""
        driver, purpose = self._device.driver, "to capture a CUDA graph"
        captured = ctypes.c_void_p()
        try:
            self._record(captured, stream, enqueue)
            driver.call(purpose, "cuGraphInstantiateWithFlags", ctypes.byref(graph), captured, 0)
        finally:
            if captured:
                driver.functions["cuGraphDestroy"](captured)
        self.captures += 1

    def _record(self, captured: ctypes.c_void_p, stream: int, enqueue: Callable[[int], None]) -> None:
        """Sets `captured` to the graph of what `enqueue` enqueues."""
        driver, purpose = self._device.driver, "to capture a CUDA graph"
        try:
            driver.call(purpose, "cuStreamBeginCapture_v2", stream, _RELAXED)
            enqueue(stream)
            driver.call(purpose, "cuStreamEndCapture", stream, ctypes.byref(captured))
        except BaseException:
            # The stream must leave the capture, if it is still in it; the error is the one that was raised. To end what
            # has ended would forget the graph.
            if not captured:
                driver.functions["cuStreamEndCapture"](stream, ctypes.byref(captured))
            raise

    def _destroy_executable(self, graph: ctypes.c_void_p) -> None:
        if graph:
            self._device.driver.functions["cuGraphExecDestroy"](graph)


def _destroy_all(device: Device, graphs: OrderedDict[Hashable, ctypes.c_void_p]) -> None:
    try:
        with device.current():
            for graph in graphs.values():
                if graph:
                    device.driver.functions["cuGraphExecDestroy"](graph)
    except DeviceError:
        return
