"""Files that are read where they are, and whose memory is given back when they have been read."""

import mmap

import numpy as np

__all__ = ["MappedFile", "map_file", "release_pages"]

LEAST_BYTES = 1 << 20
"""An estimate: what of less is given back is not worth a call of the system."""


class MappedFile(mmap.mmap):
    """A file in memory, for reading alone: the system may drop its pages at any time, and reads them again."""


def map_file(descriptor: int) -> memoryview:
    """All bytes of an open file that is not empty. Raises OSError where the system cannot map it."""
    return memoryview(MappedFile(descriptor, 0, access=mmap.ACCESS_READ))


def release_pages(array: np.ndarray) -> None:
    """Drops the pages that lie within an array, where it is one that a mapped file has in order; it stays what it is.

    What was read of a file counts as memory of the process until then, and a model of gigabytes twice: as the file has
    its weights, and as kernels read them.
    """
    file = _mapped_file(array)
    if file is None or array.nbytes < LEAST_BYTES or not array.flags.c_contiguous or not hasattr(mmap, "MADV_DONTNEED"):
        return
    begin = array.ctypes.data - np.frombuffer(file, np.uint8).ctypes.data
    first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (begin + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < stop:
        file.madvise(mmap.MADV_DONTNEED, first, stop - first)


def _mapped_file(array: np.ndarray) -> MappedFile | None:
    """The file that an array is a view of."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    return owner if isinstance(owner, MappedFile) else None
