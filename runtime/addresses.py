"""Where the elements of an array lie, asked at the price of a list access: native calls need it for every array.

`ndarray.ctypes.data` takes a microsecond. The address is the first field of a NumPy array object behind its header, so
it is read from there, through one view of the whole address space. Whether that holds is tried out at import, on
arrays of several kinds; where it does not, the slow way is taken.
"""

import ctypes
import sys
from array import array
from collections.abc import Iterable

import numpy as np

__all__ = ["WORD_BYTES", "read_address", "store_addresses"]

WORD_BYTES = 8

# The reference count and the type precede the address.
_ADDRESS_WORD = 2

_memory = (ctypes.c_int64 * (sys.maxsize // 2 // WORD_BYTES)).from_address(0)


def _read_address(x: np.ndarray) -> int:
    return _memory[(id(x) >> 3) + _ADDRESS_WORD]


def _store_addresses(words: "array[int]", place: int, arrays: Iterable[np.ndarray]) -> None:
    for x in arrays:
        words[place] = _memory[(id(x) >> 3) + _ADDRESS_WORD]
        place += 1


def _ask_address(x: np.ndarray) -> int:
    return x.ctypes.data


def _ask_addresses(words: "array[int]", place: int, arrays: Iterable[np.ndarray]) -> None:
    for x in arrays:
        words[place] = x.ctypes.data
        place += 1


def _layout_is_known() -> bool:
    """Whether the address is where we think; the object is longer than what is read here in any case."""
    if sys.implementation.name != "cpython":
        return False
    block = np.arange(24, dtype=np.float32)
    tried = (block, block[3:], block.reshape(2, 3, 4).T, np.array(1.5), np.empty((0, 3)), block.view(np.recarray))
    return all(id(x) % WORD_BYTES == 0 and _read_address(x) == x.ctypes.data for x in tried)


read_address, store_addresses = (
    (_read_address, _store_addresses) if _layout_is_known() else (_ask_address, _ask_addresses)
)
