"""Memory for outputs: what a caller has let go of serves later calls, so that the system need not give new pages.

Large arrays of NumPy's come fresh from the system each time, and each page of 4096 bytes costs a fault when it is first
written: a transposition of f32[16, 197, 384] took 1,680 us into new pages and takes 400 into used ones.

An output is an array over a lease of a block. The lease lives as long as the output or any view of it, and gives the
block back when it dies, in whatever thread that is, even in the middle of the code below: blocks wait in a deque, whose
operations are atomic, and nothing else is shared. The block is mapped for the output, or a buffer of a heap in which
native code has left it.
"""

import ctypes
import mmap
import sys
from collections.abc import Callable
from functools import partial

import numpy as np

from onnxc.runtime.cpu import HUGE_PAGE_BYTES
from onnxc.runtime.dtypes import DType
from onnxc.runtime.native.aligned_memory import advise_huge_pages
from onnxc.runtime.native.heap import HeapBlock, waiting_buffers
from onnxc.runtime.native.waiting_blocks import KEPT_BYTES, WaitingBlocks

__all__ = ["SMALLEST_BYTES", "array_maker", "array_over", "is_output"]

SMALLEST_BYTES = 128 * 1024
"""Smaller arrays come from memory that the process has: above it the C library asks the system."""

_PAGE_BYTES = 4096
_STEPS = 8

# All of the address space but the first page: the address 0 is none to NumPy.
_memory = memoryview((ctypes.c_char * (sys.maxsize // 2)).from_address(_PAGE_BYTES))

ArrayMaker = Callable[[tuple[int, ...], DType], np.ndarray]


_free = WaitingBlocks[mmap.mmap]()


class _Lease(np.ndarray):
    """A block that is in use.

    Over memory of an array's NumPy would take that array for the base of outputs, and let go of the lease.
    """

    block: mmap.mmap | None = None

    def __del__(self) -> None:
        # Views of a lease are leases of nothing.
        if self.block is not None:
            _free.give_back(self.block)


class _HeapLease(np.ndarray):
    """A buffer of a heap that is in use."""

    block: HeapBlock | None = None

    def __del__(self) -> None:
        if self.block is not None:
            waiting_buffers.give_back(self.block)


def array_maker(nbytes: int) -> ArrayMaker:
    """What makes an uninitialised array of so many bytes, given its shape and element type."""
    return partial(_leased_array, _block_bytes(nbytes)) if SMALLEST_BYTES <= nbytes <= KEPT_BYTES else np.empty


def is_output(array: np.ndarray) -> bool:
    """Whether it is an array that was made here, and no view of one."""
    return isinstance(array.base, _Lease | _HeapLease)


def array_over(block: HeapBlock, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """The array that lies at the start of a block."""
    lease = _HeapLease(len(block), np.uint8, _memory, block.address - _PAGE_BYTES)
    lease.block = block
    return np.ndarray(shape, dtype, lease)


def _leased_array(nbytes: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    block = _take(nbytes)
    lease = _Lease(nbytes, np.uint8, block)
    lease.block = block
    return np.ndarray(shape, dtype, lease)


def _block_bytes(nbytes: int) -> int:
    """The size of the block for an array: sizes in steps of an eighth of a power of two have blocks in common."""
    step = max((1 << (nbytes.bit_length() - 1)) // _STEPS, _PAGE_BYTES)
    return -(-nbytes // step) * step


def _take(nbytes: int) -> mmap.mmap:
    """A block that waits, or a new one."""
    if (block := _free.take(nbytes, nbytes)) is not None:
        return block
    try:
        return _new_block(nbytes)
    except MemoryError:
        _free.clear()
        return _new_block(nbytes)


def _new_block(nbytes: int) -> mmap.mmap:
    """Fresh pages, huge ones if the system has them."""
    try:
        block = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as problem:
        raise MemoryError(f"{nbytes} bytes for an output") from problem
    if nbytes >= 2 * HUGE_PAGE_BYTES:
        advise_huge_pages(block, 0, nbytes)
    return block
