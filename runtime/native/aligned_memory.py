"""Memory on boundaries that fast code asks for: those of cache lines, and of huge pages."""

import errno
import mmap

import numpy as np
import numpy.typing as npt

from onnxc.runtime.cpu import CACHE_LINE_BYTES, HUGE_PAGE_BYTES

__all__ = ["advise_huge_pages", "allocate_aligned"]


def allocate_aligned(nbytes: int, huge_pages: bool = False) -> npt.NDArray[np.uint8]:
    """Uninitialised memory on a cache-line boundary; with `huge_pages` zeroed, in such pages if the system has them.

    Raises MemoryError where there is none.
    """
    if not huge_pages or nbytes == 0:
        block = np.empty(nbytes + CACHE_LINE_BYTES, np.uint8)
        start = -block.ctypes.data % CACHE_LINE_BYTES
        return block[start : start + nbytes]
    whole_pages = -(-nbytes // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
    try:
        mapping = mmap.mmap(-1, whole_pages + HUGE_PAGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as problem:
        # The handler of a signal may raise another one, such as TimeoutError.
        if problem.errno != errno.ENOMEM:
            raise
        raise MemoryError(f"{nbytes} bytes in huge pages") from problem
    block = np.frombuffer(mapping, np.uint8)
    start = -block.ctypes.data % HUGE_PAGE_BYTES
    advise_huge_pages(mapping, start, whole_pages)
    return block[start : start + nbytes]


def advise_huge_pages(mapping: mmap.mmap, start: int, nbytes: int) -> None:
    """Asks for huge pages in a part of a mapping; where the kernel has none the memory is good all the same."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            mapping.madvise(mmap.MADV_HUGEPAGE, start, nbytes)
        except OSError as problem:
            if problem.errno != errno.EINVAL:
                raise
