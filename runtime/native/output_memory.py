"""Memory for outputs: what a caller has let go of serves later calls, so that the system need not give new pages.

Large arrays of NumPy's come fresh from the system each time, and each page of 4096 bytes costs a fault when it is first
written: a transposition of f32[16, 197, 384] took 1,680 us into new pages and takes 400 into used ones.

An output is an array over a block, and a block is free when nothing but its queue refers to it: an output refers to
it, and any view of an output to that. So references are counted when a block is looked for, and nothing runs when an
output dies: an object that gave the block back took 6 us of a call. Who looks at a block has taken it out of its queue,
which is atomic, and is the only one that can make a new reference to it. Blocks that no queue knows are unmapped with
their last array.

An output may also be a buffer of a heap in which native code has left it; that is given back when the output dies.
"""

import ctypes
import mmap
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from sys import getrefcount

import numpy as np

from onnxc.runtime.cpu import HUGE_PAGE_BYTES
from onnxc.runtime.dtypes import DType
from onnxc.runtime.native.aligned_memory import advise_huge_pages
from onnxc.runtime.native.heap import HeapBlock, waiting_buffers
from onnxc.runtime.native.waiting_blocks import KEPT_BYTES

__all__ = ["SMALLEST_BYTES", "array_maker", "array_over", "is_output"]

SMALLEST_BYTES = 128 * 1024
"""Smaller arrays come from memory that the process has: above it the C library asks the system."""

KNOWN_BYTES = 2 * KEPT_BYTES
"""How much the queues know at most, in use or not: while one output is held, the next is made in another block."""

KNOWN_BLOCKS = 64
"""How many of one size a queue knows at most when one of them is found to be in use."""

_TRIES = 8

_PAGE_BYTES = 4096
_STEPS = 8

# All of the address space but the first page: the address 0 is none to NumPy.
_memory = memoryview((ctypes.c_char * (sys.maxsize // 2)).from_address(_PAGE_BYTES))

ArrayMaker = Callable[[tuple[int, ...], DType], np.ndarray]


class _Block(mmap.mmap):
    """Memory of arrays, which stays mapped as long as one of them is there."""

    def close(self) -> None:
        raise BufferError("the memory of an output lasts as long as the output")


_Queue = deque[_Block]

_queues: dict[int, _Queue] = {}
"""The blocks of each size, those first that have served longest ago: of them one is free most likely."""


class _HeapLease(np.ndarray):
    """A buffer of a heap that is in use.

    Over memory of an array's NumPy would take that array for the base of outputs, and let go of the lease.
    """

    block: HeapBlock | None = None

    def __del__(self) -> None:
        # Views of a lease are leases of nothing.
        if self.block is not None:
            waiting_buffers.give_back(self.block)


def array_maker(nbytes: int) -> ArrayMaker:
    """What makes an uninitialised array of so many bytes, given its shape and element type."""
    if not SMALLEST_BYTES <= nbytes <= KEPT_BYTES:
        return np.empty
    size = _block_bytes(nbytes)
    return partial(_array_in_block, _queues.setdefault(size, deque()), size)


def is_output(array: np.ndarray) -> bool:
    """Whether it is an array that was made here, and no view of one."""
    return isinstance(array.base, _Block | _HeapLease)


def array_over(block: HeapBlock, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """The array that lies at the start of a block."""
    lease = _HeapLease(len(block), np.uint8, _memory, block.address - _PAGE_BYTES)
    lease.block = block
    return np.ndarray(shape, dtype, lease)


def _array_in_block(queue: _Queue, size: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    try:
        block = queue.popleft()
        if getrefcount(block) != _REFERENCES_OF_FREE:
            block = _other_block(queue, block) or _new_block(size)
    except IndexError:
        block = _new_block(size)
    array = np.ndarray(shape, dtype, block)
    queue.append(block)
    return array


def _references_of_free() -> int:
    """What is counted above of a block to which the variable alone refers; versions of Python count differently."""
    queue = deque([object()])
    block = queue.popleft()
    return getrefcount(block)


_REFERENCES_OF_FREE = _references_of_free()


def _other_block(queue: _Queue, block: _Block) -> _Block | None:
    """A free block of the queue, taken out of it, in place of one that is in use; None where the first few all are."""
    # Another thread may take the last one first.
    with suppress(IndexError):
        for _ in range(min(len(queue), _TRIES)):
            if len(queue) < KNOWN_BLOCKS:
                queue.append(block)
            block = queue.popleft()
            if getrefcount(block) == _REFERENCES_OF_FREE:
                return block
        queue.append(block)
    return None


def _block_bytes(nbytes: int) -> int:
    """The size of the block for an array: sizes in steps of an eighth of a power of two have blocks in common."""
    step = max((1 << (nbytes.bit_length() - 1)) // _STEPS, _PAGE_BYTES)
    return -(-nbytes // step) * step


def _new_block(size: int) -> _Block:
    """A block that no queue knows; others are forgotten where there would be too many bytes, or no memory."""
    _forget_beyond(KNOWN_BYTES - size)
    try:
        return _map(size)
    except MemoryError:
        _forget_beyond(0)
        return _map(size)


def _forget_beyond(most: int) -> None:
    """Leaves blocks of at most so many bytes in the queues: those go first whose sizes came first."""
    queues = tuple(_queues.items())
    known = sum(size * len(queue) for size, queue in queues)
    for size, queue in queues:
        while known > most and queue:
            known -= size
            with suppress(IndexError):
                queue.popleft()


def _map(size: int) -> _Block:
    """Fresh pages, huge ones if the system has them."""
    try:
        block = _Block(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as problem:
        raise MemoryError(f"{size} bytes for an output") from problem
    if size >= 2 * HUGE_PAGE_BYTES:
        advise_huge_pages(block, 0, size)
    return block
