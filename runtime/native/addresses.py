"""Where the elements of an array lie, asked at the price of a list access: native calls need it for every array.

`ndarray.ctypes.data` takes a microsecond. The address is the first field of a NumPy array object behind its header, so
it is read from there, through one view of the whole address space. Whether that holds is tried out at import, on
arrays of several kinds; where it does not, the slow way is taken.
"""

import ctypes
import sys
from collections.abc import Callable

import numpy as np

__all__ = ["DATA_WORD", "LAYOUT_IS_KNOWN", "WORD_BYTES", "read_address"]

WORD_BYTES = 8

# All of the address space, as 64-bit words.
_memory = (ctypes.c_int64 * (sys.maxsize // 2 // WORD_BYTES)).from_address(0)

# The word of an array object that holds the address: a reference count and a type precede it.
DATA_WORD = 2


def _read(x: np.ndarray) -> int:
    return _memory[(id(x) >> 3) + DATA_WORD]


def _ask(x: np.ndarray) -> int:
    return x.ctypes.data


def _layout_is_known() -> bool:
    """Whether the address is where we think; the object is longer than what is read here in any case."""
    if sys.implementation.name != "cpython":
        return False
    block = np.arange(24, dtype=np.float32)
    tried = (block, block[3:], block.reshape(2, 3, 4).T, np.array(1.5), np.empty((0, 3)), block.view(np.recarray))
    return all(id(x) % WORD_BYTES == 0 and _read(x) == x.ctypes.data for x in tried)


LAYOUT_IS_KNOWN = _layout_is_known()

read_address: Callable[[np.ndarray], int] = _read if LAYOUT_IS_KNOWN else _ask
"""The address of the first element of an array."""
