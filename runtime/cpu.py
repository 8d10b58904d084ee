"""This machine's processor: what it can execute, and native images loaded into the process.

Processes that compile begin with this page, so nothing here needs NumPy.
"""

import ctypes
import importlib
import itertools
import os
import platform
import struct
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.records import record

CACHE_LINE_BYTES = 64
HUGE_PAGE_BYTES = 2 << 20

# ELF machine numbers.
_MACHINES = {62: "x86_64", 183: "aarch64"}

# The names of the kernel where they differ from LLVM's.
_FEATURE_NAMES = {
    "pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "abm": "lzcnt", "cx16": "cx16", "lahf_lm": "sahf",
    "bmi1": "bmi", "sha_ni": "sha", "avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16", "avx512_vbmi2": "avx512vbmi2", "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq", "avx_vnni": "avxvnni", "avx_vnni_int8": "avxvnniint8",
    "amx_bf16": "amx-bf16", "amx_int8": "amx-int8", "asimd": "neon", "asimddp": "dotprod", "asimdhp": "fullfp16",
}  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)
_libc.dlclose.argtypes = [ctypes.c_void_p]

_image_ordinals = itertools.count()


@cache
def host_architecture() -> str:
    """ "x86_64", "aarch64", or what else the kernel calls it."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


@cache
def host_features() -> frozenset[str]:
    """The instruction sets of this machine by LLVM's names: "avx2", "avx512vnni", "dotprod"; empty if unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        key, _, flags = line.partition(":")
        if key.strip() in ("flags", "Features"):
            features = frozenset(_FEATURE_NAMES.get(flag, flag) for flag in flags.split())
            tiles = features & {"amx-bf16", "amx-int8"}
            return features if not tiles or _permits_tiles() else features - tiles
    return frozenset()


# arch_prctl of Linux on x86-64, its request for a part of the state of threads, and the number of that of tiles.
_ARCH_PRCTL, _REQUEST_STATE, _TILE_STATE = 158, 0x1023, 18


def _permits_tiles() -> bool:
    """Whether the system lets all threads of this process use tile registers, for which a process has to ask once."""
    return int(_libc.syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_STATE)) == 0


@record(eq=False)
class Image:
    """A loaded native image; its code stays mapped as long as this object, or a function of it, is alive."""

    handle: int
    library: ctypes.CDLL

    def address(self, symbol: str) -> int:
        """The address of an exported symbol, valid while the image is alive."""
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(self.library, symbol))
        except ValueError as error:
            raise DeviceError(f"the image exports no symbol {symbol}", code="image-symbol") from error

    def function(self, symbol: str, argument_count: int) -> Callable[..., int]:
        """The exported function: integers or pointers in, a 64-bit integer out (of no meaning if it gives nothing).

        The interpreter lock is released during the call.
        """
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * argument_count)
        function = prototype(self.address(symbol))
        function.image = self  # type: ignore[attr-defined]
        return function


def load_image(source: bytes | memoryview | Path, offset: int = 0, size: int | None = None) -> Image:
    """Maps a linked image, given as bytes or as a range of a file, into the process."""
    data = source[offset:] if not isinstance(source, Path) else _read(source, offset, size)
    data = data if size is None else data[:size]
    _check_image(data)
    library = _open_library(data)
    image = Image(library._handle, library)
    # At exit other threads may still run in the image: it is left mapped then.
    weakref.finalize(image, _libc.dlclose, library._handle).atexit = False
    return image


def _read(path: Path, offset: int, size: int | None) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(-1 if size is None else size)
    except OSError as error:
        raise DeviceError(f"cannot read the image {path}: {error.strerror}", code="image-unreadable") from error


def _check_image(data: bytes | memoryview) -> None:
    """Fails unless the data is a whole shared library for this machine; dlopen would crash on a truncated one."""
    if bytes(data[:4]) != b"\x7fELF" or len(data) < 64 or data[4] != 2:
        raise DeviceError("the image is no 64-bit ELF library", code="image-malformed")
    machine = struct.unpack_from("<H", data, 18)[0]
    architecture = _MACHINES.get(machine, f"ELF machine {machine}")
    if architecture != host_architecture():
        raise DeviceError(
            f"the image is for {architecture}, this machine is {host_architecture()}", code="image-architecture"
        )
    table, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    if table + 56 * count > len(data):
        raise DeviceError(f"the image ends after {len(data)} bytes, inside its headers", code="image-truncated")
    needed = 0
    for position in range(table, table + 56 * count, 56):
        start, _, _, length = struct.unpack_from("<4Q", data, position + 8)
        needed = max(needed, start + length)
    if needed > len(data):
        raise DeviceError(f"the image has {len(data)} bytes and needs {needed}", code="image-truncated")


def _open_library(data: bytes | memoryview) -> ctypes.CDLL:
    try:
        descriptor = os.memfd_create("onnxc", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        return _open_temporary_file(data)
    with open(descriptor, "wb", buffering=0) as file:
        file.write(data)
        return _dlopen(_unique_path(descriptor))


def _unique_path(descriptor: int) -> str:
    """The descriptor's path in a spelling used once: for an equal one dlopen gives the library that it has already."""
    spelling = "".join("/." if bit == "1" else "/" for bit in f"{next(_image_ordinals):b}")
    return f"/proc/self/fd{spelling}/{descriptor}"


def _open_temporary_file(data: bytes | memoryview) -> ctypes.CDLL:
    # Where images can be in memory, nothing needs tempfile, which takes 6 ms with what it imports.
    tempfile = importlib.import_module("tempfile")
    with tempfile.NamedTemporaryFile(prefix="onnxc-", suffix=".so") as file:
        file.write(data)
        file.flush()
        return _dlopen(file.name)


def _dlopen(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise DeviceError(f"the image cannot be loaded: {error}", code="image-load") from error
