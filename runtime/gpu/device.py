"""A CUDA device: what it is, its primary context made current for the calling thread, its kernels loaded."""

import ctypes
import os
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Protocol

import numpy as np

from onnxc.runtime.device_code import DeviceCode, DeviceKernel
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.driver import Driver, version_text
from onnxc.runtime.gpu.shared_library import read_pointer
from onnxc.runtime.records import record

__all__ = [
    "Device",
    "DeviceProperties",
    "LoadedCode",
    "device_count",
    "end_handles",
    "expect_architecture",
    "properties_of",
]

# CUstream_flags, CUevent_flags.
_NON_BLOCKING, _DISABLE_TIMING = 1, 2

# CUdevice_attribute.
_MULTIPROCESSORS, _MAJOR, _MINOR, _SHARED_OPTIN = 16, 75, 76, 97

# CUfunction_attribute, and the dynamic shared memory that a kernel may have without asking.
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 8, 14
_SHARED_WITHOUT_ASKING = 48 << 10
_PORTABLE_CLUSTER = 8

# The first CUDA versions whose drivers know a compute capability, where that is later than what we need anyway.
_FIRST_DRIVERS = {10: 12080, 11: 13000, 12: 12080}


@record
class DeviceProperties:
    """What a device is. capability: (9, 0) for sm_90. shared_bytes: the most that a block may have."""

    ordinal: int
    name: str
    multiprocessors: int
    capability: tuple[int, int]
    memory_bytes: int
    shared_bytes: int

    @property
    def architecture(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}"


class Releasable(Protocol):
    """What holds device memory that it can do without."""

    def trim(self) -> None:
        """Gives it back to the driver."""


class Device:
    """An opened device: its primary context, shared with all other users of CUDA in the process."""

    def __init__(self, driver: Driver, ordinal: int = 0) -> None:
        self.driver = driver
        self.properties = properties_of(driver, ordinal)
        self._context = driver.primary_context(ordinal)
        self._get_current, self._set_current = (driver.functions[f"cuCtx{verb}Current"] for verb in ("Get", "Set"))
        # Asked to give back what they keep when memory runs out.
        self.caches: weakref.WeakSet[Releasable] = weakref.WeakSet()
        self._process = os.getpid()

    def __str__(self) -> str:
        properties = self.properties
        return f"CUDA device {properties.ordinal} ({properties.name}, {properties.architecture})"

    def enter(self) -> int:
        """Makes the context current for this thread, and gives what `leave` must be told."""
        if os.getpid() != self._process:
            message = "CUDA was in use before this process was forked; start it with the method spawn or forkserver"
            raise DeviceError(message, code="device-forked")
        previous = ctypes.c_void_p()
        self._get_current(ctypes.byref(previous))
        before = read_pointer(previous)
        if before != self._context:
            self.driver.call(f"to use {self}", "cuCtxSetCurrent", self._context)
        return before

    def leave(self, before: int) -> None:
        """Makes current again what was before; a thread that had nothing keeps ours."""
        if before not in (0, self._context):
            self._set_current(before)

    @contextmanager
    def current(self) -> Iterator[None]:
        """The context is current for this thread inside of the `with` block."""
        before = self.enter()
        try:
            yield
        finally:
            self.leave(before)

    @cached_property
    def copy_stream(self) -> int:
        """A stream for copies that belong to no call; the context must be current."""
        return self.new_stream()

    def new_stream(self) -> int:
        """A stream that does not wait for the default one; the context must be current."""
        stream = ctypes.c_void_p()
        self.driver.call("to create a stream", "cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        return read_pointer(stream)

    def new_event(self) -> int:
        """An event for the order of streams; the context must be current."""
        event = ctypes.c_void_p()
        self.driver.call("to create an event", "cuEventCreate", ctypes.byref(event), _DISABLE_TIMING)
        return read_pointer(event)

    def upload(self, address: int, array: np.ndarray) -> None:
        """Copies a contiguous array of the host to an address; done on return, the context must be current."""
        self._copy("cuMemcpyHtoDAsync_v2", address, array.ctypes.data, array.nbytes)

    def download(self, host_address: int, address: int, nbytes: int) -> None:
        """Copies finished bytes of the device to the host; done on return, the context must be current."""
        self._copy("cuMemcpyDtoHAsync_v2", host_address, address, nbytes)

    def _copy(self, function: str, to: int, origin: int, nbytes: int) -> None:
        purpose = f"to copy {nbytes} bytes"
        self.driver.call(purpose, function, to, origin, nbytes, self.copy_stream)
        self.driver.call(purpose, "cuStreamSynchronize", self.copy_stream)

    def memory_bytes(self) -> tuple[int, int]:
        """The free and all bytes of its memory; the context must be current."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("to ask for free memory", "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


@record(eq=False)
class LoadedCode:
    """Kernels in the memory of a device: the CUfunction of each, valid while this is alive."""

    functions: tuple[int, ...]
    modules: tuple[int, ...]


def device_count(driver: Driver) -> int:
    """How many devices this process sees."""
    count = ctypes.c_int()
    driver.call("to count the CUDA devices", "cuDeviceGetCount", ctypes.byref(count))
    return count.value


def properties_of(driver: Driver, ordinal: int) -> DeviceProperties:
    """What the device is; DeviceError where there is no such device."""
    count = device_count(driver)
    if not 0 <= ordinal < count:
        message = (
            f"CUDA device {ordinal} is needed, and this process sees {count or 'none'}"
            f" (driver {driver.library}, CUDA {version_text(driver.version)}): see nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
        raise DeviceError(message, code="no-cuda-device")
    handle, name, total = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    purpose = f"to ask what CUDA device {ordinal} is"
    driver.call(purpose, "cuDeviceGet", ctypes.byref(handle), ordinal)
    driver.call(purpose, "cuDeviceGetName", name, len(name), handle)
    driver.call(purpose, "cuDeviceTotalMem_v2", ctypes.byref(total), handle)

    def attribute(which: int) -> int:
        value = ctypes.c_int()
        driver.call(purpose, "cuDeviceGetAttribute", ctypes.byref(value), which, handle)
        return value.value

    return DeviceProperties(
        ordinal,
        name.value.decode(errors="replace"),
        attribute(_MULTIPROCESSORS),
        (attribute(_MAJOR), attribute(_MINOR)),
        total.value,
        attribute(_SHARED_OPTIN),
    )


def expect_architecture(architecture: str, device: Device) -> None:
    """DeviceError unless code for the architecture runs on the device.

    Before 9.0, code runs on devices of the same major and at least the same minor number; from 9.0 on the compiler
    makes the variant "a", which runs on its own kind alone.
    """
    match = re.fullmatch(r"sm_(\d+)(\d)[af]?", architecture)
    assert match is not None, architecture
    major, minor = int(match[1]), int(match[2])
    has_major, has_minor = device.properties.capability
    if (major, minor) == (has_major, has_minor) or (major == has_major and major < 9 and minor <= has_minor):
        _expect_driver(major, architecture, device)
        return
    message = (
        f"the artifact has code for {architecture}, and {device} is {device.properties.architecture}: "
        f'compile the model with target="cuda:{device.properties.architecture}"'
    )
    raise DeviceError(message, code="wrong-architecture")


def load_code(device: Device, code: DeviceCode) -> LoadedCode:
    """The kernels, loaded; the context must be current. DeviceError where one cannot be."""
    expect_architecture(code.architecture, device)
    modules: list[int] = []
    try:
        functions = tuple(_load_kernel(device, kernel, modules) for kernel in code.kernels)
    except BaseException:
        _unload(device, modules)
        raise
    loaded = LoadedCode(functions, tuple(modules))
    weakref.finalize(loaded, _unload, device, modules).atexit = False
    return loaded


def _expect_driver(major: int, architecture: str, device: Device) -> None:
    needed, version = _FIRST_DRIVERS.get(major, 0), device.driver.version
    if version < needed:
        message = (
            f"code for {architecture} needs a driver of CUDA {version_text(needed)} or newer, "
            f"and {device.driver.library} is of CUDA {version_text(version)}: update the NVIDIA driver"
        )
        raise DeviceError(message, code="driver-too-old")


def _load_kernel(device: Device, kernel: DeviceKernel, modules: list[int]) -> int:
    driver, name = device.driver, f"kernel {kernel.name} ({kernel.key[:12]})"
    limit = device.properties.shared_bytes
    if kernel.shared_bytes > limit:
        message = f"{name} needs {kernel.shared_bytes} bytes of shared memory, and {device} has {limit}"
        raise DeviceError(message, code="launch-resources")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call(f"to load {name} onto {device}", "cuModuleLoadData", ctypes.byref(module), kernel.cubin)
    modules.append(read_pointer(module))
    driver.call(f"to find {name}", "cuModuleGetFunction", ctypes.byref(function), module, kernel.name.encode())
    if kernel.shared_bytes > _SHARED_WITHOUT_ASKING:
        purpose = f"to give {name} {kernel.shared_bytes} bytes of shared memory"
        driver.call(purpose, "cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, kernel.shared_bytes)
    if kernel.ctas > _PORTABLE_CLUSTER:
        driver.call(f"to give {name} its clusters", "cuFuncSetAttribute", function, _NON_PORTABLE_CLUSTER, 1)
    return read_pointer(function)


def _unload(device: Device, modules: list[int]) -> None:
    """Unloads what is loaded; what went wrong with the device is told elsewhere."""
    try:
        with device.current():
            for module in modules:
                device.driver.functions["cuModuleUnload"](module)
    except DeviceError:
        return


def end_handles(device: Device, calls: Sequence[tuple[str, int]]) -> None:
    """Calls functions of the driver with handles; nobody is there to be told what goes wrong."""
    try:
        with device.current():
            for function, handle in calls:
                device.driver.functions[function](handle)
    except DeviceError:
        return
