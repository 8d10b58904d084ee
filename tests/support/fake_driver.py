"""A CUDA driver over the memory of the host: the same table of functions, for tests where there is no device.

It is strict. Pointers of launches must lie in live memory, shapes of launches must be those of their kernels, each
thread must have made the context current; what is wrong is kept in `problems`. It is lazy: see fake_streams.py.
Kernels are executed by a function of the test, or only recorded.
"""

import ctypes
import struct
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_void_p
from dataclasses import dataclass, replace

import numpy as np

from onnxc.runtime.device_code import DeviceCode, DeviceKernel
from onnxc.runtime.gpu.driver import PROTOTYPES, Driver
from tests.support.fake_memory import FakeMemory
from tests.support.fake_streams import FakeStream, FakeStreams

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY = 0, 1, 2
INVALID_DEVICE, INVALID_IMAGE, INVALID_CONTEXT, NO_BINARY = 101, 200, 201, 209
INVALID_HANDLE, ILLEGAL_STATE, NOT_FOUND, ILLEGAL_ADDRESS, LAUNCH_FAILED = 400, 401, 500, 700, 719
COOPERATIVE_LAUNCH_TOO_LARGE, CAPTURE_UNSUPPORTED, UNKNOWN = 720, 900, 999

NAMES = {
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    200: ("CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"),
    209: ("CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
}  # fmt: skip

# CUlaunchConfig: grid, block, dynamic shared memory, stream, attributes and their number.
CONFIG = struct.Struct("<3I3II4xQQI4x")
ATTRIBUTE = struct.Struct("<I4x64s")
SHARED_LIMIT, SHARED_WITHOUT_ASKING = 232448, 48 << 10
COOPERATIVE, CLUSTER_DIMENSION = 2, 4

_NUMBERS = {"i1": "b", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u1": "B", "u8": "B", "u16": "H", "u32": "I",
            "u64": "Q", "fp16": "e", "fp32": "f", "fp64": "d"}  # fmt: skip

# For these a thread must have made the context current.
_WITHOUT_CONTEXT = frozenset((
    "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuDeviceGetCount", "cuDeviceGet",
    "cuDeviceGetName", "cuDeviceGetAttribute", "cuDeviceTotalMem_v2", "cuDevicePrimaryCtxRetain", "cuCtxGetCurrent",
    "cuCtxSetCurrent",
))  # fmt: skip

# A lost device still lets these go.
_WITHOUT_DEVICE = frozenset(("cuMemHostAlloc",)) | _WITHOUT_CONTEXT


@dataclass(frozen=True)
class Launched:
    """A launch as the driver saw it. `values` are the parameters of the kernel, `trailing` the two behind them."""

    number: int
    kernel: DeviceKernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    stream: int
    attributes: tuple[tuple[int, bytes], ...]
    values: tuple[int | float, ...]
    trailing: tuple[int, int]
    parameter_bytes: bytes
    in_graph: bool = False


Execute = Callable[[Launched], None]


class FakeDriver:
    """One process's driver. `capability` is that of all its devices; `execute` runs a kernel."""

    def __init__(
        self,
        code: DeviceCode | None = None,
        execute: Execute | None = None,
        *,
        capability: tuple[int, int] = (9, 0),
        multiprocessors: int = 132,
        memory_bytes: int = 1 << 30,
        version: int = 13000,
        devices: int = 1,
        without: tuple[str, ...] = (),
    ) -> None:
        self.kernels = code.kernels if code is not None else ()
        self.execute = execute
        self.capability, self.multiprocessors, self.version, self.devices = (
            capability, multiprocessors, version, devices,
        )  # fmt: skip
        self.memory, self.streams = FakeMemory(memory_bytes), FakeStreams()
        self.launches: list[Launched] = []
        self.calls: list[str] = []
        self.problems: list[str] = []
        self.attributes: dict[int, dict[int, int]] = {}
        self.initialised = False
        self.modules: dict[int, int] = {}
        self.copied_bytes = {"HtoD": 0, "DtoH": 0, "DtoD": 0}
        self._failures: dict[str, tuple[int, int, int]] = {}
        self._lost = 0
        self._current: dict[int, int] = {}
        self._texts: dict[bytes, ctypes.Array[ctypes.c_char]] = {}
        self.lock = threading.RLock()
        self._callbacks = {name: self._callback(name) for name in PROTOTYPES if name not in without}

    @property
    def driver(self) -> Driver:
        """A new driver of these functions."""
        addresses = {name: ctypes.cast(callback, c_void_p).value or 0 for name, callback in self._callbacks.items()}
        return Driver(addresses, "a fake", self)

    def fail(self, function: str, result: int, after: int = 0, times: int = 1) -> None:
        """The `times` calls of the function behind the next `after` ones give the result."""
        self._failures[function] = (after, times, result)

    def lose(self, result: int = ILLEGAL_ADDRESS) -> None:
        """Nothing works from now on."""
        self._lost = result

    def check(self) -> None:
        """Fails for everything that was wrong."""
        self.streams.run_all()
        problems = self.problems + self.memory.all_damage()
        assert not problems, "\n".join(problems)

    def view(self, address: int, dtype: "np.typing.DTypeLike", shape: tuple[int, ...]) -> np.ndarray:
        """The memory at an address as an array."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        assert self.memory.holds(int(address), max(nbytes, 1)), f"{nbytes} bytes at {address:#x}"
        return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(int(address)), dtype).reshape(shape)

    def place(self, array: np.ndarray, offset: int = 0) -> int:
        """The address of a copy of the array in memory of the device that is of no concern to onnxc."""
        address = self.memory.allocate(array.nbytes + offset, on_device=True)
        assert address is not None
        address += offset
        ctypes.memmove(address, np.ascontiguousarray(array).ctypes.data, array.nbytes)
        return address

    @contextmanager
    def in_context(self, context: int) -> Iterator[None]:
        """This thread has another context current, as another library would have it."""
        thread = threading.get_ident()
        before, self._current[thread] = self._current.get(thread, 0), context
        yield
        assert self._current[thread] == context, "the context of another library is not current any more"
        self._current[thread] = before

    def _callback(self, name: str) -> "ctypes._CFuncPtr":
        function = getattr(self, name.removesuffix("_v2"))
        plain = {c_char_p: c_void_p, POINTER(c_char_p): POINTER(c_void_p)}
        types = [plain.get(kind, kind) for kind in PROTOTYPES[name]]

        def call(*arguments: object) -> int:
            with self.lock:
                try:
                    return self._checked(name) or function(*(0 if x is None else x for x in arguments)) or SUCCESS
                except BaseException:
                    self.problems.append(traceback.format_exc())
                    return UNKNOWN

        return ctypes.CFUNCTYPE(c_int, *types)(call)

    def _checked(self, name: str) -> int:
        """The result of a call that does not get further, 0 for all others."""
        self.calls.append(name)
        if name in self._failures:
            after, times, result = self._failures[name]
            self._failures[name] = (after - 1, times, result)
            if after <= 0:
                if after <= 1 - times:
                    del self._failures[name]
                if name == "cuStreamEndCapture":
                    # A stream leaves its capture in any case.
                    self.streams.end_captures()
                return result
        if name not in _WITHOUT_CONTEXT and self._current.get(threading.get_ident(), 0) not in self._contexts():
            self.problems.append(f"{name}: no context of ours is current")
            return INVALID_CONTEXT
        return self._lost if name not in _WITHOUT_DEVICE else 0

    def _contexts(self) -> range:
        return range(0xC000, 0xC000 + self.devices)

    def _wrong(self, problem: str, result: int = INVALID_VALUE) -> int:
        self.problems.append(problem)
        return result

    # What a device is.

    def cuInit(self, flags: int) -> int:
        self.initialised = True
        return SUCCESS if self.devices else 100

    def cuDriverGetVersion(self, out: "ctypes._Pointer[c_int]") -> None:
        out[0] = self.version

    def cuGetErrorName(self, result: int, out: "ctypes._Pointer[c_void_p]") -> None:
        out[0] = self._text(NAMES.get(result, (f"CUDA_ERROR_{result}", ""))[0])

    def cuGetErrorString(self, result: int, out: "ctypes._Pointer[c_void_p]") -> None:
        out[0] = self._text(NAMES.get(result, ("", "an error"))[1])

    def _text(self, text: str) -> int:
        buffer = self._texts.setdefault(text.encode(), ctypes.create_string_buffer(text.encode()))
        return ctypes.addressof(buffer)

    def cuDeviceGetCount(self, out: "ctypes._Pointer[c_int]") -> None:
        out[0] = self.devices

    def cuDeviceGet(self, out: "ctypes._Pointer[c_int]", number: int) -> int:
        out[0] = number
        return SUCCESS if number < self.devices else INVALID_DEVICE

    def cuDeviceGetName(self, out: int, size: int, device: int) -> None:
        ctypes.memmove(out, b"Fake H200\0", 10)

    def cuDeviceTotalMem(self, out: "ctypes._Pointer[ctypes.c_size_t]", device: int) -> None:
        out[0] = self.memory.limit_bytes

    def cuDeviceGetAttribute(self, out: "ctypes._Pointer[c_int]", which: int, device: int) -> int:
        known = {16: self.multiprocessors, 75: self.capability[0], 76: self.capability[1], 97: SHARED_LIMIT}
        out[0] = known.get(which, 0)
        return SUCCESS if which in known else self._wrong(f"attribute {which} is asked for")

    def cuDevicePrimaryCtxRetain(self, out: "ctypes._Pointer[c_void_p]", device: int) -> None:
        out[0] = self._contexts()[device]

    def cuCtxGetCurrent(self, out: "ctypes._Pointer[c_void_p]") -> None:
        out[0] = self._current.get(threading.get_ident(), 0)

    def cuCtxSetCurrent(self, context: int) -> None:
        self._current[threading.get_ident()] = context

    # Memory.

    def cuMemGetInfo(self, free: "ctypes._Pointer[ctypes.c_size_t]", total: "ctypes._Pointer[ctypes.c_size_t]") -> None:
        total[0] = self.memory.limit_bytes
        free[0] = self.memory.limit_bytes - self.memory.device_bytes

    def cuMemAlloc(self, out: "ctypes._Pointer[c_void_p]", nbytes: int) -> int:
        return self._allocate(out, nbytes, on_device=True)

    def cuMemHostAlloc(self, out: "ctypes._Pointer[c_void_p]", nbytes: int, flags: int) -> int:
        return self._allocate(out, nbytes, on_device=False)

    def _allocate(self, out: "ctypes._Pointer[c_void_p]", nbytes: int, on_device: bool) -> int:
        if nbytes == 0:
            return self._wrong("0 bytes are allocated")
        address = self.memory.allocate(nbytes, on_device)
        out[0] = address
        return OUT_OF_MEMORY if address is None else SUCCESS

    def cuMemFree(self, address: int) -> int:
        # The driver is not known to wait for what uses the memory: that is noticed when it runs.
        problem = self.memory.free(address, on_device=True)
        return self._wrong(problem) if problem else SUCCESS

    def cuMemFreeHost(self, address: int) -> int:
        problem = self.memory.free(address, on_device=False)
        return self._wrong(problem) if problem else SUCCESS

    def cuPointerGetAttribute(self, out: int, which: int, address: int) -> int:
        if which != 9 or not self.memory.is_on_device(address):
            return INVALID_VALUE
        c_int.from_address(out).value = 0
        return SUCCESS

    def cuMemcpyHtoDAsync(self, to: int, origin: int, nbytes: int, stream: int) -> int:
        # What is not pinned is read before the call returns.
        early = None if self.memory.is_pinned(origin) else ctypes.string_at(origin, nbytes)
        if early is None and not self.memory.holds(origin, nbytes):
            return self._wrong(f"{nbytes} bytes are copied from {origin:#x}, which is not all pinned")
        return self._copy("HtoD", to, origin, nbytes, stream, early)

    def cuMemcpyDtoHAsync(self, to: int, origin: int, nbytes: int, stream: int) -> int:
        result = self._copy("DtoH", to, origin, nbytes, stream)
        found = self.streams.find(stream)
        if result == SUCCESS and not self.memory.is_pinned(to) and found is not None and found.capture is None:
            found.run()
        return result

    def cuMemcpyDtoDAsync(self, to: int, origin: int, nbytes: int, stream: int) -> int:
        return self._copy("DtoD", to, origin, nbytes, stream)

    def _copy(self, kind: str, to: int, origin: int, nbytes: int, stream: int, early: bytes | None = None) -> int:
        found = self.streams.find(stream)
        if found is None:
            return self._wrong(f"a copy on stream {stream:#x}, which is none", INVALID_HANDLE)
        if found.capture is not None and (early is not None or (kind == "DtoH" and not self.memory.is_pinned(to))):
            return self._wrong("a copy of memory that is not pinned is captured", CAPTURE_UNSUPPORTED)
        on_device = ([to] if kind.endswith("D") else []) + ([origin] if kind.startswith("D") else [])

        on_host = [address for address in (to, origin) if address not in on_device] if early is None else []
        pinned = [address for address in on_host if self.memory.is_pinned(address)]

        def run() -> None:
            if not all(map(self.memory.is_pinned, pinned)):
                self.problems.append(f"{kind}: pinned memory is not there any more")
                return
            for address in on_device:
                if not self.memory.is_on_device(address) or not self.memory.holds(address, nbytes):
                    self.problems.append(f"{kind}: {nbytes} bytes at {address:#x} are not in memory of the device")
                    return
            ctypes.memmove(to, origin if early is None else early, nbytes)
            self.copied_bytes[kind] += nbytes

        found.enqueue(run)
        return SUCCESS

    def cuMemsetD8Async(self, to: int, byte: int, nbytes: int, stream: int) -> int:
        found = self.streams.find(stream)
        if found is None or not self.memory.holds(to, nbytes):
            return self._wrong(f"{nbytes} bytes at {to:#x} are set")
        found.enqueue(lambda: ctypes.memset(to, byte, nbytes) and None)
        return SUCCESS

    # Streams, events, graphs.

    def cuStreamCreate(self, out: "ctypes._Pointer[c_void_p]", flags: int) -> int:
        out[0] = self.streams.create()
        return SUCCESS if flags == 1 else self._wrong("a stream that waits for the default one")

    def cuStreamDestroy(self, stream: int) -> int:
        return SUCCESS if self.streams.destroy(stream) else self._wrong("no stream is destroyed", INVALID_HANDLE)

    def cuStreamSynchronize(self, stream: int) -> int:
        found = self.streams.find(stream)
        if found is None:
            return self._wrong(f"stream {stream:#x} is waited for, which is none", INVALID_HANDLE)
        if found.capture is not None:
            return self._wrong("a stream is waited for while it is captured", CAPTURE_UNSUPPORTED)
        found.run()
        return self._lost

    def cuStreamQuery(self, stream: int) -> int:
        found = self.streams.find(stream)
        return INVALID_HANDLE if found is None else 600 if found.queue else SUCCESS

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> int:
        found, record = self.streams.find(stream), self.streams.events.get(event)
        if found is None or event not in self.streams.events or found.capture is not None:
            return self._wrong("a stream waits for an event, and one of them is none", INVALID_HANDLE)
        if record is not None:
            found.wait_for(record)
        return SUCCESS

    def cuEventCreate(self, out: "ctypes._Pointer[c_void_p]", flags: int) -> None:
        out[0] = handle = self.streams.handle()
        self.streams.events[handle] = None

    def cuEventDestroy(self, event: int) -> int:
        known = event in self.streams.events
        self.streams.events.pop(event, None)
        return SUCCESS if known else self._wrong("no event is destroyed", INVALID_HANDLE)

    def cuEventRecord(self, event: int, stream: int) -> int:
        found = self.streams.find(stream)
        if found is None or event not in self.streams.events or found.capture is not None:
            return self._wrong("an event is recorded, and it or the stream is none", INVALID_HANDLE)
        self.streams.events[event] = found.record()
        return SUCCESS

    def cuEventSynchronize(self, event: int) -> int:
        if event not in self.streams.events:
            return self._wrong("no event is waited for", INVALID_HANDLE)
        record = self.streams.events[event]
        if record is not None:
            record.stream.run_until(record)
        return self._lost

    def cuEventElapsedTime(self, out: "ctypes._Pointer[ctypes.c_float]", start: int, end: int) -> int:
        """A millisecond, once both events have happened."""
        records = [self.streams.events.get(event) for event in (start, end)]
        out[0] = 1.0
        return SUCCESS if all(record is not None and record.is_done for record in records) else 600

    def cuStreamBeginCapture(self, stream: int, mode: int) -> int:
        found = self.streams.find(stream)
        if found is None or found.capture is not None or stream in (0, 1, 2):
            return self._wrong("the capture of a stream that cannot be captured", CAPTURE_UNSUPPORTED)
        found.capture = []
        return SUCCESS

    def cuStreamEndCapture(self, stream: int, out: "ctypes._Pointer[c_void_p]") -> int:
        found = self.streams.find(stream)
        if found is None:
            return self._wrong("the end of a capture of no stream", INVALID_HANDLE)
        if found.capture is None:
            return ILLEGAL_STATE
        out[0] = handle = self.streams.handle()
        self.streams.graphs[handle], found.capture = found.capture, None
        return SUCCESS

    def cuGraphInstantiateWithFlags(self, out: "ctypes._Pointer[c_void_p]", graph: int, flags: int) -> int:
        if graph not in self.streams.graphs:
            return self._wrong("no graph is instantiated", INVALID_HANDLE)
        out[0] = handle = self.streams.handle()
        self.streams.executables[handle] = list(self.streams.graphs[graph])
        return SUCCESS

    def cuGraphLaunch(self, executable: int, stream: int) -> int:
        found = self.streams.find(stream)
        if found is None or executable not in self.streams.executables:
            return self._wrong("a graph or stream that is none is launched", INVALID_HANDLE)
        for work in self.streams.executables[executable]:
            found.enqueue(work)
        self.streams.running[executable] = found.record()
        return SUCCESS

    def cuGraphDestroy(self, graph: int) -> int:
        known = self.streams.graphs.pop(graph, None)
        return self._wrong("no graph is destroyed", INVALID_HANDLE) if known is None else SUCCESS

    def cuGraphExecDestroy(self, executable: int) -> int:
        last = self.streams.running.pop(executable, None)
        if last is not None and not last.is_done:
            self.problems.append("a graph is destroyed that may be running")
        known = self.streams.executables.pop(executable, None)
        return self._wrong("no graph is destroyed", INVALID_HANDLE) if known is None else SUCCESS

    # Kernels.

    def cuModuleLoadData(self, out: "ctypes._Pointer[c_void_p]", image: int) -> int:
        for number, kernel in enumerate(self.kernels):
            if ctypes.string_at(image, len(kernel.cubin)) == kernel.cubin:
                out[0] = handle = self.streams.handle()
                self.modules[handle] = number
                return SUCCESS
        return INVALID_IMAGE

    def cuModuleUnload(self, module: int) -> int:
        self.streams.run_all()
        known = self.modules.pop(module, None)
        return self._wrong("no module is unloaded", INVALID_HANDLE) if known is None else SUCCESS

    def cuModuleGetFunction(self, out: "ctypes._Pointer[c_void_p]", module: int, name: int) -> int:
        if module not in self.modules:
            return self._wrong("a function of no module", INVALID_HANDLE)
        out[0] = module + 1
        return SUCCESS if self.kernels[self.modules[module]].name.encode() == ctypes.string_at(name) else NOT_FOUND

    def cuFuncSetAttribute(self, function: int, which: int, value: int) -> int:
        self.attributes.setdefault(function, {})[which] = value
        return INVALID_VALUE if which == 8 and value > SHARED_LIMIT else SUCCESS

    def cuTensorMapEncodeTiled(self, place: int, *rest: int) -> int:
        ctypes.memset(place, 0xAB, 128)
        return INVALID_VALUE if place % 64 else SUCCESS

    def cuLaunchKernelEx(self, config: int, function: int, parameters: int, extra: int) -> int:
        *shape, shared, stream, attributes, count = CONFIG.unpack(ctypes.string_at(config, CONFIG.size))
        if function - 1 not in self.modules or extra:
            return self._wrong("a launch of no kernel, or with extra options", INVALID_HANDLE)
        number = self.modules[function - 1]
        listed = ctypes.string_at(attributes, ATTRIBUTE.size * count) if count else b""
        values, trailing, data = self._parameters(self.kernels[number], parameters)
        launched = Launched(
            number, self.kernels[number], tuple(shape[:3]), tuple(shape[3:]), shared, stream,
            tuple(ATTRIBUTE.iter_unpack(listed)), values, trailing, data,
        )  # fmt: skip
        found = self.streams.find(stream)
        if found is None:
            return self._wrong(f"a launch on stream {stream:#x}, which is none", INVALID_HANDLE)
        problem = self._launch_problem(launched, function)
        if problem:
            return self._wrong(f"{launched.kernel.name}: {problem}")
        if launched.kernel.cooperative and np.prod(shape[:3]) > self.multiprocessors:
            return COOPERATIVE_LAUNCH_TOO_LARGE
        if found.capture is None:
            self.launches.append(launched)
        self._enqueue(launched, found, in_graph=found.capture is not None)
        return SUCCESS

    def _enqueue(self, launched: Launched, stream: FakeStream, in_graph: bool) -> None:
        def run() -> None:
            if in_graph:
                self.launches.append(replace(launched, in_graph=True))
            problem = self._pointer_problem(launched)
            if problem:
                self.problems.append(f"{launched.kernel.name}, when it runs: {problem}")
            elif self.execute is not None:
                self.execute(launched)

        stream.enqueue(run)

    def _parameters(
        self, kernel: DeviceKernel, pointers: int
    ) -> tuple[tuple[int | float, ...], tuple[int, int], bytes]:
        """The values of the parameters, those of the two behind them, and the bytes of all."""
        values: list[int | float] = []
        data = b""
        addresses = (ctypes.c_uint64 * (len(kernel.parameters) + 2)).from_address(pointers)
        for type, address in zip((*kernel.parameters, "*i8", "*i8"), addresses, strict=True):
            code = "Q" if type.startswith("*") else "H" if type == "bf16" else _NUMBERS[type]
            piece = ctypes.string_at(address, struct.calcsize(code))
            data += piece
            values += struct.unpack(f"<{code}", piece)
        return tuple(values[:-2]), (int(values[-2]), int(values[-1])), data

    def _launch_problem(self, launched: Launched, function: int) -> str:
        kernel = launched.kernel
        if launched.block != (32 * kernel.warps, 1, 1):
            return f"blocks of {launched.block} for {kernel.warps} warps"
        if not (0 < launched.grid[0] < 1 << 31 and all(0 < size < 1 << 16 for size in launched.grid[1:])):
            return f"a grid of {launched.grid}"
        if launched.shared_bytes != kernel.shared_bytes:
            return f"{launched.shared_bytes} bytes of shared memory, it needs {kernel.shared_bytes}"
        allowed = self.attributes.get(function, {}).get(8, SHARED_WITHOUT_ASKING)
        if launched.shared_bytes > allowed:
            return f"{launched.shared_bytes} bytes of shared memory, {allowed} are allowed"
        attributes = dict(launched.attributes)
        if kernel.cooperative != any(attributes.get(COOPERATIVE, b"")[:4]):
            return f"cooperative is not {kernel.cooperative}"
        if kernel.scratch_bytes and not self.memory.holds(launched.trailing[0], kernel.scratch_bytes):
            return f"no {kernel.scratch_bytes} bytes of scratch memory for each block"
        clusters = attributes.get(CLUSTER_DIMENSION)
        ctas = struct.unpack_from("<I", clusters)[0] if clusters else 1
        if ctas != kernel.ctas or launched.grid[0] % ctas:
            return f"clusters of {ctas} in a grid of {launched.grid}, it needs {kernel.ctas}"
        return self._pointer_problem(launched)

    def _pointer_problem(self, launched: Launched) -> str:
        for place, (type, value) in enumerate(zip(launched.kernel.parameters, launched.values, strict=True)):
            if type.startswith("*") and not self.memory.holds(int(value)):
                return f"parameter {place} is {int(value):#x}, which is in no live memory"
            if type.startswith("*") and int(value) % 16:
                return f"parameter {place} is {int(value):#x}, on no boundary of 16 bytes"
        return ""
