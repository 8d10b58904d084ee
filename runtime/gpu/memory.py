"""Memory of a device and pinned memory of the host, given back when nothing refers to it any more.

Buffers are the driver's own allocations. What comes and goes in every call is taken from a `MemoryPool`, because an
allocation by the driver takes long and giving one back waits for the device.
"""

import ctypes
import weakref
from bisect import bisect_left, insort
from collections import deque
from threading import Lock

import numpy as np

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.driver import read_pointer
from onnxc.runtime.gpu.driver_errors import OUT_OF_MEMORY

__all__ = ["Block", "Buffer", "MemoryPool", "PinnedMemory", "rounded_bytes"]

_PORTABLE, _DEVICE_MAP = 1, 2

_SMALLEST_BYTES = 512
_MEBIBYTE = 1 << 20

# A kept block serves requests down to this fraction of its size.
_LARGEST_WASTE = 2


class Buffer:
    """An allocation of at least one byte; the context must be current where one is made. `purpose` is for errors."""

    def __init__(self, device: Device, nbytes: int, purpose: str) -> None:
        self.nbytes = nbytes
        pointer = ctypes.c_void_p()
        # Before there is anything to free: a signal may end this right after the driver's function has returned.
        self._finalizer = weakref.finalize(self, _free, device, "cuMemFree_v2", pointer)
        # The process's end gives everything back; the driver may be gone before that.
        self._finalizer.atexit = False
        _allocate(device, pointer, max(nbytes, 1), purpose)
        self.address = read_pointer(pointer)

    def free(self) -> None:
        """Gives the memory back now; the driver waits for the device first."""
        self._finalizer()


class PinnedMemory:
    """Host memory that a device can read and write; `bytes` is a view of it, which must not outlive this."""

    def __init__(self, device: Device, nbytes: int) -> None:
        pointer, seen = ctypes.c_void_p(), ctypes.c_void_p()
        purpose = f"to pin {nbytes} bytes of host memory"
        flags = _PORTABLE | _DEVICE_MAP
        self._finalizer = weakref.finalize(self, _free, device, "cuMemFreeHost", pointer)
        self._finalizer.atexit = False
        device.driver.call(purpose, "cuMemHostAlloc", ctypes.byref(pointer), nbytes, flags)
        self.address = read_pointer(pointer)
        device.driver.call(purpose, "cuMemHostGetDevicePointer_v2", ctypes.byref(seen), pointer, 0)
        self.device_address = read_pointer(seen)
        self.nbytes = nbytes
        self.bytes = np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(self.address)), np.uint8)


class Block:
    """A part of a pool's memory, which goes back to the pool when nothing refers to it any more."""

    _pool: "MemoryPool | None" = None

    def __init__(self, pool: "MemoryPool", address: int, nbytes: int) -> None:
        self.address, self.nbytes = address, nbytes
        self._pool = pool

    def __del__(self) -> None:
        # This may run anywhere, also inside of the pool: an append needs no lock.
        if self._pool is not None:
            self._pool.returned.append((self.nbytes, self.address))


class MemoryPool:
    """Device memory that is kept for the next request. A pool lives as long as its blocks, and frees all when it goes.

    What a block held before may still be read or written by work that was enqueued: who takes one has to use it in the
    order of the streams (runtime/gpu/workspaces.py).
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.returned: deque[tuple[int, int]] = deque()
        self._free: list[tuple[int, int]] = []
        # Every allocation; a call that is interrupted may lose a block between two of the lists.
        self._pointers: list[ctypes.c_void_p] = []
        self._lock = Lock()
        self.held_bytes = 0
        device.caches.add(self)
        weakref.finalize(self, _free_all, device, self._pointers).atexit = False

    def take(self, nbytes: int, purpose: str) -> Block:
        """A block of at least so many bytes on a boundary of 256; the context must be current."""
        wanted = rounded_bytes(nbytes)
        with self._lock:
            self._collect()
            place = bisect_left(self._free, (wanted, 0))
            if place < len(self._free) and self._free[place][0] <= _LARGEST_WASTE * wanted:
                size, address = self._free.pop(place)
                return Block(self, address, size)
        pointer = self._allocated(wanted, purpose)
        block = Block(self, read_pointer(pointer), wanted)
        with self._lock:
            self.held_bytes += wanted
        return block

    def trim(self) -> None:
        """Gives back to the driver what is not in use; the context must be current."""
        with self._lock:
            self._collect()
            kept, self._free[:] = tuple(self._free), ()
            self.held_bytes -= sum(size for size, _ in kept)
            addresses = {address for _, address in kept}
            given_up = [pointer for pointer in self._pointers if pointer.value in addresses]
            self._pointers[:] = [pointer for pointer in self._pointers if pointer.value not in addresses]
        for pointer in given_up:
            self._device.driver.functions["cuMemFree_v2"](pointer)

    def _allocated(self, nbytes: int, purpose: str) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        with self._lock:
            self._pointers.append(pointer)
        try:
            _allocate(self._device, pointer, nbytes, purpose)
        except DeviceError:
            with self._lock:
                self._pointers.remove(pointer)
            raise
        return pointer

    def _collect(self) -> None:
        while self.returned:
            insort(self._free, self.returned.popleft())


def rounded_bytes(nbytes: int) -> int:
    """The size of the block for a request: a power of 2 below a mebibyte, above that whole mebibytes."""
    if nbytes >= _MEBIBYTE:
        return -(-nbytes // _MEBIBYTE) * _MEBIBYTE
    return max(_SMALLEST_BYTES, 1 << (nbytes - 1).bit_length())


def _allocate(device: Device, pointer: ctypes.c_void_p, nbytes: int, purpose: str) -> None:
    """Sets the pointer to a new allocation; what the pools of the device keep is given up for it if need be."""
    allocate = device.driver.functions["cuMemAlloc_v2"]
    result = allocate(ctypes.byref(pointer), nbytes)
    if result == OUT_OF_MEMORY:
        for cache in tuple(device.caches):
            cache.trim()
        result = allocate(ctypes.byref(pointer), nbytes)
    if result == OUT_OF_MEMORY:
        free, total = device.memory_bytes()
        message = (
            f"{purpose} needs {nbytes} bytes of device memory; {device} has {free} free of {total}: "
            "free device memory, or call with smaller inputs; later calls are possible"
        )
        raise DeviceError(message, code="out-of-device-memory")
    if result:
        device.driver.fail(result, f"to allocate {nbytes} bytes for {purpose}", "cuMemAlloc")


def _free(device: Device, function: str, pointer: ctypes.c_void_p) -> None:
    """Frees an allocation, if there is one; nobody is there to be told of a device that is lost."""
    if not pointer:
        return
    try:
        with device.current():
            device.driver.functions[function](pointer)
    except DeviceError:
        return


def _free_all(device: Device, pointers: list[ctypes.c_void_p]) -> None:
    for pointer in pointers:
        _free(device, "cuMemFree_v2", pointer)
