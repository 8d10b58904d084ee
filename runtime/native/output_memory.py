"""Memory for outputs: what a caller has let go of serves later calls, so that the system need not give new pages.

Large arrays of NumPy's come fresh from the system each time, and each page of 4096 bytes costs a fault when it is first
written: a transposition of f32[16, 197, 384] took 1,680 us into new pages and takes 400 into used ones.

An output is an array over a lease of a block. The lease lives as long as the output or any view of it, and gives the
block back when it dies, in whatever thread that is, even in the middle of the code below: blocks wait in a deque, whose
operations are atomic, and nothing else is shared.
"""

import mmap
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from onnxc.runtime.cpu import HUGE_PAGE_BYTES
from onnxc.runtime.dtypes import DType
from onnxc.runtime.native.aligned_memory import advise_huge_pages

__all__ = ["array_maker", "is_output"]

SMALLEST_BYTES = 128 * 1024
"""Smaller arrays come from memory that the process has: above it the C library asks the system."""

KEPT_BYTES = 256 * 1024 * 1024
"""How much may wait at most. Of threads that give back at the same time each may add one block more."""

_PAGE_BYTES = 4096
_STEPS = 8

ArrayMaker = Callable[[tuple[int, ...], DType], np.ndarray]


class _Lease(np.ndarray):
    """A block that is in use.

    Over memory of an array's NumPy would take that array for the base of outputs, and let go of the lease.
    """

    block: mmap.mmap | None = None

    def __del__(self) -> None:
        # Views of a lease are leases of nothing.
        if self.block is not None:
            _give_back(self.block)


_free: deque[mmap.mmap] = deque()


def array_maker(nbytes: int) -> ArrayMaker:
    """What makes an uninitialised array of so many bytes, given its shape and element type."""
    return partial(_leased_array, _block_bytes(nbytes)) if SMALLEST_BYTES <= nbytes <= KEPT_BYTES else np.empty


def is_output(array: np.ndarray) -> bool:
    """Whether it is an array that was made here, and no view of one."""
    return type(array.base) is _Lease


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
    """A block that waits, or a new one; those that do not fit wait on, the oldest first."""
    # Another thread may take the last one first.
    with suppress(IndexError):
        for _ in range(len(_free)):
            block = _free.popleft()
            if len(block) == nbytes:
                return block
            _free.append(block)
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


def _give_back(block: mmap.mmap) -> None:
    """Lets a block wait, in the place of the oldest ones where there would be too many bytes."""
    _free.append(block)
    waiting = sum(map(len, tuple(_free)))
    with suppress(IndexError):
        while waiting > KEPT_BYTES:
            waiting -= len(_free.popleft())
