"""Arrays whose bytes lie against a page that nobody may touch: one access outside of them ends the process."""

import ctypes
import mmap
from typing import Literal

import numpy as np

Side = Literal["behind", "before"]

PAGE = mmap.PAGESIZE
NOTHING, READ, READ_WRITE = 0, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE

_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded_copy(array: np.ndarray, side: Side) -> np.ndarray:
    """A copy that cannot be written to, as an input of a call is not, with the forbidden page directly at `side`."""
    memory, bytes_ = _bytes_beside_a_forbidden_page(array.nbytes, side)
    bytes_[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    _protect(memory, PAGE, len(memory) - 2 * PAGE, READ)
    copied = bytes_.view(array.dtype).reshape(array.shape)
    copied.flags.writeable = False
    return copied


def guarded_output(like: np.ndarray, side: Side) -> np.ndarray:
    """An array of the type and shape of `like` to be written into; elements that nobody writes are of odd bytes."""
    _, bytes_ = _bytes_beside_a_forbidden_page(like.nbytes, side)
    bytes_[:] = 0xA5
    return bytes_.view(like.dtype).reshape(like.shape)


def _bytes_beside_a_forbidden_page(count: int, side: Side) -> tuple[mmap.mmap, np.ndarray]:
    """Memory with a forbidden page at each end, and the `count` bytes of it that end or begin at one."""
    inner = -(-count // PAGE) * PAGE
    memory = mmap.mmap(-1, inner + 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    first = PAGE if side == "before" else PAGE + inner - count
    bytes_ = np.frombuffer(memory, np.uint8)[first : first + count]
    _protect(memory, 0, PAGE, NOTHING)
    _protect(memory, PAGE + inner, PAGE, NOTHING)
    return memory, bytes_


def _protect(memory: mmap.mmap, first: int, count: int, access: int) -> None:
    if count and _mprotect(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + first, count, access):
        raise OSError(ctypes.get_errno(), "mprotect")
