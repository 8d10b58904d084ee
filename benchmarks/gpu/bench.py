"""A device to measure on: memory, streams, kernels and times through the driver's table alone, without other libraries.

Times are of the device: events around a CUDA graph that holds the work several times, so that the host does not count.
"""

import ctypes
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from benchmarks.gpu.pack_file import Pack
from onnxc.compiler.codegen_gpu.schedules.cards import Card, card_of
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.device_code import DeviceCode, DeviceKernel
from onnxc.runtime.gpu.device import Device, LoadedCode, load_code
from onnxc.runtime.gpu.driver import Driver
from onnxc.runtime.gpu.memory import Buffer
from onnxc.runtime.gpu.shared_library import read_pointer

__all__ = ["SKIPPED", "Bench", "Compile", "Row", "Size", "Work", "attempt", "rows_in_time"]

Row = dict[str, object]

Size = Literal["full", "quick", "tiny"]
"""How large the work is: tiny is for tests of the code."""

Work = Callable[[int], None]
"""Enqueues something on a stream."""

Compile = Callable[[Sequence[KernelSource]], Sequence[DeviceKernel]]

SKIPPED = "no time was left"
"""Why a row was skipped, which is no failure."""

# What a graph holds lasts about so long, so that its launch does not count.
GRAPH_S = 2e-3
MOST_REPEATS = 1000


@dataclass
class Bench:
    """What the sections share. `compile` makes kernels, or finds them in the pack, which has the models too.

    deadline: by `time.monotonic()`; sections that go through a list stop there.
    """

    driver: Driver
    compile: Compile
    rounds: int = 7
    size: Size = "full"
    pack: Pack | None = None
    deadline: float = float("inf")
    kept: list[object] = field(default_factory=list)

    @cached_property
    def device(self) -> Device:
        device = Device(self.driver)
        device.enter()
        return device

    @cached_property
    def stream(self) -> int:
        return self.device.new_stream()

    @property
    def target(self) -> Target:
        """The target of the device."""
        return parse_target(f"cuda:{self.device.properties.architecture}")

    @property
    def card(self) -> Card:
        """What the data sheet says of such a device."""
        return card_of(self.target)

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    @property
    def is_late(self) -> bool:
        return self.seconds_left < 0

    def load(self, kernels: Sequence[DeviceKernel]) -> LoadedCode:
        """The kernels on the device."""
        return load_code(self.device, DeviceCode(self.target.name, tuple(kernels)))

    def buffer(self, nbytes: int) -> Buffer:
        """Memory on the device."""
        return Buffer(self.device, nbytes, "a benchmark")

    def uploaded(self, array: np.ndarray) -> Buffer:
        """The array on the device."""
        array = np.ascontiguousarray(array)
        made = self.buffer(array.nbytes)
        if array.nbytes:
            self.device.upload(made.address, array)
        return made

    def downloaded(self, buffer: Buffer, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """What is in a buffer, once all that was enqueued is done."""
        self.synchronize()
        array = np.empty(shape, dtype)
        if array.nbytes:
            self.device.download(array.ctypes.data, buffer.address, array.nbytes)
        return array

    def synchronize(self) -> None:
        self.driver.call("to wait for a benchmark", "cuStreamSynchronize", self.stream)

    def seconds(self, work: Work) -> float:
        """The median time of the work on the device, replayed from a graph."""
        return self.interleaved({"": work})[""]

    def interleaved(self, works: Mapping[str, Work]) -> dict[str, float]:
        """The median time of each, measured in turns, so that the clocks of the device are the same for all."""
        graphs = {name: self._repeated(work) for name, work in works.items()}
        samples: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(self.rounds):
            for name, (graph, repeats) in graphs.items():
                samples[name].append(self.elapsed(lambda graph=graph: self._replay(graph)) / repeats)  # type: ignore[misc]
        self.synchronize()
        for graph, _ in graphs.values():
            self.driver.call("to end a benchmark", "cuGraphExecDestroy", graph)
        return {name: statistics.median(times) for name, times in samples.items()}

    def elapsed(self, enqueue: Callable[[], None]) -> float:
        """The seconds between two events around what is enqueued on our stream."""
        begin, end = (self._event() for _ in range(2))
        purpose, took = "to time a benchmark", ctypes.c_float()
        self.driver.call(purpose, "cuEventRecord", begin, self.stream)
        enqueue()
        self.driver.call(purpose, "cuEventRecord", end, self.stream)
        self.driver.call(purpose, "cuEventSynchronize", end)
        self.driver.call(purpose, "cuEventElapsedTime", ctypes.byref(took), begin, end)
        for event in (begin, end):
            self.driver.call(purpose, "cuEventDestroy_v2", event)
        return took.value * 1e-3

    def captured(self, work: Work, repeats: int) -> int:
        """A graph, ready to be launched, of the work so many times."""
        purpose, graph, ready = "to capture a benchmark", ctypes.c_void_p(), ctypes.c_void_p()
        self.driver.call(purpose, "cuStreamBeginCapture_v2", self.stream, 2)
        for _ in range(repeats):
            work(self.stream)
        self.driver.call(purpose, "cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.driver.call(purpose, "cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, 0)
        self.driver.call(purpose, "cuGraphDestroy", graph)
        return read_pointer(ready)

    def _repeated(self, work: Work) -> tuple[int, int]:
        """A graph that lasts long enough, and how often the work is in it."""
        work(self.stream)
        self.synchronize()
        once = max(self.elapsed(lambda: work(self.stream)), 1e-7)
        repeats = 1 if self.size == "tiny" else max(1, min(MOST_REPEATS, int(GRAPH_S / once)))
        graph = self.captured(work, repeats)
        self._replay(graph)
        return graph, repeats

    def _replay(self, graph: int) -> None:
        self.driver.call("to run a benchmark", "cuGraphLaunch", graph, self.stream)

    def _event(self) -> int:
        event = ctypes.c_void_p()
        self.driver.call("to create an event", "cuEventCreate", ctypes.byref(event), 0)
        return read_pointer(event)


def attempt(name: str, make: Callable[[], Row]) -> Row:
    """The row that `make` gives; one that says what failed where it raises."""
    try:
        return {"name": name, **make()}
    except Exception as problem:  # whatever it is, the rows after this one are wanted
        return {"name": name, "error": f"{type(problem).__name__}: {problem}"[:400]}


def rows_in_time(bench: Bench, makes: Sequence[tuple[str, Callable[[], Row]]]) -> Iterator[Row]:
    """The row of each name, in order, until time is up; the others are skipped."""
    for name, make in makes:
        yield {"name": name, "skipped": SKIPPED} if bench.is_late else attempt(name, make)
