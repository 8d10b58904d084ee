"""Where the elements of an array lie, asked at the price of a list access: native calls need it for every array.

`ndarray.ctypes.data` takes a microsecond. The address is the first field of a NumPy array object behind its header, so
it is read from there, through one view of the whole address space. Whether that holds is tried out at import, on
arrays of several kinds; where it does not, the slow way is taken.
"""

import ctypes
import sys
from collections.abc import Callable

import numpy as np

__all__ = ["ADDRESS", "WORD_BYTES", "memory", "read_address"]

WORD_BYTES = 8

# All of the address space, as 64-bit words.
memory = (ctypes.c_int64 * (sys.maxsize // 2 // WORD_BYTES)).from_address(0)

# A reference count and a type precede the address in the object.
_READ = "memory[(id({0}) >> 3) + 2]"
_ASK = "{0}.ctypes.data"


def _reader(expression: str) -> Callable[[np.ndarray], int]:
    function: Callable[[np.ndarray], int] = eval(f"lambda x: {expression.format('x')}", {"memory": memory})
    return function


def _layout_is_known() -> bool:
    """Whether the address is where we think; the object is longer than what is read here in any case."""
    if sys.implementation.name != "cpython":
        return False
    block = np.arange(24, dtype=np.float32)
    tried = (block, block[3:], block.reshape(2, 3, 4).T, np.array(1.5), np.empty((0, 3)), block.view(np.recarray))
    return all(id(x) % WORD_BYTES == 0 and _reader(_READ)(x) == x.ctypes.data for x in tried)


# The expression for the address of the array {0}, in which `memory` is the one above.
ADDRESS = _READ if _layout_is_known() else _ASK

read_address = _reader(ADDRESS)
"""The address of the first element of an array."""
