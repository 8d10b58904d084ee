"""The CUDA driver as one table of functions, and its failures as DeviceErrors.

Nothing else of onnxc reaches the driver, so that a fake can stand in: a table of other functions with the same
signatures. Source: CUDA driver API, cuda.h.
"""

import ctypes
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from threading import Lock
from typing import NoReturn

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.driver_errors import describe_result
from onnxc.runtime.gpu.shared_library import addresses_of, open_library, read_pointer

__all__ = [
    "LEAST_DRIVER", "LIBRARIES", "PROTOTYPES", "Driver", "driver_of_library", "load_driver", "version_text",
]  # fmt: skip

# The newest one is taken first; the plain name is that of the files for linking, which may be a stub.
LIBRARIES = ("libcuda.so.1", "libcuda.so")

# cuLaunchKernelEx and the cubins of compute capability 9.0 came with 11.8; the attributes of launches settled in 12.0.
LEAST_DRIVER = 12000

_OUT = POINTER(c_void_p)

# Argument types; every function gives a CUresult.
PROTOTYPES: Mapping[str, tuple[type, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDevicePrimaryCtxRetain": (_OUT, c_int),
    "cuCtxGetCurrent": (_OUT,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (_OUT, c_size_t),
    "cuMemFree_v2": (c_void_p,),
    "cuMemHostAlloc": (_OUT, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoDAsync_v2": (c_void_p, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_void_p, c_void_p, c_size_t, c_void_p),
    "cuMemsetD8Async": (c_void_p, ctypes.c_ubyte, c_size_t, c_void_p),
    "cuPointerGetAttribute": (c_void_p, c_int, c_void_p),
    "cuStreamCreate": (_OUT, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamQuery": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (_OUT, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuModuleLoadData": (_OUT, c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (_OUT, c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuTensorMapEncodeTiled": (
        c_void_p, c_int, c_uint, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_int, c_int,
    ),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, _OUT),
    "cuGraphInstantiateWithFlags": (_OUT, c_void_p, c_ulonglong),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
}  # fmt: skip

Argument = object


class Driver:
    """The driver, initialised. `addresses` are those of its functions; `library` says for people where it is from.

    `owner` is kept alive with it.
    """

    def __init__(self, addresses: Mapping[str, int], library: str, owner: object = None) -> None:
        self.addresses, self.library, self._owner = addresses, library, owner
        missing = [name for name in PROTOTYPES if name not in addresses]
        self.functions: Mapping[str, Callable[..., int]] = {
            name: ctypes.CFUNCTYPE(c_int, *types)(addresses[name])
            for name, types in PROTOTYPES.items()
            if name in addresses
        }
        if "cuInit" in addresses:
            self.call("to start the CUDA driver", "cuInit", 0)
        self.version = self._version()
        if missing or self.version < LEAST_DRIVER:
            lack = f", and has no {', '.join(missing)}" if missing else ""
            message = (
                f"the CUDA driver {library} is of CUDA {version_text(self.version)}{lack}; "
                f"needed is CUDA {version_text(LEAST_DRIVER)} or newer: update the NVIDIA driver"
            )
            raise DeviceError(message, code="driver-too-old")
        self._contexts: dict[int, int] = {}
        self._lock = Lock()

    def call(self, purpose: str, name: str, *arguments: Argument) -> None:
        """Calls a function; DeviceError, which tells the purpose, where it fails."""
        result = self.functions[name](*arguments)
        if result:
            self.fail(result, purpose, name)

    def fail(self, result: int, purpose: str, name: str) -> NoReturn:
        """Raises the DeviceError that a CUresult means."""
        raise self.error(result, purpose, name)

    def error(self, result: int, purpose: str, name: str) -> DeviceError:
        """The DeviceError that a CUresult of a function means."""
        return describe_result(result, purpose, name, self._text("cuGetErrorName", result), self._text_of(result))

    def primary_context(self, device: int) -> int:
        """The primary context of a device, which the CUDA runtime and other libraries use too; kept from now on."""
        with self._lock:
            if device not in self._contexts:
                context = c_void_p()
                purpose = f"to open CUDA device {device}"
                self.call(purpose, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
                self._contexts[device] = read_pointer(context)
            return self._contexts[device]

    def _version(self) -> int:
        """As 1000 * major + 10 * minor; 0 if the library cannot tell."""
        version = c_int()
        if "cuDriverGetVersion" in self.functions:
            self.functions["cuDriverGetVersion"](ctypes.byref(version))
        return version.value

    def _text_of(self, result: int) -> str:
        return self._text("cuGetErrorString", result)

    def _text(self, function: str, result: int) -> str:
        text = c_char_p()
        if function not in self.functions or self.functions[function](result, ctypes.byref(text)):
            return ""
        return (text.value or b"").decode(errors="replace")


def load_driver() -> Driver:
    """The driver of this machine; a DeviceError says what was looked for where there is none."""
    try:
        return driver_of_library(*open_library(LIBRARIES))
    except OSError as problem:
        message = (
            "a CUDA device and the NVIDIA driver (CUDA "
            f"{version_text(LEAST_DRIVER)} or newer) are needed, and there is no driver library ({problem}): "
            "install the driver, or in a container pass the device in; `onnxc doctor` lists what is there"
        )
        raise DeviceError(message, code="no-cuda-driver") from None


def driver_of_library(library: ctypes.CDLL, name: str) -> Driver:
    """The driver that a loaded library is."""
    return Driver(addresses_of(library, PROTOTYPES), name, library)


def version_text(version: int) -> str:
    """12080 as "12.8", which is how people write it; "unknown" for 0."""
    return f"{version // 1000}.{version % 1000 // 10}" if version else "unknown"
