"""What a call on a device needs besides its arrays: a frame, a stream, a status block, an arena, staging memory.

A call takes a workspace and has it alone while the host works on the call. One that was given a stream is not waited
for: its work goes on when the workspace is used again, which is ordered by events.
"""

import ctypes
import weakref
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.arrays import LEGACY_STREAM, DeviceArray
from onnxc.runtime.gpu.device import Device, LoadedCode, end_handles
from onnxc.runtime.gpu.exchange_stream import ExchangeStream
from onnxc.runtime.gpu.graphs import GraphCache
from onnxc.runtime.gpu.memory import Block, Buffer, MemoryPool, PinnedMemory, roomy_buffer, rounded_bytes
from onnxc.runtime.gpu.status_words import StatusWords
from onnxc.runtime.native.addresses import WORD_BYTES
from onnxc.runtime.native.faults import illegal_data
from onnxc.runtime.native.launch import NativeLaunch
from onnxc.runtime.native.workspaces import Counts
from onnxc.runtime.program import (
    DEVICE_FUNCTIONS,
    DEVICE_LAUNCH,
    DEVICE_STREAM,
    FRAME_ARENA,
    FRAME_HEAP,
    FRAME_POOL,
    FRAME_STATUS,
    FRAME_SYMBOLS,
    FRAME_WEIGHTS,
    TOO_MANY_ELEMENTS,
)
from onnxc.runtime.records import record

__all__ = ["Call", "DeviceWorkspace", "Shared", "Staging", "enqueue_launch"]


@record(eq=False)
class Shared:
    """What the workspaces of an executable share. `locations` are the nodes that the numbers in a status block mean.

    watch: waits for a stream that depends on other devices before the driver does, which waits for ever.
    """

    device: Device
    code: LoadedCode
    weights: Buffer
    frame_words: int
    locations: Sequence[str]
    graphs_kept: int
    watch: Callable[[int], None] | None = None


class Staging:
    """Pinned memory and as much memory of the device, for arrays of the host on their way."""

    def __init__(self, device: Device, purpose: str) -> None:
        self._device, self._purpose = device, purpose
        self.pinned: PinnedMemory | None = None
        self.buffer: Buffer | None = None

    def fits(self, nbytes: int) -> bool:
        return self.pinned is not None and self.pinned.nbytes >= nbytes

    def grow(self, nbytes: int) -> None:
        """Makes room for so many bytes; nothing may be on its way."""
        self.pinned = self.buffer = None
        size = rounded_bytes(nbytes)
        buffer = Buffer(self._device, size, self._purpose)
        self.pinned, self.buffer = PinnedMemory(self._device, size), buffer

    @property
    def address(self) -> int:
        """Of the memory of the device."""
        return self.buffer.address if self.buffer is not None else 0

    @property
    def host_address(self) -> int:
        return self.pinned.address if self.pinned is not None else 0

    def view(self, offset: int, shape: tuple[int, ...], dtype: "np.dtype[np.generic]") -> np.ndarray:
        """A part of the pinned memory as an array."""
        assert self.pinned is not None, offset
        return np.ndarray(shape, dtype, self.pinned.bytes, offset)


class DeviceWorkspace:
    """One workspace; the context must be current wherever it is used.

    `sizes` is what the symbols of the frame were last set for.
    """

    def __init__(self, shared: Shared) -> None:
        self.shared, self.device = shared, shared.device
        driver = self.device.driver
        self.stream, self.done, self._followed = (
            self.device.new_stream(), self.device.new_event(), self.device.new_event(),
        )  # fmt: skip
        # Before anything that a call uses is given back, the last one that nobody waited for has to be over.
        ending = (("cuEventSynchronize", self.done), ("cuStreamSynchronize", self.stream),
                  ("cuStreamDestroy_v2", self.stream), ("cuEventDestroy_v2", self.done),
                  ("cuEventDestroy_v2", self._followed))  # fmt: skip
        weakref.finalize(self, end_handles, self.device, ending).atexit = False
        self.status = StatusWords(self.device, is_used=bool(shared.locations))
        self.table = array("q", bytes((DEVICE_FUNCTIONS + len(shared.code.functions)) * WORD_BYTES))
        self.table[DEVICE_LAUNCH] = driver.addresses["cuLaunchKernelEx"]
        self.table[DEVICE_STREAM] = self.stream
        self.table[DEVICE_FUNCTIONS:] = array("q", shared.code.functions)
        self.words = array("q", bytes(max(shared.frame_words, FRAME_SYMBOLS) * WORD_BYTES))
        self.frame = ctypes.c_void_p(self.words.buffer_info()[0])
        self.words[FRAME_POOL] = self.table.buffer_info()[0]
        self.words[FRAME_WEIGHTS] = shared.weights.address
        self.words[FRAME_STATUS] = self.status.address
        # Without an arena all parts of it have no bytes, but kernels get addresses of memory that there is.
        self.words[FRAME_ARENA] = self.status.address
        self.arena: Buffer | None = None
        self.pool = MemoryPool(self.device)
        self.incoming = Staging(self.device, "copies of the inputs")
        self.outgoing = Staging(self.device, "copies of the outputs")
        self.graphs = GraphCache(self.device, shared.graphs_kept)
        self.sizes: object = None
        # Where the table of growing sizes is, on the host and on the device.
        self.size_table = array("q", (0, 0))
        self.words[FRAME_HEAP] = self.size_table.buffer_info()[0]
        # Of one of several devices, from its first exchange on.
        self.exchanges: ExchangeStream | None = None
        # The stream of the last call that was left without waiting, and the call, which is not kept for this.
        self.pending: int | None = None
        self.last: weakref.ref[Call] | None = None
        self.counts = Counts()

    @property
    def arena_bytes(self) -> int:
        return self.arena.nbytes if self.arena is not None else 0

    def prepare(self, sizes: object, symbols: "array[int]", arena_bytes: int) -> None:
        """Sets the symbols of the frame, and grows the arena to at least `arena_bytes`.

        It grows by half or more: sizes that grow from call to call would wait and lose all graphs in each of them.
        """
        self.words[FRAME_SYMBOLS : FRAME_SYMBOLS + len(symbols)] = symbols
        if arena_bytes > self.arena_bytes:
            roomy, self.sizes = self.arena_bytes + self.arena_bytes // 2, None
            self.graphs.clear(self.settle)
            self.settle()
            if self.arena is not None:
                # A launch before this one may still use it.
                self.synchronize(self.table[DEVICE_STREAM])
                self.arena.free()
                self.arena = None
            self.arena = roomy_buffer(self.device, arena_bytes, roomy, "the arena of this call")
            self.words[FRAME_ARENA] = self.arena.address
        self.sizes = sizes

    def reserve(self, staging: Staging, nbytes: int) -> None:
        """Makes room in a staging memory, in which nothing is on its way afterwards."""
        self.settle()
        if not staging.fits(nbytes):
            self.graphs.clear(self.settle)
            staging.grow(nbytes)

    def settle(self) -> None:
        """Waits for the calls before that nobody waited for."""
        if self.pending is None:
            return
        last = self.last() if self.last is not None else None
        if last is not None:
            last.finish_late()
        else:
            self.device.driver.call("in a call", "cuEventSynchronize", self.done)
            if self.status.is_raised:
                self.status.clear()
        self.pending = None

    def synchronize(self, stream: int) -> None:
        """Waits for all that is on the stream."""
        if self.shared.watch is not None:
            self.shared.watch(stream)
        self.device.driver.call("in a call", "cuStreamSynchronize", stream)

    def follow(self, stream: int, other: int) -> None:
        """What is enqueued on `stream` from now on runs after all that is on the other stream by now."""
        driver, purpose = self.device.driver, "to order two streams"
        driver.call(purpose, "cuEventRecord", self._followed, other)
        driver.call(purpose, "cuStreamWaitEvent", stream, self._followed, 0)


class Call:
    """One call in progress, on the stream that the caller gave, or on the workspace's own."""

    def __init__(self, workspace: DeviceWorkspace, stream: int | None) -> None:
        self.workspace, self.device = workspace, workspace.device
        self.is_own = stream is None
        self.stream = workspace.stream if stream is None else stream
        self.event = workspace.done
        self._is_open, self._is_done = True, False
        # Whether there is work that was not waited for; `made` are the arrays that it makes for the caller.
        self.in_flight = False
        self.made: set[DeviceArray] = set()
        self._status: tuple[int, ...] = ()
        self._follows_default = False
        # Whether kernels were launched since the status block was copied.
        self.owes_status = False
        workspace.table[DEVICE_STREAM] = self.stream
        if workspace.pending not in (None, self.stream):
            self._wait_for(self.event)

    def take(self, nbytes: int, purpose: str) -> Block:
        """Memory for an array of this call."""
        self.follow_default()
        return self.workspace.pool.take(nbytes, purpose)

    def new_arrays(
        self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence["np.dtype[np.generic]"], sizes: Sequence[int]
    ) -> list[DeviceArray]:
        """Uninitialised arrays for outputs of so many bytes."""
        self.follow_default()
        device = self.device
        blocks = self.workspace.pool.take_all(sizes, "an output")
        return [
            DeviceArray(device, block.address, shape, dtype, block, self, None, nbytes)
            for block, shape, dtype, nbytes in zip(blocks, shapes, dtypes, sizes, strict=True)
        ]

    def new_array(self, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", purpose: str) -> DeviceArray:
        """An uninitialised array."""
        made = DeviceArray(self.device, 0, shape, dtype, None, self)
        block = self.take(made.nbytes, purpose)
        made.address, made.owner = block.address, block
        return made

    def follow_default(self) -> None:
        """Where the caller gave no stream: what follows runs after all that is on the default stream.

        Arrays of others that name no stream, and memory that others have used, are safe then.
        """
        if self.is_own and not self._follows_default:
            self._follows_default = True
            self.workspace.follow(self.stream, LEGACY_STREAM)

    def follow_stream(self, other: int) -> None:
        """What follows runs after all that is on the other stream."""
        if other != self.stream:
            self.workspace.follow(self.stream, other)

    def follow_work(self, array: DeviceArray) -> None:
        """What follows runs after the call that makes the array."""
        if array.work is not None and array.work is not self and array.work.stream != self.stream:
            self._wait_for(array.work.event)

    def upload(self, array: np.ndarray, address: int) -> None:
        """Enqueues a copy; the array may change as soon as this returns, because it is not pinned."""
        if array.nbytes:
            purpose = "to copy an array to the device"
            driver = self.device.driver
            driver.call(purpose, "cuMemcpyHtoDAsync_v2", address, array.ctypes.data, array.nbytes, self.stream)
            self.in_flight = True

    def copy(self, to: int, origin: int, nbytes: int) -> None:
        """Enqueues a copy on the device."""
        if nbytes:
            driver = self.device.driver
            driver.call("to copy on the device", "cuMemcpyDtoDAsync_v2", to, origin, nbytes, self.stream)
            self.in_flight = True

    def synchronize(self) -> None:
        """Waits for what was enqueued so far; InputError where the data was not legal."""
        self._copy_status()
        self.workspace.synchronize(self.stream)
        self.in_flight = False
        if self.workspace.status.is_raised:
            raise illegal_data(self.workspace.status.take(), self.workspace.shared.locations)

    def wait(self) -> None:
        """As `synchronize`; when the call was left without waiting, for all of it."""
        if self._is_open:
            self.synchronize()
            return
        self.finish_late()
        status, self._status = self._status, ()
        if status:
            raise illegal_data(status, self.workspace.shared.locations)

    def close(self) -> None:
        """The host leaves the call. On a stream of the caller the work goes on, else it is waited for."""
        if self.in_flight and self.is_own:
            self.synchronize()
        self._is_open = False
        if self.in_flight:
            self._copy_status()
            self.device.driver.call("at the end of a call", "cuEventRecord", self.event, self.stream)
            self.workspace.pending, self.workspace.last = self.stream, weakref.ref(self)
        else:
            self._is_done = True
        for made in self.made:
            made.work = self if self.in_flight else None
        self.made.clear()

    def abandon(self) -> None:
        """After an error: waits until nothing of the call runs any more, and forgets it."""
        self._is_open = False
        if self.workspace.exchanges is not None:
            self.workspace.exchanges.abandon()
        self.device.driver.functions["cuStreamSynchronize"](self.stream)
        # A device that is lost has nothing to clear, and the error is the one that was raised.
        with suppress(DeviceError):
            self.workspace.status.clear()
        # Arrays that this call would have made refer to it, and it to them: neither would be freed at once.
        self.made.clear()

    def finish_late(self) -> None:
        """Waits for a call that was left, and takes over what the status block says."""
        if not self._is_done:
            self.device.driver.call("in a call", "cuEventSynchronize", self.event)
            self._is_done = True
            if self.workspace.status.is_raised:
                self._status = self.workspace.status.take()

    def _copy_status(self) -> None:
        if self.owes_status:
            self.owes_status = False
            self.workspace.status.copy(self.stream)

    def _wait_for(self, event: int) -> None:
        self.device.driver.call("to order two calls", "cuStreamWaitEvent", self.stream, event, 0)


def enqueue_launch(launch: NativeLaunch, workspace: DeviceWorkspace, stream: int) -> None:
    """Calls the entry, which launches the kernels on the stream."""
    workspace.table[DEVICE_STREAM] = stream
    result = launch.entry(workspace.frame)
    if result == TOO_MANY_ELEMENTS:
        message = "an array inside of the model has 2**31 elements or more, which its kernels cannot count"
        raise DeviceError(message, code="too-many-elements")
    if result:
        workspace.device.driver.fail(result, f"to launch the kernels of {launch.step.entry}", "cuLaunchKernelEx")
