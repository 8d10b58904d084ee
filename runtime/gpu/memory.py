"""Memory of a device and pinned memory of the host, given back when nothing refers to it any more.

Buffers are the driver's own allocations. What comes and goes in every call is taken from a `MemoryPool`, because an
allocation by the driver takes long and giving one back waits for the device.
"""

import ctypes
import weakref
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock

import numpy as np

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.driver_errors import OUT_OF_MEMORY
from onnxc.runtime.gpu.shared_library import read_pointer

__all__ = ["Block", "Buffer", "MemoryPool", "PinnedMemory", "roomy_buffer", "rounded_bytes"]

# CU_MEMHOSTALLOC_PORTABLE: pinned for all contexts of the process.
_PORTABLE = 1

# The least that PyTorch's allocator gives as well: twice what cudaMalloc aligns to.
_SMALLEST_BYTES = 512
_MEBIBYTE = 1 << 20

# From a power of 2 to the next there are 2 to this many sizes: an eighth is wasted at most, and never more than a step.
_STEP_BITS, _LARGEST_STEP = 3, 64 << 20

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


def roomy_buffer(device: Device, nbytes: int, roomy_bytes: int, purpose: str) -> Buffer:
    """An allocation of at least so many bytes, and of `roomy_bytes` where there is memory for that."""
    if roomy_bytes > nbytes:
        try:
            return Buffer(device, rounded_bytes(roomy_bytes), purpose)
        except DeviceError as problem:
            if problem.code != "out-of-device-memory":
                raise
    return Buffer(device, rounded_bytes(nbytes), purpose)


class PinnedMemory:
    """Host memory that copies to and from a device do not wait for; `bytes` is a view of it, not to outlive this."""

    def __init__(self, device: Device, nbytes: int) -> None:
        pointer = ctypes.c_void_p()
        purpose = f"to pin {nbytes} bytes of host memory"
        self._finalizer = weakref.finalize(self, _free, device, "cuMemFreeHost", pointer)
        self._finalizer.atexit = False
        device.driver.call(purpose, "cuMemHostAlloc", ctypes.byref(pointer), nbytes, _PORTABLE)
        self.address = read_pointer(pointer)
        self.nbytes = nbytes
        self.bytes = np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(self.address)), np.uint8)


class Block:
    """A part of a pool's memory, which goes back to the pool when nothing refers to it any more."""

    __slots__ = ("_pool", "address", "nbytes")

    def __init__(self, pool: "MemoryPool", address: int, nbytes: int) -> None:
        # The pool comes last: a block that a signal has left without one has no memory to give back.
        self.address, self.nbytes, self._pool = address, nbytes, pool

    def __del__(self) -> None:
        # This may run anywhere, also inside of the pool: an append needs no lock.
        pool: MemoryPool | None = getattr(self, "_pool", None)
        if pool is not None:
            pool.returned.append((self.nbytes, self.address))


class MemoryPool:
    """Device memory that is kept for the next request. A pool lives as long as its blocks, and frees all when it goes.

    What a block held before may still be read or written by work that was enqueued: who takes one has to use it in the
    order of the streams (runtime/gpu/workspaces.py).
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.returned: deque[tuple[int, int]] = deque()
        # Addresses of blocks by their bytes: there are few sizes, for they are rounded.
        self._free: dict[int, list[int]] = {}
        # Every allocation; a call that is interrupted may lose a block between two of the lists.
        self._pointers: list[ctypes.c_void_p] = []
        self._lock = Lock()
        self.held_bytes = 0
        device.caches.add(self)
        weakref.finalize(self, _free_all, device, self._pointers).atexit = False

    def take(self, nbytes: int, purpose: str) -> Block:
        """A block of at least so many bytes on a boundary of 256; the context must be current."""
        return self.take_all((nbytes,), purpose)[0]

    def take_all(self, sizes: Sequence[int], purpose: str) -> list[Block]:
        """A block of at least so many bytes for each size."""
        wanted = [rounded_bytes(nbytes) for nbytes in sizes]
        with self._lock:
            self._collect()
            same = [self._free.get(nbytes) for nbytes in wanted]
            kept = [
                Block(self, addresses.pop(), nbytes) if addresses else self._larger(nbytes)
                for addresses, nbytes in zip(same, wanted, strict=True)
            ]
        return [block or self._new(nbytes, purpose) for block, nbytes in zip(kept, wanted, strict=True)]

    def _larger(self, wanted: int) -> Block | None:
        """The smallest larger block that is not in use, if it is not wasted."""
        fitting = [size for size, kept in self._free.items() if kept and wanted < size <= _LARGEST_WASTE * wanted]
        size = min(fitting, default=0)
        return Block(self, self._free[size].pop(), size) if size else None

    def _new(self, nbytes: int, purpose: str) -> Block:
        pointer = self._allocated(nbytes, purpose)
        block = Block(self, read_pointer(pointer), nbytes)
        with self._lock:
            self.held_bytes += nbytes
        return block

    def trim(self) -> None:
        """Gives back to the driver what is not in use; the context must be current."""
        with self._lock:
            self._collect()
            kept = {address: size for size, addresses in self._free.items() for address in addresses}
            self._free.clear()
            self.held_bytes -= sum(kept.values())
            given_up = [pointer for pointer in self._pointers if pointer.value in kept]
            self._pointers[:] = [pointer for pointer in self._pointers if pointer.value not in kept]
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
        returned, free = self.returned, self._free
        while returned:
            size, address = returned.popleft()
            free.setdefault(size, []).append(address)


@lru_cache(1024)
def rounded_bytes(nbytes: int) -> int:
    """The size of the block for a request: a power of 2 below a mebibyte, above that one of eight steps to the next.

    What grows a little from call to call gets a block of the same size in most of them.
    """
    if nbytes <= _SMALLEST_BYTES:
        return _SMALLEST_BYTES
    bits = (nbytes - 1).bit_length()
    step = 1 << bits if nbytes <= _MEBIBYTE else min(1 << (bits - 1 - _STEP_BITS), _LARGEST_STEP)
    return -(-nbytes // step) * step


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
